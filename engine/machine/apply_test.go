package machine

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"queen/engine/format"
)

// big is a rig without the state checker, for many rows.
func big(t testing.TB) *rig {
	r := newRig(t)
	r.check = false
	return r
}

// one builds a Pop for one queue.
func one(queue, group string, start format.StartKind, batch, parts uint32) *format.Pop {
	return &format.Pop{
		Tenant: format.DefaultTenant, Queues: [][]byte{[]byte(queue)}, Group: []byte(group), Start: start, Batch: batch,
		Partitions: parts,
	}
}

func (r *rig) pop(p *format.Pop) *format.PopResult {
	r.buf.AddPop(p)
	return &r.apply().Pops[0]
}

// addDone acks [first, end) as completed.
func (r *rig) addDone(part format.PartitionID, group string, lease format.UUID, first, end format.Offset) {
	r.buf.AddAck(&format.Ack{
		Partition: part, Group: []byte(group), Lease: lease,
		Runs: []format.AckRun{{First: first, Count: uint32(end - first), Status: format.AckCompleted}},
	})
}

// spread pushes one message to each of n partitions, thousands per entry.
func (r *rig) spread(queue string, n int) {
	for i := range n {
		r.addPush(queue, fmt.Sprintf("partition-%010d", i), []string{""}, nil)
		if r.buf.Count == 2000 || i == n-1 {
			r.apply()
		}
	}
}

// drain pops and acks until nothing is left, and returns what was delivered per partition.
func (r *rig) drain(queue, group string) map[format.PartitionID][]format.Offset {
	got := map[format.PartitionID][]format.Offset{}
	for {
		p := r.pop(one(queue, group, format.StartAll, 1000, 64))
		again := p.Again
		for _, c := range p.Claims {
			for o := c.First; o < c.End; o++ {
				got[c.Partition] = append(got[c.Partition], o)
			}
			r.addDone(c.Partition, group, p.Lease, c.First, c.End)
		}
		if r.buf.Count > 0 {
			r.apply()
		} else if !again {
			return got
		}
	}
}

// TestVerdictsDoNotWaitForTimers: one entry fires 4,096 due items at most. What was not fired yet is
// judged by its time all the same: leases are over, receipts forgotten.
func TestVerdictsDoNotWaitForTimers(t *testing.T) {
	r := big(t)
	const n = 2*fireLimit + 64
	r.spread("q", n)
	claims := map[format.PartitionID]format.UUID{}
	for len(claims) < n {
		p := one("q", "g", format.StartAll, 1000, 64)
		p.Lease = 1_000_000
		res := r.pop(p)
		for _, c := range res.Claims {
			claims[c.Partition] = res.Lease
		}
	}
	// Another group acks everything: as many receipts, which end a minute later.
	receipts := map[format.PartitionID]format.UUID{}
	for len(receipts) < n {
		res := r.pop(one("q", "g2", format.StartAll, 1000, 64))
		lease, claims := res.Lease, append([]format.Claim(nil), res.Claims...)
		for _, c := range claims {
			receipts[c.Partition] = lease
			r.addDone(c.Partition, "g2", lease, c.First, c.End)
		}
		r.apply()
	}
	last := pid(n)
	r.addDone(last, "g", claims[last], 0, 1)
	if code := r.apply().Items[0].Code; code != format.CodeOK {
		t.Fatalf("ack: %s", codeNames[code])
	}
	r.advance(time.Minute)
	fired, late := pid(1), pid(n-1)
	for _, p := range []format.PartitionID{fired, late, last} {
		r.addDone(p, "g", claims[p], 0, 1)
		r.buf.AddExtend(&format.Extend{Lease: claims[p], For: 1})
		r.addDone(p, "g2", receipts[p], 0, 1)
	}
	out := r.apply()
	if r.m.receipts.Len() == 0 {
		t.Fatal("every receipt was dropped: this tests nothing")
	}
	if r.m.liveLeases != n-1-fireLimit {
		t.Fatalf("%d leases not fired, want %d", r.m.liveLeases, n-1-fireLimit)
	}
	for _, it := range out.Items {
		if it.Code != format.CodeLeaseInvalid {
			t.Errorf("command at ordinal %d: %s", it.First, codeNames[it.Code])
		}
	}
	// A pinned Pop takes a partition whose lease is over but not fired, as a second delivery.
	p := one("q", "g", format.StartAll, 10, 1)
	p.Pinned, p.Partition = true, []byte(fmt.Sprintf("partition-%010d", n-2))
	if r.m.liveLeases < 2*fireLimit-fireLimit {
		t.Fatal("everything fired")
	}
	if res := r.pop(p); len(res.Claims) != 1 || res.Claims[0].Attempt != 2 {
		t.Errorf("pinned pop of %d: %+v", late, res)
	}
}

// TestGroupsCostNothing: a hundred registered groups of which one polls leave the same journal, the
// same cursors and the same leases as one group.
func TestGroupsCostNothing(t *testing.T) {
	state := func(groups int) Counters {
		r := big(t)
		for g := range groups {
			r.buf.AddPop(one("q", fmt.Sprint("g", g), format.StartNew, 1, 1))
		}
		r.apply()
		for range 3 {
			r.spread("q", 5000)
			r.drain("q", "g0")
		}
		c := r.m.Counters()
		q, _ := r.m.QueueByName(format.DefaultTenant, "q")
		c.RecentIDs, c.Groups, c.Bytes = q.JournalAt, 0, 0
		return c
	}
	if one, many := state(1), state(100); one != many {
		t.Errorf("one group %+v\nhundred   %+v", one, many)
	}
}

// TestRingWrapsDuringCircle: the journal of a slow group wraps more than twice while it sweeps; it
// gets every message once and in order.
func TestRingWrapsDuringCircle(t *testing.T) {
	r := newRig(t)
	r.m.journalMin, r.m.lookLimit = 16, 7
	const parts = 30
	for _, g := range []string{"fast", "slow"} {
		r.buf.AddRegister(&format.Register{
			Tenant: format.DefaultTenant, Queue: []byte("q"), Group: []byte(g), Start: format.StartAll,
		})
	}
	r.apply()
	got := map[format.PartitionID][]format.Offset{}
	total := 0
	for round := 0; len(got) < parts || round < 60; round++ {
		r.check = round%10 == 0
		for i := range 15 {
			r.addPush("q", fmt.Sprint("p", (round*31+i*7)%parts), []string{""}, nil)
			total++
		}
		r.apply()
		r.drain("q", "fast")
		res := r.pop(one("q", "slow", format.StartAll, 3, 2))
		for _, c := range res.Claims {
			for o := c.First; o < c.End; o++ {
				got[c.Partition] = append(got[c.Partition], o)
			}
			r.addDone(c.Partition, "slow", res.Lease, c.First, c.End)
		}
		if r.buf.Count > 0 {
			r.apply()
		}
	}
	if q, _ := r.m.QueueByName(format.DefaultTenant, "q"); q.JournalAt < 5*max(16, 2*parts) {
		t.Fatalf("the journal is at %d: it never wrapped", q.JournalAt)
	}
	for id, rest := range r.drain("q", "slow") {
		got[id] = append(got[id], rest...)
	}
	sum := 0
	for id, offsets := range got {
		for i, o := range offsets {
			if o != format.Offset(i) {
				t.Fatalf("partition %s: message %d came as number %d", pidName(id), o, i)
			}
		}
		sum += len(offsets)
	}
	if sum != total {
		t.Errorf("%d messages delivered of %d", sum, total)
	}
}

// TestOldestFirst: with one busy partition among many, each Pop serves what has been claimable longest
// (S-pop-10): no partition waits for more Pops than there are partitions before it.
func TestOldestFirst(t *testing.T) {
	r := newRig(t)
	r.pop(one("q", "g", format.StartNew, 1, 1))
	const parts = 40
	pushed := map[format.PartitionID]int{}
	for i := range parts {
		r.addPush("q", fmt.Sprint("p", i), []string{""}, nil)
	}
	for i, a := range r.apply().Appends {
		pushed[a.Partition] = i
	}
	order := 0
	for range 3 * parts {
		r.addPush("q", "p0", []string{"", ""}, nil) // the busy one
		r.apply()
		res := r.pop(one("q", "g", format.StartNew, 1, 1))
		if len(res.Claims) != 1 {
			t.Fatalf("pop %d came back with %d claims", order, len(res.Claims))
		}
		c := res.Claims[0]
		if c.Partition != pid(1) && pushed[c.Partition] > order {
			t.Fatalf("partition %s served as number %d, its turn is %d", pidName(c.Partition), order, pushed[c.Partition])
		}
		if order < parts {
			delete(pushed, c.Partition)
		}
		order++
		r.addDone(c.Partition, "g", res.Lease, c.First, c.First+1)
		r.apply()
	}
	if len(pushed) != 0 {
		t.Errorf("%d partitions starved behind a busy one", len(pushed))
	}
}

// TestKilledWorkerReachesMaxDeliveries: a worker that dies every two minutes, far longer than anything
// about its lease is kept for repeats, still counts up to the bound.
func TestKilledWorkerReachesMaxDeliveries(t *testing.T) {
	r := newRig(t)
	c := format.Configure{Tenant: format.DefaultTenant, Queue: []byte("q")}
	c.Patch.MaxDeliveries, c.Patch.Set = 5, format.OptMaxDeliveries
	r.buf.AddConfigure(&c)
	r.addPush("q", "a", []string{"", ""}, nil)
	r.apply()
	for want := uint32(1); want <= 5; want++ {
		res := r.pop(one("q", "g", format.StartAll, 1, 1))
		if len(res.Claims) != 1 || res.Claims[0].Attempt != want || res.Claims[0].First != 0 {
			t.Fatalf("delivery %d: %+v", want, res.Claims)
		}
		for range 60 {
			r.advance(6 * time.Second)
			r.buf.AddTick()
			r.apply()
		}
	}
	res := r.pop(one("q", "g", format.StartAll, 1, 1))
	if len(res.Claims) != 1 || res.Claims[0].First != 1 || res.Claims[0].Attempt != 1 || r.m.dead.Len() != 1 {
		t.Errorf("after the bound: %+v, %d dead letters", res.Claims, r.m.dead.Len())
	}
}

// TestBusyWindowDelivers: a partition written to every second under a window of two delivers at ten
// windows after the first unseen message (S-vis-3).
func TestBusyWindowDelivers(t *testing.T) {
	r := newRig(t)
	c := format.Configure{Tenant: format.DefaultTenant, Queue: []byte("q")}
	c.Patch.WindowBuffer, c.Patch.Set = 2, format.OptWindowBuffer
	r.buf.AddConfigure(&c)
	r.apply()
	for second := range 45 {
		r.addPush("q", "a", []string{""}, nil)
		r.apply()
		p := one("q", "g", format.StartAll, 1000, 1)
		p.Commit = true
		res := r.pop(p)
		switch want := second == 20 || second == 40; {
		case want && (len(res.Claims) != 1 || res.Claims[0].End-res.Claims[0].First != 20):
			t.Errorf("second %d: %+v", second, res.Claims)
		case !want && len(res.Claims) > 0:
			t.Errorf("second %d: %+v", second, res.Claims)
		}
		r.advance(time.Second)
	}
}

// TestIdlePartitionMemory holds the bytes of an idle partition with one cursor, as the structures count
// them and as the heap does.
func TestIdlePartitionMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("creates 200,000 partitions")
	}
	const n = 200_000
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	r := big(t)
	r.spread("q", n)
	r.drain("q", "g")
	r.advance(2 * time.Minute)
	for range n/fireLimit + 1 {
		r.buf.AddTick()
		r.apply()
	}
	c := r.m.Counters()
	if c.Cursors != n || c.LeaseRecords != 0 {
		t.Fatalf("%+v", c)
	}
	names := r.m.names.Bytes()
	// The journal belongs to the queue: 16 bytes an event, twice as many as partitions at most.
	rows := float64(c.Bytes-names) / n
	m, before := r.m, uint64(0)
	*r = rig{}
	before = heap()
	runtime.KeepAlive(m)
	m = nil
	all := float64(before-heap()) / n
	t.Logf("%.0f bytes of rows and indexes, %.0f of names; heap %.0f with journal and names", rows, float64(names)/n, all)
	if rows > 180 {
		t.Errorf("%.0f bytes per idle partition with one cursor, hold 180", rows)
	}
	if all > 256+20+8 {
		t.Errorf("%.0f bytes of heap per partition, hold 256 and the name", all)
	}
}

// TestDigestSeesEverything: two logs that differ in one command have different digests at the mark.
func TestDigestSeesEverything(t *testing.T) {
	base := strings.Split("configure q retryLimit=2\npush q/a m1 m2\npop q as=L lease=10s\nack #1 L 0:ok", "\n")
	seen := map[[16]byte]string{}
	for _, extra := range []string{
		"tick", "push q/a _", "push q/b _", "push r/a _", "configure q retryLimit=3", "pop q g=x start=new", "pop q g=x start=all",
		"ack #1 L 1:ok", "ack #1 L 1:dlq", "ack #1 L 1:failed", "extend L 60s", "trim q=1 #1:1", "delete queue q",
		"delete group q __QUEUE_MODE__", "register q __QUEUE_MODE__ all reset", "seek q/a __QUEUE_MODE__ 0",
		"configure q delay=5", "pop q g=x start=new worker=w",
	} {
		r := newRig(t)
		for _, line := range append(base[:len(base):len(base)], extra) {
			r.addLine(nil, strings.Fields(line))
			r.apply()
		}
		r.buf.AddMark(&format.Mark{Number: 1})
		r.apply()
		if other, ok := seen[r.m.Digest()]; ok && !(extra == "pop q g=x start=new worker=w" && other == "pop q g=x start=new") {
			t.Errorf("%q and %q have one digest", extra, other)
		}
		seen[r.m.Digest()] = extra
	}
}

// TestChunks: a Mark closes the ids since the mark before, and the eight newest chunks are kept.
func TestChunks(t *testing.T) {
	r := newRig(t)
	for n := range 12 {
		for k := range n {
			r.addPush("q", "a", []string{fmt.Sprint(n, ".", k)}, func(a *format.Append) { a.ClearTo = r.m.EvidenceFrom() })
			r.apply()
		}
		r.buf.AddMark(&format.Mark{Number: uint64(n + 1)})
		r.apply()
	}
	var got []string
	for _, c := range r.m.Chunks() {
		got = append(got, fmt.Sprintf("%d:%d", c.Mark(), c.Len()))
	}
	if s := strings.Join(got, " "); s != "5:4 6:5 7:6 8:7 9:8 10:9 11:10 12:11" {
		t.Error(s)
	}
}

// TestDivergenceIsLoud: a Mark that carries another digest than ours ends apply, before it changes anything.
func TestDivergenceIsLoud(t *testing.T) {
	r := newRig(t)
	r.buf.AddMark(&format.Mark{Number: 1})
	r.apply()
	r.builder.Begin(format.EntryHeader{Epoch: 1, T: r.T, W: r.W, Fuse: 99})
	r.buf.AddMark(&format.Mark{Number: 2, Digest: [16]byte{1}})
	r.builder.Add(&r.buf)
	e, err := format.ParseEntry(r.builder.Finish(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.m.Apply(r.index+1, &e, &r.out); err == nil {
		t.Error("applied")
	}
	if n, _ := r.m.Marks(); n != 1 || r.m.Applied() != r.index {
		t.Errorf("mark %d, applied %d", n, r.m.Applied())
	}
}

// FuzzApply feeds command regions as they could stand in a log into a machine that has something to
// lose: nothing may panic, and the state stays sound.
func FuzzApply(f *testing.F) {
	seedRig := newRig(f)
	for _, line := range []string{
		"push q/a m1 m2 _", "pop q g=g start=all batch=3 parts=4", "pop q,r g=g start=from:-5s ev=#1:1:1",
		"ack #1 g=g L 0-3:ok 4:dlq:x:5s", "ack #1 unfenced 0:failed", "extend L 5s", "release L #1", "skip L #1 3",
		"trimlease L #1 last=1 end=2", "seek q/a g 1", "register q g all reset", "register q g from:-1s missing",
		"configure q delay=1 window=2 maxDeliveries=1 null:dedup", "reveal #1 5 next=1s gen=1", "retain q=1 cutoff=-5s gen=1",
		"trim q=1 #1:1", "delete queue q", "delete group q g keep", "delete part #1 2", "delete dead #1 0",
		"redrive 0 q/b x", "purge q", "sweep 10", "mark", "tick", "term 1", "opaque 15",
	} {
		seedRig.buf.Reset()
		seedRig.addLine(nil, strings.Fields(line))
		b := &seedRig.buf
		f.Add(b.Commands, b.IDs, uint8(b.Count), uint16(b.Ordinals), uint16(len(b.Payload)))
	}
	f.Fuzz(func(t *testing.T, commands, ids []byte, count uint8, ordinals, payload uint16) {
		r := newRig(t)
		for _, line := range []string{
			"push q/a m1 m2 m3", "push q/b _", "pop q g=g start=all as=L lease=10s batch=2", "ack #1 g=g L 0:dlq",
			"pop q g=g as=L", "configure r delay=2", "push r/a _", "delete group q x",
		} {
			r.addLine(nil, strings.Fields(line))
			r.apply()
			r.advance(time.Second)
		}
		e := format.Entry{
			Header: format.EntryHeader{Epoch: 1, T: r.T, W: r.W, Fuse: 1000}, Commands: commands, IDs: ids,
			CommandCount: uint32(count), Ordinals: format.Ordinal(ordinals), PayloadBase: 4096, Len: 4096 + uint32(payload),
		}
		if err := r.m.Apply(r.index+1, &e, &r.out); err != nil {
			t.Skip(err) // a digest that differs
		}
		if err := checkState(r.m); err != nil {
			t.Fatal(err)
		}
	})
}

// TestGuardedConfigure: a change that names a life of its queue meets no other, and one that wants to make a queue makes
// it once.
func TestGuardedConfigure(t *testing.T) {
	r := newRig(t)
	configure := func(partitions int64, life format.QueueID) format.Code {
		c := format.Configure{Tenant: format.DefaultTenant, Queue: []byte("q"), Guarded: true, Life: life}
		c.Patch.KafkaPartitions, c.Patch.Set = partitions, format.OptKafkaPartitions
		r.buf.AddConfigure(&c)
		return r.apply().Items[0].Code
	}
	if code := configure(1, 7); code != format.CodeGone {
		t.Fatalf("there is no queue: %d", code)
	}
	if code := configure(2, 0); code != format.CodeOK {
		t.Fatalf("the first: %d", code)
	}
	if code := configure(3, 0); code != format.CodeGone {
		t.Fatalf("the second: %d", code)
	}
	q, _ := r.m.QueueByName(format.DefaultTenant, "q")
	if code := configure(4, q.ID); code != format.CodeOK {
		t.Fatalf("its own life: %d", code)
	}
	if code := configure(5, q.ID+1); code != format.CodeGone {
		t.Fatalf("another life: %d", code)
	}
	if q, _ = r.m.QueueByName(format.DefaultTenant, "q"); q.Options.KafkaPartitions != 4 {
		t.Fatalf("the width is %d", q.Options.KafkaPartitions)
	}
}

// TestGuardedDelete: a deletion that names a life of its queue meets no other, and nothing but a queue has one.
func TestGuardedDelete(t *testing.T) {
	r := newRig(t)
	remove := func(c format.Delete) format.Code {
		c.Tenant, c.Guarded = format.DefaultTenant, true
		r.buf.AddDelete(&c)
		return r.apply().Items[0].Code
	}
	queue := func(life format.QueueID) format.Delete {
		return format.Delete{What: format.DeleteQueue, Queue: []byte("q"), Life: life}
	}
	configure := func() format.QueueID {
		c := format.Configure{Tenant: format.DefaultTenant, Queue: []byte("q")}
		r.buf.AddConfigure(&c)
		r.apply()
		q, _ := r.m.QueueByName(format.DefaultTenant, "q")
		return q.ID
	}
	if code := remove(queue(0)); code != format.CodeUnknownQueue {
		t.Fatalf("there is no queue: %d", code)
	}
	first := configure()
	if code := remove(queue(first)); code != format.CodeOK {
		t.Fatalf("its own life: %d", code)
	}
	second := configure()
	for _, life := range []format.QueueID{0, first, second + 1} {
		if code := remove(queue(life)); code != format.CodeGone {
			t.Fatalf("life %d: %d", life, code)
		}
	}
	if code := remove(format.Delete{What: format.DeleteGroup, Queue: []byte("q"), Name: []byte("g"), Life: second}); code != format.CodeMalformed {
		t.Fatalf("a group has no life: %d", code)
	}
	if q, ok := r.m.QueueByName(format.DefaultTenant, "q"); !ok || q.ID != second {
		t.Fatalf("the second life: %v %v", q, ok)
	}
}
