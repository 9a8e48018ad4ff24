package engine_test

import (
	"bytes"
	"fmt"
	"path"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
)

// lives is the ripe node, opened again, with what it takes to relocate.
func lives(t *testing.T, r *rig, fs *vfs.Mem) *mixed {
	o := r.later(fs)
	m := &mixed{rig: o.rig, rng: newMixed(t, 3).rng}
	m.config = nil
	m.open()
	return m
}

// until lets the node work until its log begins at or behind a segment.
func (m *mixed) until(oldest uint32) {
	m.t.Helper()
	for range 20 {
		if m.node.FirstSegment() >= oldest {
			return
		}
		m.works(1)
	}
	m.t.Fatalf("the log begins with segment %d still", m.node.FirstSegment())
}

// TestReaderIsOvertaken: between the look-up of a frame and the read of it the frame moves, and the segment
// in which it was is gone.
func TestReaderIsOvertaken(t *testing.T) {
	r := ripe(t)
	m := lives(t, r, r.fs)
	defer m.close()
	overtaken := false
	disarm := invariants.ArmFunc("engine.read.row-found", 1, func() {
		overtaken = true
		m.until(4)
	})
	defer disarm()
	res, err := m.node.Read(t.Context(), someone, engine.ReadRequest{At: []engine.Position{{Queue: "q", Partition: "a", Offset: 0, MaxBytes: 1}}})
	if err != nil || res.Parts[0].Err != nil || len(res.Parts[0].Records) != 1 || !overtaken {
		t.Fatalf("%v %+v, overtaken: %v", err, res, overtaken)
	}
	if got := string(res.Parts[0].Records[0].Payload); got != m.pushed["a"][0] {
		t.Fatalf("%.20q", got)
	}
}

// TestRottenFrameStays: a frame whose bytes are damaged is not copied as if it were whole. Its segment
// stays, the others go, and nothing else is lost.
func TestRottenFrameStays(t *testing.T) {
	r := ripe(t)
	name := "data/" + format.SegmentID(1).FileName()
	b, err := vfs.ReadFile(r.fs, name, 1<<20)
	at := bytes.Index(b, []byte(r.pushed["b"][0]))
	if err != nil || at < 0 {
		t.Fatal(err, at)
	}
	if err := r.fs.FlipBit(name, int64(at)+100, 3); err != nil {
		t.Fatal(err)
	}
	m := lives(t, r, r.fs)
	defer m.close()
	m.works(10)
	segments, bulks := m.node.LogSegments()
	if segments[0].Segment != 1 || len(segments) > 4 || len(bulks) == 0 {
		t.Fatalf("%d segments from %d on, %d bulk segments", len(segments), segments[0].Segment, len(bulks))
	}
	for partition, want := range r.pushed {
		for o := range want {
			res, err := m.node.Read(t.Context(), someone, engine.ReadRequest{At: []engine.Position{{Queue: "q", Partition: partition,
				Offset: format.Offset(o), MaxBytes: 1}}})
			if err != nil {
				t.Fatal(err)
			}
			part := &res.Parts[0]
			rotten := partition == "b" && o == 0
			if rotten != (part.Err != nil) || !rotten && string(part.Records[0].Payload) != want[o] {
				t.Fatalf("partition %s offset %d: %+v", partition, o, part)
			}
		}
	}
}

// TestLeasedMessageStays: a message that a consumer holds when retention takes it is there when the consumer
// makes a dead letter of it, wherever it has moved.
func TestLeasedMessageStays(t *testing.T) {
	m := newMixed(t, 21)
	m.open()
	defer m.close()
	m.declare()
	m.pushSome("fire", 2000)
	var d *engine.Delivery
	for p := range mixedPartitions {
		got, err := m.node.Pop(t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "fire", Partition: fmt.Sprint("p", p),
			Pinned: true}, Group: "g", Start: engine.Start{Kind: format.StartAll}, Lease: time.Hour, Batch: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got != nil && len(got.Claims) > 0 {
			d = got
		}
	}
	var payload []byte
	for msg, err := range d.Messages() {
		if err != nil {
			t.Fatal(err)
		}
		payload = bytes.Clone(msg.Payload)
	}
	for range 4 {
		m.fill(10 * time.Second)
	}
	m.until(3)
	out, err := m.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: d.Claims[0].PartitionID, Group: "g",
		Lease: d.Lease, HasOffset: true, Offset: d.Claims[0].First, Status: format.AckDLQ, Reason: "late"}}})
	if err != nil || out[0].Err != nil {
		t.Fatal(err, out)
	}
	dead, err := m.node.Catalog().DeadLetters(t.Context(), someone, engine.DeadLetterFilter{Queue: "fire"})
	if err != nil || len(dead) != 1 || !bytes.Equal(dead[0].Message.Payload, payload) {
		t.Fatalf("%v %+v", err, dead)
	}
}

// TestDamagedIndexIsMadeAgain: a row index that a pass can not read is made again from the log and from
// frames that moved, while the node runs.
func TestDamagedIndexIsMadeAgain(t *testing.T) {
	m, before := moved(t, 31)
	names := m.files(func(name string) bool { return path.Ext(name) == ".pidx" || path.Ext(name) == ".run" && name[0] == 'r' })
	for _, name := range names {
		if err := m.fs.FlipBit("data/"+name, 4096+300, 2); err != nil {
			t.Fatal(err)
		}
	}
	m.tick(2 * time.Hour) // everything is counted again
	m.works(3)
	m.same("made again", before)
	m.close()
	m.open()
	m.same("made again, reopened", before)
	m.close()
}

// TestNewestSealedDies: everything in the newest sealed segment has expired while an older one stays. The node starts again,
// with the log as it was.
func TestNewestSealedDies(t *testing.T) {
	m := newMixed(t, 6)
	m.open()
	m.declare()
	for range 60 {
		m.pushSome("keep", 30_000) // too much of it to move
	}
	for range 20 {
		m.pushSome("fire", 60_000)
		m.tick(100 * time.Millisecond)
	}
	m.tick(30 * time.Second)
	m.works(30)
	segments, _ := m.node.LogSegments()
	if n := len(segments); n < 2 || segments[n-2].Segment < segments[0].Segment+1 {
		t.Fatalf("the log is %+v", segments)
	}
	before := m.shoot()
	m.close()
	m.open()
	m.same("opened again", before)
	m.close()
}
