package engine_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/vfs"
)

// file pushes a message to a partition of its own and files it as a dead letter with a reason.
func (r *rig) file(reason string) {
	r.t.Helper()
	partition := "d-" + reason[:min(len(reason), 20)]
	r.mustPush(partition, "body of "+reason)
	d, err := r.node.Pop(r.t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q", Partition: partition, Pinned: true},
		Group: "g", Start: engine.Start{Kind: format.StartAll}})
	if err != nil || d == nil || len(d.Claims) != 1 {
		r.t.Fatalf("pop of %s: %v, %v", partition, d, err)
	}
	out, err := r.node.Do(r.t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: d.Claims[0].PartitionID, Group: "g",
		Lease: d.Lease, HasOffset: true, Offset: d.Claims[0].First, Status: format.AckDLQ, Reason: reason}}})
	if err != nil || out[0].Err != nil {
		r.t.Fatal(err, out)
	}
}

// reasons lists the dead letters, by reason, with their messages.
func (r *rig) reasons() []string {
	r.t.Helper()
	dead, err := r.node.Catalog().DeadLetters(r.t.Context(), someone, engine.DeadLetterFilter{Queue: "q", Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, d := range dead {
		if want := "body of " + d.Error; string(d.Message.Payload) != want {
			r.t.Fatalf("dead letter %q has message %q", d.Error, d.Message.Payload)
		}
		all = append(all, d.Error)
	}
	slices.Sort(all)
	return all
}

func withKeyed(t *testing.T) (*rig, string) {
	r := newRig(t)
	dir := t.TempDir()
	r.config = func(c *engine.Config) { c.KeyedDir = dir }
	return r, dir
}

// TestDeadLettersOutliveCheckpoints: reasons move from memory into the keyed store at checkpoints, and
// are read from wherever they are after clean stops and after kills; a deleted one stays deleted.
func TestDeadLettersOutliveCheckpoints(t *testing.T) {
	r, _ := withKeyed(t)
	r.open()
	var want []string
	for life := range 6 {
		for i := range 3 {
			reason := fmt.Sprintf("reason %d.%d", life, i)
			r.file(reason)
			want = append(want, reason)
			r.tick(1500 * time.Millisecond)
		}
		if life == 3 {
			gone := "reason 0.1"
			dead, err := r.node.Catalog().DeadLetters(t.Context(), someone, engine.DeadLetterFilter{Queue: "q", Error: gone})
			if err != nil || len(dead) != 1 {
				t.Fatal(dead, err)
			}
			if _, err := r.node.Catalog().DeleteDeadLetters(t.Context(), someone, dead[0].PartitionID, dead[0].Message.TransactionID); err != nil {
				t.Fatal(err)
			}
			want = slices.DeleteFunc(want, func(s string) bool { return s == gone })
		}
		if life%2 == 1 {
			r.cut()
		} else {
			r.close()
		}
		r.open()
		if got := r.reasons(); !slices.Equal(got, want) {
			t.Fatalf("life %d: dead letters %q, want %q", life, got, want)
		}
	}
	if r.node.Positions()[0].Keyed == 0 {
		t.Fatal("no checkpoint flushed keyed rows")
	}
	r.close()
}

// TestDeadLetterKeepsItsMessage: retention takes the message from readers, not from the dead letter; it
// moves out of its segment, which goes.
func TestDeadLetterKeepsItsMessage(t *testing.T) {
	r, _ := withKeyed(t)
	r.open()
	r.file("kept")
	before, err := r.node.Catalog().DeadLetters(t.Context(), someone, engine.DeadLetterFilter{Queue: "q"})
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}
	r.close()
	r.expire()
	r.open()
	after, err := r.node.Catalog().DeadLetters(t.Context(), someone, engine.DeadLetterFilter{Queue: "q"})
	if err != nil || !reflect.DeepEqual(after, before) {
		t.Fatalf("dead letters %+v, before %+v: %v", after, before, err)
	}
	if first := r.node.FirstSegment(); first == 1 {
		t.Fatal("the segment in which the message was born is still there")
	}
	if _, bulks := r.node.LogSegments(); len(bulks) != 1 {
		t.Fatalf("%d bulk segments", len(bulks))
	}
	r.close()
}

// TestKeyedDamageIsRefused: a keyed store that lost what the checkpoint counts on is refused.
func TestKeyedDamageIsRefused(t *testing.T) {
	r, dir := withKeyed(t)
	r.open()
	r.file("lost")
	r.close()
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	if err := os.Remove(tables[0]); err != nil {
		t.Fatal(err)
	}
	if err := r.tryOpen(); err == nil || !strings.Contains(err.Error(), filepath.Base(tables[0])) {
		t.Fatalf("opened without %s: %v", tables[0], err)
	}
}

// TestOlderCheckpoint: with the newest position's files damaged the older one is loaded and the log
// above it replayed to the same state; with both damaged the node refuses by name.
func TestOlderCheckpoint(t *testing.T) {
	r := lived(t, 5)
	intact := r.on(r.fs.Crash(vfs.KeepAll()))
	intact.open()
	want := intact.node.MarkState()
	positions := intact.node.Positions()
	intact.close()
	if len(positions) < 2 {
		t.Fatal(positions)
	}
	spoil := func(o *rig, from uint64) (spoiled []string) {
		for _, name := range o.files(func(name string) bool { return path.Ext(name) == ".base" || path.Ext(name) == ".delta" }) {
			var mark uint64
			if _, err := fmt.Sscanf(name, "ckp-%d", &mark); err != nil || mark < from {
				continue
			}
			if err := o.fs.FlipBit("data/"+name, 4096+20, 1); err != nil {
				t.Fatal(err)
			}
			spoiled = append(spoiled, name)
		}
		return spoiled
	}
	newest := r.newestMark()
	o := r.on(r.fs.Crash(vfs.KeepAll()))
	if len(spoil(o, newest)) == 0 {
		t.Fatal("nothing to spoil")
	}
	o.open()
	if err := o.check(0); err != nil {
		t.Fatal(err)
	}
	if got := o.node.MarkState(); got != want {
		t.Fatalf("from the older position: %+v want %+v", got, want)
	}
	o.close()
	o = r.on(r.fs.Crash(vfs.KeepAll()))
	spoiled := spoil(o, 0)
	if err := o.tryOpen(); err == nil || !strings.Contains(err.Error(), spoiled[0]) {
		t.Fatalf("opened with %v damaged: %v", spoiled, err)
	}
}

// newestMark is the mark of the newest checkpoint file.
func (r *rig) newestMark() (newest uint64) {
	for _, name := range r.files(func(name string) bool { return strings.HasPrefix(name, "ckp-") }) {
		var mark uint64
		if _, err := fmt.Sscanf(name, "ckp-%d", &mark); err == nil {
			newest = max(newest, mark)
		}
	}
	return newest
}
