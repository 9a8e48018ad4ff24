package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

// mixed is a node with queues that keep messages for ever, for a day and for some seconds, in one log.
type mixed struct {
	*rig
	rng *rand.Rand
	ids int
}

// retentions are the queues, and how many seconds each keeps a message; 0 for ever.
var retentions = map[string]int64{"keep": 0, "day": 86_400, "fire": 20}

const mixedPartitions = 4

func newMixed(t *testing.T, seed uint64) *mixed {
	m := &mixed{rig: newRig(t), rng: rand.New(rand.NewPCG(seed, 11))}
	m.seed = seed * 100
	return m
}

// declare configures the queues.
func (m *mixed) declare() {
	m.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(retentions)) {
		p := format.QueueOptions{}
		if s := retentions[name]; s > 0 {
			p.Set = format.OptRetentionSeconds | format.OptRetentionEnabled
			p.RetentionSeconds, p.RetentionEnabled = s, true
		}
		if _, err := m.node.Catalog().Configure(m.t.Context(), someone, engine.ConfigureRequest{Queue: name, Patch: p}); err != nil {
			m.t.Fatal(err)
		}
	}
}

// noise is a payload that does not compress.
func (m *mixed) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(m.rng.Uint32())
	}
	return b
}

// pushSome appends one frame of random shape; some ids repeat, so that frames are stored in part.
func (m *mixed) pushSome(queue string, size int) {
	m.t.Helper()
	op := &engine.Append{Queue: queue, Partition: fmt.Sprint("p", m.rng.IntN(mixedPartitions))}
	for range 1 + m.rng.IntN(4) {
		msg := engine.Message{Payload: m.noise(1 + m.rng.IntN(size))}
		switch m.rng.IntN(5) {
		case 0:
			m.ids++
			msg.TransactionID = fmt.Sprint("id-", m.ids)
		case 1:
			msg.TransactionID = fmt.Sprint("id-", m.rng.IntN(m.ids+1))
		case 2:
			msg.Headers = []engine.Header{{Name: "k", Value: m.noise(9)}, {Name: "n", Value: nil}}
			msg.ContentType, msg.TraceID = "text/plain", format.UUID(m.noise(16))
		}
		op.Messages = append(op.Messages, msg)
	}
	out, err := m.node.Do(m.t.Context(), someone, engine.Batch{Ops: []engine.Op{op}})
	if err != nil || out[0].Err != nil {
		m.t.Fatal(err, out)
	}
}

// fill pushes about a segment's worth, most of it to the queue that keeps it for seconds, over the time.
func (m *mixed) fill(over time.Duration) {
	m.t.Helper()
	const steps = 8
	for range steps {
		for range 3 {
			m.pushSome("fire", 60_000)
			m.pushSome("keep", 700)
			m.pushSome("day", 700)
		}
		m.tick(over / steps)
	}
}

// works lets the files' goroutine and the mover do what is due, again and again, while a little time passes.
func (m *mixed) works(turns int) {
	for range turns {
		m.tick(1500 * time.Millisecond)
		m.pushSome("fire", 10) // something to mark and to checkpoint
		m.tick(1500 * time.Millisecond)
		m.node.SettleFiles()
	}
}

// shot is everything that can be read of a partition.
type shot struct {
	start, end format.Offset
	records    []engine.Record
}

// shoot reads everything, by offset, and finds every message again by its ids and by time.
func (m *mixed) shoot() map[string]shot {
	m.t.Helper()
	all := map[string]shot{}
	for queue := range retentions {
		for p := range mixedPartitions {
			if s, ok := m.shootPartition(queue, fmt.Sprint("p", p)); ok {
				all[fmt.Sprintf("%s/p%d", queue, p)] = s
			}
		}
	}
	return all
}

func (m *mixed) offset(q engine.OffsetQuery) engine.OffsetAnswer {
	m.t.Helper()
	out, err := m.node.Offsets(m.t.Context(), someone, []engine.OffsetQuery{q})
	if err != nil || out[0].Err != nil {
		m.t.Fatalf("%+v: %v %v", q, err, out)
	}
	return out[0]
}

func (m *mixed) shootPartition(queue, partition string) (s shot, ok bool) {
	m.t.Helper()
	at := m.offset(engine.OffsetQuery{Queue: queue, Partition: partition, Kind: engine.Earliest})
	if !at.Found {
		return s, false
	}
	s.start, s.end = at.Start, at.End
	for next := s.start; next < s.end; {
		res, err := m.node.Read(m.t.Context(), someone, engine.ReadRequest{At: []engine.Position{{Queue: queue, Partition: partition,
			Offset: next, MaxBytes: 8 << 20}}})
		if err != nil || res.Parts[0].Err != nil {
			m.t.Fatalf("%s/%s at %d: %v %v", queue, partition, next, err, res)
		}
		if len(res.Parts[0].Records) == 0 {
			break
		}
		s.records = append(s.records, res.Parts[0].Records...)
		next = s.records[len(s.records)-1].Offset + 1
	}
	for i := range s.records {
		rec := &s.records[i]
		q := engine.OffsetQuery{Queue: queue, Partition: partition, Kind: engine.OfID, ID: rec.ID.String()}
		if a := m.offset(q); !a.Found || a.Offset != rec.Offset || a.CreatedAt != rec.CreatedAt {
			m.t.Fatalf("%s/%s: message %s: %+v, want %d", queue, partition, rec.ID, a, rec.Offset)
		}
		q = engine.OffsetQuery{Queue: queue, Partition: partition, Kind: engine.AtTime, Time: rec.CreatedAt}
		if a := m.offset(q); !a.Found || a.Offset > rec.Offset || a.CreatedAt != rec.CreatedAt {
			m.t.Fatalf("%s/%s: time %d: %+v, want at most %d", queue, partition, rec.CreatedAt, a, rec.Offset)
		}
	}
	return s, true
}

// same holds what can be read now against what could before: nothing changed but what time took.
func (m *mixed) same(what string, before map[string]shot) {
	m.t.Helper()
	after := m.shoot()
	for name, b := range before {
		a := after[name]
		if keeps := retentions[path.Dir(name)] == 0; keeps && a.start != b.start || a.start < b.start || a.end < b.end {
			m.t.Fatalf("%s: %s is %d to %d, was %d to %d", what, name, a.start, a.end, b.start, b.end)
		}
		i := slices.IndexFunc(b.records, func(r engine.Record) bool { return r.Offset >= a.start })
		if i < 0 {
			continue
		}
		left := b.records[i:]
		if len(a.records) < len(left) {
			m.t.Fatalf("%s: %s has %d records, want %d", what, name, len(a.records), len(left))
		}
		for k := range left {
			if !reflect.DeepEqual(a.records[k], left[k]) {
				m.t.Fatalf("%s: %s record %d is %+v, was %+v", what, name, left[k].Offset, a.records[k], left[k])
			}
		}
	}
}

// diskOf sums up the segments there are.
func (m *mixed) diskOf() (log, bulk int64, oldest uint32) {
	segments, bulks := m.node.LogSegments()
	for i := range segments {
		log += segments[i].Bytes
	}
	for i := range bulks {
		bulk += bulks[i].Bytes
	}
	return log, bulk, segments[0].Segment
}

// moved is a mixed node whose first segments were relocated, and what could be read before that.
func moved(t *testing.T, seed uint64) (*mixed, map[string]shot) {
	m := newMixed(t, seed)
	m.open()
	m.declare()
	for range 4 {
		m.fill(4 * time.Second)
	}
	before := m.shoot()
	m.works(12)
	_, bulk, _ := m.diskOf()
	if st := m.node.Inspect().Stats(); st.DeadAt == 0 || st.DeadBytes == 0 || st.Bulks == 0 || st.BulkBytes != uint64(bulk) {
		t.Fatalf("%d bytes were dead at %d; %d bulk segments of %d bytes, which have %d", st.DeadBytes, st.DeadAt, st.Bulks, st.BulkBytes, bulk)
	}
	if _, bulk, oldest := m.diskOf(); bulk == 0 || oldest < 4 {
		t.Fatalf("nothing moved: %d bytes of bulk segments, the log begins with %d", bulk, oldest)
	}
	return m, before
}

// TestRelocationKeepsEverything: everything that can be read stays what it was, by offset, id and time,
// when it moves, after restarts, after it moved again, and when every index is made again.
func TestRelocationKeepsEverything(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		m, before := moved(t, seed+1)
		m.same("moved", before)
		m.close()
		m.open()
		m.same("reopened", before)
		for range 3 {
			m.fill(4 * time.Second)
		}
		before = m.shoot()
		m.works(12)
		m.same("moved again", before)
		m.tick(25 * time.Hour) // the day is over: bulk segments have something to give
		m.works(8)
		before = m.shoot()
		if n := len(before["day/p0"].records); n > 0 {
			t.Fatalf("%d messages outlived their day", n)
		}
		m.close()
		m.open()
		m.same("the day after", before)
		m.remade(before)
		m.close()
	}
}

// remade deletes derived files, kind by kind and all together: what they said is made again.
func (m *mixed) remade(before map[string]shot) {
	m.t.Helper()
	kinds := []string{".pidx", ".run", ".hsc", "beacon.dat"}
	disk := m.fs.Crash(vfs.KeepAll())
	for mask := 1; mask < 1<<len(kinds); mask++ {
		if testing.Short() && mask != 3 && mask != 1<<len(kinds)-1 {
			continue
		}
		o := &mixed{rig: m.on(disk.Crash(vfs.KeepAll())), rng: m.rng, ids: m.ids}
		var gone []string
		for i, kind := range kinds {
			if mask>>i&1 == 1 {
				gone = append(gone, o.files(func(name string) bool { return path.Ext(name) == kind || name == kind })...)
			}
		}
		for _, name := range gone {
			if err := o.fs.Remove("data/" + name); err != nil {
				m.t.Fatal(err)
			}
		}
		for life := range 2 {
			if err := o.tryOpen(); err != nil {
				m.t.Fatalf("without %v, life %d: %v", gone, life, err)
			}
			o.same(fmt.Sprintf("without %v, life %d", gone, life), before)
			o.close()
		}
	}
}

// TestRelocationBound is the bound of the design: a queue that keeps everything, beside one that keeps its
// messages for seconds, takes at most twice what is live, and what the log needs anyway.
func TestRelocationBound(t *testing.T) {
	m := newMixed(t, 9)
	m.open()
	m.declare()
	var live int64 // of what is kept for ever or for the day
	most := int64(0)
	for range 40 {
		for range 12 {
			m.pushSome("fire", 60_000)
		}
		m.pushSome("keep", 300)
		m.tick(3 * time.Second)
		m.node.SettleFiles()
		log, bulk, _ := m.diskOf()
		most = max(most, log)
		if bulk > 2*live+(1<<20) {
			t.Fatalf("%d bytes of bulk segments for %d that are live", bulk, live)
		}
		live = 0
		for p := range mixedPartitions {
			s, _ := m.shootPartition("keep", fmt.Sprint("p", p))
			for i := range s.records {
				live += int64(len(s.records[i].Payload))
			}
		}
	}
	// 20 s of the fire are 7 pushes of about 1 MiB: its window, two checkpoints 2 s apart and the eight
	// marks before them are in the log whatever else is. Without relocation the log had 40 segments.
	log, _, oldest := m.diskOf()
	if most > 24<<20 || oldest < 16 {
		t.Fatalf("the log took %d bytes, takes %d, and begins with segment %d", most, log, oldest)
	}
	// Small bulk segments became larger ones, of which the index can be made again as well.
	_, bulks := m.node.LogSegments()
	merged := slices.ContainsFunc(bulks, func(b logstore.SegmentInfo) bool {
		return slices.ContainsFunc(b.Replaces, format.SegmentID.IsBulk)
	})
	if !merged || len(bulks) >= 16 {
		t.Fatalf("%d bulk segments, merged: %v", len(bulks), merged)
	}
	before := m.shoot()
	m.close()
	m.remade(before)
}
