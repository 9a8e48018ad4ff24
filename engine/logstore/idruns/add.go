package idruns

import (
	"cmp"
	"encoding/binary"
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

// Add stores the ids of the chunk that the mark closed, rows in any order, and then merges and drops
// runs as the rule demands at this mark; what Step has not done of that yet is done here. When it
// returns nil all of it is durable and ClearTo is the mark. Chunks come in order without gap; one that
// is held already is passed over. After an error nothing has changed, and Add may be called again. rows
// belongs to the caller again when Add returns.
func (s *Set) Add(m Mark, rows []format.IDRow) error {
	l := s.acquire()
	defer l.release()
	if m.Number <= l.clearTo {
		return nil
	}
	if m.Number != l.clearTo+1 {
		return fmt.Errorf("%w: %d after %d", ErrOrder, m.Number, l.clearTo)
	}
	runs := slices.Clone(l.runs)
	var chunk *run
	if len(rows) > 0 {
		var err error
		if chunk, err = s.write(m.Number, rows); err != nil {
			return err
		}
		runs = append(runs, chunk)
	}
	s.last = m
	runs, made, err := s.settle(runs, m)
	if err != nil {
		for _, r := range made {
			s.ready[r.name] = r // done, and good for the next try
		}
		if chunk != nil {
			chunk.release()
		}
		return err
	}
	s.swap(runs, m.Number)
	for _, r := range append(made, chunk) {
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

// write makes the run of one chunk.
func (s *Set) write(mark uint64, rows []format.IDRow) (*run, error) {
	w, err := s.create(mark, mark)
	if err != nil {
		return nil, err
	}
	for _, k := range sorted(rows) {
		if err := w.add(&rows[k.At]); err != nil {
			return nil, w.abort(err)
		}
	}
	return w.finish()
}

// sorted returns the order of the rows by (partition, hash, offset).
func sorted(rows []format.IDRow) []runfile.Order {
	keys := make([]runfile.Order, len(rows))
	for i := range rows {
		r := &rows[i]
		keys[i] = runfile.Order{Partition: uint64(r.Partition), Next: binary.BigEndian.Uint64(r.Hash[:8]), At: uint32(i)}
	}
	keys = runfile.SortByPartition(keys)
	for from := 0; from < len(keys); {
		to := from + 1
		for to < len(keys) && keys[to].Partition == keys[from].Partition {
			to++
		}
		slices.SortFunc(keys[from:to], func(a, b runfile.Order) int {
			switch {
			case a.Next != b.Next:
				return cmp.Compare(a.Next, b.Next)
			case rows[a.At].Less(&rows[b.At]):
				return -1
			case rows[b.At].Less(&rows[a.At]):
				return 1
			}
			return 0
		})
		from = to
	}
	return keys
}

// idWriter writes a run and makes its filter on the way.
type idWriter struct {
	s           *Set
	w           *runfile.Writer
	first, last uint64
	filter      *filterMaker
}

func (s *Set) create(first, last uint64) (*idWriter, error) {
	head := format.RunHead{Kind: format.RunIDs, Group: s.opts.Group, Number: uint32(last), First: first, Last: last}
	w, err := runfile.Create(s.opts.FS, s.opts.Dir, runName(s.opts.Group, first, last), head)
	if err != nil {
		return nil, fmt.Errorf("idruns: %w", err)
	}
	iw := &idWriter{s: s, w: w, first: first, last: last}
	if s.opts.FilterBytes > 0 {
		iw.filter = newFilterMaker(&s.maker, s.opts.partRows)
	}
	return iw, nil
}

func (w *idWriter) add(r *format.IDRow) error {
	if w.filter != nil {
		w.filter.add(r)
	}
	return w.w.AddID(r)
}

func (w *idWriter) finish() (*run, error) {
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
		s := w.filter.finish()
		r.filter.Store(s)
		r.plain = s == nil
	}
	return r, nil
}

func (w *idWriter) abort(err error) error {
	w.w.Abort()
	return fmt.Errorf("idruns: write chunks %d to %d: %w", w.first, w.last, err)
}
