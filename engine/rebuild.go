package engine

import (
	"errors"
	"fmt"
	"slices"

	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
	"queen/engine/machine/slab"
	"queen/sidecar"
)

// readLog makes again, from entries and outcomes at or below the checkpoint, what no file holds: the
// rows of segments that are not index-closed, the ids of the newest chunks, the hashes of chunks that
// end in such segments. These entries are not applied again.
func (r *restorer) readLog() error {
	c := r.position.Index
	w := logWalk{r: r, to: c, rowsFrom: r.firstOpen()}
	w.marks = r.f.group().Marks
	w.idsFrom = w.after(r.position.Mark - min(r.position.Mark, slab.RecentChunks))
	// What the runs lack as well, when some were lost.
	w.runsFrom = w.after(min(r.n.ids.set.ClearTo(), r.position.Mark))
	for _, f := range r.f.group().Files {
		if isIDRun(f) { // also one that is being made again: the manifest names it
			r.f.idRuns = append(r.f.idRuns, f)
		}
	}
	r.f.mu.marks = slices.Clone(w.marks)
	r.n.rows = r.f.runs.Index(r.n.seq.Group())
	if c == 0 {
		return nil
	}
	return w.run()
}

// firstOpen is the first entry that lies in a segment without index files.
func (r *restorer) firstOpen() format.Index {
	for _, s := range r.n.seq.Log().Segments() {
		for i := range s.Groups {
			if g := &s.Groups[i]; g.Group == r.n.seq.Group() && g.First() != 0 && !r.f.isClosed(s.Segment) {
				return g.First()
			}
		}
	}
	return r.position.Index + 1
}

// logWalk walks entries up to a checkpoint.
type logWalk struct {
	r        *restorer
	to       format.Index
	rowsFrom format.Index
	idsFrom  format.Index          // of the resident chunks
	runsFrom format.Index          // of the chunks that are in no run
	marks    []format.ManifestMark // ascending
	// emit, when set, takes rows instead of the index, and nothing else is made.
	emit    func(rows.Row)
	emitted uint64
	// dead says that outcomes may be missing: the segment after the one that is walked was reclaimed, which
	// happens only when nothing in this one is needed, or all that is was copied.
	dead bool

	// Rows are numbered from what outcome records say; those before the first one that says are held.
	frames  *uint64 // FramesBefore of the first entry
	started bool
	next    uint64 // number of the next row; in emit mode of the first one
	held    []rows.Row

	ids []slab.ID
	// number is that of the newest mark walked over; counting says that it is known.
	number   uint64
	counting bool

	hash   chunkHash
	append format.Append
}

// after is the first entry of the chunk that begins after a mark.
func (w *logWalk) after(mark uint64) format.Index {
	for _, m := range w.marks {
		if m.Number == mark {
			return m.Index + 1
		}
	}
	return 1
}

var errWalked = errors.New("walked")

func (w *logWalk) run() error {
	from := min(w.chunkStart(w.rowsFrom), w.idsFrom, w.runsFrom)
	if from > w.to {
		return w.finish()
	}
	w.counting = from == 1
	for _, m := range w.marks {
		if m.Index+1 == from {
			w.hash.restore(m.Chain)
			w.number, w.counting = m.Number, true
		}
	}
	if err := w.walk(from); err != nil {
		return err
	}
	return w.finish()
}

// walk shows every entry from one on up to the last.
func (w *logWalk) walk(from format.Index) error {
	n := w.r.n
	err := n.seq.Log().Replay(n.seq.Group(), from, func(v logstore.View) error {
		if v.Index > w.to {
			return errWalked
		}
		return w.entry(&v)
	})
	if errors.Is(err, errWalked) {
		return nil
	}
	return err
}

// chunkStart is the first entry of the chunk that i lies in, as far as marks are known.
func (w *logWalk) chunkStart(i format.Index) format.Index {
	start := format.Index(0)
	for _, m := range w.marks {
		if m.Index < i {
			start = m.Index
		}
	}
	if start == 0 && len(w.marks) > 0 && w.marks[0].Number > 1 {
		return i
	}
	return min(i, start+1)
}

func (w *logWalk) entry(v *logstore.View) error {
	if v.Type != format.EntryEncoded {
		return nil // raft's own, which decided nothing and has no outcome
	}
	e, err := format.ParseEntryHead(v.Head)
	if err != nil {
		return fmt.Errorf("engine: entry %d: %w", v.Index, err)
	}
	mark := w.markAt(v, &e)
	if v.Outcome == nil && w.emit != nil && (w.dead || isMark(&e)) {
		return nil
	}
	if v.Outcome == nil && mark == nil {
		return fmt.Errorf("engine: entry %d lies below a checkpoint and its outcome is not in the log", v.Index)
	}
	if w.emit != nil {
		return w.stored(v, &e)
	}
	w.hash.add(v.Index, v.Term, v.Type, &e, v.Outcome, 0, mark != nil)
	if err := w.stored(v, &e); err != nil {
		return fmt.Errorf("engine: entry %d: %w", v.Index, err)
	}
	if mark == nil {
		return nil
	}
	return w.endChunk(v, mark)
}

// markAt is the mark that an entry is, nil when it is none: one that the manifest knows, or an older one, which was
// accepted iff its number was due and the entry was not refused.
func (w *logWalk) markAt(v *logstore.View, e *format.Entry) *format.ManifestMark {
	for k := range w.marks {
		if w.marks[k].Index == v.Index {
			return &w.marks[k]
		}
	}
	var c format.Mark
	r := e.Reader()
	if !w.counting || !r.Next() || r.Kind() != format.KindMark || r.Mark(&c) != nil || c.Number != w.number+1 {
		return nil
	}
	// A leader that lost its epoch may have proposed a Mark of the same number: it was refused whole, and is an entry like others.
	if _, refused, err := format.ParseEntryOutcome(v.Outcome); v.Outcome != nil && (err != nil || refused != format.CodeOK) {
		return nil
	}
	if slices.ContainsFunc(w.marks, func(m format.ManifestMark) bool { return m.Number == c.Number }) {
		return nil // that one stands elsewhere
	}
	return &format.ManifestMark{Number: c.Number, Index: v.Index, W: e.Header.W}
}

func isMark(e *format.Entry) bool {
	r := e.Reader()
	return r.Next() && r.Kind() == format.KindMark
}

// stored takes the frames that the entry stored: their rows and their ids.
func (w *logWalk) stored(v *logstore.View, e *format.Entry) error {
	frames, refused, err := format.ParseEntryOutcome(v.Outcome)
	if err != nil || refused != format.CodeOK {
		return err
	}
	w.settle(v)
	r := e.Reader()
	for r.Next() {
		if !r.Kind().StoresFrame() {
			continue
		}
		var o format.FrameOutcome
		if !frames.Next(&o) {
			break
		}
		if o.Code != format.CodeOK || o.Kept == 0 && len(o.Controls) == 0 {
			continue
		}
		if err := r.AnyAppend(&w.append); err != nil {
			return err
		}
		if o.IsEnd {
			for _, k := range o.Controls {
				w.row(v, e, r.Kind(), r.Ordinal(), &format.FrameOutcome{Partition: k.Partition, Base: k.Offset, Count: 1, Kept: 1})
			}
			continue
		}
		w.row(v, e, r.Kind(), r.Ordinal(), &o)
		if v.Index >= min(w.idsFrom, w.runsFrom) {
			w.addIDs(v, e, r.Ordinal(), &o)
		}
	}
	return errors.Join(r.Err(), frames.Err())
}

// settle finds out which number the next row has: the first outcome record may begin before the walk,
// the one after it says exactly how many frames there were. A Mark whose outcome was lost, since a checkpoint stands for
// it, says nothing: taken for a record of no frames it kept nodes from starting.
func (w *logWalk) settle(v *logstore.View) {
	if w.started || v.Index < w.rowsFrom || v.Outcome == nil {
		return
	}
	if w.frames == nil {
		before := v.FramesBefore
		w.frames = &before
	}
	if v.FramesBefore != *w.frames {
		w.begin(v.FramesBefore)
	}
}

// begin opens the index at the rows held, when the number of frames before now is known.
func (w *logWalk) begin(frames uint64) {
	w.started = true
	w.next = frames - uint64(len(w.held)) - w.emitted + 1
	if w.emit != nil {
		return
	}
	w.r.n.rows.Skip(w.next)
	w.recover(w.held)
	w.held = nil
}

func (w *logWalk) recover(batch []rows.Row) {
	for i := range batch {
		batch[i].Number = w.next
		w.next++
	}
	w.r.n.rows.Recover(batch)
}

func (w *logWalk) row(v *logstore.View, e *format.Entry, kind format.Kind, first format.Ordinal, o *format.FrameOutcome) {
	if v.Index < w.rowsFrom {
		return
	}
	row := rows.Row{
		Partition: o.Partition, Base: o.Base, W: e.Header.W, Index: v.Index, First: first, Segment: v.Pos.Segment,
		Pos: v.Pos.Pos, Off: w.append.PayloadPos, Len: w.append.PayloadLen, Count: o.Count, Kept: o.Kept,
		Flags: rowFlags(kind, w.append.RowFlags()),
	}
	if o.Kept < o.Count {
		row.Flags |= rows.Partial
		row.Refused = slices.Clone(o.Refused)
	}
	if w.emit != nil {
		w.emitted++
		w.emit(row)
		return
	}
	w.r.f.noteStored(&storedBytes{segment: v.Pos.Segment, queue: w.r.queueOf(o.Partition), bytes: uint64(row.Len), w: row.W})
	if !w.started {
		w.held = append(w.held, row)
		return
	}
	w.recover([]rows.Row{row})
}

// addIDs takes the callers' ids of the messages that were kept.
func (w *logWalk) addIDs(v *logstore.View, e *format.Entry, first format.Ordinal, o *format.FrameOutcome) {
	a := &w.append
	if a.IDs == format.IDsNone {
		return
	}
	hashes, offset := a.Hashes, o.Base
	for i := range o.Count {
		named := a.IDs == format.IDsAll || a.Bitmap[i/8]>>(i%8)&1 == 1
		kept := len(o.Refused) == 0 || o.Refused[i/8]>>(i%8)&1 == 0
		if named && kept {
			w.ids = append(w.ids, slab.ID{PID: uint64(o.Partition), Hash: [16]byte(hashes[:16]), Offset: uint64(offset),
				Index: uint64(v.Index), Ordinal: uint32(first) + i, W: int64(e.Header.W)})
		}
		if named {
			hashes = hashes[16:]
		}
		if kept {
			offset++
		}
	}
}

// endChunk closes a chunk at its Mark: the hash has to be the one that was known when the Mark was
// applied, and the ids of it become resident.
func (w *logWalk) endChunk(v *logstore.View, mark *format.ManifestMark) error {
	ended := w.hash.ended()
	whole := ended.before != ([16]byte{}) || mark.Number == 1
	if whole && mark.Chain != ([16]byte{}) && w.hash.chain() != mark.Chain {
		return fmt.Errorf("engine: the log up to mark %d has chain hash %x, the manifest says %x", mark.Number, w.hash.chain(), mark.Chain)
	}
	if mark.Chain != ([16]byte{}) {
		w.hash.restore(mark.Chain)
	}
	w.number, w.counting = mark.Number, true
	if whole {
		w.r.f.noteChunk(v.Pos.Segment, sidecar.Chunk{Group: w.r.n.seq.Group(), Mark: mark.Number, First: ended.first,
			Last: v.Index, Bytes: uint64(ended.bytes), Hash: ended.hash})
	}
	if v.Index >= w.runsFrom {
		if err := w.r.n.ids.addChunk(*mark, w.r.n.state.m.LongestWindow(), w.ids); err != nil {
			return err
		}
	}
	if v.Index >= w.idsFrom {
		w.r.n.state.m.LoadChunk(mark.Number, w.ids)
	}
	w.ids = w.ids[:0]
	return nil
}

// finish checks that the walk came to the number of frames that the state has.
func (w *logWalk) finish() error {
	frames := w.r.n.state.m.Counters().Rows
	if !w.started {
		w.begin(frames)
	}
	if w.next != frames+1 {
		return fmt.Errorf("engine: the log leads to %d frames, the checkpoint has %d", w.next-1, frames)
	}
	w.r.n.house.chunk.restore(w.r.markOf(w.r.position.Mark).Chain)
	return nil
}

// numberHeld numbers the rows of a walk in emit mode, when an outcome record told where they stand.
func (w *logWalk) numberHeld(batch []rows.Row) {
	for i := range batch {
		if w.started {
			batch[i].Number = w.next + uint64(i)
		}
	}
}

// markOf is what the manifest knows of a mark.
func (r *restorer) markOf(number uint64) format.ManifestMark {
	for _, m := range r.f.group().Marks {
		if m.Number == number {
			return m
		}
	}
	return format.ManifestMark{}
}

// queueOf is the queue of a partition, 0 when it is gone.
func (r *restorer) queueOf(id format.PartitionID) format.QueueID {
	q, _ := r.n.state.m.QueueOf(id)
	return q
}
