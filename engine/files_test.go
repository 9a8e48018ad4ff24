package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// rig is one node on a memory file system, and what was acknowledged by it.
type rig struct {
	t      *testing.T
	fs     *vfs.Mem
	clock  *clock.Fake
	node   *engine.Node
	seed   uint64
	config func(*engine.Config)
	pushed map[string][]string // payloads by partition, in order of offsets
}

var someone = engine.Caller{Tenant: format.DefaultTenant}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, fs: vfs.NewMem(), clock: clock.NewFake(1_700_000_000_000_000), pushed: map[string][]string{}}
	return r
}

func (r *rig) open() {
	r.t.Helper()
	if err := r.tryOpen(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) tryOpen() (err error) {
	r.seed++
	cfg := eagerConfig(r.fs, r.clock, r.seed)
	if r.config != nil {
		r.config(&cfg)
	}
	r.node, err = engine.OpenLocal(cfg)
	return err
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.node.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// cut takes the power away: what was not flushed is lost, and the node is gone.
func (r *rig) cut() {
	disk := r.fs.Crash(vfs.DropUnsynced())
	r.node.Kill()
	r.fs = disk
}

// push appends one message and remembers it once it is acknowledged.
func (r *rig) push(partition, payload string) error {
	return r.pushID(partition, payload, "")
}

func (r *rig) pushID(partition, payload, id string) error {
	out, err := r.node.Do(context.Background(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{
		Queue: "q", Partition: partition, Messages: []engine.Message{{Payload: []byte(payload), TransactionID: id}}}}})
	if err != nil {
		return err
	}
	m := out[0].Messages[0]
	if m.Err != nil {
		return m.Err
	}
	if m.Status == engine.Queued {
		if int(m.Offset) != len(r.pushed[partition]) {
			r.t.Fatalf("partition %s: offset %d, want %d", partition, m.Offset, len(r.pushed[partition]))
		}
		r.pushed[partition] = append(r.pushed[partition], payload)
	}
	return nil
}

func (r *rig) mustPush(partition, payload string) {
	r.t.Helper()
	if err := r.push(partition, payload); err != nil {
		r.t.Fatal(err)
	}
}

// tick lets time pass and what is due happen.
func (r *rig) tick(d time.Duration) {
	r.clock.Advance(d)
	r.node.Settle()
}

// check reads every partition from its start and holds it against what was acknowledged. The last push
// may have been applied without an answer.
func (r *rig) check(unanswered int) error {
	for partition, want := range r.pushed {
		start, rest, err := r.read(partition)
		if err != nil {
			return err
		}
		if start > len(want)+unanswered {
			return fmt.Errorf("partition %s begins at %d, %d were pushed", partition, start, len(want))
		}
		got := append(want[:min(start, len(want)):min(start, len(want))], rest...)
		if len(got) < len(want) || len(got) > len(want)+unanswered {
			return fmt.Errorf("partition %s holds %d messages, want %d", partition, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				return fmt.Errorf("partition %s offset %d: %.20q want %.20q", partition, i, got[i], want[i])
			}
		}
		r.pushed[partition] = got
	}
	return nil
}

// read returns the first retained offset of a partition and everything from there on.
func (r *rig) read(partition string) (start int, got []string, err error) {
	at, err := r.node.Offsets(context.Background(), someone, []engine.OffsetQuery{{Queue: "q", Partition: partition, Kind: engine.Earliest}})
	if err != nil || at[0].Err != nil {
		return 0, nil, errors.Join(err, at[0].Err)
	}
	start = int(at[0].Offset)
	for {
		res, err := r.node.Read(context.Background(), someone, engine.ReadRequest{At: []engine.Position{{
			Queue: "q", Partition: partition, Offset: format.Offset(start + len(got)), MaxBytes: 8 << 20}}})
		if err != nil {
			return 0, nil, err
		}
		p := &res.Parts[0]
		if p.Err != nil {
			return 0, nil, p.Err
		}
		for _, rec := range p.Records {
			if int(rec.Offset) != start+len(got) {
				return 0, nil, fmt.Errorf("partition %s: record at %d, want %d", partition, rec.Offset, start+len(got))
			}
			got = append(got, string(rec.Payload))
		}
		if len(p.Records) == 0 {
			return start, got, nil
		}
	}
}

// TestReopenKeepsEverything: over many clean stops everything is read back, whatever mix of index
// files and rows made again from the log leads to it.
func TestReopenKeepsEverything(t *testing.T) {
	r := newRig(t)
	r.open()
	for life := range 20 {
		for i := range 30 {
			r.mustPush(fmt.Sprint("p", i%7), fmt.Sprintf("%d.%d", life, i))
		}
		r.tick(3 * time.Second)
		if err := r.check(0); err != nil {
			t.Fatalf("life %d before the stop: %v", life, err)
		}
		r.close()
		r.open()
		if err := r.check(0); err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
	}
	r.close()
}
