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
	opsFlag  = flag.Int("machine.ops", 100_000, "commands of the random test")
	seedFlag = flag.Uint64("machine.seed", 1, "first seed of the random test")
)

// groupNames are the consumer groups of the random test.
var groupNames = []string{format.QueueMode, "g1", "g2", "g3"}

// TestRandom runs random entries through the machine and through the reference and compares every
// verdict; the state checker runs after each entry. Rings and look limits are small, so that groups
// detach and Pops end early all the time. Then the same log is applied twice more: from the start, and
// from a snapshot in the middle; verdicts and digests have to be equal.
func TestRandom(t *testing.T) {
	const perSeed = 4_000
	stats := map[string]int{}
	for seed := *seedFlag; int(seed-*seedFlag)*perSeed < *opsFlag; seed++ {
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
		"ack unresolvable", "push stale-evidence", "push duplicate", "claim", "reveal ok", "detached", "filed", "snapshot"} {
		if stats[k] == 0 {
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
	judges []func(it *format.Result, out *format.Results) error
}

func (d *driver) failf(msg string, args ...any) {
	d.t.Fatalf("seed %d, entry %d: %s", d.seed, d.index, fmt.Sprintf(msg, args...))
}

func (d *driver) add(name string, judge func(it *format.Result, out *format.Results) error) {
	d.ops++
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
	d.judges = d.judges[:0]
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

// sync tells the reference about cursors that a Pop made or moved without claiming: where it looked a
// start up, behind messages that retention took, and behind one that was delivered too often.
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
	if !live {
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
	if next := d.ref.next(g, p); at == next+1 && d.ref.exhausted(q, c, next) && !d.ref.gone(q, p) && p.trim < len(p.msgs) {
		d.ref.giveUp(q, g, p, c, next)
	}
	for c.next < at && (p.msgs[c.next].w < q.cutoff || c.next < p.trim) {
		c.next++
		c.retries, c.attempts = 0, 0
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
	switch n := d.r.IntN(100); {
	case n < 34:
		d.push()
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
		d.remove()
	case n < 95:
		d.retain()
	case n < 97:
		d.trim()
	default:
		d.buf.AddSweep(&format.Sweep{Limit: uint32(d.r.IntN(6))})
		d.add("sweep", func(*format.Result, *format.Results) error { return nil })
	}
}

func (d *driver) push() {
	queue, part := d.queueName(), d.partName()
	ids := make([]string, 1+d.r.IntN(5))
	for i := range ids {
		if d.chance(60) {
			ids[i] = fmt.Sprint("m", d.r.IntN(60))
		}
	}
	clear := d.m.EvidenceFrom()
	if d.chance(5) {
		clear = 0
	}
	place := d.place()
	d.addPush(queue, part, ids, func(a *format.Append) {
		a.ClearTo = clear
		if q := d.ref.queues[queue]; q != nil && q.part(part) != nil && clear > 0 {
			d.originals(a, q.part(part), ids)
		}
	})
	d.add("push", func(it *format.Result, out *format.Results) error {
		got := &out.Appends[it.At]
		if len(got.Dups) > 0 {
			d.stats["push duplicate"]++
		}
		if it.Code == format.CodeStaleEvidence {
			got = &format.AppendResult{}
		}
		code, err := d.ref.push(queue, part, ids, clear, place, got)
		if err == nil && code != it.Code {
			err = fmt.Errorf("code %s, want %s", codeNames[it.Code], codeNames[code])
		}
		return err
	})
}

// originals is what a probe of the id runs finds: the newest message of each id.
func (d *driver) originals(a *format.Append, p *refPart, ids []string) {
	for i, id := range ids {
		for k := len(p.msgs) - 1; k >= 0 && id != ""; k-- {
			if p.msgs[k].id == id {
				a.Originals = append(a.Originals, format.Original{
					At: uint32(i), Offset: format.Offset(k), Place: p.msgs[k].place, W: p.msgs[k].w,
				})
				break
			}
		}
	}
}

// settleHolds answers what the machine asks about hidden messages, until it asks no more.
func (d *driver) settleHolds() {
	d.buf.AddTick()
	d.buf.AddSweep(&format.Sweep{Limit: 1000})
	d.add("tick", func(*format.Result, *format.Results) error { return nil })
	d.add("sweep", func(*format.Result, *format.Results) error { return nil })
	d.send()
	for rounds := 0; ; rounds++ {
		due := d.m.DueReveals(nil, 3)
		if len(due) == 0 {
			return
		}
		if rounds > 20 {
			d.failf("reveals do not end: %+v", due)
		}
		for _, v := range due {
			p := d.ref.all[v.Partition]
			c := format.Reveal{Partition: v.Partition, Visible: format.Offset(len(p.msgs)), Generation: v.Generation}
			for i, m := range p.msgs {
				if m.w+v.Delay > d.W {
					c.Visible, c.Next = format.Offset(i), m.w+v.Delay
					break
				}
			}
			d.buf.AddReveal(&c)
			d.add("reveal", func(it *format.Result, _ *format.Results) error {
				if it.Code != format.CodeOK {
					return fmt.Errorf("code %s", codeNames[it.Code])
				}
				return nil
			})
		}
		d.send()
	}
}

// addPop adds a Pop; settled says that nothing due is unfired, so that it has to find all there is.
func (d *driver) addPop(queue, group string, settled bool) {
	c := format.Pop{
		Tenant: format.DefaultTenant, Queues: [][]byte{[]byte(queue)}, Group: []byte(group), Batch: uint32(1 + d.r.IntN(12)),
		Partitions: uint32(1 + d.r.IntN(4)), Commit: d.chance(15),
	}
	if d.chance(70) {
		c.Lease = int64(1+d.r.IntN(8)) * 1_000_000
	}
	if d.chance(15) {
		c.Pinned, c.Partition = true, []byte(d.partName())
	}
	c.Start, c.From = d.startKind()
	d.popping(c, settled)
}

// describe shows what both sides think of a partition.
func (d *driver) describe(q *refQueue, g *refGroup, name string) string {
	p := q.part(name)
	ph, row := d.m.partByID(p.id)
	mg := d.m.queues[row.queue].groups[g.name]
	s := fmt.Sprintf("reference: %d messages, trim %d, visible %d, next %d, cutoff %d, cursor %+v\nmachine: %+v visible %d group scan %d circle %+v journal %d",
		len(p.msgs), p.trim, d.ref.visible(q, p), d.ref.next(g, p), q.cutoff, g.cur[p.id], *row, d.m.visible(mg.queue, ph), mg.scan, mg.circle,
		mg.queue.journal.End())
	if h, live := d.m.cursorOf(ph, mg); live {
		c := d.m.cursors.Get(h)
		s += fmt.Sprintf("\ncursor %+v", *c)
		if c.lease != 0 {
			s += fmt.Sprintf("\nlease %+v", *d.m.leases.Get(c.lease))
		}
	}
	return s
}

func (d *driver) startKind() (format.StartKind, format.Wall) {
	switch d.r.IntN(3) {
	case 0:
		return format.StartNew, 0
	case 1:
		return format.StartAll, 0
	}
	return format.StartFrom, d.W - format.Wall(d.r.IntN(20_000_000)) + 5_000_000
}

// popping sends a Pop; what it needs to go on is proposed again in entries of its own.
func (d *driver) popping(c format.Pop, settled bool) {
	place := d.place()
	d.buf.AddPop(&c)
	var again *format.PopResult
	d.add("pop", func(it *format.Result, out *format.Results) error {
		got := &out.Pops[it.At]
		q := d.ref.queue(string(c.Queues[0]), byPop)
		g := d.ref.group(q, string(c.Group), c.Start, c.From, place)
		if it.Code == format.CodeStaleEvidence {
			return nil
		}
		d.stats["claim"] += len(got.Claims)
		if got.Again {
			d.stats["pop again"]++
		}
		if !got.Lease.IsZero() {
			d.given = append(d.given, got.Lease)
		}
		if err := d.ref.pop(q, g, &c, got, settled); err != nil {
			return err
		}
		left := int(c.Batch)
		for _, cl := range got.Claims {
			left -= int(cl.End - cl.First)
		}
		full := left == 0 || len(got.Claims) == int(c.Partitions) || c.Pinned && len(got.Claims) == 1
		holds := q.opts.DelayedProcessing > 0 || q.opts.WindowBuffer > 0
		if !full && it.Code == format.CodeOK && !got.Again && (settled || !holds) {
			if name := d.ref.leftOut(q, g, &c); name != "" {
				return fmt.Errorf("group %q got %d of %d and left %q of %q out\n%s", g.name, len(got.Claims), c.Partitions, name,
					q.name, d.describe(q, g, name))
			}
		}
		if settled && (it.Code == format.CodeNeedEvidence || got.Again) {
			again = got
		}
		return nil
	})
	if !settled {
		return
	}
	d.send()
	if again != nil {
		next := c
		next.Evidence = nil
		if again.Need != 0 {
			p := d.ref.all[again.Need]
			g := d.ref.queues[string(c.Queues[0])].groups[string(c.Group)]
			next.Evidence = []format.CursorEvidence{{
				Partition: again.Need, Generation: again.NeedGeneration, Offset: format.Offset(d.ref.missing(g, p)),
			}}
		}
		d.popping(next, true)
	}
}

// addAck settles something of a lease that was seen, or of none.
func (d *driver) addAck() {
	a := format.Ack{Group: []byte(d.group()), Unfenced: d.chance(25), Partition: pid(1 + d.r.IntN(20))}
	cur := d.someCursor(&a)
	at, end := 0, 6
	if cur != nil {
		at, end = max(cur.next-d.r.IntN(4), 0), max(cur.next, cur.end)+d.r.IntN(4)
		if d.chance(40) {
			at += d.r.IntN(max(end-at, 1)) // so that acks are partial, too
			end = min(end, at+3)
		}
	}
	for at < end && len(a.Runs) < 4 {
		run := format.AckRun{First: format.Offset(at), Count: uint32(1 + d.r.IntN(4)), Status: format.AckCompleted}
		if d.chance(35) {
			run.Status = format.AckStatus(1 + d.r.IntN(4))
		}
		if d.chance(5) {
			run.Delay = 1_500_000
		}
		a.Runs = append(a.Runs, run)
		at += int(run.Count) + d.r.IntN(2)
	}
	for n := 1; n > 0 && len(a.Runs) > 0; n-- {
		d.buf.AddAck(&a)
		d.add("ack", func(it *format.Result, out *format.Results) error {
			code, want := d.ref.ack(&a)
			if code == format.CodeNotLeased && it.Code != code {
				code, want = d.withCursor(&a, code, want)
			}
			got := out.Acks[it.At]
			got.DeadLetter = format.UUID{}
			if got.Filed {
				d.stats["filed"]++
			}
			if code != it.Code || got != want {
				return fmt.Errorf("%+v\ngot  %s %+v\nwant %s %+v", a, codeNames[it.Code], got, codeNames[code], want)
			}
			return nil
		})
		if d.chance(10) {
			n++ // the same again: a repeat
		}
	}
}

// someCursor aims an Ack at a lease seen lately, or at any cursor there is.
func (d *driver) someCursor(a *format.Ack) *refCur {
	if id := d.someLease(); !id.IsZero() {
		a.Lease = id
		if cs, ps, gs := d.ref.held(id); len(cs) > 0 && !d.chance(5) {
			i := d.r.IntN(len(cs))
			a.Partition, a.Group = ps[i].id, []byte(gs[i].name)
			return cs[i]
		}
	}
	if q := d.ref.queues[d.queueName()]; q != nil && len(q.parts) > 0 && !d.chance(5) {
		p := q.parts[d.r.IntN(len(q.parts))]
		a.Partition = p.id
		if g := q.groups[string(a.Group)]; g != nil {
			return g.cur[p.id]
		}
	}
	return nil
}

// withCursor predicts again with the cursor that a Pop of the same entry made at the start it looked up.
func (d *driver) withCursor(a *format.Ack, code format.Code, want format.AckResult) (format.Code, format.AckResult) {
	p := d.ref.all[a.Partition]
	q := d.ref.owner[a.Partition]
	g := q.groups[string(a.Group)]
	mq, _ := d.m.QueueByName(format.DefaultTenant, q.name)
	if mg, ok := d.m.GroupByName(mq.ID, string(a.Group)); ok && g != nil {
		d.syncCursor(q, g, p, mg.ID)
		return d.ref.ack(a)
	}
	return code, want
}

func (d *driver) someLease() format.UUID {
	if len(d.given) == 0 {
		return format.UUID{}
	}
	return d.given[len(d.given)-1-d.r.IntN(min(len(d.given), 8))]
}

func (d *driver) counted(name string, want func() (format.Code, format.CountResult)) {
	d.add(name, func(it *format.Result, out *format.Results) error {
		code, res := want()
		if got := out.Counts[it.At]; code != it.Code || got != res {
			return fmt.Errorf("got %s %+v, want %s %+v", codeNames[it.Code], got, codeNames[code], res)
		}
		return nil
	})
}

func (d *driver) addExtend() {
	x := format.Extend{Lease: d.someLease(), For: int64(d.r.IntN(9_000_000))}
	d.buf.AddExtend(&x)
	d.add("extend", func(it *format.Result, out *format.Results) error {
		code, want := d.ref.extend(&x)
		if got := out.Extends[it.At]; code != it.Code || got != want {
			return fmt.Errorf("got %s %+v, want %s %+v", codeNames[it.Code], got, codeNames[code], want)
		}
		return nil
	})
}

func (d *driver) addRelease() {
	x := format.Release{Lease: d.someLease()}
	if _, ps, _ := d.ref.held(x.Lease); len(ps) > 0 && d.chance(50) {
		x.Partitions = []format.PartitionID{ps[d.r.IntN(len(ps))].id}
	}
	d.buf.AddRelease(&x)
	d.counted("release", func() (format.Code, format.CountResult) { return d.ref.handBack(&x) })
}

func (d *driver) addSkip() {
	id := d.someLease()
	cs, ps, _ := d.ref.held(id)
	if len(cs) == 0 {
		return
	}
	i := d.r.IntN(len(cs))
	if d.chance(50) {
		x := format.Skip{Lease: id, Partition: ps[i].id, Upto: format.Offset(cs[i].next + d.r.IntN(5))}
		d.buf.AddSkip(&x)
		d.counted("skip", func() (format.Code, format.CountResult) { return d.ref.skip(&x) })
		return
	}
	x := format.TrimLease{Lease: id, Partition: ps[i].id, LastDelivered: format.Offset(cs[i].first + d.r.IntN(3))}
	x.NewEnd = x.LastDelivered + format.Offset(d.r.IntN(3))
	d.buf.AddTrimLease(&x)
	d.counted("trimlease", func() (format.Code, format.CountResult) { return d.ref.trimLease(&x) })
}

func (d *driver) addSeek() {
	x := format.SetOffset{
		Tenant: format.DefaultTenant, Queue: []byte(d.queueName()), Partition: []byte(d.partName()), Group: []byte(d.group()),
		ToEnd: d.chance(30), To: format.Offset(d.r.IntN(40)),
	}
	d.buf.AddSetOffset(&x)
	d.counted("seek", func() (format.Code, format.CountResult) { return d.ref.seek(&x) })
}

func (d *driver) addRegister() {
	x := format.Register{Tenant: format.DefaultTenant, Queue: []byte(d.queueName()), Group: []byte(d.group())}
	x.Start, x.From = d.startKind()
	x.Reset = d.chance(60)
	place := d.place()
	d.buf.AddRegister(&x)
	d.counted("register", func() (format.Code, format.CountResult) { return d.ref.register(&x, place) })
}

func (d *driver) configure() {
	queue := d.queueName()
	c := format.Configure{Tenant: format.DefaultTenant, Queue: []byte(queue)}
	o := &c.Patch
	set := func(bit format.OptionMask, p *int64, v int64) { *p, o.Set = v, o.Set|bit }
	switch d.r.IntN(6) {
	case 0:
		set(format.OptDedupWindowSeconds, &o.DedupWindowSeconds, int64([]int{0, 5, 60, 3600}[d.r.IntN(4)]))
	case 1:
		set(format.OptRetryLimit, &o.RetryLimit, int64(d.r.IntN(3)))
	case 2:
		if !d.lonely {
			break
		}
		set(format.OptMaxDeliveries, &o.MaxDeliveries, int64(d.r.IntN(4)))
	case 3:
		o.DeadLetterQueue, o.DLQAfterMaxRetries, o.DLQScopeBatch = d.chance(50), d.chance(30), d.chance(50)
		o.Set |= format.OptDeadLetterQueue | format.OptDLQAfterMaxRetries | format.OptDLQScope
	case 4:
		set(format.OptRetryDelay, &o.RetryDelayMs, int64(d.r.IntN(3))*1000)
	default:
		set(format.OptMaxWaitTimeSeconds, &o.MaxWaitTimeSeconds, int64(10+d.r.IntN(20)))
	}
	switch queue {
	case "delay":
		set(format.OptDelayedProcessing, &o.DelayedProcessing, int64(1+d.r.IntN(4)))
	case "window":
		if d.ref.queues[queue] == nil && len(d.judges) == 0 {
			set(format.OptWindowBuffer, &o.WindowBuffer, 2)
		}
	}
	d.buf.AddConfigure(&c)
	d.add("configure", func(it *format.Result, out *format.Results) error {
		want := d.ref.configure(&c)
		got := out.Configs[it.At]
		d.ref.queues[queue].id = got.Queue
		if got.Options != want {
			return fmt.Errorf("options %+v, want %+v", got.Options, want)
		}
		return nil
	})
}

func (d *driver) remove() {
	queue, group := d.queueName(), d.group()
	c := format.Delete{Tenant: format.DefaultTenant, What: format.DeleteGroup, Queue: []byte(queue), Name: []byte(group)}
	if d.chance(30) {
		c.What = format.DeleteQueue
	}
	d.buf.AddDelete(&c)
	d.add("delete", func(it *format.Result, _ *format.Results) error {
		q := d.ref.queues[queue]
		if (q == nil) != (it.Code == format.CodeUnknownQueue) {
			return fmt.Errorf("code %s", codeNames[it.Code])
		}
		if q != nil && c.What == format.DeleteQueue {
			d.ref.drop(q)
		} else if q != nil {
			delete(q.groups, group)
		}
		return nil
	})
}

func (d *driver) retain() {
	queue := d.queueName()
	mq, ok := d.m.QueueByName(format.DefaultTenant, queue)
	if !ok || mq.Expiry == 0 || !d.lonely {
		return
	}
	c := format.Retain{Queue: mq.ID, Cutoff: d.W - mq.Expiry, Generation: mq.OptionGen}
	d.buf.AddRetain(&c)
	d.add("retain", func(it *format.Result, _ *format.Results) error {
		if q := d.ref.queues[queue]; it.Code == format.CodeOK {
			q.cutoff = max(q.cutoff, c.Cutoff)
		}
		return nil
	})
}

func (d *driver) trim() {
	q := d.ref.queues[d.queueName()]
	if q == nil || len(q.parts) == 0 {
		return
	}
	p := q.parts[d.r.IntN(len(q.parts))]
	upto := len(p.msgs)
	if d.lonely {
		upto += 2 // a partition trimmed to its end moves cursors
	}
	c := format.Trim{Queue: q.id, Items: []format.TrimItem{{Partition: p.id, Upto: format.Offset(d.r.IntN(upto))}}}
	d.buf.AddTrim(&c)
	d.add("trim", func(it *format.Result, _ *format.Results) error {
		if it.Code == format.CodeOK {
			p.trim = max(p.trim, min(int(c.Items[0].Upto), len(p.msgs)))
		}
		return nil
	})
}

func (d *driver) addMark() {
	d.buf.AddMark(&format.Mark{Number: d.m.marks + 1, Digest: d.m.Digest()})
	d.marks = append(d.marks, d.index+1)
	d.add("mark", func(it *format.Result, _ *format.Results) error {
		d.ref.markW = append(d.ref.markW, d.W)
		return nil
	})
	for _, g := range d.m.groups {
		if g.scan < g.queue.journal.Start() {
			d.stats["detached"]++
		}
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
		if l.index > 0 && slices.Contains(d.marks, l.index) && snap == nil {
			base--
			images.take(twice, base == 0)
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
