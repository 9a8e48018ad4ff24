package machine

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen/engine/format"
)

// rig drives a machine through real entry bytes under virtual stamps, keeps the log, and checks the
// state's invariants after every entry.
type rig struct {
	t       testing.TB
	m       *Machine
	keyed   *memKeyed
	log     []logEntry
	index   format.Index
	epoch   format.Term
	fuse    uint64
	T       format.Mono
	W       format.Wall
	out     format.Results
	buf     format.CommandBuf
	builder format.EntryBuilder
	leases  []lease
	check   bool
}

type logEntry struct {
	index format.Index
	data  []byte
}

// memKeyed is the keyed store of tests. settled lists what the last entries settled.
type memKeyed struct {
	rows    map[string]string
	settled []format.Ordinal
}

func (k *memKeyed) Settled(o format.Ordinal) { k.settled = append(k.settled, o) }

func (k *memKeyed) Put(f byte, key, value []byte) { k.rows[string(f)+string(key)] = string(value) }
func (k *memKeyed) Delete(f byte, key []byte)     { delete(k.rows, string(f)+string(key)) }

const startW = 1_700_000_000_000_000

func newRig(t testing.TB) *rig {
	k := &memKeyed{rows: map[string]string{}}
	r := &rig{t: t, keyed: k, m: New(Options{Group: 1, Keyed: k}), epoch: 1, T: 1_000_000, W: startW, check: true}
	r.buf.AddGenesis(&format.Genesis{Cluster: format.UUID{9}, NameSeed: 42, IDMask: [10]byte{1, 2, 3}, Level: 1})
	r.buf.AddTerm(&format.TermCmd{Epoch: 1})
	r.apply()
	return r
}

// apply sends what is in buf as one entry.
func (r *rig) apply() *format.Results {
	r.fuse++
	r.builder.Begin(format.EntryHeader{Epoch: r.epoch, T: r.T, W: r.W, Fuse: r.fuse})
	r.builder.Add(&r.buf)
	r.index++
	data := r.builder.Finish(nil)
	r.buf.Reset()
	r.log = append(r.log, logEntry{r.index, data})
	return r.replay(r.log[len(r.log)-1])
}

func (r *rig) replay(l logEntry) *format.Results {
	e, err := format.ParseEntry(l.data)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.m.Apply(l.index, &e, &r.out); err != nil {
		r.t.Fatal(err)
	}
	if r.check {
		if err := checkState(r.m); err != nil {
			r.t.Fatalf("after entry %d: %v\n%s", l.index, err, r.render(&r.out))
		}
		if err := checkSink(r.m, r.keyed.rows); err != nil {
			r.t.Fatalf("after entry %d: %v\n%s", l.index, err, r.render(&r.out))
		}
	}
	return &r.out
}

func (r *rig) advance(d time.Duration) {
	r.T += format.Mono(d.Microseconds())
	r.W += format.Wall(d.Microseconds())
}

var hashKey [16]byte

// addPush adds a frame; an id "" is a message without one.
func (r *rig) addPush(queue, part string, ids []string, edit func(*format.Append)) {
	a := format.Append{
		Tenant: format.DefaultTenant, Queue: []byte(queue), Partition: []byte(part), Frame: format.FrameNative,
		Count: uint32(len(ids)),
	}
	bitmap := make([]byte, (len(ids)+7)/8)
	named := 0
	msgs := make([]format.FrameMessage, len(ids))
	for i, id := range ids {
		msgs[i].Payload = []byte("x")
		if id != "" {
			h := format.HashID(hashKey, []byte(id))
			a.Hashes = append(a.Hashes, h[:]...)
			bitmap[i/8] |= 1 << (i % 8)
			named++
		}
	}
	switch named {
	case 0:
		a.IDs = format.IDsNone
	case len(ids):
		a.IDs = format.IDsAll
	default:
		a.IDs, a.Bitmap = format.IDsSome, bitmap
	}
	if edit != nil {
		edit(&a)
	}
	r.buf.AddAppend(&a, testFrame(msgs))
}

func testFrame(msgs []format.FrameMessage) []byte {
	return format.EncodeFrame(nil, msgs, format.FrameOptions{})
}

// lease is a Pop of a script: as=NAME, or P1, P2, ... in order.
type lease struct {
	id   format.UUID
	name string
}

// namePop names the lease that the Pop added next would be granted: its id follows from its place.
func (r *rig) namePop(name string) {
	if name == "" {
		name = fmt.Sprintf("P%d", len(r.leases)+1)
	}
	place := format.Place{Index: r.index + 1, Ordinal: r.buf.Ordinals}
	r.leases = append(r.leases, lease{format.LeaseID(r.m.genesis.IDMask, 1, r.W, place), name})
}

func (r *rig) leaseName(id format.UUID) string {
	if id.IsZero() {
		return "-"
	}
	for _, l := range r.leases {
		if l.id == id {
			return l.name
		}
	}
	return id.String()
}

func (r *rig) leaseID(name string) (id format.UUID) {
	for _, l := range r.leases {
		if l.name == name {
			return l.id
		}
	}
	copy(id[:], name)
	return id
}

// pid turns a creation number into a PartitionID of raft group 1.
func pid(n int) format.PartitionID { return format.PartitionID(n<<6 | 1) }

func pidName(id format.PartitionID) string { return "#" + strconv.FormatUint(uint64(id>>6), 10) }

func (r *rig) part(name string) format.PartitionID {
	if n, ok := strings.CutPrefix(name, "#"); ok {
		v, _ := strconv.Atoi(n)
		return pid(v)
	}
	queue, part, _ := strings.Cut(name, "/")
	p, ok := r.m.PartitionByName(format.DefaultTenant, queue, part)
	if !ok {
		return 0
	}
	return p.ID
}

var codeNames = map[format.Code]string{
	format.CodeOK: "ok", format.CodeMoved: "moved", format.CodeStaleEvidence: "stale-evidence",
	format.CodeNeedEvidence: "need-evidence", format.CodeNotBuilt: "not-built", format.CodeMalformed: "malformed",
	format.CodeUnknownPartition: "unknown-partition", format.CodeUnknownQueue: "unknown-queue",
	format.CodeUnknownGroup: "unknown-group", format.CodeNotLeased: "not-leased",
	format.CodeLeaseInvalid: "lease-invalid", format.CodePartial: "partial", format.CodeGone: "gone",
	format.CodeDuplicate: "duplicate", format.CodeUnresolvable: "unresolvable", format.CodeCommitted: "committed",
	format.CodeLimit: "limit", format.CodeRolledBack: "rolled-back", format.CodePrecondition: "precondition",
	format.CodeRepeated: "repeated", format.CodeMismatch: "mismatch", format.CodeFull: "full",
	format.CodeOutOfSequence: "out-of-sequence", format.CodeDuplicateSequence: "duplicate-sequence",
	format.CodeProducerEpoch: "producer-epoch", format.CodeProducerFenced: "producer-fenced",
	format.CodeProducerMapping: "producer-mapping", format.CodeTxnState: "txn-state",
}

// render prints the verdicts of an entry, one line per command.
func (r *rig) render(out *format.Results) string {
	if out.Refused != format.CodeOK {
		return "refused: " + codeNames[out.Refused] + "\n"
	}
	var b strings.Builder
	for i := range out.Items {
		it := &out.Items[i]
		fmt.Fprintf(&b, "%s", codeNames[it.Code])
		if it.Code == format.CodeRolledBack || r.renderKeyed(&b, out, it) {
			b.WriteByte('\n')
			continue
		}
		switch it.Kind {
		case format.KindAppend, format.KindRedrive:
			r.renderAppend(&b, &out.Appends[it.At])
		case format.KindPop:
			r.renderPop(&b, &out.Pops[it.At])
		case format.KindAck:
			renderAck(&b, &out.Acks[it.At])
		case format.KindExtend:
			x := &out.Extends[it.At]
			fmt.Fprintf(&b, " renewed=%d", x.Renewed)
			if x.Renewed > 0 {
				fmt.Fprintf(&b, " for=%v", time.Duration(x.Expiry-r.m.T())*time.Microsecond)
			}
		case format.KindConfigure:
			o := &out.Configs[it.At].Options
			fmt.Fprintf(&b, " created=%v lease=%d retry=%d/%dms delay=%d window=%d dedup=%d maxDeliveries=%d labels=%s/%s set=%b",
				out.Configs[it.At].Created, o.LeaseTime, o.RetryLimit, o.RetryDelayMs, o.DelayedProcessing, o.WindowBuffer,
				o.DedupWindowSeconds, o.MaxDeliveries, o.Namespace, o.Task, o.Set)
		case format.KindGenesis, format.KindTerm, format.KindTick:
		case format.KindProducer:
			p := &out.Producers[it.At]
			fmt.Fprintf(&b, " producer=%d epoch=%d", p.ID>>6, p.Epoch)
		case format.KindEndTxn:
			e := &out.Ends[it.At]
			fmt.Fprintf(&b, " producer=%d epoch=%d", e.ID>>6, e.Epoch)
			for _, c := range out.ControlsOf(e) {
				fmt.Fprintf(&b, " %s@%d", pidName(c.Partition), c.Offset)
			}
		default:
			n := &out.Counts[it.At]
			fmt.Fprintf(&b, " rows=%d existed=%v", n.Rows, n.Existed)
			if n.More {
				b.WriteString(" more")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (r *rig) renderAppend(b *strings.Builder, a *format.AppendResult) {
	if a.Partition == 0 {
		return
	}
	fmt.Fprintf(b, " %s base=%d kept=%d/%d row=%d<-%d", pidName(a.Partition), a.Base, a.Kept, a.Count, a.Row, a.PrevRow)
	if a.NewQueue {
		b.WriteString(" new-queue")
	}
	if a.NewPartition {
		b.WriteString(" new-partition")
	}
	for _, d := range a.Dups {
		if d.Full {
			fmt.Fprintf(b, " full[%d]", d.At)
			continue
		}
		fmt.Fprintf(b, " dup[%d]=%d@%d.%d", d.At, d.Offset, d.Place.Index, d.Place.Ordinal)
	}
}

func (r *rig) renderPop(b *strings.Builder, p *format.PopResult) {
	fmt.Fprintf(b, " %s", r.leaseName(p.Lease))
	if p.Expiry > 0 {
		fmt.Fprintf(b, " for=%v", time.Duration(p.Expiry-r.m.T())*time.Microsecond)
	}
	for _, c := range p.Claims {
		fmt.Fprintf(b, " %s[%d,%d)x%d", pidName(c.Partition), c.First, c.End, c.Attempt)
		if c.Conflated > 0 {
			fmt.Fprintf(b, "-%d", c.Conflated)
		}
	}
	if p.Conflate {
		b.WriteString(" conflating")
	}
	if p.Conflict {
		b.WriteString(" conflict")
	}
	if p.Need != 0 {
		fmt.Fprintf(b, " need=%s gen=%d", pidName(p.Need), p.NeedGeneration)
	}
	if p.Again {
		b.WriteString(" again")
	}
}

func renderAck(b *strings.Builder, a *format.AckResult) {
	fmt.Fprintf(b, " %d->%d leased=[%d,%d)", a.Before, a.After, a.LeaseFirst, a.LeaseEnd)
	if a.Released {
		b.WriteString(" released")
	}
	if a.Filed {
		fmt.Fprintf(b, " filed=[%d,%d)", a.FiledFirst, a.FiledEnd)
	}
	if a.Dropped {
		b.WriteString(" dropped")
	}
	if a.Conflated > 0 {
		fmt.Fprintf(b, " conflated=%d", a.Conflated)
	}
}

// sum is a digest of verdicts for comparing runs.
func sumResults(out *format.Results) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(out.Refused))
	b = fmt.Appendf(b, "%v|%v|%v|%v", out.Items, out.Appends, out.Pops, out.Acks)
	b = fmt.Appendf(b, "|%v|%v|%v", out.Extends, out.Counts, out.Configs)
	b = fmt.Appendf(b, "|%v|%v|%v|%v|%v", out.KVs, out.Locks, out.Timers, out.Txns, out.Onces)
	return fmt.Appendf(b, "|%v|%v|%v", out.Producers, out.Ends, out.Controls)
}
