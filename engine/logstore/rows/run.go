package rows

import (
	"fmt"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
)

type rowFile = runfile.File[format.RowBlock]

// run is an open run file: the rows of the closed segments numbered first to last.
type run struct {
	file        *rowFile
	first, last uint32
	census      census
	sum         [16]byte // of the file, for merged runs
}

// DamageError says that a run file can not be read, or is gone. Rebuild makes segments First to Last
// of the index again.
type DamageError struct {
	File        string
	First, Last uint32
	Err         error
}

// Error names the file and the finding.
func (e *DamageError) Error() string { return fmt.Sprintf("rows: %s: %v", e.File, e.Err) }

// Unwrap returns the finding.
func (e *DamageError) Unwrap() error { return e.Err }

func (r *run) damage(err error) error {
	if err == nil {
		return nil
	}
	return &DamageError{File: r.file.Name, First: r.first, Last: r.last, Err: err}
}

// openRun opens a run and reads its census.
func (x *Runs) openRun(name string, first, last uint32) (*run, error) {
	f, err := runfile.Open(x.opts.FS, x.opts.Dir, name, runfile.Rows, x.cache)
	if err != nil {
		return nil, &DamageError{File: name, First: first, Last: last, Err: err}
	}
	r := &run{file: f, first: first, last: last}
	h := f.Head
	if h.Number != last || h.First != uint64(first) || h.Last != uint64(last) || h.Group != 0 {
		err = fmt.Errorf("head says run %d of %d to %d", h.Number, h.First, h.Last)
	} else {
		err = r.readCensus()
	}
	if err != nil {
		f.Release()
		return nil, r.damage(err)
	}
	return r, nil
}

func (r *run) readCensus() error {
	var row format.Row
	for i := range r.file.Blocks() {
		if r.file.Fence(i).Partition >= firstPartition {
			return nil
		}
		b, err := r.file.Block(i)
		if err != nil {
			return err
		}
		for k := range b.Len() {
			if err := b.At(k, &row); err != nil {
				return r.file.Damage(i, err)
			}
			if row.Partition >= firstPartition {
				return nil
			}
			r.census.take(&row)
		}
	}
	return nil
}

// backTo is the number at or above the run that holds the rows before row, the first of its partition
// in r; 0 when there are none.
func (r *run) backTo(row *format.Row) uint64 {
	if row.Back == 0 || row.Back >= r.last {
		return 0
	}
	return uint64(r.last - row.Back)
}

// cursor is a place in a run.
type cursor struct {
	r     *run
	block int
	b     *format.RowBlock
	i     int
}

// seek goes to the last row whose key is not above (pid, off); ok is false when all are above.
func (r *run) seek(pid format.PartitionID, off format.Offset) (c cursor, ok bool, err error) {
	c = cursor{r: r, block: r.file.Find(format.Fence{Partition: pid, Base: off})}
	if c.block < 0 {
		return c, false, nil
	}
	if c.b, err = r.file.Block(c.block); err != nil {
		return c, false, err
	}
	c.i = c.b.Find(pid, off)
	return c, c.i >= 0, nil
}

// next goes to the following row; ok is false at the end.
func (c *cursor) next() (ok bool, err error) {
	if c.b != nil && c.i+1 < c.b.Len() {
		c.i++
		return true, nil
	}
	return c.load(c.block+1, func(*format.RowBlock) int { return 0 })
}

// back goes to the row before; ok is false at the start.
func (c *cursor) back() (ok bool, err error) {
	if c.i > 0 {
		c.i--
		return true, nil
	}
	return c.load(c.block-1, func(b *format.RowBlock) int { return b.Len() - 1 })
}

func (c *cursor) load(block int, at func(*format.RowBlock) int) (bool, error) {
	if block < 0 || block >= c.r.file.Blocks() {
		return false, nil
	}
	b, err := c.r.file.Block(block)
	if err != nil {
		return false, err
	}
	c.block, c.b, c.i = block, b, at(b)
	return true, nil
}

func (c *cursor) partition() format.PartitionID {
	pid, _ := c.b.Key(c.i)
	return pid
}

func (c *cursor) row(dst *format.Row) error {
	if err := c.b.At(c.i, dst); err != nil {
		return c.r.file.Damage(c.block, err)
	}
	return nil
}

// presence says what a run holds of a partition at or below an offset.
type presence uint8

const (
	absent presence = iota // no row of the partition
	above                  // only rows above the offset
	held                   // a row whose base is not above it
)

// probe tells the presence of (pid, off), and the partition's first row in the run when it is above.
// Where the partition fills blocks, the fences tell without a read.
func (r *run) probe(pid format.PartitionID, off format.Offset, first *format.Row) (presence, error) {
	if i := r.file.Find(format.Fence{Partition: pid, Base: off}); i >= 0 && r.file.Fence(i).Partition == pid {
		return held, nil
	}
	c, ok, err := r.seek(pid, off)
	if err != nil {
		return absent, err
	}
	if ok && c.partition() == pid {
		return held, nil
	}
	if c.b == nil || c.i+1 == c.b.Len() {
		if c.block+1 >= r.file.Blocks() || r.file.Fence(c.block+1).Partition != pid {
			return absent, nil
		}
	}
	if ok, err = c.next(); err != nil || !ok || c.partition() != pid {
		return absent, err
	}
	return above, c.row(first)
}
