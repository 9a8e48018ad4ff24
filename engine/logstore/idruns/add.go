package idruns

import (
	"errors"
	"fmt"
	"slices"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
)

// Mark is the end of a chunk.
type Mark struct {
	Number uint64
	// W is the stamp of the Mark's entry, Horizon that less the longest window of the raft group: rows
	// older than it make no duplicate any more. Both come from the state, so they are the same on every
	// replica.
	W, Horizon format.Wall
}

// ChunkGroup is how many chunks make a run: the first three of each group only wait. Their ids are in the state still
// (it holds eight chunks), and after a restart they come from the log again. Written at once, four chunks cost one
// merge less than each for itself. Four and not eight leave five chunks' time to write a run before a push needs it.
const ChunkGroup = 4

// Add takes the ids of the chunk that the mark closed. At a mark divisible by ChunkGroup it writes the run of the
// chunks up to it, and then merges and drops runs as the rule demands at this mark; what Step has not done of that
// yet is done here. When it returns nil then, all of it is durable and ClearTo is the mark. Chunks come in order without
// gap; one that is held already is passed over. After an error nothing has changed, and Add may be called again. nil
// rows are none.
func (s *Set) Add(m Mark, rows Rows) error {
	l := s.acquire()
	defer l.release()
	if m.Number < s.Next() {
		return nil
	}
	if m.Number != s.Next() {
		return fmt.Errorf("%w: %d where %d is due", ErrOrder, m.Number, s.Next())
	}
	if rows == nil {
		rows = Slice(nil)
	}
	chunks := append(slices.Clip(s.pend), rows)
	if m.Number%ChunkGroup != 0 {
		s.pend = chunks
		return nil
	}
	runs := slices.Clone(l.runs)
	var group *run
	if chunks.rows() > 0 {
		var err error
		if group, err = s.write(l.clearTo+1, m.Number, chunks); err != nil {
			return err
		}
		runs = append(runs, group)
	}
	s.last = m
	runs, made, err := s.settle(runs, m)
	if err != nil {
		for _, r := range made {
			s.ready[r.name] = r // done, and good for the next try
		}
		if group != nil {
			group.release()
		}
		return err
	}
	s.pend = nil
	s.swap(runs, m.Number)
	for _, r := range append(made, group) {
		if r != nil && !slices.Contains(runs, r) {
			r.release() // merged on
		}
	}
	s.tidy()
	return nil
}

// settle drops what is too old and merges what is due.
func (s *Set) settle(runs []*run, m Mark) (after, made []*run, err error) {
	runs = drop(runs, m.Horizon)
	for {
		i, j := pick(runs, m.W-m.Horizon, func(a aligned) bool { return a.due() <= m.Number })
		if i == j {
			return runs, made, nil
		}
		r, err := s.merged(runs[i:j])
		if k := damagedInput(runs[i:j], err); k >= 0 {
			runs[i+k] = condemned(runs[i+k], err)
			continue
		}
		if err != nil {
			return nil, made, err
		}
		made = append(made, r)
		runs = slices.Replace(runs, i, j, r)
	}
}

// damagedInput tells which input an error is about; -1 when none.
func damagedInput(inputs []*run, err error) int {
	var d *DamageError
	if !errors.As(err, &d) {
		return -1
	}
	return slices.IndexFunc(inputs, func(r *run) bool { return r.first == d.First && r.last == d.Last })
}

// condemned is a run in place of r that says it is damaged. Chunks go on being added beside it.
func condemned(r *run, err error) *run {
	return &run{name: r.name, first: r.first, last: r.last, size: r.size, sum: r.sum, err: err}
}

// pacePieces is how many pieces of a run are written between two calls of Options.Pace.
const pacePieces = 64

// write makes the run of a group of chunks.
func (s *Set) write(first, last uint64, chunks pending) (*run, error) {
	var bounds format.IDBounds
	stray := format.PartitionID(0)
	var order sorter // not kept: it is as large as the chunks
	deal := order.begin(chunks.rows(), 0, ^uint64(0))
	chunks.each(func(_ uint32, r *format.IDRow) {
		if r.Partition.RaftGroup() != s.opts.Group {
			stray = r.Partition
		}
		bounds.Add(r)
		deal.count(r.Spread())
	})
	if stray != 0 {
		return nil, fmt.Errorf("idruns: partition %d is none of raft group %d", stray, s.opts.Group)
	}
	deal.counted()
	chunks.each(func(at uint32, r *format.IDRow) { deal.place(r.Spread(), at) })
	refs := deal.finish(func(a, b uint32) bool {
		var x, y format.IDRow
		chunks.row(a, &x)
		chunks.row(b, &y)
		return x.Less(&y)
	})
	w, err := s.create(first, last, bounds.Layout(), uint64(len(refs)))
	if err != nil {
		return nil, err
	}
	var rows [64]format.IDRow
	for piece := 1; len(refs) > 0; piece++ {
		if piece%pacePieces == 0 && s.opts.Pace != nil {
			s.opts.Pace()
		}
		n := min(len(rows), len(refs))
		w.touched += chunks.gather(rows[:], refs[:n])
		for i := range n {
			if err := w.next(refs[i].spread, &rows[i]); err != nil {
				return nil, w.abort(err)
			}
		}
		refs = refs[n:]
	}
	return w.finish()
}

// idWriter writes a run of rows in order and makes its filter on the way. Of several rows of one id it writes the
// last, which is the newest: look-ups want no other.
type idWriter struct {
	s           *Set
	w           *runfile.Writer
	first, last uint64
	filter      *sieveMaker

	held   format.IDRow // the newest row, not written yet
	spread uint64       // its
	any    bool

	touched uint64 // so that reads ahead are not optimised away
}

func (s *Set) create(first, last uint64, layout format.IDLayout, rows uint64) (*idWriter, error) {
	head := format.RunHead{Kind: format.RunIDs, Group: s.opts.Group, Number: uint32(last), First: first, Last: last, IDs: layout}
	w, err := runfile.Create(s.opts.FS, s.opts.Dir, runName(s.opts.Group, first, last), head)
	if err != nil {
		return nil, fmt.Errorf("idruns: %w", err)
	}
	iw := &idWriter{s: s, w: w, first: first, last: last}
	if s.opts.FilterBytes > 0 {
		iw.filter = newSieveMaker(rows)
	}
	return iw, nil
}

// next takes the next row.
func (w *idWriter) next(spread uint64, r *format.IDRow) error {
	if w.any && (spread != w.spread || r.Partition != w.held.Partition || r.Hash != w.held.Hash) {
		if err := w.put(); err != nil {
			return err
		}
	}
	w.any, w.spread, w.held = true, spread, *r
	return nil
}

func (w *idWriter) put() error {
	if w.filter != nil {
		w.filter.add(w.spread)
	}
	return w.w.AddID(w.spread, &w.held)
}

func (w *idWriter) finish() (*run, error) {
	if w.any {
		if err := w.put(); err != nil {
			return nil, w.abort(err)
		}
	}
	info, err := w.w.Finish()
	if err != nil {
		return nil, fmt.Errorf("idruns: %w", err)
	}
	r := w.s.openRun(w.first, w.last)
	if r.file == nil {
		return nil, r.damage(r.err)
	}
	r.sum = info.Sum
	if w.filter != nil {
		f := w.filter.finish()
		r.filter.Store(f)
		r.plain = f == nil
	}
	return r, nil
}

func (w *idWriter) abort(err error) error {
	w.w.Abort()
	return fmt.Errorf("idruns: write chunks %d to %d: %w", w.first, w.last, err)
}
