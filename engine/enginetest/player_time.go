package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// prober is a tenant of the player's own: what it pushes tells the engine's time and disturbs nobody.
var prober = engine.Caller{Tenant: format.Tenant{0: 0xfe, 15: 1}}

// brief lets retention take the probes at once, so that they keep no log segment.
func (p *player) brief() error {
	ctx, cancel := p.call()
	defer cancel()
	_, err := p.e.Catalog().Configure(ctx, prober, engine.ConfigureRequest{Queue: "probe", Patch: optionPatch("maxWaitTimeSeconds", 1)})
	if err != nil {
		return fmt.Errorf("configure of the probe's queue: %w", err)
	}
	return nil
}

// sync brings the model to the engine's now: both clocks, and the log starts that retention moved.
func (p *player) sync() error {
	t, w := p.stamp.read(p.target.Clock)
	if int64(w) != p.target.Clock.Now() {
		if err := p.probe(); err != nil { // W is on its way to a wall that jumped
			return err
		}
		return p.syncStarts()
	}
	p.s.advance(t, w)
	return p.syncStarts()
}

// probe stores a message and reads when the engine says that was. The answer may be nothing but the
// wall clock while that has not jumped, and no less and no more than the slew allows after it has.
func (p *player) probe() error {
	before := p.stamp
	t, w := p.stamp.read(p.target.Clock)
	ctx, cancel := p.call()
	defer cancel()
	op := &engine.Append{Queue: "probe", Partition: "probe", Messages: []engine.Message{{Payload: []byte("0")}}}
	res, err := p.e.Do(ctx, prober, engine.Batch{Ops: []engine.Op{op}})
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	at := res[0].Messages[0].Offset
	pos := engine.Position{Queue: "probe", Partition: "probe", Offset: at, MaxBytes: 1}
	read, err := p.e.Read(ctx, prober, engine.ReadRequest{At: []engine.Position{pos}})
	if err != nil || len(read.Parts[0].Records) == 0 {
		return fmt.Errorf("probe: the message just stored at %d can not be read: %v", at, err)
	}
	got := read.Parts[0].Records[0].CreatedAt
	if got != w {
		wall, gone := p.target.Clock.Now(), p.stamp.mono-before.mono
		low := before.w + gone - gone/slewPart - 2
		high := max(before.w+gone+gone/slewPart+2, wall)
		if int64(got) < low || int64(got) > high || int64(w) == wall && before.w+gone == wall {
			return fmt.Errorf("the engine's time is %d; by the wall clock %d and its speed it is between %d and %d", got, wall, low, high)
		}
		p.stamp.w = int64(got)
	}
	p.s.advance(t, got)
	return nil
}

// syncStarts adopts the log starts of partitions that retention may trim: whole pushes, never before
// their time, never backwards (S-ret-2 to 7).
func (p *player) syncStarts() error {
	for _, q := range p.s.queues {
		if !q.trims {
			continue
		}
		for _, part := range q.parts {
			if err := p.syncStart(part); err != nil {
				return fmt.Errorf("log start of %s/%s: %w", q.name, part.name, err)
			}
		}
	}
	return nil
}

func (p *player) syncStart(part *part) error {
	ctx, cancel := p.call()
	defer cancel()
	res, err := p.e.Offsets(ctx, p.caller, []engine.OffsetQuery{{Queue: part.q.name, Partition: part.name, Kind: engine.Earliest}})
	if err != nil {
		return err
	}
	got := res[0]
	may := p.s.removable(part)
	switch {
	case got.Err != nil:
		return got.Err
	case got.End != part.end():
		return fmt.Errorf("the end is %d, want %d", got.End, part.end())
	case got.Start < part.start:
		return fmt.Errorf("it fell from %d to %d", part.start, got.Start)
	case got.Start > may:
		return fmt.Errorf("it is %d, but only what is below %d may be removed by now", got.Start, may)
	case got.Start > part.start && got.Start < part.end() && part.msgs[got.Start].frame == part.msgs[got.Start-1].frame:
		return fmt.Errorf("it is %d, in the middle of a push", got.Start)
	}
	if got.Start > part.start {
		p.cov.count("retention removed")
		p.s.trim(part, got.Start)
		p.s.refresh(part.q, false)
	}
	return nil
}

// settle lets the engine catch up with a clock that moved.
func (p *player) settle() error {
	if err := p.probe(); err != nil {
		return err
	}
	if p.target.Settle != nil {
		p.target.Settle(p.e)
	}
	if err := p.adoptFired(); err != nil {
		return err
	}
	return p.syncStarts()
}

func (p *player) advance(op Op) (string, error) {
	p.target.Clock.Advance(op.For)
	return "", p.settle()
}

// edge moves time to a moment at which something ends, or a microsecond before it: that is where
// verdicts change, and where a rule that is off by one shows.
func (p *player) edge(op Op) (string, error) {
	edges := p.s.edges()
	if len(edges) == 0 {
		return skip, nil
	}
	d := edges[op.N%len(edges)]
	if op.has("b") && d > 1 {
		d--
	}
	p.target.Clock.Advance(time.Duration(d) * time.Microsecond)
	return fmt.Sprintf("%d us", d), p.settle()
}

// edges lists how far ahead, in microseconds, something ends: leases, back-offs, remembered acks,
// delays and windows, dedup windows, retention. W is taken to run like T.
func (s *state) edges() []int64 {
	var out []int64
	at := func(d int64) {
		if d > 0 {
			out = append(out, d)
		}
	}
	for _, q := range s.queues {
		o := &q.opts
		for _, p := range q.parts {
			if s.visible(p) < p.end() && p.revealed < p.end() {
				at(int64(p.revealDue() - s.w))
			}
			for i := max(0, len(p.msgs)-8); i < len(p.msgs); i++ {
				for _, n := range []int64{o.DedupWindowSeconds, o.DelayedProcessing, o.RetentionSeconds,
					o.CompletedRetentionSeconds, o.MaxWaitTimeSeconds} {
					if n > 0 {
						at(int64(p.msgs[i].rec.CreatedAt + seconds(n) - s.w))
					}
				}
			}
			for _, g := range q.groups {
				c := g.cursor(p)
				at(int64(c.backoff - s.t))
				if c.lease != nil {
					at(int64(c.lease.expiry - s.t))
				}
				for _, m := range c.memos {
					at(int64(m.until - s.t))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (p *player) jump(op Op) (string, error) {
	p.target.Clock.JumpWall(op.For)
	return "", p.settle()
}

func (p *player) reopen(op Op) (string, error) {
	if p.target.Reopen == nil {
		return skip, nil
	}
	if err := p.probe(); err != nil { // so that no time since the last entry is lost
		return "", err
	}
	if err := p.restart(op.has("c")); err != nil {
		return "", err
	}
	return "", p.consistent()
}

// restart opens the engine again. W then starts at the wall clock if that is later.
func (p *player) restart(crash bool) error {
	if crash {
		p.cov.Crashes++
	} else {
		p.cov.Reopens++
	}
	p.e = p.target.Reopen(crash)
	if p.e == nil {
		return fmt.Errorf("the engine did not open again")
	}
	p.stamp.restart(p.target.Clock)
	if err := p.probe(); err != nil {
		return err
	}
	if p.target.Settle != nil {
		p.target.Settle(p.e)
	}
	return nil
}

// consistent holds everything the engine shows against the model.
func (p *player) consistent() error {
	if err := p.adoptFired(); err != nil {
		return err
	}
	if err := p.syncStarts(); err != nil {
		return err
	}
	return p.audit()
}

// visible operations change what an audit sees if they change anything: of them it can be told after
// a crash whether they were carried out. Others are followed by the crash, not hit by it.
var visible = []string{opPush, opAck, opRelease, opRedrive, opConfigure, opDelQueue, opPurge, opTxn, opLock, opTimer}

// arm makes the call to come die in the middle, when a crash operation asked for it.
func (p *player) arm() {
	if p.armed > 0 {
		p.target.Arm(p.armed)
		p.cov.Armed++
		p.armed, p.hit = 0, true
	}
}

// survived ends an armed operation that was answered: its answer has to outlive the crash.
func (p *player) survived() error {
	p.armed, p.hit = 0, false
	if err := p.restart(true); err != nil {
		return err
	}
	return p.consistent()
}

// settleCrash finds out whether a call that died was carried out: what the engine shows after the
// restart has to be the state before it or the state after it, whole.
func (p *player) settleCrash(after *state) error {
	p.hit, p.died = false, true
	p.cov.CrashedUnknown++
	after.awaitIDs(p.s.seq)
	if err := p.restart(true); err != nil {
		return err
	}
	before, ids, told := p.s, maps.Clone(p.ids), p.told
	asBefore := p.consistent()
	if asBefore == nil {
		return nil
	}
	p.s, p.ids, p.told = after, ids, told // what was learned of a state that is not this one is nothing
	p.s.advance(before.t, before.w)
	if asAfter := p.consistent(); asAfter != nil {
		return fmt.Errorf("after a crash in the middle of a call: not as before it (%w), nor as after it (%w)", asBefore, asAfter)
	}
	p.cov.Applied++
	return nil
}

// awaitIDs marks what was stored after a moment as having ids that the engine has not told yet.
func (s *state) awaitIDs(since uint64) {
	for _, q := range s.queues {
		for _, p := range q.parts {
			for i := range p.msgs {
				p.msgs[i].pending = p.msgs[i].pending || p.msgs[i].seq > since
			}
		}
	}
}
