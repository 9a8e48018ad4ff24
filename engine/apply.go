package engine

import (
	"bytes"
	"errors"
	"fmt"

	"queen/engine/format"
	"queen/engine/logstore/rows"
	"queen/engine/machine"
)

// Apply implements Applier: it applies one entry, indexes what it stored, completes the callers whose
// commands it held, and wakes parked pops and watchers. It runs in one goroutine.
func (n *Node) Apply(c Committed) (Applied, error) {
	e, err := format.ParseEntryHead(c.Data)
	if err != nil {
		return Applied{}, fmt.Errorf("engine: entry %d: %w", c.Index, err)
	}
	fl, foreign := n.flights.take(e.Header), false
	if fl == nil {
		fl = newFlight(e.Header, nil)
		foreign = n.cluster != nil && n.stamp != nil
	}
	fl.index = c.Index
	if n.cluster != nil {
		n.cluster.attach(&e, fl)
	}
	switched := false
	n.state.Lock()
	before := n.state.m.Rows()
	n.keyed.expect(n.state.m, fl)
	err = errors.Join(n.state.m.Apply(c.Index, &e, &fl.results), n.keyed.failed)
	if err == nil {
		n.index(&c, e.Header.W, &fl.results) // before the lock goes: who sees an offset finds its row
		gen := n.state.m.AdminGeneration()
		switched = n.adminGen.Swap(gen) != gen
	}
	n.state.Unlock()
	if err != nil {
		return Applied{}, err
	}
	if foreign && fl.results.Refused == format.CodeOK { // else its times count for nothing
		n.stamp.follow(e.Header)
	}
	outcome := Applied{Canonical: format.AppendOutcome(nil, &fl.results), FramesBefore: before}
	if c.HasOutcome && !bytes.Equal(outcome.Canonical, c.Outcome) {
		return Applied{}, fmt.Errorf("engine: entry %d: the outcome recomputed from the log differs from the one on disk", c.Index)
	}
	n.counters.entries.Add(1)
	n.counters.entryBytes.Add(uint64(e.Len))
	if fl.at != 0 {
		took := n.cfg.Clock.Mono() - fl.at
		n.counters.commit.Observe(took)
		n.counters.lastCommit.Store(took)
		n.counters.lastCommitAt.Store(int64(e.Header.W))
	}
	n.house.applied(&c, &e, &outcome) // first: who waited for a Mark finds it noted
	n.keyed.changes.publish()
	n.keyed.snapshots.drop(n.cfg.Clock.Mono(), n.keyed.written.Load())
	if len(fl.subs) > 0 && (n.cluster == nil || uint64(fl.header.Epoch) == n.cluster.leads.Load()) {
		n.flights.land(fl.header.Fuse)
		n.confirm(c.Term, fl)
	}
	if n.cluster != nil {
		n.cluster.applied()
	}
	touched := n.state.m.Touched()
	n.mark(touched) // first: who is told of a change finds it marked
	n.complete(fl)
	n.wake(touched)
	if switched && n.ready.Load() {
		n.ephemeral.refresh()
		n.redrives.poke()
	}
	return outcome, nil
}

// index adds the rows of the frames that the entry stored. All of them lie in one segment.
func (n *Node) index(c *Committed, w format.Wall, res *format.Results) {
	if len(res.Appends)+len(res.Controls) == 0 {
		return
	}
	batch := n.house.rowBatch[:0]
	stored := storedBytes{segment: c.Pos.Segment, w: w}
	for i := range res.Items {
		it := &res.Items[i]
		if it.Kind == format.KindEndTxn && it.Code == format.CodeOK {
			batch = n.indexControls(batch, c, w, it, res)
			continue
		}
		if it.Code != format.CodeOK || !it.Kind.StoresFrame() || res.Appends[it.At].Kept == 0 {
			continue
		}
		a := &res.Appends[it.At]
		row := rows.Row{
			Partition: a.Partition, Base: a.Base, Number: a.Row, Prev: a.PrevRow, W: w,
			Index: c.Index, First: it.First, Segment: c.Pos.Segment, Pos: c.Pos.Pos,
			Off: a.Pos, Len: a.Len, Count: a.Count, Kept: a.Kept, Flags: rowFlags(it.Kind, a.Flags),
		}
		if a.Kept < a.Count {
			row.Flags |= rows.Partial
			row.Refused = make([]byte, (a.Count+7)/8)
			for i := range a.Dups {
				row.Refused[a.Dups[i].At/8] |= 1 << (a.Dups[i].At % 8)
			}
		}
		batch = append(batch, row)
		if a.Queue != stored.queue {
			n.files.noteStored(&stored)
			stored.queue, stored.bytes = a.Queue, 0
		}
		stored.bytes += uint64(a.Len)
	}
	n.files.noteStored(&stored)
	n.rows.Add(batch)
	n.house.rowBatch = batch
}

// indexControls adds the rows of the control records of one EndTxn: all lead to its one frame.
func (n *Node) indexControls(batch []rows.Row, c *Committed, w format.Wall, it *format.Result, res *format.Results) []rows.Row {
	end := &res.Ends[it.At]
	for _, k := range res.ControlsOf(end) {
		batch = append(batch, rows.Row{
			Partition: k.Partition, Base: k.Offset, Number: k.Row, Prev: k.PrevRow, W: w, Index: c.Index, First: it.First,
			Segment: c.Pos.Segment, Pos: c.Pos.Pos, Off: end.Pos, Len: end.Len, Count: 1, Kept: 1, Flags: rowFlags(it.Kind, 0),
		})
		n.files.noteStored(&storedBytes{segment: c.Pos.Segment, queue: k.Queue, bytes: uint64(end.Len), w: w})
	}
	return batch
}

// rowFlags are what a row says of a frame of that nature that a command of this kind brought, before it is known which
// messages were refused.
func rowFlags(k format.Kind, nature format.RowFlags) rows.Flags {
	switch k {
	case format.KindFire:
		nature |= format.RowExplicitID
	case format.KindEndTxn:
		nature = format.RowKafka | format.RowControl
	}
	return rows.Flags(nature)
}

// complete hands the verdicts to the callers, in order of submission.
func (n *Node) complete(fl *flight) {
	var refused *Error
	if fl.results.Refused != format.CodeOK {
		refused = errOfCode(fl.results.Refused)
	}
	for _, s := range fl.subs {
		s.finish(refused)
	}
	fl.release()
}

// wake lets parked pops fly that may find work now. Partitions are looked at one by one only where somebody waits for one of them: an entry touches hundreds.
func (n *Node) wake(touched []machine.Touched) {
	if len(touched) == 0 {
		return
	}
	parked, pinned := n.park.counts()
	if parked == 0 {
		return
	}
	var last format.QueueID
	for i := range touched {
		t := &touched[i]
		if t.Partition != 0 && pinned > 0 {
			n.wakePartition(t)
		}
		if t.Queue != last {
			last = t.Queue
			n.wakeQueue(t.Queue)
		}
	}
}

func (n *Node) wakePartition(t *machine.Touched) {
	owner, ok := n.queueByID(t.Queue)
	if !ok {
		return
	}
	part, ok := n.partByID(owner.tenant, t.Partition)
	if !ok {
		return
	}
	q := queueName{part.tenant, part.queueName}
	n.house.lanes = n.park.pinnedWaiting(q, part.name, n.groupNames(t.Queue), n.house.lanes[:0])
	n.launchReady(n.house.lanes)
}

func (n *Node) wakeQueue(id format.QueueID) {
	q, ok := n.queueByID(id)
	if !ok {
		return
	}
	n.house.lanes = n.park.waitingLanes(q, n.house.lanes[:0])
	n.launchReady(n.house.lanes)
}

// launchReady lets one waiter fly per ready partition, beyond those under way already.
func (n *Node) launchReady(lanes []laneState) {
	for i := range lanes {
		l := &lanes[i]
		n.state.RLock()
		ready := n.readyIn(&l.key)
		n.state.RUnlock()
		if free := ready - l.flying; free > 0 {
			for _, c := range n.park.take(l.key, min(free, l.waiters)) {
				c.fly()
			}
		}
	}
}
