package machine

import (
	"fmt"
	"testing"
	"time"

	"queen/engine/format"
)

// kafkaRig is a rig with helpers for producers; it fails on any verdict that is not the wanted one.
type kafkaRig struct{ *rig }

func newKafkaRig(t testing.TB) kafkaRig {
	r := kafkaRig{newRig(t)}
	r.buf.AddConfigure(&format.Configure{Tenant: format.DefaultTenant, Queue: []byte("q")})
	r.ok(format.CodeOK)
	return r
}

func (r kafkaRig) ok(want format.Code) *format.Results {
	r.t.Helper()
	out := r.apply()
	if got := out.Items[len(out.Items)-1].Code; got != want {
		r.t.Fatalf("%s, want %s", codeNames[got], codeNames[want])
	}
	return out
}

func (r kafkaRig) batch(part string, n int, h format.BatchHead, want format.Code) *format.AppendResult {
	r.t.Helper()
	r.buf.AddAppend(&format.Append{Tenant: format.DefaultTenant, Queue: []byte("q"), Partition: []byte(part), Frame: format.FrameKafka,
		Count: uint32(n), Batch: h}, format.EncodeKafkaFrame(nil, uint32(n), []byte("b")))
	return &r.ok(want).Appends[0]
}

func (r kafkaRig) init(name string) (format.ProducerID, int16) {
	r.t.Helper()
	r.buf.AddProducer(&format.Producer{Op: format.ProducerInit, Tenant: format.DefaultTenant, Name: []byte(name), Timeout: 60_000_000})
	p := r.ok(format.CodeOK).Producers[0]
	return p.ID, p.Epoch
}

func (r kafkaRig) txn(part string, id format.ProducerID, epoch int16, seq int32) {
	r.t.Helper()
	r.batch(part, 1, format.BatchHead{Idempotent: true, Timed: true, Producer: id, Epoch: epoch, Sequence: seq, Transactional: true, Implicit: true},
		format.CodeOK)
}

func (r kafkaRig) end(id format.ProducerID, epoch int16, commit bool, want format.Code) *format.EndTxnResult {
	r.t.Helper()
	r.buf.AddEndTxn(&format.EndTxn{ID: id, Epoch: epoch, Commit: commit, Bump: true}, format.EncodeKafkaFrame(nil, 1, []byte("end")))
	return &r.ok(want).Ends[0]
}

// Goal: sequences go on from 0 after 2^31-1, and repeats are found across that.
func TestSequencesFold(t *testing.T) {
	r := newKafkaRig(t)
	head := func(seq int32) format.BatchHead {
		return format.BatchHead{Idempotent: true, Timed: true, Producer: 65, Sequence: seq}
	}
	r.batch("0", 1, format.BatchHead{}, format.CodeOK)
	r.batch("0", 3, head(format.MaxSequence-1), format.CodeOK) // unknown, and not an empty partition: max-1, max, 0
	if a := r.batch("0", 3, head(format.MaxSequence-1), format.CodeOK); a.Kept != 0 || a.Base != 1 {
		t.Fatalf("%+v", a)
	}
	r.batch("0", 1, head(2), format.CodeOutOfSequence)
	r.batch("0", 1, head(0), format.CodeDuplicateSequence)
	r.batch("0", 1, head(format.MaxSequence), format.CodeDuplicateSequence)
	if a := r.batch("0", 2, head(1), format.CodeOK); a.Base != 4 || a.Kept != 2 {
		t.Fatalf("%+v", a)
	}
}

// Goal: what producers make the state hold is bounded; what was not used longest goes first.
func TestProducersAreBounded(t *testing.T) {
	r := newKafkaRig(t)
	r.m.kafka.seqMost, r.m.kafka.namedMost = 3, 2
	for i := range 4 {
		r.batch("0", 1, format.BatchHead{Idempotent: true, Timed: true, Producer: format.ProducerID(i+101)<<6 | 1}, format.CodeOK)
		if i == 1 { // the first one is in use
			r.batch("0", 1, format.BatchHead{Idempotent: true, Timed: true, Producer: 101<<6 | 1, Sequence: 1}, format.CodeOK)
		}
	}
	p, _ := r.m.PartitionByName(format.DefaultTenant, "q", "0")
	var left []string
	for _, s := range r.m.ProducersOn(p.ID) {
		left = append(left, fmt.Sprint(s.Producer>>6, s.LastSequence))
	}
	if fmt.Sprint(left) != "[101 1 103 0 104 0]" {
		t.Fatal(left)
	}
	a, _ := r.init("a")
	b, _ := r.init("b")
	r.txn("0", a, 0, 0)
	r.init("c") // in the place of b, which is idle
	if _, _, ok := r.m.OwnerOfProducer(b); ok || r.m.named(format.DefaultTenant, []byte("b")) != nil {
		t.Fatal("b is still there")
	}
	c, _ := r.init("c")
	r.txn("0", c, 1, 0)
	r.buf.AddProducer(&format.Producer{Op: format.ProducerInit, Tenant: format.DefaultTenant, Name: []byte("d"), Timeout: 1})
	r.ok(format.CodeLimit) // both are in use
	r.end(a, 0, true, format.CodeOK)
	r.end(c, 1, true, format.CodeOK)
	r.advance(8 * 24 * time.Hour)
	r.buf.AddTick()
	r.apply()
	if n := len(r.m.kafka.byID) + r.m.kafka.seqs.Len(); n != 0 {
		t.Fatalf("%d rows after a week", n)
	}
	if d, epoch := r.init("a"); d <= c || epoch != 0 {
		t.Fatalf("producer %d epoch %d after %d", d, epoch, c)
	}
}

// Goal: a producer whose epochs are used up becomes another one, and a repeat of its last end is answered.
func TestEpochsUsedUp(t *testing.T) {
	r := newKafkaRig(t)
	id, _ := r.init("a")
	r.m.kafka.byProducer[id].epoch = format.MaxProducerEpoch - 1
	r.txn("0", id, format.MaxProducerEpoch-1, 0)
	e := *r.end(id, format.MaxProducerEpoch-1, true, format.CodeOK)
	if e.ID == id || e.Epoch != 0 {
		t.Fatalf("%+v", e)
	}
	again := r.end(id, format.MaxProducerEpoch-1, true, format.CodeOK)
	if again.ID != e.ID || again.Epoch != 0 || again.From != again.To {
		t.Fatalf("%+v", again)
	}
	r.end(id, format.MaxProducerEpoch-2, true, format.CodeProducerFenced) // that was replaced by another
	r.end(id, 0, true, format.CodeProducerFenced)
	r.txn("0", e.ID, 0, 0)
	r.end(id, format.MaxProducerEpoch-1, true, format.CodeProducerFenced)
}

// Goal: an abort of nothing may be repeated as any other, and a commit before it is no answer to a commit after it.
func TestAbortOfNothing(t *testing.T) {
	r := newKafkaRig(t)
	id, _ := r.init("a")
	r.advance(time.Hour)
	for range 2 {
		if e := r.end(id, 0, false, format.CodeOK); e.Epoch != 1 || e.From != e.To {
			t.Fatalf("%+v", e)
		}
	}
	r.txn("0", id, 1, 0)
	r.end(id, 1, true, format.CodeOK)
	r.advance(time.Hour)
	r.end(id, 2, false, format.CodeOK)
	r.end(id, 2, true, format.CodeProducerFenced)
	r.buf.AddEndTxn(&format.EndTxn{ID: id, Epoch: 3, Commit: true}, format.EncodeKafkaFrame(nil, 1, []byte("end")))
	r.ok(format.CodeTxnState)
	if tx := r.m.kafka.byProducer[id]; tx.changed != r.m.w || tx.retry != -1 {
		t.Fatalf("%+v at %d", tx, r.m.w)
	}
	if err := checkKafka(r.m); err != nil {
		t.Fatal(err)
	}
}

// Goal: queues and partitions that go while transactions are open there take their part of them along.
func TestTransactionOutlivesAQueue(t *testing.T) {
	r := newKafkaRig(t)
	id, _ := r.init("a")
	r.txn("0", id, 0, 0)
	p, _ := r.m.PartitionByName(format.DefaultTenant, "q", "0")
	r.buf.AddDelete(&format.Delete{What: format.DeletePartition, Tenant: format.DefaultTenant, Partition: p.ID, Offset: p.Next})
	r.ok(format.CodeStaleEvidence) // not from under an open transaction
	r.buf.AddDelete(&format.Delete{What: format.DeleteQueue, Tenant: format.DefaultTenant, Queue: []byte("q")})
	r.ok(format.CodeOK)
	r.buf.AddConfigure(&format.Configure{Tenant: format.DefaultTenant, Queue: []byte("q")})
	r.ok(format.CodeOK)
	r.txn("0", id, 0, 0)
	mid := r.m.kafka.parts
	r.buf.AddSweep(&format.Sweep{Limit: 100})
	r.ok(format.CodeOK)
	if mid != 2 || r.m.kafka.open.Len() != 1 || r.m.kafka.seqs.Len() != 1 {
		t.Fatal(mid, r.m.kafka.open.Len(), r.m.kafka.seqs.Len())
	}
	e := r.end(id, 0, false, format.CodeOK)
	if e.To-e.From != 1 || r.m.kafka.parts != 0 || r.m.kafka.aborts.Len() != 1 {
		t.Fatalf("%+v, %d aborted", e, r.m.kafka.aborts.Len())
	}
	// What is trimmed was never aborted.
	p, _ = r.m.PartitionByName(format.DefaultTenant, "q", "0")
	r.buf.AddTrim(&format.Trim{Queue: p.Queue, Items: []format.TrimItem{{Partition: p.ID, Upto: 2}}})
	r.ok(format.CodeOK)
	if r.m.kafka.aborts.Len() != 0 {
		t.Fatal("an aborted range below the log start")
	}
}

// Goal: records that are neither revealed nor decided are delivered when both is over, whichever comes last.
func TestTransactionBehindAWindow(t *testing.T) {
	for _, late := range []bool{false, true} {
		r := newKafkaRig(t)
		r.buf.AddConfigure(&format.Configure{Tenant: format.DefaultTenant, Queue: []byte("q"),
			Patch: format.QueueOptions{Set: format.OptWindowBuffer, WindowBuffer: 10}})
		r.ok(format.CodeOK)
		claims := func() int { return len(r.pop(one("q", "g", format.StartAll, 10, 10)).Claims) }
		if claims() != 0 {
			t.Fatal("claims of nothing")
		}
		id, _ := r.init("a")
		r.txn("0", id, 0, 0)
		wait := func(d time.Duration) {
			r.advance(d)
			r.buf.AddTick()
			r.apply()
		}
		if late {
			wait(20 * time.Second)
			if claims() != 0 {
				t.Fatal("claimed what is not decided")
			}
			r.end(id, 0, true, format.CodeOK)
		} else {
			r.end(id, 0, true, format.CodeOK)
			if claims() != 0 {
				t.Fatal("claimed what is not revealed")
			}
		}
		wait(20 * time.Second)
		if claims() != 1 {
			t.Fatalf("late %v: not delivered in the end", late)
		}
	}
}

// Goal: epochs are told by the entry, also the oldest of very many.
func TestEpochsOfEntries(t *testing.T) {
	r := newKafkaRig(t)
	second := r.index + 1
	r.epoch, r.fuse = 7, 0
	r.buf.AddTerm(&format.TermCmd{Epoch: 7})
	r.apply()
	r.buf.AddTick()
	r.apply()
	m := r.m
	if m.Epochs().Of(1) != 1 || m.Epochs().Of(second-1) != 1 || m.Epochs().Of(second) != 7 || m.Epochs().Of(second+9) != 7 {
		t.Fatal(m.kafka.epochs)
	}
	if last, end := m.EpochEnd(6); last != 1 || end != second {
		t.Fatal(last, end)
	}
	if last, end := m.EpochEnd(9); last != 7 || end != 0 {
		t.Fatal(last, end)
	}
	if last, _ := m.EpochEnd(0); last != 0 {
		t.Fatal(last)
	}
	for i := range epochsMost {
		m.epoch = format.Term(8 + i)
		m.noteEpoch()
	}
	if len(m.kafka.epochs) != epochsMost || m.Epochs().Of(1) != 8 {
		t.Fatal(len(m.kafka.epochs), m.Epochs().Of(1))
	}
}

// Goal: who names an identity that is not the present one is refused, also while a transaction is open.
func TestInitJudgesIdentityFirst(t *testing.T) {
	r := newKafkaRig(t)
	id, _ := r.init("a")
	r.init("a")
	r.txn("0", id, 1, 0)
	again := func(id format.ProducerID, epoch int16, want format.Code) {
		t.Helper()
		r.buf.AddProducer(&format.Producer{Op: format.ProducerInit, Tenant: format.DefaultTenant, Name: []byte("a"), ID: id, Epoch: epoch,
			Timeout: 60_000_000})
		r.ok(want)
	}
	again(id, 0, format.CodeProducerFenced)
	again(id+64, 1, format.CodeProducerMapping)
	again(id, 1, format.CodeStaleEvidence)
	r.end(id, 1, true, format.CodeOK)
}

// Goal: a transaction does not commit without a position for which there is no room: it stays open, or takes none in.
func TestPositionsNeedRoom(t *testing.T) {
	r := newKafkaRig(t)
	id, _ := r.init("a")
	position := func(part string, want format.Code) {
		t.Helper()
		r.buf.AddProducer(&format.Producer{Op: format.ProducerPositions, Tenant: format.DefaultTenant, Name: []byte("a"), ID: id, Implicit: true,
			Group: []byte("g"), Positions: []format.Position{{Queue: []byte("q"), Partition: []byte(part)}}})
		r.ok(want)
	}
	m := r.m
	partitions, groups := m.header.partitions, m.header.groups
	m.header.partitions = maxPartitions
	position("0", format.CodeLimit)
	m.header.partitions = partitions
	position("0", format.CodeOK)
	m.header.groups = maxCatalog
	position("1", format.CodeLimit)
	if e := r.end(id, 0, true, format.CodeLimit); e.From != e.To || m.kafka.byProducer[id].state != txnOngoing {
		t.Fatalf("%+v", e)
	}
	m.header.groups = groups
	r.end(id, 0, true, format.CodeOK)
	if _, ok := m.Committed(format.DefaultTenant, "q", "0", "g"); !ok {
		t.Fatal("not committed")
	}
}

// Goal: who read a record can tell that what says whether it was aborted went meanwhile.
func TestReadable(t *testing.T) {
	r := newKafkaRig(t)
	id, _ := r.init("a")
	r.txn("0", id, 0, 0)
	r.end(id, 0, false, format.CodeOK)
	p, _ := r.m.PartitionByName(format.DefaultTenant, "q", "0")
	w := p.LastAppend
	known := func(aborted, retained bool) {
		t.Helper()
		if r.m.IsAborted(p.ID, id, 0) != aborted || r.m.Readable(p.ID, 1, w) != retained {
			t.Fatalf("aborted %v, retained %v", r.m.IsAborted(p.ID, id, 0), r.m.Readable(p.ID, 1, w))
		}
	}
	known(true, true)
	if r.m.queues[1].cutoff = w + 1; r.m.Readable(p.ID, 1, w) {
		t.Fatal("retained past its time")
	}
	r.m.queues[1].cutoff = 0
	r.buf.AddTrim(&format.Trim{Queue: p.Queue, Items: []format.TrimItem{{Partition: p.ID, Upto: 2}}})
	r.ok(format.CodeOK)
	known(false, false)
	r.txn("0", id, 1, 0)
	r.end(id, 1, false, format.CodeOK)
	if !r.m.Readable(p.ID, 3, w) {
		t.Fatal("what lies above the log start is not retained")
	}
	r.buf.AddDelete(&format.Delete{What: format.DeleteQueue, Tenant: format.DefaultTenant, Queue: []byte("q")})
	r.ok(format.CodeOK)
	if r.m.Readable(p.ID, 3, w) {
		t.Fatal("retained in a queue that is gone")
	}
}

// Goal: a tenant with many transactional ids gives up its own for more, not those of others.
func TestNamedOfOthersStay(t *testing.T) {
	r := newKafkaRig(t)
	r.m.kafka.namedMost = 3
	init := func(tenant format.Tenant, name string) {
		t.Helper()
		r.buf.AddProducer(&format.Producer{Op: format.ProducerInit, Tenant: tenant, Name: []byte(name), Timeout: 60_000_000})
		r.ok(format.CodeOK)
		r.advance(time.Second)
	}
	other := format.Tenant{7}
	init(other, "x")
	for _, name := range []string{"a", "b", "c"} {
		init(format.DefaultTenant, name)
	}
	if r.m.named(other, []byte("x")) == nil || r.m.named(format.DefaultTenant, []byte("a")) != nil {
		t.Fatal("the idlest of all went")
	}
	init(format.Tenant{8}, "y") // has none of its own
	if r.m.named(other, []byte("x")) != nil || r.m.named(format.Tenant{8}, []byte("y")) == nil {
		t.Fatal("the idlest did not go")
	}
	if err := checkKafka(r.m); err != nil {
		t.Fatal(err)
	}
}

// Goal: positions join those of the transaction in order, few or many, and the last of each partition counts.
func TestPositionsJoin(t *testing.T) {
	r := newKafkaRig(t)
	id, _ := r.init("a")
	for _, n := range []int{3, 40, 25} { // the first put in one by one, the others merged
		c := format.Producer{Op: format.ProducerPositions, Tenant: format.DefaultTenant, Name: []byte("a"), ID: id, Implicit: true, Group: []byte("g")}
		for i := range n {
			for _, to := range []int{99, n} {
				c.Positions = append(c.Positions, format.Position{Queue: []byte("q"), Partition: []byte(fmt.Sprint(n - i)), To: format.Offset(to)})
			}
		}
		r.buf.AddProducer(&c)
		r.ok(format.CodeOK)
	}
	got := map[string]format.Offset{}
	for _, p := range r.m.named(format.DefaultTenant, []byte("a")).positions {
		got[p.at.partition] = p.offset
	}
	if len(got) != 40 || got["1"] != 25 || got["25"] != 25 || got["26"] != 40 || got["40"] != 40 {
		t.Fatal(got)
	}
	if err := checkKafka(r.m); err != nil {
		t.Fatal(err)
	}
	r.end(id, 0, true, format.CodeOK)
	if r.m.kafka.bytes != 0 || len(r.m.kafka.pending) != 0 {
		t.Fatal(r.m.kafka.bytes, r.m.kafka.pending)
	}
}
