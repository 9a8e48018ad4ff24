package keyed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

// Store is one group's keyed rows on disk, readable at the versions of its checkpoints.
//
// INVARIANT: nothing but Flushed.Recorded moves the discard version, and it moves it to an older
// checkpoint only, after the newer one was recorded (TestDiscardNeedsRecord).
//
// INVARIANT: no read sees a row above the version it asks for (TestCutFlushIsInvisible).
type Store struct {
	opts   Options
	db     *badger.DB
	log    badgerLog
	report OpenReport
	pace   pace

	closed  atomic.Bool
	reads   sync.RWMutex // held shared by readers, so that Close waits for them
	discard atomic.Uint64
	top     atomic.Uint64 // the newest version that may be read
	counts  counters

	// flush guards what the flusher owns. Acquired before reads.
	flush struct {
		sync.Mutex
		recorded uint64   // version of the newest recorded checkpoint
		latest   *Flushed // the newest flush, nil before the first
		tails    tailSet  // rows that have, or may have, a tail
		failed   error    // sticky: after a failed write nothing more is flushed
	}
}

// OpenReport says in what state Open found the directory.
type OpenReport struct {
	// Fresh: there was no database before.
	Fresh bool
	// Unclean: the last user did not close the store. Compare VerifyAt with the recorded digests
	// before trusting it with a vote: damaged write-ahead logs show in no other way.
	Unclean bool
	// CutFlushVersion is the highest version found if it lies above the expected one, else 0: a
	// flush was cut off. Harmless: its rows are invisible and will be overwritten.
	CutFlushVersion uint64
	// TornLog: badger's MANIFEST ended in half a record beyond what was recorded. badger cuts it off.
	TornLog bool
	// Orphans are tables that badger does not list (left by a crash); badger deletes them.
	Orphans []string
	// Tables is the number of tables examined.
	Tables int
}

// Open examines the directory, opens badger in it, and checks the sentinel of the expected
// checkpoint. It returns a *CorruptionError for a directory that lost something, before badger can
// remove the evidence; ErrNoSpace if the reserve is not free; ErrOpenCrashed after several Opens that
// never returned. All tables are read once: about a second per gigabyte.
func Open(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Store{opts: o.withDefaults()}
	s.log.log = s.opts.Logger
	s.pace = pace{clock: o.Clock, rate: o.RowsPerSecond}
	if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("keyed: open: %w", err)
	}
	if err := s.checkSpace(s.opts.ReserveBytes); err != nil {
		return nil, err
	}
	report, err := inspectDir(s.opts.Dir, s.opts.Expect)
	if err != nil {
		return nil, err
	}
	s.report = report
	attempt, err := beginAttempt(s.opts.Dir, s.opts.OpenAttemptsMax)
	if err != nil {
		return nil, err
	}
	err = s.openBadger()
	if err == nil {
		err = attempt.end()
	}
	if err != nil {
		if s.db != nil {
			err = errors.Join(err, s.db.Close())
		}
		return nil, errors.Join(err, attempt.end())
	}
	return s, nil
}

func (s *Store) openBadger() error {
	// The mark of a clean close is taken away, durably, before badger may change a file.
	if err := removeFile(s.opts.Dir, cleanFile); err != nil {
		return err
	}
	if err := s.removeUnborn(); err != nil {
		return err
	}
	db, err := badger.OpenManaged(s.opts.badgerOptions(&s.log))
	if err != nil {
		return fmt.Errorf("keyed: open badger: %w", err)
	}
	s.db = db
	if e := s.opts.Expect; e != nil {
		s.flush.recorded = e.Version
		s.top.Store(e.Version)
		if err := s.checkSentinel(e); err != nil {
			return err
		}
	}
	if top := db.MaxVersion(); top > s.flush.recorded && !s.report.Fresh {
		s.report.CutFlushVersion = top
	}
	s.flush.tails, err = s.loadTails()
	return err
}

// removeUnborn removes logs of length 0: a crash came between their creation and their first flush, so that they never
// held anything. badger would refuse the directory.
func (s *Store) removeUnborn() error {
	files, err := listFiles(s.opts.Dir)
	if err != nil {
		return err
	}
	for name, size := range files {
		if size == 0 && (strings.HasSuffix(name, ".mem") || strings.HasSuffix(name, ".vlog")) {
			if err := removeFile(s.opts.Dir, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSentinel proves that the end of the recorded flush is there. It is the last row written, so a
// write-ahead log that lost its tail lost it too. Rows of older logs are proved by VerifyAt only.
func (s *Store) checkSentinel(e *Manifest) error {
	var got []byte
	var version uint64
	err := s.read(e.Version, func(txn *badger.Txn) error {
		item, err := txn.Get(sentinelKey)
		if err != nil {
			return err
		}
		version = item.Version()
		got, err = readValue(txn, item, sentinelKey)
		return err
	})
	switch {
	case errors.Is(err, badger.ErrKeyNotFound):
		return corrupt(s.opts.Dir, "no sentinel row at version %d: the end of the flush is missing", e.Version)
	case err != nil:
		return err
	case version != e.Version:
		return corrupt(s.opts.Dir, "sentinel row of version %d, want %d: the end of the flush is missing", version, e.Version)
	case !bytes.Equal(got, appendSentinel(nil, e.Version, e.Digests)):
		return corrupt(s.opts.Dir, "sentinel row of version %d does not match the manifest", e.Version)
	}
	return nil
}

// Report returns what Open found.
func (s *Store) Report() OpenReport { return s.report }

// Close waits for reads and for a flush in progress, closes badger and leaves the mark of a clean
// close, with which the next Open can hold every file to its exact size. Close again returns
// ErrClosed.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	s.flush.Lock()
	defer s.flush.Unlock()
	s.reads.Lock()
	defer s.reads.Unlock()
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("keyed: close badger: %w", err)
	}
	return writeCleanMark(s.opts.Dir)
}

// read runs fn in a transaction at version c, which must be one that was flushed or expected: a
// higher one could show rows of a cut flush.
func (s *Store) read(c uint64, fn func(*badger.Txn) error) error {
	if top := s.top.Load(); c > top {
		return fmt.Errorf("%w: read at %d, the newest is %d", ErrVersion, c, top)
	}
	return s.readRaw(c, fn)
}

// readRaw is read at any version. A fault in a mapped file and a panic over nonsense in a rotten
// block both become a CorruptionError: the read ends, not the process.
func (s *Store) readRaw(c uint64, fn func(*badger.Txn) error) (err error) {
	s.reads.RLock()
	defer s.reads.RUnlock()
	if s.closed.Load() {
		return ErrClosed
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { // outermost: badger's clean-up may panic as well once a read has
		if r := recover(); r != nil {
			err = corrupt(s.opts.Dir, "reading panicked: %v", r)
		}
		var ce *CorruptionError
		if errors.As(err, &ce) {
			s.counts.corruptions.Add(1)
		}
	}()
	txn := s.db.NewTransactionAt(c, false)
	defer txn.Discard()
	if err := fn(txn); err != nil {
		return err
	}
	// Checked last: what was read before the discard version passed c was still whole.
	if d := s.discard.Load(); c < d {
		return fmt.Errorf("%w: %d, history is kept from %d", ErrDiscarded, c, d)
	}
	return nil
}

// GetAt returns the value of key in the state at version c, and whether there is one. The value is
// the caller's. A row whose bytes do not match its checksum is a *CorruptionError. ErrDiscarded if c
// is older than what Recorded gave up, ErrVersion if it is newer than any flush.
func (s *Store) GetAt(c uint64, key []byte) (value []byte, found bool, err error) {
	if err := CheckKey(key); err != nil {
		return nil, false, err
	}
	err = s.read(c, func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("keyed: get: %w", err)
		}
		found = true
		value, err = readValue(txn, item, key)
		value = bytes.Clone(value)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return value, found, nil
}

// readValue checks and returns the value of an item. The result is valid as long as the item.
func readValue(txn *badger.Txn, item *badger.Item, key []byte) (value []byte, err error) {
	kind := item.UserMeta()
	err = item.Value(func(stored []byte) error {
		switch kind {
		case rowWhole, rowTail:
			value, err = decodeWhole(key, stored)
		case rowHead:
			value, err = readCut(txn, key, stored)
		default:
			err = corruptRow(key, "%v: kind %d", errRowKind, kind)
		}
		return err
	})
	return value, err
}

func readCut(txn *badger.Txn, key, head []byte) ([]byte, error) {
	tk := tailKey(key)
	item, err := txn.Get(tk[:])
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, corruptRow(key, "second part of the value is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("keyed: get tail: %w", err)
	}
	if item.UserMeta() != rowTail {
		return nil, corruptRow(key, "second part of the value is of kind %d", item.UserMeta())
	}
	tail, err := readValue(txn, item, tk[:])
	if err != nil {
		return nil, err
	}
	return joinHead(key, head, tail)
}

func (s *Store) checkSpace(need uint64) error {
	if s.opts.FreeBytes == nil {
		return nil
	}
	free, err := s.opts.FreeBytes()
	if err != nil {
		return fmt.Errorf("keyed: free space: %w", err)
	}
	if free < need {
		s.counts.noSpace.Add(1)
		return fmt.Errorf("%w: %d bytes free, %d needed", ErrNoSpace, free, need)
	}
	return nil
}

// VerifyAt reads every row visible at version c, checks each, and returns what it counted. Compare
// with the recorded digests: a row that badger lost shows only there. It reads about a million rows
// a second and stops early when ctx ends.
func (s *Store) VerifyAt(ctx context.Context, c uint64) (Digests, error) {
	ds := Digests{}
	err := s.scan(ctx, c, nil, nil, func(key, value []byte) (bool, error) {
		ds.Add(key, value)
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return ds, nil
}
