package rows

import (
	"errors"
	"fmt"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
)

// runWriter writes the run of segments first to last.
//
// INVARIANT: Back never leads past a run that holds rows of the partition. It may lead to one above it
// that holds none: look-ups go on from there (TestModel, TestBackIsABound).
type runWriter struct {
	x           *Runs
	w           *runfile.Writer
	first, last uint32
	pid         format.PartitionID
}

func (x *Runs) create(first, last uint32, c *census, at format.Wall) (*runWriter, error) {
	head := format.RunHead{Kind: format.RunRows, Number: last, First: uint64(first), Last: uint64(last)}
	w, err := runfile.Create(x.opts.FS, x.opts.Dir, runName(first, last), head)
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	rw := &runWriter{x: x, w: w, first: first, last: last}
	if err := c.each(at, w.AddRow); err != nil {
		return nil, rw.abort(err)
	}
	return rw, nil
}

// add takes the next row. older is a number at or above that of the run which holds the rows before
// it, 0 when there are none; only the first row of a partition needs it.
func (w *runWriter) add(r *format.Row, older uint64) error {
	r.Back = 0
	if r.Partition != w.pid {
		if r.Partition < w.pid {
			return fmt.Errorf("rows: partition %d after %d", r.Partition, w.pid)
		}
		w.pid = r.Partition
		if older = min(older, uint64(w.first)-1); older > 0 {
			r.Back = w.last - uint32(older)
		}
	}
	return w.w.AddRow(r)
}

// finish makes the run durable and opens it.
func (w *runWriter) finish() (*run, error) {
	info, err := w.w.Finish()
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	r, err := w.x.openRun(info.Name, w.first, w.last)
	if err != nil {
		return nil, err
	}
	r.sum = info.Sum
	return r, nil
}

func (w *runWriter) abort(err error) error {
	w.w.Abort()
	var d *DamageError
	if errors.As(err, &d) {
		return err
	}
	return fmt.Errorf("rows: write run %d to %d: %w", w.first, w.last, err)
}

// paceBlocks is how many blocks are read, and paceRows how many rows written, between two calls of Options.Pace.
const (
	paceBlocks = 32
	paceRows   = 4096
)

// source reads the rows of a run behind its census, in order, past the cache.
func (x *Runs) source(r *run) runfile.Source[format.Row] {
	scan := r.file.Scan(0)
	var b *format.RowBlock
	i, blocks := 0, 0
	return func(dst *format.Row) (bool, error) {
		for {
			for b == nil || i == b.Len() {
				if blocks++; blocks%paceBlocks == 0 && x.opts.Pace != nil {
					if err := x.opts.Pace(); err != nil {
						return false, err
					}
				}
				var err error
				if b, err = scan.Next(); err != nil || b == nil {
					return false, r.damage(err)
				}
				i = 0
			}
			if err := b.At(i, dst); err != nil {
				return false, r.damage(r.file.Damage(scan.Block(), err))
			}
			if i++; dst.Partition >= firstPartition {
				return true, nil
			}
		}
	}
}

func lessRow(a, b *format.Row) bool { return a.Less(b) }
