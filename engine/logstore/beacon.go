package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
)

var failBeacon = invariants.Register("logstore.beacon.written")

// The beacon is a small ring of 4 KiB slots that says how far the log was durable. It is written without a
// flush, after the fact, and may be lost or late; but what it says is true, so an extent it counts that
// can not be read is rot, not a torn write.

// readBeacon returns the newest slot that is whole; the zero beacon if there is none.
func readBeacon(fsys vfs.FS, dir string) (newest format.Beacon, err error) {
	b, err := vfs.ReadFile(fsys, path.Join(dir, beaconName), format.BeaconSlots*format.BlockSize)
	if errors.Is(err, fs.ErrNotExist) {
		return newest, nil
	} else if err != nil {
		return newest, fmt.Errorf("logstore: read beacon: %w", err)
	}
	for ; len(b) >= format.BlockSize; b = b[format.BlockSize:] {
		if st, err := format.ParseBeacon(b[:format.BlockSize]); err == nil && st.Sequence > newest.Sequence {
			newest = st
		}
	}
	return newest, nil
}

// beaconWriter writes slots in a goroutine of its own, so that nobody waits for one: what a slot says was durable
// before, and stays true however late it is written.
type beaconWriter struct {
	file   vfs.File
	number uint64 // of the last slot
	buf    []byte
	at     int64 // mono time at which the last slot was asked for; the writer's

	ask     chan struct{}
	stopped bool
	done    chan struct{} // the goroutine has ended
}

// openBeacon opens the file, and makes it when it is missing or short.
func (w *writer) openBeacon(last *format.Beacon) error {
	o := &w.s.opts
	name := path.Join(o.Dir, beaconName)
	f, err := o.FS.Open(name, vfs.Write|vfs.Create|vfs.Direct)
	if err != nil {
		return fmt.Errorf("logstore: open beacon: %w", err)
	}
	w.beacon = beaconWriter{
		file: f, number: last.Sequence, buf: vfs.AlignedBuffer(format.BlockSize),
		ask: make(chan struct{}, 1), done: make(chan struct{}),
	}
	size, err := f.Size()
	if err == nil && size < format.BeaconSlots*format.BlockSize {
		// The file has its blocks before the first slot is written: a beacon must not meet a full disk.
		zeroes := vfs.AlignedBuffer(int(format.BeaconSlots*format.BlockSize - vfs.RoundUp(size)))
		_, err = f.WriteAt(zeroes, vfs.RoundUp(size))
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = o.FS.SyncDir(o.Dir)
	}
	if err != nil {
		return fmt.Errorf("logstore: open beacon: %w", err)
	}
	return nil
}

// beaconDue asks for the next slot when the last one is old enough.
func (w *writer) beaconDue() error {
	b := &w.beacon
	now := w.s.opts.Clock.Mono()
	if now-b.at < w.s.opts.BeaconEvery.Microseconds() {
		return nil
	}
	b.at = now
	if w.s.opts.inline {
		return w.writeBeacon(false)
	}
	select {
	case b.ask <- struct{}{}:
	default: // the slot that is being written was asked for later than the one before it
	}
	return nil
}

// runBeacon writes the slots asked for until stopBeacon.
func (w *writer) runBeacon() {
	defer close(w.beacon.done)
	for range w.beacon.ask {
		if w.s.failed.Load() != nil {
			continue // a failed store writes nothing any more
		}
		if err := w.writeBeacon(false); err != nil {
			w.s.fail(err)
		}
	}
}

// stopBeacon waits for the goroutine; the caller holds the role for good.
func (w *writer) stopBeacon() {
	if !w.beacon.stopped {
		w.beacon.stopped = true
		close(w.beacon.ask)
	}
	<-w.beacon.done
}

// writeBeacon writes the next slot, flushed if it is the final one.
func (w *writer) writeBeacon(final bool) error {
	b := &w.beacon
	sorted := w.s.sortedReplicas()
	w.s.mu.RLock()
	g := w.s.segments[len(w.s.segments)-1]
	if !final && g.extents == 0 {
		w.s.mu.RUnlock()
		return nil // begun this moment; its first extent asks again
	}
	b.number++
	st := format.Beacon{
		Sequence: b.number, Disk: w.s.disk, Boot: w.s.boot, Clean: final,
		Segment: g.head.Segment, Nonce: g.head.Nonce, End: uint64(g.used), Extent: g.extents, Checksum: g.sum,
	}
	for _, r := range sorted {
		if len(st.Groups) < 63 { // more only while removed replicas are replaced
			st.Groups = append(st.Groups, format.BeaconGroup{
				Group: r.group, Replica: r.replica, Commit: r.savedCommit, Last: r.raftLast(),
			})
		}
	}
	w.s.mu.RUnlock()
	st.Encode(b.buf)
	pos := int64(b.number%format.BeaconSlots) * format.BlockSize
	var err error
	if final {
		err = b.file.WriteAtSync(b.buf, pos)
	} else {
		_, err = b.file.WriteAt(b.buf, pos)
	}
	if err != nil {
		return fmt.Errorf("logstore: write beacon: %w", err)
	}
	invariants.Failpoint(failBeacon)
	return nil
}
