package machine

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"queen/engine/format"
)

var (
	opsFlag  = flag.Int("machine.ops", 60_000, "commands of the random test; a fifth with -short")
	seedFlag = flag.Uint64("machine.seed", 1, "first seed of the random test")
)

// groupNames are the consumer groups of the random test.
var groupNames = []string{format.QueueMode, "g1", "g2", "g3"}

// TestRandom runs random entries through the machine and through the reference and compares every
// verdict; the state checker runs after each entry. Rings and look limits are small, so that groups
// detach and Pops end early all the time. Then the same log is applied twice more: from the start, and
// from a snapshot in the middle; verdicts and digests have to be equal, although the one from the start forgets
// resident ids as early as it may.
func TestRandom(t *testing.T) {
	const perSeed = 4_000
	stats := map[string]int{}
	ops := *opsFlag
	if testing.Short() {
		ops /= 5
	}
	for seed := *seedFlag; int(seed-*seedFlag)*perSeed < ops; seed++ {
		d := &driver{rig: newRig(t), r: rand.New(rand.NewPCG(seed, 7)), ref: newRef(), seed: seed, stats: stats}
		d.lonely = seed%2 == 0
		d.m.journalMin, d.m.lookLimit = 1+d.r.Uint64N(12), 1+d.r.IntN(12)
		d.ref.tick(d.T, d.W)
		for d.ops < perSeed {
			d.entry()
		}
		d.W++
		d.addMark()
		d.send()
		d.rerun()
	}
	keys := make([]string, 0, len(stats))
	for k := range stats {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		t.Logf("%-36s %d", k, stats[k])
	}
	for _, k := range []string{"pop need-evidence", "pop ok", "pop again", "ack ok", "ack lease-invalid", "ack committed",
		"ack unresolvable", "push stale-evidence", "push duplicate", "claim", "reveal ok", "detached", "filed", "snapshot",
		"log start asked", "conflated", "admin ok", "admin gone", "ids forgotten", "txn ok", "txn precondition", "txn duplicate", "txn unknown-queue",
		"txn lease-invalid", "txn stale-evidence", "once ok", "once repeated", "once mismatch", "once stale-evidence", "fire ok",
		"fire gone", "fire stale-evidence", "lock ok", "lock stale-evidence", "timer ok", "timer gone", "dead timer ok", "position ok",
		"group ok", "group gone", "group position refused", "group decided"} {
		if stats[k] == 0 && !testing.Short() {
			t.Errorf("%s never happened", k)
		}
	}
}

type driver struct {
	*rig
	r    *rand.Rand
	ref  *ref
	seed uint64
	// lonely seeds send one command per entry and use options under which a Pop moves cursors that it
	// does not claim (retention, maxDeliveries): the reference learns of those between entries.
	lonely bool
	ops    int
	stats  map[string]int
	marks  []format.Index
	given  []format.UUID // leases seen, newest last
	sums   [][]byte
	// judges of the entry being built, one per command
	judges []judge
	parts  []part // beside the judges
	// trial and acked are of the transaction that is being judged: keyed rows as earlier parts leave them, and
	// cursors that an Ack named.
	trial *refKeyed
	acked map[string]bool
	// txnLast is the last ordinal of the transaction that is being judged.
	txnLast format.Ordinal
}

func (d *driver) failf(msg string, args ...any) {
	d.t.Fatalf("seed %d, entry %d: %s", d.seed, d.index, fmt.Sprintf(msg, args...))
}

func (d *driver) add(name string, judge judge) {
	d.ops++
	d.parts = append(d.parts, part{})
	d.judges = append(d.judges, func(it *format.Result, out *format.Results) error {
		d.stats[name+" "+codeNames[it.Code]]++
		if err := judge(it, out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// send applies the entry and judges its verdicts in order.
func (d *driver) send() {
	d.ref.tick(d.T, d.W)
	d.sync()
	out := d.apply()
	if out.Refused != format.CodeOK || len(out.Items) != len(d.judges) {
		d.failf("refused %d, %d verdicts on %d commands", out.Refused, len(out.Items), len(d.judges))
	}
	for n := range d.judges {
		if err := d.judges[n](&out.Items[n], out); err != nil {
			d.failf("command %d: %v\n%s", n, err, d.render(out))
		}
	}
	d.sync()
	d.sums = append(d.sums, sumResults(out))
	d.judges, d.parts = d.judges[:0], d.parts[:0]
	if err := d.sameKeyed(); err != nil {
		d.failf("%v\n%s", err, d.render(out))
	}
	if n := len(d.ref.dead); n != d.m.dead.Len()-d.lost() {
		d.failf("%d dead letters, %d of them of deleted queues, want %d\n%s%+v\nmachine %s", d.m.dead.Len(), d.lost(), n, d.render(out),
			d.ref.dead, d.scriptDead(nil))
	}
}

// lost counts dead letters of deleted queues that are not swept yet.
func (d *driver) lost() (n int) {
	for _, q := range d.m.queues {
		if q.dead {
			n += int(q.deadCount)
		}
	}
	return n
}

// sync tells the reference about cursors that a Pop moved without claiming: behind messages that retention
// took, and behind one that was delivered too often.
func (d *driver) sync() {
	for _, name := range queueNames {
		q := d.ref.queues[name]
		mq, ok := d.m.QueueByName(format.DefaultTenant, name)
		if !ok || q == nil {
			continue
		}
		for _, gname := range groupNames {
			if g := q.groups[gname]; g != nil {
				mg, _ := d.m.GroupByName(mq.ID, gname)
				for _, p := range q.parts {
					d.syncCursor(q, g, p, mg.ID)
				}
			}
		}
	}
}

func (d *driver) syncCursor(q *refQueue, g *refGroup, p *refPart, id format.ConsumerID) {
	ph, _ := d.m.partByID(p.id)
	h, live := d.m.cursorOf(ph, d.m.groups[uint32(id)])
	if !live || d.m.cursors.Get(h).unused() {
		return
	}
	at := int(d.m.cursors.Get(h).next)
	c := g.cur[p.id]
	if c == nil {
		if missing := d.ref.missing(g, p); at < missing || at > max(missing, p.trim) && p.msgs[at-1].w >= q.cutoff {
			d.failf("%s: the cursor of %q begins at %d, want %d", p.name, g.name, at, missing)
		}
		c = &refCur{next: at}
		g.cur[p.id] = c
	}
	if c.leased && d.T < c.expiry {
		return
	}
	next := d.ref.next(g, p)
	if head := d.ref.head(g, c, next); at == head+1 && d.ref.exhausted(q, c, next) && p.trim < len(p.msgs) && p.msgs[head].w >= q.cutoff {
		d.ref.giveUp(q, g, p, c, head)
	}
	for c.next < at && (p.msgs[c.next].w < q.cutoff || c.next < p.trim) {
		c.next++
		c.attempts = 0
	}
}

func (d *driver) chance(percent int) bool { return d.r.IntN(100) < percent }

var queueNames = []string{"plain", "delay", "window", "other"}

func (d *driver) queueName() string { return queueNames[d.r.IntN(len(queueNames))] }
func (d *driver) partName() string  { return string(rune('a' + d.r.IntN(5))) }
func (d *driver) group() string     { return groupNames[d.r.IntN(len(groupNames))] }

// place is where the next command of the entry will be.
func (d *driver) place() format.Place {
	return format.Place{Index: d.index + 1, Ordinal: d.buf.Ordinals}
}

// entry builds and sends one entry of a few commands.
func (d *driver) entry() {
	if d.chance(70) {
		d.advance(time.Duration(d.r.IntN(3_000)) * time.Millisecond)
	}
	if d.chance(2) {
		d.advance(time.Minute)
	}
	d.W++
	if d.chance(4) {
		d.addMark()
		d.send()
		return
	}
	n := 1
	if !d.lonely {
		n += d.r.IntN(5)
	}
	for ; n > 0; n-- {
		d.command()
	}
	if len(d.judges) > 0 {
		d.send()
	}
	if d.chance(40) {
		d.settleHolds()
		d.addPop(d.queueName(), d.group(), true)
	}
}

func (d *driver) command() {
	switch n := d.r.IntN(130); {
	case n < 34:
		d.push()
	case n >= 126:
		d.addOnce()
	case n >= 118:
		d.addTxn()
	case n >= 115:
		d.addFire()
	case n >= 114:
		d.addDead()
	case n >= 112:
		d.addTimer(false)
	case n >= 108:
		d.addLock()
	case n >= 106:
		d.addPosition()
	case n >= 100:
		d.addKV()
	case n < 54:
		d.addPop(d.queueName(), d.group(), false)
	case n < 74:
		d.addAck()
	case n < 77:
		d.addExtend()
	case n < 81:
		d.addRelease()
	case n < 84:
		d.addSkip()
	case n < 86:
		d.addSeek()
	case n < 89:
		d.addRegister()
	case n < 92:
		d.configure()
	case n < 93:
		if d.chance(60) {
			d.removePart()
		} else {
			d.remove()
		}
	case n < 95:
		d.retain()
	case n < 96:
		d.trim()
	case n < 99:
		if d.chance(50) {
			d.admin()
		} else {
			d.addGroup()
		}
	default:
		d.buf.AddSweep(&format.Sweep{Limit: uint32(d.r.IntN(6))})
		d.add("sweep", func(*format.Result, *format.Results) error { return nil })
	}
}

// rerun applies the log again, from its start and from a snapshot, and compares verdicts and digests.
func (d *driver) rerun() {
	twice := d.fresh()
	var snap *Machine
	at := format.Index(0)
	if len(d.marks) > 2 {
		at = d.marks[d.r.IntN(len(d.marks)-1)]
	}
	base := d.r.IntN(len(d.marks)+1) + 1
	images := newImages(d.t)
	for i, l := range d.log {
		d.same(twice, l, i)
		d.stats["ids forgotten"] += twice.ForgetIDs(func(ResidentIDs) bool { return true })
		if l.index > 0 && slices.Contains(d.marks, l.index) && snap == nil {
			base--
			images.take(twice, base == 0)
			if base%4 == 0 {
				images.load(twice) // checks the loaded state
			}
			if l.index == at {
				snap = images.load(twice)
				snap.journalMin, snap.lookLimit = d.m.journalMin, d.m.lookLimit
				d.stats["snapshot"]++
				continue
			}
		}
		if snap != nil {
			d.same(snap, l, i)
		}
	}
	for _, m := range []*Machine{twice, snap} {
		if m != nil && m.Digest() != d.m.Digest() {
			d.failf("digest differs after a rerun")
		}
	}
}

func (d *driver) fresh() *Machine {
	m := New(Options{Group: 1})
	m.journalMin, m.lookLimit = d.m.journalMin, d.m.lookLimit
	return m
}

func (d *driver) same(m *Machine, l logEntry, i int) {
	e, err := format.ParseEntry(l.data)
	if err != nil {
		d.failf("%v", err)
	}
	var out format.Results
	if err := m.Apply(l.index, &e, &out); err != nil {
		d.failf("entry %d again: %v", l.index, err)
	}
	if i > 0 && !bytes.Equal(sumResults(&out), d.sums[i-1]) {
		d.failf("entry %d again: other verdicts", l.index)
	}
}
