package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/place"
)

// judge compares what the nodes hold with what the input says.
func (s *steps) judge(ctx context.Context) error {
	r := &reader{s, place.Conn(s.place, 0)}
	defer r.conn.Close()
	if err := s.resolve(ctx, r); err != nil {
		return err
	}
	files := slices.Sorted(maps.Keys(s.in.Files))
	counters, err := r.counters(ctx, files)
	if err != nil {
		return err
	}
	s.judgeCounters(counters)
	index, err := r.contents(ctx, s.index, files)
	if err != nil {
		return err
	}
	for name, f := range s.in.Files {
		s.judgeIndex(f, index[name])
	}
	for {
		pending, err := r.pendingTimers(ctx)
		if err != nil {
			return fmt.Errorf("timers are still pending: %w", err)
		}
		if !pending {
			break
		}
		if err := place.Pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("timers are still pending: %w", err)
		}
	}
	const partition = "Default"
	fired, err := r.contents(ctx, s.timers, []string{partition})
	if err == nil {
		s.judgeTimers(fired[partition])
	}
	return err
}

// stuck is how long nothing may come of a step that did not take place either.
const stuck = time.Minute

// resolve takes the steps that are left, which were sent and not answered: it pops until nothing has come, and no pop failed, for
// longer than a lease lasts, and each step is known to have taken place. Of one that was not answered the index tells.
func (s *steps) resolve(ctx context.Context, r *reader) error {
	w := s.newWorker(999)
	defer w.conn.Close()
	path := w.path(200 * time.Millisecond)
	last := time.Now() // when something came or failed
	for came := last; ; {
		n, answered, err := w.once(ctx, path)
		switch {
		case err != nil:
			return err
		case n > 0:
			last = time.Now()
			came = last
			continue
		case !answered:
			last = time.Now()
			continue
		case time.Since(last) < s.o.lease()+500*time.Millisecond:
			continue
		}
		left, err := s.open(ctx, r)
		switch {
		case err != nil:
			return err
		case len(left) == 0:
			return nil
		case time.Since(came) > stuck:
			s.v.Add("%s: %d steps that were not answered did not take place, and their messages do not come again; the first is %s",
				s.source, len(left), left[0].ID)
			return nil
		}
	}
}

// open looks steps that were not answered up in the index, and returns those that are not there.
func (s *steps) open(ctx context.Context, r *reader) (left []*changes.Line, err error) {
	s.mu.Lock()
	files := map[string]bool{}
	for l, sure := range s.mu.settled {
		if !sure {
			left = append(left, l)
			files[l.File.Name] = true
		}
	}
	s.mu.Unlock()
	index, err := r.contents(ctx, s.index, slices.Sorted(maps.Keys(files)))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(left, func(l *changes.Line) bool {
		there := slices.ContainsFunc(index[l.File.Name], func(payload json.RawMessage) bool { return version(payload) == l.Version() })
		if there {
			s.settle(l, true)
		}
		return there
	}), nil
}

// version is that of an entry of the index; 0, which no line has, for something else.
func version(payload json.RawMessage) int {
	var v struct{ Version int }
	if json.Unmarshal(payload, &v) != nil {
		return 0
	}
	return v.Version
}

func (s *steps) judgeCounters(got map[string]int64) {
	for name, f := range s.in.Files {
		want := int64(0)
		for _, l := range f.Lines {
			want += l.Added
		}
		if have, ok := got[name]; !ok || have != want {
			s.v.Add("%s: the counter of %s is %d (there: %v), want %d", s.namespace, name, have, ok, want)
			continue
		}
		s.tally.counters.Add(1)
	}
}

// judgeIndex wants each version of a file once and in order.
func (s *steps) judgeIndex(f *changes.File, entries []json.RawMessage) {
	next := f.First
	for _, payload := range entries {
		if version(payload) != next {
			s.v.Add("%s of %s: %.100s where version %d belongs", s.index, f.Name, payload, next)
		}
		next++
	}
	if next != f.First+len(f.Lines) {
		s.v.Add("%s of %s: %d entries, want %d", s.index, f.Name, len(entries), len(f.Lines))
	}
}

// judgeTimers wants every timer to have fired once.
func (s *steps) judgeTimers(entries []json.RawMessage) {
	fired := map[string]int{}
	for _, payload := range entries {
		var id string
		if json.Unmarshal(payload, &id) != nil {
			s.v.Add("%s: %.100s is no timer of ours", s.timers, payload)
		}
		fired[id]++
	}
	for _, l := range s.in.Lines {
		n := fired[string(l.ID)]
		switch {
		case s.timed(l) && n != 1:
			s.v.Add("%s: the timer of %s fired %d times", s.timers, l.ID, n)
		case s.timed(l):
			s.tally.fired.Add(1)
		case n != 0:
			s.v.Add("%s: a timer of %s fired, which has none", s.timers, l.ID)
		}
	}
}

// giveUp deletes what the pass left.
func (s *steps) giveUp(ctx context.Context) error {
	conn := place.Conn(s.place, 0)
	defer conn.Close()
	for _, queue := range []string{s.source, s.index, s.timers} {
		a, err := place.Ask(ctx, conn, "DELETE", "/api/v1/resources/queues/"+url.PathEscape(queue), nil)
		if err == nil {
			err = a.Err()
		}
		if err != nil {
			return err
		}
	}
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(s.in.Files)), 256) {
		var ops []any
		for _, k := range keys {
			ops = append(ops, map[string]any{"op": "delete", "ns": s.namespace, "key": k})
		}
		body, err := json.Marshal(map[string]any{"operations": ops})
		if err != nil {
			return err
		}
		a, err := place.Ask(ctx, conn, "POST", "/api/v1/kv", body)
		if err == nil {
			err = a.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
