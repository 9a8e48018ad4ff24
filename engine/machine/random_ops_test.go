package machine

import (
	"fmt"

	"queen/engine/format"
)

// The commands of the random test: each method adds one to the entry being built, with the judge of its
// verdict.

func (d *driver) push() {
	queue, to := d.queueName(), d.partName()
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
	d.addPush(queue, to, ids, func(a *format.Append) {
		a.ClearTo = clear
		if q := d.ref.queues[queue]; q != nil && q.part(to) != nil && clear > 0 {
			d.originals(a, q.part(to), ids)
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
		code, err := d.ref.push(queue, to, ids, clear, place, got)
		if err == nil && code != it.Code {
			err = fmt.Errorf("code %s, want %s", codeNames[it.Code], codeNames[code])
		}
		return err
	})
	*d.lastPart() = part{
		class: classAppend,
		check: func() format.Code { return d.ref.checkPush(queue, to, ids, clear, place) },
		stale: func() bool { return d.ref.checkPush(queue, to, ids, clear, place) == format.CodeStaleEvidence },
	}
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
	c.Conflate = group == "g3" && d.chance(80) || d.chance(5)
	c.Start, c.From = d.startKind()
	d.popping(c, settled)
}

// describe shows what both sides think of a partition.
func (d *driver) describe(q *refQueue, g *refGroup, name string) string {
	p := q.part(name)
	ph, row := d.m.partByID(p.id)
	mg := d.m.queues[row.queue].groups[g.name]
	s := fmt.Sprintf("reference: %d messages, trim %d, visible %d, next %d, cutoff %d, cursor %+v\n",
		len(p.msgs), p.trim, d.ref.visible(q, p), d.ref.next(g, p), q.cutoff, g.cur[p.id])
	s += fmt.Sprintf("machine: %+v visible %d group scan %d circle %+v journal %d", *row,
		d.m.visible(mg.queue, ph), mg.scan, mg.circle, mg.queue.journal.End())
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
		if g := q.groups[string(c.Group)]; g != nil && g.open {
			d.stats["group decided"]++
		}
		g := d.ref.group(q, string(c.Group), c.Start, c.From, place, c.Conflate)
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
			if g.last {
				left--
				d.stats["conflated"] += int(cl.Conflated)
			} else {
				left -= int(cl.End - cl.First)
			}
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
			at := d.ref.missing(g, p)
			if again.NeedStart == 0 {
				at = d.ref.start(d.ref.owner[p.id], p)
				d.stats["log start asked"]++
			}
			next.Evidence = []format.CursorEvidence{{
				Partition: again.Need, Generation: again.NeedGeneration, Offset: format.Offset(at),
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
		*d.lastPart() = part{class: classAck, check: func() format.Code { return d.checkAck(&a) }}
		if d.chance(10) {
			n++ // the same again: a repeat
		}
	}
}

// checkAck predicts whether a transaction may hold an Ack: every message of it has to be in reach.
func (d *driver) checkAck(a *format.Ack) format.Code {
	r := d.ref
	p := r.all[a.Partition]
	if p == nil {
		return format.CodeUnknownPartition
	}
	g := r.owner[p.id].groups[string(a.Group)]
	if g == nil || g.cur[p.id] == nil {
		return format.CodeNotLeased
	}
	key := fmt.Sprint(p.id, g.name)
	if d.acked[key] {
		return format.CodeMalformed
	}
	d.acked[key] = true
	c := g.cur[p.id]
	if !a.Unfenced && (!c.live(r.t) || c.lease != a.Lease) {
		return format.CodeLeaseInvalid
	}
	for _, run := range a.Runs {
		switch {
		case int(run.First) < c.next && run.Status != format.AckCompleted:
			return format.CodeCommitted
		case int(run.First)+int(run.Count) > r.reach(c, p, a):
			return format.CodeUnresolvable
		}
	}
	return format.CodeOK
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
	x.Reset, x.Conflate = d.chance(60), d.chance(30)
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

// removePart cleans a partition up, if nothing speaks against it.
func (d *driver) removePart() {
	q := d.ref.queues[d.queueName()]
	if q == nil || len(q.parts) == 0 {
		return
	}
	p := q.parts[d.r.IntN(len(q.parts))]
	c := format.Delete{
		Tenant: format.DefaultTenant, What: format.DeletePartition, Partition: p.id, Offset: format.Offset(len(p.msgs)),
	}
	if d.chance(20) {
		c.Offset--
	}
	d.buf.AddDelete(&c)
	d.add("delete-partition", func(it *format.Result, _ *format.Results) error {
		want := format.CodeOK
		switch {
		case d.ref.all[p.id] == nil:
			want = format.CodeUnknownPartition
		case int(c.Offset) != len(p.msgs) || d.ref.spokenFor(q, p):
			want = format.CodeStaleEvidence
		default:
			d.ref.forget(q, p)
		}
		if it.Code != want {
			return fmt.Errorf("code %s, want %s", codeNames[it.Code], codeNames[want])
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
	c := format.Trim{Queue: q.id, Items: []format.TrimItem{{Partition: p.id, Upto: format.Offset(d.r.IntN(max(upto, 1)))}}}
	d.buf.AddTrim(&c)
	d.add("trim", func(it *format.Result, _ *format.Results) error {
		if it.Code == format.CodeOK && d.ref.all[p.id] != nil {
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
