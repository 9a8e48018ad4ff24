package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"queen/bench/internal/client"
	"queen/bench/internal/place"
)

// reader reads what the nodes hold, whole: everything that anybody was told of before the reading began is in it, on whichever node.
type reader struct {
	s    *steps
	conn *client.Conn
}

// errAgain is no answer, or one that asks to try again.
var errAgain = errors.New("no answer yet")

// whole runs read until it went through on one node, which has applied all that was answered before: it has answered a question about
// keys first, which is asked on a quorum's behalf, and has been the same process since. Otherwise read is run anew.
func (r *reader) whole(ctx context.Context, read func() error) error {
	for {
		err := r.caughtUp()
		life := r.conn.Dialled
		if err == nil {
			err = read()
		}
		if err == nil && r.conn.Dialled == life {
			return nil
		}
		if err != nil && !errors.Is(err, errAgain) {
			return err
		}
		if err := place.Elsewhere(ctx, r.conn); err != nil {
			return err
		}
	}
}

func (r *reader) caughtUp() error { return r.ask("GET", "/api/v1/kv/"+r.s.namespace+"/-", nil, nil) }

// ask has one answer decoded.
func (r *reader) ask(method, path string, body, into any) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return err
		}
	}
	a, err := r.conn.Do(method, path, b)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errAgain, err)
	case place.Again(a.Status):
		return fmt.Errorf("%w: %w", errAgain, a.Err())
	case a.Status != 200:
		return fmt.Errorf("%s: status %d: %.300s", path, a.Status, a.Body)
	case into == nil:
		return nil
	}
	return json.Unmarshal(a.Body, into)
}

// mostKeys and mostPartitions are what is asked for at once.
const (
	mostKeys       = 1000
	mostPartitions = 64
)

// counters reads the counters of files.
func (r *reader) counters(ctx context.Context, files []string) (map[string]int64, error) {
	got := map[string]int64{}
	for len(files) > 0 {
		n := min(len(files), mostKeys)
		var v struct {
			Results []struct {
				Rows []struct {
					Key   string
					Value int64
				}
				Truncated bool
			}
		}
		err := r.whole(ctx, func() error {
			return r.ask("POST", "/api/v1/kv", map[string]any{"operations": []any{
				map[string]any{"op": "getMany", "ns": r.s.namespace, "keys": files[:n]}}}, &v)
		})
		if err != nil {
			return nil, err
		}
		if len(v.Results) != 1 || v.Results[0].Truncated {
			return nil, fmt.Errorf("kv: %d results, or not all of %d keys", len(v.Results), n)
		}
		for _, row := range v.Results[0].Rows {
			got[row.Key] = row.Value
		}
		files = files[n:]
	}
	return got, nil
}

// contents reads whole partitions of a queue: what they hold, in order.
func (r *reader) contents(ctx context.Context, queue string, partitions []string) (map[string][]json.RawMessage, error) {
	all := map[string][]json.RawMessage{}
	for len(partitions) > 0 {
		some := partitions[:min(len(partitions), mostPartitions)]
		partitions = partitions[len(some):]
		err := r.whole(ctx, func() error {
			for _, p := range some {
				all[p] = nil
			}
			for left := some; len(left) > 0; {
				var err error
				if left, err = r.more(queue, left, all); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// more reads on in partitions of which a part is read, and returns those that had more.
func (r *reader) more(queue string, partitions []string, all map[string][]json.RawMessage) ([]string, error) {
	var entries []any
	for _, p := range partitions {
		entries = append(entries, map[string]any{"queue": queue, "partition": p, "offset": len(all[p])})
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
	if err := r.ask("POST", "/api/v1/fetch", map[string]any{"entries": entries}, &v); err != nil {
		return nil, err
	}
	if len(v.Entries) != len(partitions) {
		return nil, fmt.Errorf("fetch: %d entries for %d partitions", len(v.Entries), len(partitions))
	}
	var left []string
	for i, e := range v.Entries {
		p := partitions[i]
		if e.Error != "" && e.Error != "UNKNOWN_TOPIC_OR_PARTITION" {
			return nil, fmt.Errorf("fetch %s/%s: %s", queue, p, e.Error)
		}
		for _, m := range e.Records {
			if m.Offset != len(all[p]) { // nothing is deleted, and offsets have no gaps
				return nil, fmt.Errorf("fetch %s/%s: offset %d where %d belongs", queue, p, m.Offset, len(all[p]))
			}
			all[p] = append(all[p], m.Payload)
		}
		if len(e.Records) > 0 {
			left = append(left, p)
		}
	}
	return left, nil
}

// pendingTimers tells whether timers wait.
func (r *reader) pendingTimers(ctx context.Context) (bool, error) {
	var v struct{ Rows []json.RawMessage }
	err := r.whole(ctx, func() error { return r.ask("GET", "/api/v1/timers/"+r.s.timers+"?limit=1", nil, &v) })
	return len(v.Rows) > 0, err
}
