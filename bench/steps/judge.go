package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"queen/bench/internal/client"
)

// judge compares what the node holds with what the input says.
func (s *steps) judge(ctx context.Context) error {
	conn := client.New(s.addr, 60*time.Second)
	defer conn.Close()
	if err := s.resolveUnknown(ctx, conn); err != nil {
		return err
	}
	if err := s.judgeCounters(conn); err != nil {
		return err
	}
	for name, f := range s.in.Files {
		if err := s.judgeIndex(conn, name, f.First, len(f.Lines)); err != nil {
			return err
		}
	}
	return s.judgeTimers(ctx, conn)
}

// resolveUnknown pops until nothing came for longer than a lease lasts: only steps that were not answered may be left.
func (s *steps) resolveUnknown(ctx context.Context, conn *client.Conn) error {
	pop := client.PopRequest{Queue: sourceQueue, Group: group, Batch: s.o.popMost, Partitions: s.o.popMost,
		Wait: time.Duration(s.o.leaseSeconds)*time.Second + 500*time.Millisecond, LeaseSeconds: s.o.leaseSeconds}
	w := s.newWorker(999)
	w.conn = conn
	for path := pop.Path(); ctx.Err() == nil; {
		a, err := conn.Do("GET", path, nil)
		if err != nil {
			return err
		}
		if a.Status == 204 {
			return nil
		}
		if err := a.Err(); err != nil {
			return err
		}
		if err := w.delivery(a.Body); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *steps) judgeCounters(conn *client.Conn) error {
	got := map[string]int64{}
	for name := range s.in.Files {
		a, err := conn.Do("GET", "/api/v1/kv/"+namespace+"/"+url.PathEscape(name), nil)
		if err != nil {
			return err
		}
		var v struct {
			Found bool
			Value int64
		}
		if err := json.Unmarshal(a.Body, &v); err != nil || a.Status != 200 {
			return fmt.Errorf("kv: %w: %v", a.Err(), err)
		}
		if v.Found {
			got[name] = v.Value
		}
	}
	wrong := 0
	for name, f := range s.in.Files {
		want := int64(0)
		for _, l := range f.Lines {
			want += l.Added
		}
		if have, ok := got[name]; !ok || have != want {
			wrong++
			s.violate("the counter of %s is %d (there: %v), want %d", name, have, ok, want)
		}
	}
	s.out.Add("counters that are right", float64(len(s.in.Files)-wrong), "")
	return nil
}

// judgeIndex wants each version of a file once and in order.
func (s *steps) judgeIndex(conn *client.Conn, name string, first, lines int) error {
	next := first
	err := each(conn, indexQueue, name, func(payload []byte) {
		var v struct{ Version int }
		if json.Unmarshal(payload, &v) != nil || v.Version != next {
			s.violate("index of %s: %.100s where version %d belongs", name, payload, next)
		}
		next++
	})
	if err == nil && next != first+lines {
		s.violate("index of %s: %d entries, want %d", name, next-first, lines)
	}
	return err
}

// each reads a whole partition.
func each(conn *client.Conn, queue, partition string, visit func(payload []byte)) error {
	for offset := 0; ; {
		a, err := post(conn, "/api/v1/fetch", map[string]any{"entries": []any{
			map[string]any{"queue": queue, "partition": partition, "offset": offset}}})
		if err != nil {
			return err
		}
		var v struct {
			Entries []struct {
				Error   string
				Records []struct {
					Offset  int
					Payload json.RawMessage
				}
			}
		}
		if err := json.Unmarshal(a.Body, &v); err != nil || a.Status != 200 || len(v.Entries) != 1 {
			return fmt.Errorf("fetch: %w: %v", a.Err(), err)
		}
		e := v.Entries[0]
		if e.Error != "" && e.Error != "UNKNOWN_TOPIC_OR_PARTITION" {
			return fmt.Errorf("fetch %s/%s: %s", queue, partition, e.Error)
		}
		if len(e.Records) == 0 {
			return nil
		}
		for _, r := range e.Records {
			visit(r.Payload)
			offset = r.Offset + 1
		}
	}
}

// judgeTimers waits until nothing is pending and wants every timer to have fired once.
func (s *steps) judgeTimers(ctx context.Context, conn *client.Conn) error {
	for {
		a, err := conn.Do("GET", "/api/v1/timers/"+timerQueue+"?limit=1", nil)
		if err != nil {
			return err
		}
		var v struct{ Rows []json.RawMessage }
		if err := json.Unmarshal(a.Body, &v); err != nil || a.Status != 200 {
			return fmt.Errorf("timers: %w: %v", a.Err(), err)
		}
		if len(v.Rows) == 0 {
			break
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("timers are still pending: %w", err)
		}
	}
	fired := map[string]int{}
	err := each(conn, timerQueue, "Default", func(payload []byte) {
		var id string
		if json.Unmarshal(payload, &id) == nil {
			fired[id]++
		}
	})
	if err != nil {
		return err
	}
	want := 0
	for _, l := range s.in.Lines {
		n := fired[string(l.ID)]
		if s.timed(l) {
			want++
			if n != 1 {
				s.violate("the timer of %s fired %d times", l.ID, n)
			}
		} else if n != 0 {
			s.violate("a timer of %s fired, which has none", l.ID)
		}
	}
	s.out.Add("timers fired once", float64(want), "")
	return nil
}
