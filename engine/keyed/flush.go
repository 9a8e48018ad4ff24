package keyed

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"os"

	"github.com/dgraph-io/badger/v4"
)

// Flushed is a flush that is durable but not yet a checkpoint. Its life: FlushAt returns it, the
// caller records Manifest durably, the caller calls Recorded. There is no other way to give up
// history, so it can not be given up before the record.
type Flushed struct {
	store    *Store
	manifest Manifest
	recorded bool
}

// Manifest returns what is to be recorded.
func (f *Flushed) Manifest() Manifest { return f.manifest }

const (
	chunkRows  = 2_048
	chunkBytes = 1 << 20
)

// FlushAt writes the changes since the last checkpoint as version c: rows in strictly ascending key
// order, tombstones included, also those of keys the store never held. digests count and sum the
// whole state at c. When it returns without an error everything is on disk, and the directory is
// synced. No row becomes visible below c, and none counts until the caller has recorded the
// Manifest: a crash at any moment leaves the previous checkpoint as it was.
//
// It may be repeated at the same c, and after a crash at any c above the recorded one, a lower one
// than that of the cut flush included, as long as both come from the same history.
//
// ErrNoSpace before the first row means that nothing was written; later, like the end of ctx and
// any error of rows' order or size, it leaves a cut flush. Rows of the sequence must stay unchanged
// until FlushAt returns. An error of the disk is final: all later flushes return it.
func (s *Store) FlushAt(ctx context.Context, c uint64, digests Digests, rows iter.Seq[Row]) (*Flushed, error) {
	return s.flushRows(ctx, c, digests, func(yield func(Row, error) bool) {
		for row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	})
}

func (s *Store) flushRows(ctx context.Context, c uint64, digests Digests, rows iter.Seq2[Row, error]) (*Flushed, error) {
	s.flush.Lock()
	defer s.flush.Unlock()
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if s.flush.failed != nil {
		return nil, s.flush.failed
	}
	if c <= s.flush.recorded || c == math.MaxUint64 {
		return nil, fmt.Errorf("%w: flush at %d, recorded is %d", ErrVersion, c, s.flush.recorded)
	}
	for f := range digests {
		if !f.Valid() {
			return nil, fmt.Errorf("%w: digest of %v", ErrKey, f)
		}
	}
	if err := s.checkSpace(s.opts.ReserveBytes); err != nil {
		return nil, err
	}
	s.flush.latest = nil // from here on the previous flush is history
	f := flusher{store: s, ctx: ctx, batch: s.db.NewWriteBatchAt(c)}
	defer f.batch.Cancel()
	if err := f.writeAll(rows); err != nil {
		return nil, err
	}
	if err := s.seal(c, digests); err != nil {
		return nil, s.fail(err)
	}
	for _, tk := range f.dropped {
		delete(s.flush.tails, tk)
	}
	return s.finish(c, digests, &f)
}

func (s *Store) finish(c uint64, digests Digests, f *flusher) (*Flushed, error) {
	m := Manifest{Version: c, Digests: digests.Clone()}
	var err error
	if m.Tables, m.Log, err = describeTables(s.opts.Dir); err != nil {
		return nil, err
	}
	s.counts.flushes.Add(1)
	s.counts.flushedRows.Add(f.rows)
	s.counts.flushedBytes.Add(f.bytes)
	s.flush.latest = &Flushed{store: s, manifest: m}
	s.top.Store(max(c, s.top.Load()))
	return s.flush.latest, nil
}

// fail makes an error of the disk final: after a failed write or sync the state of badger's files is
// not known.
func (s *Store) fail(err error) error {
	s.flush.failed = fmt.Errorf("keyed: flush failed before: %w", err)
	return err
}

// seal writes the sentinel in a batch of its own, behind all rows (badger does not keep the order
// inside a batch), and makes everything durable.
func (s *Store) seal(c uint64, digests Digests) error {
	batch := s.db.NewWriteBatchAt(c)
	defer batch.Cancel()
	value := encodeWhole(sentinelKey, appendSentinel(nil, c, digests))
	if err := batch.SetEntry(&badger.Entry{Key: sentinelKey, Value: value, UserMeta: rowWhole}); err != nil {
		return fmt.Errorf("keyed: flush sentinel: %w", err)
	}
	if err := batch.Flush(); err != nil {
		return fmt.Errorf("keyed: flush sentinel: %w", err)
	}
	if err := s.db.Sync(); err != nil {
		return fmt.Errorf("keyed: sync: %w", err)
	}
	return syncDir(s.opts.Dir)
}

// Recorded says that the Manifest is durably recorded, and gives up all history that the checkpoint
// at version older does not need: reads below it end in ErrDiscarded. older is Manifest.Version of the
// older of the two checkpoints the caller keeps, 0 while there is only one; it must lie below this
// flush and may not go back. History is given up as badger compacts, and only until the next Open.
func (f *Flushed) Recorded(older uint64) error {
	s := f.store
	s.flush.Lock()
	defer s.flush.Unlock()
	switch {
	case s.closed.Load():
		return ErrClosed
	case s.flush.latest != f || f.recorded:
		return ErrStaleFlush
	case older >= f.manifest.Version || older < s.discard.Load():
		return fmt.Errorf("%w: discard below %d with the flush at %d and the last discard at %d",
			ErrVersion, older, f.manifest.Version, s.discard.Load())
	}
	f.recorded = true
	s.flush.recorded = f.manifest.Version
	s.discard.Store(older) // first: a reader must not miss that its version is going
	s.db.SetDiscardTs(older)
	return nil
}

// flusher writes the rows of one flush.
type flusher struct {
	store *Store
	ctx   context.Context
	batch *badger.WriteBatch

	last        []byte
	rows, bytes uint64
	dropped     [][tailKeyBytes]byte // tails that this flush deletes

	waitRows, waitBytes int // since the last pause
}

func (f *flusher) writeAll(rows iter.Seq2[Row, error]) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := f.check(row); err != nil {
			return err
		}
		if err := f.write(row); err != nil {
			return f.store.fail(fmt.Errorf("keyed: flush row: %w", err))
		}
		if err := f.pause(row); err != nil {
			return err
		}
	}
	if err := f.batch.Flush(); err != nil {
		return f.store.fail(fmt.Errorf("keyed: flush: %w", err))
	}
	return nil
}

func (f *flusher) check(row Row) error {
	if err := CheckRow(row.Key, row.Value); err != nil {
		return err
	}
	if f.last != nil && bytes.Compare(f.last, row.Key) >= 0 {
		return fmt.Errorf("%w: %s after %s", ErrUnsorted, shortKey(row.Key), shortKey(f.last))
	}
	f.last = row.Key
	return nil
}

// write queues one row. A tail goes in before its head; readers see neither before the record.
func (f *flusher) write(row Row) error {
	if row.Tombstone {
		if err := f.dropTail(row.Key); err != nil {
			return err
		}
		return f.batch.Delete(row.Key)
	}
	if len(row.Value) <= wholeBytesMax {
		if err := f.dropTail(row.Key); err != nil {
			return err
		}
		return f.set(row.Key, encodeWhole(row.Key, row.Value), rowWhole)
	}
	tk := tailKey(row.Key)
	f.store.flush.tails[tk] = struct{}{}
	if err := f.set(tk[:], encodeWhole(tk[:], row.Value[wholeBytesMax:]), rowTail); err != nil {
		return err
	}
	return f.set(row.Key, encodeHead(row.Key, row.Value), rowHead)
}

func (f *flusher) set(key, stored []byte, kind byte) error {
	return f.batch.SetEntry(&badger.Entry{Key: key, Value: stored, UserMeta: kind})
}

// dropTail deletes the second part that an earlier value of the key may have left.
func (f *flusher) dropTail(key []byte) error {
	if len(f.store.flush.tails) == 0 {
		return nil
	}
	tk := tailKey(key)
	if _, ok := f.store.flush.tails[tk]; !ok {
		return nil
	}
	f.dropped = append(f.dropped, tk)
	return f.batch.Delete(tk[:])
}

// pause ends a chunk: it looks at free space again and keeps to the rate. During a flush half the
// reserve will do, since the flush itself is eating it.
func (f *flusher) pause(row Row) error {
	f.rows++
	f.bytes += uint64(len(row.Key) + len(row.Value))
	f.waitRows++
	f.waitBytes += len(row.Key) + len(row.Value)
	if f.waitRows < chunkRows && f.waitBytes < chunkBytes {
		return nil
	}
	rows := f.waitRows
	f.waitRows, f.waitBytes = 0, 0
	if err := f.store.checkSpace(f.store.opts.ReserveBytes / 2); err != nil {
		return err
	}
	return f.store.pace.wait(f.ctx, rows)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("keyed: sync directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("keyed: sync directory: %w", err)
	}
	return nil
}
