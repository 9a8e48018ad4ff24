package rows

import (
	"fmt"
	"slices"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
)

// Close writes the index of a segment: every row that memory holds up to the segment's last one, of
// all raft groups. When it returns nil the file is durable, look-ups use it, and memory has let go of
// the rows. Every entry of the segment was applied; segments close in the order of their numbers. Rows that
// were recovered though files hold their segments leave memory only. After an error nothing has changed, and
// Close may be called again.
func (x *Runs) Close(segment uint32) error {
	x.closing.Lock()
	defer x.closing.Unlock()
	l := x.acquire()
	defer l.release()
	if len(l.lost) == 0 {
		for _, i := range x.all() {
			i.forget(min(segment, l.last()))
		}
	}
	if l.holds(segment) {
		return nil
	}
	if format.SegmentID(segment).IsBulk() || segment <= l.last() {
		return fmt.Errorf("rows: segment %d can not be closed after %d", segment, l.last())
	}
	var parts []part
	for _, i := range x.all() {
		parts = append(parts, i.take(segment))
	}
	r, err := x.writeParts(segment, parts, l)
	if err != nil {
		return err
	}
	x.swap(func(runs []*run, lost []Gap) ([]*run, []Gap) { return append(runs, r), lost })
	// Only now: a look-up that finds a row no longer in memory finds it in the list.
	for i := range parts {
		parts[i].drop()
	}
	return nil
}

// all returns the indexes, in the order of their raft groups.
func (x *Runs) all() (all []*Index) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for g := format.RaftGroup(1); g < 64; g++ {
		if i := x.mu.indexes[g]; i != nil {
			all = append(all, i)
		}
	}
	return all
}

// forget drops the rows of segments up to one, which files hold: in memory they would be found first, and written again.
func (x *Index) forget(upto uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.mem.starts {
		if s.segment > upto {
			x.mem.drop(s.number)
			return
		}
	}
	x.mem.drop(x.mem.next)
}

// part is the rows of one raft group that go into a run. Rows never change once they are added and
// only Close takes them away, so a part is read without the index's lock.
type part struct {
	x   *Index
	mem memory // as it was
	hi  uint64 // rows below it go
}

// take snapshots what Close of the segment moves to a file.
func (x *Index) take(segment uint32) part {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p := part{x: x, mem: x.mem, hi: x.mem.after(segment)}
	p.mem.chunks = slices.Clone(x.mem.chunks)
	p.mem.refused = slices.Clone(x.mem.refused)
	p.mem.starts = slices.Clone(x.mem.starts)
	return p
}

func (p *part) drop() {
	p.x.mu.Lock()
	defer p.x.mu.Unlock()
	p.x.mem.drop(p.hi)
}

func (x *Runs) writeParts(segment uint32, parts []part, l *list) (*run, error) {
	// A partition's offsets rise with its rows' numbers, so that its rows are in order as they come.
	var keys []runfile.Order // Next is the part, At the number in it
	var c census
	at := format.Wall(0)
	c.addSegment(format.SegmentID(segment))
	for i := range parts {
		p := &parts[i]
		if p.mem.floor == p.hi {
			continue
		}
		first := p.mem.at(p.mem.floor)
		at = first.w
		c.addNumbers(first.partition.RaftGroup(), p.mem.floor, p.hi)
		for _, s := range p.mem.starts {
			if s.number < p.hi {
				c.addSegment(format.SegmentID(s.segment))
			}
		}
		keys = slices.Grow(keys, int(p.hi-p.mem.floor))
		for n := p.mem.floor; n < p.hi; n++ {
			pid := p.mem.at(n).partition
			keys = append(keys, runfile.Order{Partition: uint64(pid), Next: uint64(i), At: uint32(n - p.mem.floor)})
		}
	}
	keys = runfile.SortByPartition(keys)
	w, err := x.create(segment, segment, &c, at)
	if err != nil {
		return nil, err
	}
	var rows []format.Row
	for i := range keys {
		if i%paceRows == paceRows-1 && x.opts.Pace != nil {
			if err := x.opts.Pace(); err != nil {
				return nil, w.abort(err)
			}
		}
		p := &parts[keys[i].Next]
		row := p.mem.row(p.mem.floor + uint64(keys[i].At))
		if rows, err = row.appendFormat(rows[:0]); err != nil {
			return nil, w.abort(err)
		}
		older := uint64(0)
		if row.Partition != w.pid && row.Prev != 0 {
			older = l.covering(row.Partition.RaftGroup(), row.Prev)
		}
		for k := range rows {
			if err := w.add(&rows[k], older); err != nil {
				return nil, w.abort(err)
			}
		}
	}
	return w.finish()
}
