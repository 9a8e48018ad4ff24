package rows

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
)

// Rebuild makes the index of a range of segments again, from rows that the caller reads off the log:
//
//	b, err := runs.Rebuild(first, last)
//	for each live segment that holds frames of the range, relocated ones last:
//		err = b.Add(rows)
//	err = b.Finish()
//
// It is used by one goroutine.
type Rebuild struct {
	x           *Runs
	first, last uint32
	census      census
	low         format.Wall
	pieces      []*rowFile
}

// Rebuild begins; first and last are a DamageError's or a Gap's. Runs inside the range are replaced by
// Finish, others are an error.
func (x *Runs) Rebuild(first, last uint32) (*Rebuild, error) {
	if first == 0 || last < first {
		return nil, fmt.Errorf("rows: rebuild of %d to %d", first, last)
	}
	l := x.acquire()
	defer l.release()
	for _, r := range l.runs {
		if _, err := inside(r.file.Name, r.first, r.last, first, last); err != nil {
			return nil, err
		}
	}
	b := &Rebuild{x: x, first: first, last: last}
	for n := uint64(first); n <= uint64(last); n++ {
		b.census.addSegment(format.SegmentID(n))
	}
	return b, nil
}

// Add takes rows, in any order: it sorts them and keeps them in a file. Number counts where it is
// known (not 0), Prev does not. Of two rows of one partition and base the one that was added later
// counts.
func (b *Rebuild) Add(rows []Row) error {
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Base, b.Base))
	})
	name := pieceName(b.first, b.last, len(b.pieces))
	w, err := runfile.Create(b.x.opts.FS, b.x.opts.Dir, name, format.RunHead{Kind: format.RunRows})
	if err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	if err := b.write(w, rows); err != nil {
		w.Abort()
		return err
	}
	if _, err := w.Finish(); err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	f, err := runfile.Open(b.x.opts.FS, b.x.opts.Dir, name, runfile.Rows, b.x.cache)
	if err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	b.pieces = append(b.pieces, f)
	return nil
}

func (b *Rebuild) write(w *runfile.Writer, rows []Row) error {
	var parts []format.Row
	for i := range rows {
		r := &rows[i]
		var err error
		if parts, err = r.appendFormat(parts[:0]); err != nil {
			return err
		}
		b.census.addSegment(format.SegmentID(r.Segment))
		if r.Number > 0 {
			b.census.addNumbers(r.Partition.RaftGroup(), r.Number, r.Number+1)
		} else {
			b.census.forgetNumbers(r.Partition.RaftGroup())
		}
		if b.low == 0 || r.W < b.low {
			b.low = r.W
		}
		for k := range parts {
			if err := w.AddRow(&parts[k]); err != nil {
				return fmt.Errorf("rows: %w", err)
			}
		}
	}
	return nil
}

// Finish merges what was added into one run. When it returns nil the run is durable and look-ups use
// it in place of what was damaged.
func (b *Rebuild) Finish() error {
	x := b.x
	x.background.Lock()
	defer x.background.Unlock()
	defer b.Abort()
	x.cancelMerge(func(r *run) bool { return r.first >= b.first && r.last <= b.last })
	r, err := b.merge()
	if err != nil {
		return err
	}
	x.swap(func(runs []*run, lost []Gap) ([]*run, []Gap) {
		in := func(first, last uint32) bool { return first >= b.first && last <= b.last }
		runs = slices.DeleteFunc(runs, func(o *run) bool { return in(o.first, o.last) })
		i, _ := slices.BinarySearchFunc(runs, r.first, func(o *run, n uint32) int { return cmp.Compare(o.first, n) })
		return slices.Insert(runs, i, r), subtract(lost, b.first, b.last)
	})
	return b.sweep()
}

// subtract takes first..last out of the gaps.
func subtract(lost []Gap, first, last uint32) (out []Gap) {
	for _, g := range lost {
		if g.First < first {
			out = append(out, Gap{g.First, min(g.Last, first-1), g.Err})
		}
		if g.Last > last {
			out = append(out, Gap{max(g.First, last+1), g.Last, g.Err})
		}
	}
	return out
}

func (b *Rebuild) merge() (*run, error) {
	w, err := b.x.create(b.first, b.last, &b.census, b.low)
	if err != nil {
		return nil, err
	}
	var sources []runfile.Source[format.Row]
	for _, f := range slices.Backward(b.pieces) { // of equal rows the first source's comes first
		sources = append(sources, b.x.source(&run{file: f, first: b.first, last: b.last}))
	}
	var last format.Row
	err = runfile.Merge(sources, lessRow, func(_ int, r *format.Row) error {
		if r.Partition == last.Partition && r.Base == last.Base {
			return nil
		}
		last.Partition, last.Base = r.Partition, r.Base
		// Which run holds the rows before is not known: it is the next lower one, or a lower one still.
		older := uint64(b.first) - 1
		if r.Base == 0 {
			older = 0
		}
		return w.add(r, older)
	})
	if err != nil {
		return nil, w.abort(err)
	}
	return w.finish()
}

// sweep removes the files that the new run stands for, damaged ones too.
func (b *Rebuild) sweep() error {
	names, err := b.x.opts.FS.List(b.x.opts.Dir)
	if err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	for _, name := range names {
		first, last, ok := parseRunName(name)
		if !ok || first < b.first || last > b.last || first == b.first && last == b.last {
			continue
		}
		if err := b.x.opts.FS.Remove(path.Join(b.x.opts.Dir, name)); err != nil {
			return fmt.Errorf("rows: %w", err)
		}
	}
	return nil
}

// Abort gives up what was added. After Finish it does nothing.
func (b *Rebuild) Abort() {
	for _, f := range b.pieces {
		_ = b.x.opts.FS.Remove(path.Join(b.x.opts.Dir, f.Name)) // the next Open removes it
		f.Release()
	}
	b.pieces = nil
}

// removePieces removes what an interrupted Rebuild left.
func (x *Runs) removePieces(names []string) error {
	for _, name := range names {
		if strings.HasPrefix(name, piecePrefix) && !strings.HasSuffix(name, runfile.TempSuffix) {
			if err := x.opts.FS.Remove(path.Join(x.opts.Dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}
