package machine

import (
	"fmt"
	"slices"

	"queen/engine/format"
)

// judge compares the verdict about one command with the reference, which it moves on.
type judge func(it *format.Result, out *format.Results) error

// part is what a bracket must know of a command inside: whether it would be refused on the state before the
// transaction, and whether its evidence came too late. nil means never.
type part struct {
	class int
	check func() format.Code
	stale func() bool
}

func (d *driver) lastPart() *part { return &d.parts[len(d.parts)-1] }

func (d *driver) kvKey() (ns, key []byte) {
	if d.chance(10) {
		return []byte(format.LockNamespace), fmt.Appendf(nil, "l%d#%d", d.r.IntN(2), d.r.IntN(2))
	}
	return []byte("n"), []byte{byte('a' + d.r.IntN(5))}
}

func (d *driver) number() format.Number {
	if d.chance(70) {
		return format.Number{Kind: format.IntNumber, Int: int64(d.r.IntN(20) - 8)}
	}
	return format.Number{Kind: format.FloatNumber, Float: float64(d.r.IntN(40)-16) / 4}
}

func (d *driver) keep() int64 {
	if d.chance(40) {
		return 0
	}
	return int64(1+d.r.IntN(9)) * 1_000_000
}

func (d *driver) newKV() *format.KV {
	c := &format.KV{Tenant: format.DefaultTenant, Op: format.KVOp(1 + d.r.IntN(4)), Required: d.chance(30)}
	c.Namespace, c.Key = d.kvKey()
	switch c.Op {
	case format.KVPut:
		c.Value, c.Keep = []byte(`"text"`), d.keep()
		if d.chance(60) {
			c.Number = d.number()
			c.Value = appendNumber(nil, c.Number)
		}
	case format.KVIncr:
		c.Number, c.Keep = d.number(), d.keep()
		if d.chance(30) {
			c.Min, c.Max = format.Number{Kind: format.IntNumber, Int: -10}, d.number()
		}
	}
	if c.HasExpect = c.Op == format.KVCheck || c.Op != format.KVIncr && d.chance(50); c.HasExpect && d.chance(70) {
		c.Expect = uint64(d.r.IntN(30))
		if row := d.ref.keyed.rows[kvKey(c.Namespace, c.Key)]; row != nil {
			c.Expect = row.version
		}
	}
	return c
}

func (d *driver) addKV() {
	c := d.newKV()
	d.buf.AddKV(c)
	d.add("kv", func(it *format.Result, out *format.Results) error {
		want := d.ref.keyed.kv(c, d.ref.w)
		code := format.CodeOK
		if want.Reason != format.KVApplied && c.Required {
			code = format.CodePrecondition
		}
		if got := out.KVs[it.At]; it.Code != code || got != want {
			return fmt.Errorf("%+v: got %s %+v, want %s %+v", c, codeNames[it.Code], got, codeNames[code], want)
		}
		return nil
	})
	*d.lastPart() = part{class: classKV, check: func() format.Code {
		// On the state that earlier parts leave: the transaction's judge keeps it in d.trial.
		if d.trial.kv(c, d.ref.w).Reason != format.KVApplied && c.Required {
			return format.CodePrecondition
		}
		return format.CodeOK
	}}
}

func (d *driver) addLock() {
	c := &format.Lock{
		Tenant: format.DefaultTenant, Op: format.LockOp(1 + d.r.IntN(3)), Name: fmt.Appendf(nil, "l%d", d.r.IntN(2)),
		Limit: uint32(1 + d.r.IntN(2)), Slot: uint32(d.r.IntN(2)), Keep: int64(1+d.r.IntN(300)) * 1_000_000,
	}
	if d.chance(80) {
		c.Owner = []byte{byte('A' + d.r.IntN(3))}
	}
	if row := d.ref.keyed.rows[slotKey(c, c.Slot)]; row != nil && c.Op != format.LockAcquire {
		if c.Token = row.version; d.chance(20) {
			c.Token--
		}
		if d.chance(80) {
			c.Owner = []byte(row.owner)
		}
	}
	c.Since = d.W - format.Wall(d.r.IntN(1000))
	d.buf.AddLock(c)
	d.add("lock", func(it *format.Result, out *format.Results) error {
		want, code := d.ref.keyed.lock(c, d.ref.w)
		if got := out.Locks[it.At]; it.Code != code || got != want {
			return fmt.Errorf("%+v: got %s %+v, want %s %+v", c, codeNames[it.Code], got, codeNames[code], want)
		}
		return nil
	})
	d.lastPart().stale = func() bool { return d.ref.keyed.staleRenew(c) }
}

// timerOps are what may be done to a timer by name.
var timerOps = []format.TimerOp{format.TimerSchedule, format.TimerCancel, format.TimerFailed, format.TimerPause, format.TimerResume}

// addTimer schedules, cancels, pauses, resumes or puts off a timer.
func (d *driver) addTimer(inTxn bool) {
	c := &format.Timer{
		Tenant: format.DefaultTenant, Op: timerOps[d.r.IntN(len(timerOps))], Queue: []byte(d.queueName()),
		Key: []byte{byte('a' + d.r.IntN(3))}, Due: format.Wall(d.r.IntN(6_000_000) - 1_000_000), Relative: d.chance(50),
		Partition: []byte(d.partName()), Frame: testFrame([]format.FrameMessage{{Payload: []byte("t")}}),
	}
	if inTxn && c.Op == format.TimerFailed {
		c.Op = format.TimerSchedule
	}
	if !c.Relative {
		c.Due += d.W
	}
	if d.chance(50) {
		c.TransactionID = fmt.Appendf(nil, "m%d", d.r.IntN(60))
	}
	if d.chance(20) {
		c.Recur = []byte("every")
	}
	if row := d.ref.keyed.rows[timerKeyOf(c.Queue, c.Key)]; row != nil && c.Op == format.TimerFailed && d.chance(80) {
		c.Version, c.Reason, c.Counted = row.version, []byte("why"), d.chance(50)
	}
	if c.Op != format.TimerSchedule && c.Op != format.TimerFailed {
		c.Relative = false
	}
	place := d.place()
	d.buf.AddTimer(c)
	d.add("timer", func(it *format.Result, out *format.Results) error {
		want, code := d.ref.keyed.timer(c, d.ref.w, place)
		if got := out.Timers[it.At]; it.Code != code || got != want {
			return fmt.Errorf("%+v: got %s %+v, want %s %+v", c, codeNames[it.Code], got, codeNames[code], want)
		}
		return nil
	})
	*d.lastPart() = part{class: classTimer, check: func() format.Code { return format.CodeOK }}
}

// again moves a recurring timer on.
func (r *refRow) again(version uint64, due format.Wall) {
	r.version, r.due, r.attempts, r.refused, r.note = version, due, 0, 0, ""
	r.fires++
}

// pendingTimer chooses a timer, mostly one that is due; "" when there is none.
func (d *driver) pendingTimer() string {
	var keys []string
	for k, row := range d.ref.keyed.rows {
		if row.family == FamilyTimer && (row.due <= d.W && !row.paused || d.chance(10)) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	slices.Sort(keys)
	return keys[d.r.IntN(len(keys))]
}

// addDead gives up one of the timers that are pending.
func (d *driver) addDead() {
	name := d.pendingTimer()
	if name == "" {
		return
	}
	row := *d.ref.keyed.rows[name]
	_, queue, key, _ := format.ParseTimerKey([]byte(name[1:]))
	kept := format.TimerRow{Version: row.first, Partition: []byte(row.part), Frame: testFrame([]format.FrameMessage{{Payload: []byte("t")}})}
	c := &format.Timer{Tenant: format.DefaultTenant, Op: format.TimerDead, Queue: queue, Key: key, Version: row.version, Reason: []byte("why"),
		Row: kept.Append(nil)}
	if d.chance(10) {
		c.Version--
	}
	if row.recur != "" && d.chance(70) {
		c.Due = d.W + 2_000_000
	}
	d.buf.AddTimer(c)
	d.add("dead timer", func(it *format.Result, out *format.Results) error {
		want, code := d.buried(c, name)
		if got := out.Timers[it.At]; it.Code != code || got != want {
			return fmt.Errorf("%+v: got %s %+v, want %s %+v", c, codeNames[it.Code], got, codeNames[code], want)
		}
		return nil
	})
}

func (d *driver) buried(c *format.Timer, name string) (res format.TimerResult, code format.Code) {
	row := d.ref.keyed.rows[name]
	if row == nil || row.version != c.Version {
		return res, format.CodeGone
	}
	q := d.ref.queues[string(c.Queue)]
	if q == nil || q.part(row.part) == nil {
		return res, format.CodeUnknownPartition
	}
	at := format.TimerOffset | format.Offset(c.Version)
	d.ref.dead = append(d.ref.dead, refDead{q.part(row.part).id, at, format.TimerGroup})
	if c.Due == 0 {
		delete(d.ref.keyed.rows, name)
		return format.TimerResult{Status: format.TimerFiled}, format.CodeOK
	}
	row.again(d.ref.keyed.next(), c.Due)
	return format.TimerResult{Status: format.TimerFiled, Version: row.version, Due: row.due}, format.CodeOK
}

// addFire fires one of the timers that are pending, mostly one that is due, as it is now.
func (d *driver) addFire() {
	name := d.pendingTimer()
	if name == "" {
		return
	}
	row := *d.ref.keyed.rows[name]
	_, queue, key, _ := format.ParseTimerKey([]byte(name[1:]))
	c := &format.Fire{Key: key, Version: row.version, Append: format.Append{
		Tenant: format.DefaultTenant, Queue: queue, Partition: []byte(row.part), Frame: format.FrameNative, Count: 1,
		ClearTo: d.m.EvidenceFrom(), ExplicitID: true,
	}}
	if d.chance(10) {
		c.Version--
	}
	if row.recur != "" && d.chance(70) {
		c.Next = d.W + 2_000_000
	}
	ids := []string{row.tx}
	if row.tx != "" {
		h := format.HashID(hashKey, []byte(row.tx))
		c.Append.IDs, c.Append.Hashes = format.IDsAll, h[:]
	}
	if q := d.ref.queues[string(queue)]; q != nil && q.part(row.part) != nil && c.Append.ClearTo > 0 {
		d.originals(&c.Append, q.part(row.part), ids)
	}
	if d.chance(5) {
		c.Append.ClearTo = 0
	}
	place := d.place()
	d.buf.AddFire(c, testFrame([]format.FrameMessage{{Payload: []byte("t")}}))
	d.add("fire", func(it *format.Result, out *format.Results) error {
		code, err := d.fired(c, name, row.part, ids, place, &out.Appends[it.At])
		if err == nil && code != it.Code {
			err = fmt.Errorf("code %s, want %s", codeNames[it.Code], codeNames[code])
		}
		return err
	})
}

func (d *driver) fired(c *format.Fire, name, part string, ids []string, place format.Place, got *format.AppendResult) (format.Code, error) {
	row := d.ref.keyed.rows[name]
	if row == nil || row.version != c.Version || row.due > d.ref.w || row.paused {
		return format.CodeGone, nil
	}
	code, err := d.ref.push(string(c.Append.Queue), part, ids, c.Append.ClearTo, place, got)
	switch {
	case err != nil || code != format.CodeOK:
	case c.Next == 0:
		delete(d.ref.keyed.rows, name)
	default:
		row.again(d.ref.keyed.next(), c.Next)
	}
	return code, err
}

// addPosition sets or forgets a position, making what it needs.
func (d *driver) addPosition() {
	c := &format.SetOffset{
		Tenant: format.DefaultTenant, Queue: []byte(d.queueName()), Partition: []byte(d.partName()), Group: []byte(d.group()),
		ToEnd: d.chance(20), To: format.Offset(d.r.IntN(40)), Create: d.chance(80), Forget: d.chance(20),
	}
	if c.Create {
		c.Start = format.StartKind(1 + d.r.IntN(2))
	}
	if c.Forget {
		c.ToEnd, c.Create = false, false
		c.Start = 0
	} else if d.chance(50) {
		c.Metadata = []byte{byte('a' + d.r.IntN(26))}
	}
	place := d.place()
	d.buf.AddSetOffset(c)
	d.counted("position", func() (format.Code, format.CountResult) { return d.ref.position(d, c, place) })
	*d.lastPart() = part{class: classPosition, check: func() format.Code {
		q := d.ref.queues[string(c.Queue)]
		switch {
		case q == nil:
			return format.CodeUnknownQueue
		case !c.Create && q.part(string(c.Partition)) == nil:
			return format.CodeUnknownPartition
		case !c.Create && q.groups[string(c.Group)] == nil:
			return format.CodeUnknownGroup
		}
		return format.CodeOK
	}}
}

// position predicts a SetOffset that may create.
func (r *ref) position(d *driver, c *format.SetOffset, place format.Place) (format.Code, format.CountResult) {
	place.Ordinal = max(place.Ordinal, d.txnLast) // a group that a transaction registers sees nothing of it
	q := r.queues[string(c.Queue)]
	if q == nil {
		return format.CodeUnknownQueue, format.CountResult{}
	}
	if c.Create {
		if q.part(string(c.Partition)) == nil {
			mp, _ := d.m.PartitionByName(format.DefaultTenant, string(c.Queue), string(c.Partition))
			p := &refPart{id: mp.ID, name: string(c.Partition), bornW: r.w, born: place.Index}
			q.parts = append(q.parts, p)
			r.all[p.id], r.owner[p.id] = p, q
		}
		r.group(q, string(c.Group), c.Start, 0, place, false)
	}
	code, res := r.seek(c)
	p, g := q.part(string(c.Partition)), q.groups[string(c.Group)]
	if code != format.CodeOK {
		return code, res
	}
	if c.Forget {
		delete(g.cur, p.id)
		g.note(p.id, "")
	} else {
		g.note(p.id, string(c.Metadata))
	}
	return code, res
}

// note keeps what was said with a position.
func (g *refGroup) note(p format.PartitionID, text string) {
	if g.notes == nil {
		g.notes = map[format.PartitionID]string{}
	}
	if delete(g.notes, p); text != "" {
		g.notes[p] = text
	}
}

// addTxn adds a transaction of one to four parts.
func (d *driver) addTxn() {
	d.buf.AddTxn(&format.Txn{Parts: 1})
	at := len(d.buf.Commands) - 1
	first := len(d.judges)
	d.add("txn", nil)
	for n := 1 + d.r.IntN(4); n > 0; n-- {
		switch d.r.IntN(6) {
		case 0:
			d.push()
		case 1:
			d.addAck()
		case 2:
			d.addPosition()
		case 3:
			d.addTimer(true)
		default:
			d.addKV()
		}
	}
	if len(d.judges) == first+1 {
		d.addKV()
	}
	d.buf.Commands[at] = byte(len(d.judges) - first - 1)
	judges, parts := slices.Clone(d.judges[first+1:]), slices.Clone(d.parts[first+1:])
	last := d.buf.Ordinals - 1
	d.mute(first + 1)
	d.judges[first] = func(it *format.Result, out *format.Results) error {
		d.stats["txn "+codeNames[it.Code]]++
		d.txnLast = last
		defer func() { d.txnLast = 0 }()
		item := slices.IndexFunc(out.Items, func(o format.Result) bool { return o == *it })
		return d.judgeTxn(it, out, out.Items[item+1:][:len(judges)], judges, parts)
	}
}

// mute makes judges from one on say nothing: a bracket asks them.
func (d *driver) mute(from int) {
	for i := from; i < len(d.judges); i++ {
		d.judges[i] = func(*format.Result, *format.Results) error { return nil }
	}
}

func (d *driver) judgeTxn(it *format.Result, out *format.Results, items []format.Result, judges []judge, parts []part) error {
	want, failed := format.CodeOK, 0
	d.trial = d.ref.keyed.clone()
	d.acked = map[string]bool{}
	d.ref.inTxn = true
	defer func() { d.ref.inTxn = false }()
	for class := range classes {
		for i := range parts {
			if want == format.CodeOK && parts[i].class == class {
				want, failed = parts[i].check(), i
			}
		}
	}
	if it.Code != want || want != format.CodeOK && int(out.Txns[it.At].Failed) != failed {
		return fmt.Errorf("code %s by part %d, want %s by %d", codeNames[it.Code], out.Txns[it.At].Failed, codeNames[want], failed)
	}
	for class := range classes {
		for i := range parts {
			switch {
			case parts[i].class != class:
			case want == format.CodeOK:
				if err := judges[i](&items[i], out); err != nil {
					return fmt.Errorf("part %d: %w", i, err)
				}
			case i == failed && items[i].Code != want || i != failed && items[i].Code != format.CodeRolledBack:
				return fmt.Errorf("part %d answers %s", i, codeNames[items[i].Code])
			}
		}
	}
	return nil
}

// addOnce adds a few commands under a key out of three.
func (d *driver) addOnce() {
	c := format.Once{Tenant: format.DefaultTenant, Keep: int64(2+d.r.IntN(8)) * 1_000_000, Parts: 1}
	c.Key[0], c.Digest[0] = byte(d.r.IntN(3)), byte(d.r.IntN(2))
	place := d.place()
	if c.Digest[0] == 1 {
		c.Note = []byte{'n'}
	}
	d.buf.AddOnce(&c)
	at := len(d.buf.Commands) - 1 - 2*len(c.Note) // of the parts, before the note and its length
	first := len(d.judges)
	d.add("once", nil)
	for n := 1 + d.r.IntN(3); n > 0; n-- {
		switch d.r.IntN(5) {
		case 0:
			d.push()
		case 1:
			d.addLock()
		case 2:
			d.addTxn()
		default:
			d.addKV()
		}
	}
	d.buf.Commands[at] = byte(len(d.judges) - first - 1)
	judges, parts := slices.Clone(d.judges[first+1:]), slices.Clone(d.parts[first+1:])
	d.mute(first + 1)
	d.judges[first] = func(it *format.Result, out *format.Results) error {
		d.stats["once "+codeNames[it.Code]]++
		item := slices.IndexFunc(out.Items, func(o format.Result) bool { return o == *it })
		return d.judgeOnce(&c, place, it, out, out.Items[item+1:][:len(judges)], judges, parts)
	}
}

func (d *driver) judgeOnce(c *format.Once, place format.Place, it *format.Result, out *format.Results, items []format.Result,
	judges []judge, parts []part,
) error {
	row := d.ref.keyed.rows[onceKey(c.Key)]
	want := format.CodeOK
	switch {
	case row != nil && row.text == string(c.Digest[:]):
		want = format.CodeRepeated
	case row != nil:
		want = format.CodeMismatch
	case slices.ContainsFunc(parts, func(p part) bool { return p.stale != nil && p.stale() }):
		want = format.CodeStaleEvidence
	}
	if it.Code != want {
		return fmt.Errorf("code %s, want %s", codeNames[it.Code], codeNames[want])
	}
	for i := range judges {
		if want != format.CodeOK {
			if items[i].Code != format.CodeRolledBack {
				return fmt.Errorf("part %d answers %s", i, codeNames[items[i].Code])
			}
			continue
		}
		if err := judges[i](&items[i], out); err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
	}
	if want == format.CodeOK {
		d.ref.keyed.rows[onceKey(c.Key)] = &refRow{
			family: FamilyOnce, version: d.ref.keyed.next(), due: d.ref.w + format.Wall(c.Keep), text: string(c.Digest[:]), place: place,
			w: d.ref.w, fires: uint64(len(items)), note: string(c.Note),
		}
	}
	return nil
}

// sameKeyed compares every keyed row after an entry.
func (d *driver) sameKeyed() error {
	rows := d.ref.keyed.clone()
	for _, q := range d.ref.queues {
		mq, ok := d.m.QueueByName(format.DefaultTenant, q.name)
		if !ok {
			continue
		}
		for _, g := range q.groups {
			mg, _ := d.m.GroupByName(mq.ID, g.name)
			for p, text := range g.notes {
				if d.ref.all[p] == nil {
					continue
				}
				if !d.m.HasMetadata(p, mg.ID) {
					return fmt.Errorf("the position of %q on %s has no note, want %q", g.name, pidName(p), text)
				}
				rows.rows[positionKey(p, mg.ID)] = &refRow{family: FamilyPosition, text: text}
			}
		}
	}
	// What was said with positions of deleted groups and queues goes with a sweep.
	sink := map[string]string{}
	for k, v := range d.keyed.rows {
		if k[0] != FamilyPosition || rows.rows[k] != nil {
			sink[k] = v
		} else if len(d.m.tasks) == 0 {
			return fmt.Errorf("a note is left and nobody sweeps: %q", k)
		}
	}
	return rows.same(d.m, sink)
}
