package machine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"queen/engine/format"
)

// kafkaRef is a second, slower account of what producers and transactions do: every record with what became of it.
type kafkaRef struct {
	parts     map[string]*kafkaPart
	txns      map[string]*kafkaTxn
	producers uint64
}

type kafkaPart struct {
	records []kafkaRecord
	seqs    map[format.ProducerID]*kafkaSeq
}

// kafkaRecord is one offset: txn names the open transaction it waits for; aborted and control ones are not delivered.
type kafkaRecord struct {
	txn              string
	aborted, control bool
}

type kafkaSeq struct {
	epoch   int16
	used    format.Wall
	batches []kafkaBatch // all of the epoch
}

type kafkaBatch struct {
	first int64 // not folded
	count int
	base  int
}

type kafkaTxn struct {
	producer format.ProducerID
	epoch    int16
	state    txnState
	parts    map[string]bool
	started  format.Wall
	timeout  format.Wall
	retry    int16
}

func (p *kafkaPart) stable() int {
	for i := range p.records {
		if p.records[i].txn != "" {
			return i
		}
	}
	return len(p.records)
}

// kafkaDriver plays against both.
type kafkaDriver struct {
	*rig
	r     *rand.Rand
	ref   kafkaRef
	stats map[string]int
	sums  [][]byte
	next  map[string]int64 // sequence that a producer would use next, by partition and producer
	read  map[string]int   // next offset of group g, by partition
}

var kafkaParts = []string{"0", "1", "side"}

func (d *kafkaDriver) part(name string) *kafkaPart {
	p := d.ref.parts[name]
	if p == nil {
		p = &kafkaPart{seqs: map[format.ProducerID]*kafkaSeq{}}
		d.ref.parts[name] = p
	}
	return p
}

func (d *kafkaDriver) do(name string) (*format.Results, format.Code) {
	d.t.Helper()
	out := d.apply()
	if out.Refused != format.CodeOK {
		d.t.Fatalf("%s: refused %s", name, codeNames[out.Refused])
	}
	d.sums = append(d.sums, sumResults(out))
	code := out.Items[len(out.Items)-1].Code
	d.stats[name+" "+codeNames[code]]++
	return out, code
}

func (d *kafkaDriver) want(name string, got, want format.Code) bool {
	d.t.Helper()
	if got != want {
		d.t.Fatalf("entry %d, %s: %s, want %s", d.index, name, codeNames[got], codeNames[want])
	}
	return want == format.CodeOK
}

// append adds records to the reference.
func (d *kafkaDriver) append(part string, n int, txn string) {
	p := d.part(part)
	for range n {
		p.records = append(p.records, kafkaRecord{txn: txn})
	}
}

func (d *kafkaDriver) push() {
	part := kafkaParts[d.r.IntN(len(kafkaParts))]
	d.addPush("q", part, make([]string, 1+d.r.IntN(3)), nil)
	out, code := d.do("push")
	d.want("push", code, format.CodeOK)
	d.at("push", part, out.Appends[0].Base)
	d.append(part, int(out.Appends[0].Kept), "")
}

func (d *kafkaDriver) at(name, part string, base format.Offset) {
	d.t.Helper()
	if want := len(d.part(part).records); int(base) != want {
		d.t.Fatalf("entry %d, %s: base %d, want %d", d.index, name, base, want)
	}
}

// produce sends a batch of a producer; head has all but the sequence.
func (d *kafkaDriver) produce(name, part string, head format.BatchHead, txn string, code func() format.Code) {
	n := 1 + d.r.IntN(3)
	key := fmt.Sprint(part, head.Producer, head.Epoch)
	seq := d.next[key]
	switch d.r.IntN(8) {
	case 0:
		seq -= int64(1 + d.r.IntN(16))
	case 1:
		seq += int64(1 + d.r.IntN(3))
	case 2: // an exact repeat, if there is one
		if s := d.part(part).seqs[head.Producer]; s != nil && len(s.batches) > 0 {
			b := s.batches[max(0, len(s.batches)-1-d.r.IntN(8))]
			seq, n = b.first, b.count
		}
	}
	seq = max(seq, 0)
	head.Sequence, head.Timed = int32(seq&sequenceMask), true
	d.buf.AddAppend(&format.Append{Tenant: format.DefaultTenant, Queue: []byte("q"), Partition: []byte(part), Frame: format.FrameKafka,
		Count: uint32(n), Batch: head}, format.EncodeKafkaFrame(nil, uint32(n), []byte("b")))
	want, dup := format.CodeOK, (*kafkaBatch)(nil)
	if want = code(); want == format.CodeOK || want == format.CodeTxnState {
		var judged format.Code
		if judged, dup = d.part(part).judge(&head, seq, n, d.W); judged != format.CodeOK || dup != nil {
			want = judged
		}
	}
	out, got := d.do(name)
	if !d.want(name, got, want) {
		return
	}
	a := &out.Appends[0]
	if dup != nil {
		d.stats["repeat found"]++
		if int(a.Base) != dup.base || a.Kept != 0 || len(a.Dups) != 1 {
			d.t.Fatalf("entry %d: a repeat of %+v answered %+v", d.index, dup, a)
		}
		return
	}
	d.at(name, part, a.Base)
	s := d.part(part).seqs[head.Producer]
	if s == nil || s.epoch != head.Epoch || d.W-s.used >= seqKeep {
		s = &kafkaSeq{epoch: head.Epoch}
		d.part(part).seqs[head.Producer] = s
	}
	s.batches, s.used = append(s.batches, kafkaBatch{seq, n, int(a.Base)}), d.W
	d.next[key] = seq + int64(n)
	d.append(part, n, txn)
	if txn != "" {
		d.begin(txn)
		d.ref.txns[txn].parts[part] = true
	}
}

// judge is the rule of sequences (spec 3.3), on numbers that do not fold.
func (p *kafkaPart) judge(h *format.BatchHead, seq int64, n int, now format.Wall) (format.Code, *kafkaBatch) {
	s := p.seqs[h.Producer]
	switch {
	case s == nil || now-s.used >= seqKeep:
		if seq != 0 && len(p.records) == 0 {
			return format.CodeOutOfSequence, nil
		}
		return format.CodeOK, nil
	case h.Epoch < s.epoch:
		return format.CodeProducerEpoch, nil
	case h.Epoch > s.epoch && seq != 0:
		return format.CodeOutOfSequence, nil
	case h.Epoch > s.epoch:
		return format.CodeOK, nil
	}
	for _, b := range s.batches[max(0, len(s.batches)-5):] {
		if b.first == seq && b.count == n {
			return format.CodeOK, &b
		}
	}
	last := s.batches[len(s.batches)-1]
	switch next := last.first + int64(last.count); {
	case seq == next:
		return format.CodeOK, nil
	case seq > next:
		return format.CodeOutOfSequence, nil
	}
	return format.CodeDuplicateSequence, nil
}

func (d *kafkaDriver) idempotent() {
	head := format.BatchHead{Idempotent: true, Producer: format.ProducerID((1+d.r.Uint64N(2))<<6 | 1), Epoch: int16(d.r.IntN(8) / 7)}
	d.produce("idempotent", kafkaParts[d.r.IntN(2)], head, "", func() format.Code { return format.CodeOK })
}

var kafkaNames = []string{"a", "b", "c"}

func (d *kafkaDriver) init() {
	name := kafkaNames[d.r.IntN(len(kafkaNames))]
	c := &format.Producer{Op: format.ProducerInit, Tenant: format.DefaultTenant, Name: []byte(name), Timeout: int64(time.Minute / time.Microsecond)}
	t := d.ref.txns[name]
	want := format.CodeOK
	again := false
	if t != nil && d.r.IntN(3) == 0 {
		c.ID, c.Epoch = t.producer, max(t.epoch-int16(d.r.IntN(3)), 0)
		switch {
		case c.Epoch == t.epoch:
		case t.retry >= 0 && c.Epoch == t.retry:
			again = true
		default:
			want = format.CodeProducerFenced
		}
	}
	if t != nil && t.state == txnOngoing && want == format.CodeOK {
		want = format.CodeStaleEvidence
	}
	d.buf.AddProducer(c)
	out, code := d.do("init")
	if !d.want("init", code, want) {
		return
	}
	if t == nil {
		d.ref.producers++
		t = &kafkaTxn{producer: format.ProducerID(d.ref.producers<<6 | 1), epoch: -1}
		d.ref.txns[name] = t
	}
	if !again {
		t.epoch, t.state, t.retry, t.timeout = t.epoch+1, txnEmpty, -1, format.Wall(c.Timeout)
		if c.ID != 0 {
			t.retry = c.Epoch
		}
	}
	d.identity("init", t, out.Producers[0].ID, out.Producers[0].Epoch)
}

func (d *kafkaDriver) identity(name string, t *kafkaTxn, id format.ProducerID, epoch int16) {
	d.t.Helper()
	if id != t.producer || epoch != t.epoch {
		d.t.Fatalf("entry %d, %s: producer %d epoch %d, want %d and %d", d.index, name, id, epoch, t.producer, t.epoch)
	}
}

func (d *kafkaDriver) begin(name string) {
	if t := d.ref.txns[name]; t.state != txnOngoing {
		t.state, t.started, t.parts, t.retry = txnOngoing, d.W, map[string]bool{}, -1
	}
}

// known is a transactional id that was made, and the epoch that somebody believes it has.
func (d *kafkaDriver) known() (string, *kafkaTxn, int16) {
	name := kafkaNames[d.r.IntN(len(kafkaNames))]
	t := d.ref.txns[name]
	if t == nil {
		return name, nil, 0
	}
	return name, t, max(t.epoch+[]int16{0, 0, 0, 0, 0, 0, -1, 1}[d.r.IntN(8)], 0)
}

func (d *kafkaDriver) transactional() {
	name, t, epoch := d.known()
	if t == nil {
		return
	}
	part := kafkaParts[d.r.IntN(2)]
	head := format.BatchHead{Idempotent: true, Producer: t.producer, Epoch: epoch, Transactional: true, Implicit: d.r.IntN(2) == 0}
	d.produce("transactional", part, head, name, func() format.Code {
		switch {
		case epoch != t.epoch:
			return format.CodeProducerEpoch
		case !head.Implicit && (t.state != txnOngoing || !t.parts[part]):
			return format.CodeTxnState
		}
		return format.CodeOK
	})
}

func (d *kafkaDriver) addTo() {
	name, t, epoch := d.known()
	if t == nil {
		return
	}
	c := &format.Producer{Op: format.ProducerPartitions, Tenant: format.DefaultTenant, Name: []byte(name), ID: t.producer, Epoch: epoch}
	for _, p := range kafkaParts[:1+d.r.IntN(2)] {
		c.Partitions = append(c.Partitions, format.ProducerPartition{Queue: []byte("q"), Partition: []byte(p)})
	}
	want := format.CodeOK
	switch {
	case epoch < t.epoch:
		want = format.CodeProducerFenced
	case epoch > t.epoch:
		want = format.CodeProducerEpoch
	}
	d.buf.AddProducer(c)
	if _, code := d.do("add"); d.want("add", code, want) {
		d.begin(name)
		for _, p := range c.Partitions {
			d.part(string(p.Partition))
			t.parts[string(p.Partition)] = true
		}
	}
}

func (d *kafkaDriver) end() {
	name, t, epoch := d.known()
	if t == nil {
		return
	}
	c := &format.EndTxn{ID: t.producer, Epoch: epoch, Commit: d.r.IntN(2) == 0}
	if c.Bump = d.r.IntN(2) == 0; !c.Bump && !c.Commit {
		c.Expire = d.r.IntN(3) == 0
	}
	outcome := map[bool]txnState{true: txnCommitted, false: txnAborted}[c.Commit]
	want, ends, raises := format.CodeOK, false, false
	switch {
	case c.Bump && t.state == outcome && epoch == t.epoch-1:
	case epoch < t.epoch:
		want = format.CodeProducerFenced
	case epoch > t.epoch:
		want = format.CodeProducerEpoch
	case c.Expire && (t.state != txnOngoing || d.W < t.started+t.timeout):
		want = format.CodeStaleEvidence
	case t.state == txnOngoing:
		ends, raises = true, c.Bump || c.Expire
	case c.Bump && !c.Commit:
		raises = true
	case c.Bump || t.state != outcome:
		want = format.CodeTxnState
	}
	d.buf.AddEndTxn(c, format.EncodeKafkaFrame(nil, 1, []byte("end")))
	out, code := d.do("end")
	if !d.want("end", code, want) {
		return
	}
	controls := out.ControlsOf(&out.Ends[0])
	if ends {
		if len(controls) != len(t.parts) {
			d.t.Fatalf("entry %d: %d controls, want %d", d.index, len(controls), len(t.parts))
		}
		for _, k := range controls {
			d.endOn(name, k, c.Commit)
		}
		t.state, t.parts = outcome, nil
	} else if len(controls) > 0 {
		d.t.Fatalf("entry %d: controls of nothing", d.index)
	}
	if raises {
		t.epoch, t.state, t.retry = t.epoch+1, outcome, -1
	}
	d.identity("end", t, out.Ends[0].ID, out.Ends[0].Epoch)
}

func (d *kafkaDriver) endOn(name string, k format.ControlRow, commit bool) {
	p, _ := d.m.PartitionByID(format.DefaultTenant, k.Partition)
	part := d.part(p.Name)
	d.at("control", p.Name, k.Offset)
	for i := range part.records {
		if r := &part.records[i]; r.txn == name {
			r.txn, r.aborted = "", !commit
		}
	}
	part.records = append(part.records, kafkaRecord{control: true})
}

// consume pops for the group and acks all of it: nothing above the last stable offset, nothing twice, nothing left out.
func (d *kafkaDriver) consume() {
	res := d.pop(one("q", "g", format.StartAll, uint32(1+d.r.IntN(6)), 2))
	d.sums = append(d.sums, sumResults(&d.out))
	lease, claims := res.Lease, slices.Clone(res.Claims)
	for _, c := range claims {
		p, _ := d.m.PartitionByID(format.DefaultTenant, c.Partition)
		if int(c.First) != d.read[p.Name] || int(c.End) > d.part(p.Name).stable() {
			d.t.Fatalf("entry %d: claimed [%d,%d) of %s, read to %d, stable to %d", d.index, c.First, c.End, p.Name, d.read[p.Name],
				d.part(p.Name).stable())
		}
		d.read[p.Name] = int(c.End)
		d.addDone(c.Partition, "g", lease, c.First, c.End)
		d.do("ack")
	}
}

// compare checks every partition's offsets, and every record's fate, against the reference.
func (d *kafkaDriver) compare() {
	for name, want := range d.ref.parts {
		p, ok := d.m.PartitionByName(format.DefaultTenant, "q", name)
		if !ok {
			if len(want.records) > 0 {
				d.t.Fatalf("entry %d: partition %s is not there", d.index, name)
			}
			continue
		}
		if int(p.Next) != len(want.records) || int(p.Stable) != want.stable() {
			d.t.Fatalf("entry %d: partition %s has %d, %d stable; want %d and %d", d.index, name, p.Next, p.Stable, len(want.records), want.stable())
		}
		var aborted []bool
		for range want.records {
			aborted = append(aborted, false)
		}
		ranges := d.m.AbortedRanges(nil, p.ID, 0, p.Next)
		for i, rec := range want.records {
			for _, t := range d.ref.txns {
				got := d.m.IsAborted(p.ID, t.producer, format.Offset(i))
				aborted[i] = aborted[i] || got && rec.aborted
			}
			if aborted[i] != rec.aborted {
				d.t.Fatalf("entry %d: partition %s offset %d: aborted %v, want %v of %v", d.index, name, i, aborted[i], rec.aborted, ranges)
			}
		}
	}
}

func (d *kafkaDriver) step() {
	switch n := d.r.IntN(100); {
	case n < 15:
		d.push()
	case n < 40:
		d.idempotent()
	case n < 60:
		d.transactional()
	case n < 68:
		d.addTo()
	case n < 80:
		d.end()
	case n < 86:
		d.init()
	case n < 97:
		d.consume()
	case n < 99:
		d.advance(time.Duration(d.r.IntN(40)) * time.Second)
	default:
		d.advance(time.Duration(d.r.IntN(30)) * time.Hour)
	}
	d.W += format.Wall(d.r.IntN(3))
}

// TestKafkaRandom runs random batches, transactions and pops through the machine and a reference. Then the log is applied
// again from its start, and from a snapshot in the middle: the same verdicts, the same digest.
func TestKafkaRandom(t *testing.T) {
	stats := map[string]int{}
	for seed := range uint64(12) {
		d := &kafkaDriver{rig: newRig(t), r: rand.New(rand.NewPCG(seed, 9)), stats: stats, next: map[string]int64{}, read: map[string]int{},
			ref: kafkaRef{parts: map[string]*kafkaPart{}, txns: map[string]*kafkaTxn{}}}
		d.m.journalMin, d.m.lookLimit = 1+d.r.Uint64N(12), 1+d.r.IntN(12)
		journal, look := d.m.journalMin, d.m.lookLimit
		d.sums = [][]byte{nil}
		d.buf.AddConfigure(&format.Configure{Tenant: format.DefaultTenant, Queue: []byte("q")})
		d.do("configure")
		for range 2 {
			d.buf.AddProducer(&format.Producer{Op: format.ProducerInit, Tenant: format.DefaultTenant})
			d.do("plain init")
			d.ref.producers++
		}
		im, mid := newImages(t), (*Machine)(nil)
		from := 0
		for i := range 400 {
			d.step()
			d.compare()
			if i%50 == 49 {
				mark, _ := d.m.Marks()
				d.buf.AddMark(&format.Mark{Number: mark + 1, Digest: d.m.Digest()})
				d.do("mark")
				im.take(d.m, i%100 == 49)
				if i < 250 {
					mid, from = im.load(d.m), len(d.log)
					mid.journalMin, mid.lookLimit = journal, look
				}
			}
		}
		for range 200 {
			d.consume()
		}
		for name, p := range d.ref.parts {
			if d.read[name] != p.stable() {
				t.Errorf("seed %d: partition %s was read to %d of %d", seed, name, d.read[name], p.stable())
			}
		}
		again := New(Options{Group: 1})
		again.journalMin, again.lookLimit = journal, look
		for _, r := range []struct {
			m    *Machine
			from int
		}{{again, 0}, {mid, from}} {
			var out format.Results
			for i, l := range d.log[r.from:] {
				e, _ := format.ParseEntry(l.data)
				if err := r.m.Apply(l.index, &e, &out); err != nil {
					t.Fatal(err)
				}
				if want := d.sums[r.from+i]; want != nil && !bytes.Equal(sumResults(&out), want) {
					t.Fatalf("seed %d, entry %d: other verdicts when it is applied again", seed, l.index)
				}
			}
			if r.m.Digest() != d.m.Digest() {
				t.Errorf("seed %d: another digest", seed)
			}
			if err := checkState(r.m); err != nil {
				t.Error(err)
			}
		}
	}
	for _, k := range []string{"idempotent ok", "idempotent out-of-sequence", "idempotent duplicate-sequence", "idempotent producer-epoch",
		"transactional ok", "transactional txn-state", "transactional producer-epoch", "repeat found", "add ok", "add producer-fenced",
		"add producer-epoch", "end ok", "end txn-state", "end producer-fenced", "end producer-epoch", "end stale-evidence", "init ok",
		"init producer-fenced", "init stale-evidence"} {
		if stats[k] == 0 {
			t.Errorf("%s never happened", k)
		}
	}
}
