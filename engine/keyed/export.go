package keyed

import (
	"context"
	"fmt"
	"io"
	"iter"
)

// Export writes the whole state at version c as a flat file. Flushes may go on meanwhile. The bytes
// depend on the state and on c only. It does not use badger's own backup: an increment of that kind
// forgets deletions once history was discarded.
func (s *Store) Export(ctx context.Context, c uint64, w io.Writer) (FlatInfo, error) {
	fw, err := NewFlatWriter(w, FlatHeader{Kind: FlatExport, At: c})
	if err != nil {
		return FlatInfo{}, err
	}
	err = s.scan(ctx, c, nil, nil, func(key, value []byte) (bool, error) {
		return true, fw.Add(Row{Key: key, Value: value})
	})
	if err != nil {
		return FlatInfo{}, err
	}
	return fw.Finish(nil)
}

// WriteDelta writes the changes after version base up to version at as a flat file: the rows of the
// frozen overlay, which is exactly the difference between the two checkpoints. state are the digests
// of the whole state at at.
func WriteDelta(w io.Writer, base, at uint64, state Digests, rows iter.Seq[Row]) (FlatInfo, error) {
	fw, err := NewFlatWriter(w, FlatHeader{Kind: FlatDelta, Base: base, At: at})
	if err != nil {
		return FlatInfo{}, err
	}
	for row := range rows {
		if err := fw.Add(row); err != nil {
			return FlatInfo{}, err
		}
	}
	return fw.Finish(state)
}

// Import fills an empty store with an export, as a flush at the export's version. The caller records
// the Manifest as for any flush. An Import that was cut off is repeated in a fresh directory.
func (s *Store) Import(ctx context.Context, fr *FlatReader) (*Flushed, error) {
	info := fr.Info()
	if info.Kind != FlatExport {
		return nil, fmt.Errorf("%w: %s is a delta", ErrWrongBase, fr.name)
	}
	if err := s.checkEmpty(); err != nil {
		return nil, err
	}
	return s.flushRows(ctx, info.At, info.Digests, fr.Rows())
}

// ApplyDelta adds the next delta, as a flush at the delta's version; its base must be the version
// last recorded. The digests it leaves in the manifest are the delta's claim: VerifyAt after the
// last delta proves them.
func (s *Store) ApplyDelta(ctx context.Context, fr *FlatReader) (*Flushed, error) {
	info := fr.Info()
	s.flush.Lock()
	recorded := s.flush.recorded
	s.flush.Unlock()
	if info.Kind != FlatDelta || info.Base != recorded {
		return nil, fmt.Errorf("%w: %s begins at %d, recorded is %d", ErrWrongBase, fr.name, info.Base, recorded)
	}
	return s.flushRows(ctx, info.At, info.Digests, fr.Rows())
}

func (s *Store) checkEmpty() error {
	s.reads.RLock()
	defer s.reads.RUnlock()
	if s.closed.Load() {
		return ErrClosed
	}
	if v := s.db.MaxVersion(); v > 0 {
		return fmt.Errorf("%w: it has rows of version %d", ErrNotEmpty, v)
	}
	return nil
}
