//go:build linux

package vfs

import (
	"os"
	"sync"
	"syscall"
	"time"

	"queen/engine/clock"
)

// A removed file of more than cutBytes gives its space back that much at a time, and rests cutRest times as long after
// each piece: to free a segment in one go kept the disk from everybody's flushes for 45 ms where the file system
// discards what it frees, and ten of them in a row held pushes up for 300 ms.
const (
	cutBytes   = 16 << 20
	cutRest    = 3
	cutRestMax = 250 * time.Millisecond
)

// fileID names a file whatever its names are.
type fileID struct{ dev, ino uint64 }

// openFiles counts how often this process has a file open, and keeps what was removed meanwhile. It is the process's,
// since a file that one OS removes may be open by another.
//
// INVARIANT: a file is cut only when it has no name left and nobody has it open: what is open stays readable, as it does
// behind the system's own unlink.
var openFiles = struct {
	// opening is held shared from the system's open until the file is counted, and alone while a name is removed, so that
	// none is open and not counted then.
	opening sync.RWMutex

	mu      sync.Mutex
	open    map[fileID]int
	removed map[fileID]*os.File // until the last other one is closed
	queue   []*os.File          // to be cut
	cutting sync.WaitGroup
	running bool
}{open: map[fileID]int{}, removed: map[fileID]*os.File{}}

func idOf(f *os.File) (id fileID, info os.FileInfo, err error) {
	if info, err = f.Stat(); err == nil {
		st := info.Sys().(*syscall.Stat_t)
		id = fileID{st.Dev, st.Ino}
	}
	return id, info, err
}

// countOpen counts a file that was opened.
func countOpen(id fileID) {
	t := &openFiles
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[id]++
}

// countClosed has a file that was removed cut when it was closed by the last who had it open.
func countClosed(id fileID) {
	t := &openFiles
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[id]--; t.open[id] > 0 {
		return
	}
	delete(t.open, id)
	if f := t.removed[id]; f != nil {
		delete(t.removed, id)
		cutLocked(f)
	}
}

// Remove removes a name. The space of a large file comes back soon afterwards, not at once.
func (o *OS) Remove(name string) error {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() <= cutBytes {
		return os.Remove(name)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return os.Remove(name)
	}
	t := &openFiles
	t.opening.Lock()
	defer t.opening.Unlock()
	if err := os.Remove(name); err != nil {
		f.Close()
		return err
	}
	id, info, err := idOf(f)
	if err != nil || info.Sys().(*syscall.Stat_t).Nlink > 0 { // it has another name
		f.Close()
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[id] > 0 {
		t.removed[id] = f
	} else {
		cutLocked(f)
	}
	return nil
}

// cutLocked hands a file without a name over to be cut.
func cutLocked(f *os.File) {
	t := &openFiles
	t.queue = append(t.queue, f)
	if !t.running {
		t.running = true
		t.cutting.Go(cutAll)
	}
}

// cutAll cuts what is handed over, one file after the other. A process that ends meanwhile leaves the rest to the system.
func cutAll() {
	t := &openFiles
	for {
		t.mu.Lock()
		if len(t.queue) == 0 {
			t.queue, t.running = nil, false
			t.mu.Unlock()
			return
		}
		f := t.queue[0]
		t.queue = t.queue[1:]
		t.mu.Unlock()
		cut(f)
	}
}

func cut(f *os.File) {
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	ticks := clock.Real()
	for size := info.Size() - cutBytes; size > 0; size -= cutBytes {
		start := ticks.Mono()
		if f.Truncate(size) != nil {
			return
		}
		took := time.Duration(ticks.Mono()-start) * time.Microsecond
		<-ticks.NewTimer(min(cutRest*took, cutRestMax)).C()
	}
}
