package keyed

import (
	"bytes"
	"context"

	"github.com/dgraph-io/badger/v4"
)

// ScanAt calls fn for the rows visible at version c whose key begins with prefix, in ascending key
// order, beginning after the key startAfter (from the first row if it is nil), for at most limit
// rows or until fn returns false. key and value are valid during the call only. The prefix holds at
// least the family byte.
//
// The rows are those of one version: flushes and discards during the scan do not show.
func (s *Store) ScanAt(c uint64, prefix, startAfter []byte, limit int, fn func(key, value []byte) bool) error {
	if err := CheckKey(prefix); err != nil {
		return err
	}
	if limit <= 0 {
		return ErrLimit
	}
	return s.scan(context.Background(), c, prefix, startAfter, func(key, value []byte) (bool, error) {
		limit--
		return fn(key, value) && limit > 0, nil
	})
}

// scanCheckRows is how many rows a long scan reads between two looks at its context.
const scanCheckRows = 1024

// scan is ScanAt over any prefix, none included, without a limit. This package's own rows are left
// out: they lie behind all families.
func (s *Store) scan(ctx context.Context, c uint64, prefix, startAfter []byte,
	fn func(key, value []byte) (bool, error)) error {
	return s.read(c, func(txn *badger.Txn) error {
		cur := newStoreCursor(txn, prefix)
		defer cur.close()
		cur.seek(prefix, startAfter)
		for n := 1; cur.valid(); n++ {
			if n%scanCheckRows == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			value, err := cur.value()
			if err != nil {
				return err
			}
			if more, err := fn(cur.key(), value); err != nil || !more {
				return err
			}
			cur.next()
		}
		return nil
	})
}

// storeCursor walks the rows of a transaction in key order. Values are read where they lie, beside
// the keys: badger's prefetching starts goroutines and is several times slower.
type storeCursor struct {
	txn *badger.Txn
	it  *badger.Iterator
}

func newStoreCursor(txn *badger.Txn, prefix []byte) *storeCursor {
	return &storeCursor{txn: txn, it: txn.NewIterator(badger.IteratorOptions{Prefix: prefix})}
}

// seek goes to the first row with the prefix behind startAfter. It reads, so it may fault, and comes
// after the caller's deferred close.
func (c *storeCursor) seek(prefix, startAfter []byte) {
	if startAfter != nil && bytes.Compare(startAfter, prefix) >= 0 {
		c.it.Seek(append(bytes.Clone(startAfter), 0)) // the key that follows immediately
		return
	}
	c.it.Seek(prefix)
}

func (c *storeCursor) valid() bool {
	return c.it.Valid() && FamilyOf(c.it.Item().Key()).Valid()
}

func (c *storeCursor) key() []byte { return c.it.Item().Key() }

func (c *storeCursor) value() ([]byte, error) { return readValue(c.txn, c.it.Item(), c.key()) }

func (c *storeCursor) next() { c.it.Next() }

func (c *storeCursor) close() { c.it.Close() }

// tailSet holds the hashed keys of rows that have a tail, or had one at some version. Too many are
// harmless: each costs a tombstone once. Its size is bounded by the data: an entry stands for more
// than 768 KiB on disk.
type tailSet map[[tailKeyBytes]byte]struct{}

// loadTails looks at all versions, also at those of a cut flush and at deleted ones.
func (s *Store) loadTails() (tailSet, error) {
	tails := tailSet{}
	err := s.readRaw(s.db.MaxVersion(), func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{byte(familyTail)}, AllVersions: true})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().Key()
			if len(key) != tailKeyBytes {
				return corruptRow(key, "tail key of %d bytes", len(key))
			}
			tails[[tailKeyBytes]byte(key)] = struct{}{}
		}
		return nil
	})
	return tails, err
}
