package engine

import (
	"context"

	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
)

const (
	// fetchTogether is how many positions of a call are read together.
	fetchTogether = 1024
	// fetchShare is what one position may have of the call's bytes in a round, however many others there are.
	fetchShare = 64 << 10
	// fetchFrames is how many frames a round lists, or fetchFramesLeast of each position if that is more.
	fetchFrames      = 4096
	fetchFramesLeast = 16
	// fetchStep is how many offsets a position's first look-up of rows covers, fetchStepMost the later ones.
	fetchStep     = 64
	fetchStepMost = 1024
	// emptiedLook bounds how many batches of which only the offsets are left one position passes over.
	emptiedLook = 4096
)

// fetchSpan is one position of a Fetch that has offsets to read.
type fetchSpan struct {
	span
	out       *Fetched
	committed bool
	room      int           // bytes of the position
	next      format.Offset // where the look-up of rows goes on
	// bare is a batch without records that nothing came behind yet; looks counts them.
	bare  *rows.Row
	looks int
	first format.Offset // end of the first frame that is returned
	end   format.Offset // of what is returned
	// aborts says that some of that is of transactions.
	aborts bool
	// over says that nothing more of it is listed, broken that a frame could not be read; err is why.
	over, broken bool
	err          error
}

// listedFrame is a frame that is to be returned: its row, and its bytes once they are read.
type listedFrame struct {
	row   rows.Row
	of    int // span
	size  int // as it is counted
	raw   []byte
	index format.Index
}

// add takes a position in.
func (f *fetching) add(at *FetchAt, s span, out *Fetched) {
	room := at.MaxBytes
	if room <= 0 {
		room = defaultReadBytes
	}
	f.spans = append(f.spans, fetchSpan{span: s, out: out, committed: at.Committed, room: room, next: s.from})
}

// rounds lists and reads frames of all positions until the bytes are used up or nothing more is there. In each round the
// positions share what is left of the bytes. A client that is far behind on many partitions gets some of each: what
// it asks for next lies behind that in the log, too, and the answers to it take the log in order, once. Were the first
// partitions given all that they have, each answer would be strewn over as much log as all partitions together.
func (f *fetching) rounds(ctx context.Context) error {
	for f.list() {
		f.read()
		if ctx.Err() != nil {
			return errContext(ctx, OutcomeNone)
		}
	}
	// Batches of which compaction left only the offsets are left out, but for the last one when nothing comes behind it: it
	// tells the client how far it is.
	for i := range f.spans {
		if p := &f.spans[i]; p.bare != nil && p.err == nil {
			f.put(i, p.bare)
		}
	}
	f.read()
	return nil
}

// list lists a round; false when there is nothing that fits.
func (f *fetching) list() bool {
	active := 0
	for i := range f.spans {
		if !f.spans[i].over {
			active++
		}
	}
	if active == 0 {
		return false
	}
	share, most := max(f.left/active, fetchShare), max(fetchFrames/active, fetchFramesLeast)
	for i := range f.spans {
		p := &f.spans[i]
		if p.over || f.count > 0 && f.left <= 0 {
			continue
		}
		if err := f.listSpan(i, share, most); err != nil {
			p.over, p.err = true, err
		}
	}
	return len(f.listed) > 0
}

// listSpan lists frames of a position, up to its share of the round, which one frame may exceed.
func (f *fetching) listSpan(i, share, most int) error {
	p := &f.spans[i]
	taken := 0
	for step := format.Offset(fetchStep); p.next < p.to; step = min(2*step, fetchStepMost) {
		found, err := f.n.rows.AppendRange(f.reader.found[:0], p.pid, p.next, min(p.to, p.next+step), p.newest)
		if err != nil {
			return err
		}
		f.reader.found = found
		for k := range found {
			row := &found[k]
			if p.gone(row.W) {
				p.next = max(p.next, row.End())
				continue
			}
			if isEmptied(row) {
				p.next = max(p.next, row.End())
				if p.bare == nil {
					p.bare = new(rows.Row)
				}
				*p.bare = *row
				if p.looks++; p.looks == emptiedLook {
					p.over = true
					return nil
				}
				continue
			}
			if size := int(row.Len); f.full(p, size) || taken > 0 && (size > share || taken == most) {
				return nil
			}
			p.bare = nil
			f.put(i, row)
			p.next = max(p.next, row.End())
			taken, share = taken+1, share-int(row.Len)
		}
		if len(found) == 0 {
			if p.next, err = f.n.nextRow(p.pid, p.next+step, p.to, p.newest); err != nil {
				return err
			}
		}
	}
	p.over = true
	return nil
}

// full says that a frame of that size does not fit any more; the first of a call always does.
func (f *fetching) full(p *fetchSpan, size int) bool {
	return f.count > 0 && (size > f.left || size > p.room)
}

// put lists a frame and counts it.
func (f *fetching) put(i int, row *rows.Row) {
	size := int(row.Len)
	f.listed = append(f.listed, listedFrame{row: *row, of: i, size: size})
	f.count, f.left, f.spans[i].room = f.count+1, f.left-size, f.spans[i].room-size
}

// read reads what is listed and puts it into the answers. A frame that can not be read ends what is returned of its
// position: a client that was given what comes behind it would take it for all there is. What gives nothing does not count.
func (f *fetching) read() {
	f.readListed()
	for i := range f.listed {
		l := &f.listed[i]
		p := &f.spans[l.of]
		gave := false
		if !p.broken {
			var err error
			if gave, err = f.frame(p, l); err != nil {
				p.over, p.broken, p.err = true, true, err
			}
		}
		if !gave {
			f.count, f.left, p.room = f.count-1, f.left+l.size, p.room+l.size
		}
	}
	clear(f.listed)
	f.listed = f.listed[:0]
}

// readListed reads the frames that are listed together. One that could not be read, or that moved meanwhile, has no
// bytes then and is read alone.
func (f *fetching) readListed() {
	if len(f.listed) == 0 {
		return
	}
	for i := range f.listed {
		r := &f.listed[i].row
		f.wants = append(f.wants, logstore.Want{Pos: logstore.EntryPos{Segment: r.Segment, Pos: r.Pos}, Off: r.Off, N: r.Len,
			Data: f.reader.memory(int(r.Len))})
	}
	invariants.Failpoint(failRowFound)
	f.n.seq.Log().ReadMany(f.wants)
	for i := range f.wants {
		if w := &f.wants[i]; w.Err == nil {
			f.listed[i].raw, f.listed[i].index = w.Data, w.Index
		}
	}
	clear(f.wants)
	f.wants = f.wants[:0]
}

// frame adds one stored frame to its position's answer; false when it holds nothing that is asked for.
func (f *fetching) frame(p *fetchSpan, l *listedFrame) (bool, error) {
	row, raw, index := &l.row, l.raw, l.index
	if raw == nil {
		var err error
		if raw, index, err = f.reader.frame(row); err != nil {
			return false, err
		}
	}
	out := Frame{Base: row.Base, Epoch: f.epochs.Of(index), CreatedAt: row.W}
	if row.Flags&rows.Kafka != 0 {
		_, body, err := f.n.openStored(raw, row.Partition, &f.reader.scratch)
		if err != nil || body == nil {
			return false, err
		}
		batch.Patch(body, int64(row.Base), int32(out.Epoch))
		out.Batch = body
	} else {
		err := f.reader.walkFrame(raw, index, row, p.from, p.to, func(rec *Record) bool {
			out.Messages = append(out.Messages, *rec)
			return true
		})
		if err != nil {
			return false, err
		}
		if len(out.Messages) == 0 {
			return false, nil // all of it lies before the offset
		}
		out.Base = out.Messages[0].Offset
	}
	if p.end = row.End(); len(p.out.Frames) == 0 {
		p.first = p.end
	}
	p.aborts = p.aborts || row.Flags&(rows.Transactional|rows.Control) != 0
	p.out.Frames = append(p.out.Frames, out)
	return true, nil
}
