package lossyfs

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// journal holds what unflushed writes replaced, by inode of the backing file.
type journal struct {
	mu struct {
		sync.Mutex
		files map[uint64]*history
		// lost and flushed count bytes: given back at crashes, made durable by flushes.
		lost, flushed int64
	}
	lie atomic.Bool
}

// history is one file's unflushed changes, oldest first. file is open for the undo.
type history struct {
	file    *os.File
	changes []change
}

// change is one write or change of size: the file was size bytes long and held old at off.
type change struct {
	off, size int64
	old       []byte
	written   int
}

// note remembers what a write of n bytes at off is about to replace; n < 0 notes the size alone and what lies beyond it.
func (j *journal) note(f *os.File, off int64, n int) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.mu.files[st.Ino]
	if h == nil {
		file, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if j.mu.files == nil {
			j.mu.files = map[uint64]*history{}
		}
		h = &history{file: file}
		j.mu.files[st.Ino] = h
	}
	c := change{off: off, size: st.Size, written: max(n, 0)}
	keep := min(int64(n), st.Size-off)
	if n < 0 {
		keep = st.Size - off // cut off by a truncation
	}
	if keep > 0 {
		c.old = make([]byte, keep)
		if _, err := h.file.ReadAt(c.old, off); err != nil && err != io.EOF {
			return err
		}
	}
	h.changes = append(h.changes, c)
	return nil
}

// flush forgets a file's changes: they are durable.
func (j *journal) flush(f *os.File) {
	var st syscall.Stat_t
	if j.lie.Load() || syscall.Fstat(int(f.Fd()), &st) != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if h := j.mu.files[st.Ino]; h != nil {
		for i := range h.changes {
			j.mu.flushed += int64(h.changes[i].written)
		}
		h.file.Close()
		delete(j.mu.files, st.Ino)
	}
}

// undo puts back what was not flushed, newest change first.
func (j *journal) undo() (err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for ino, h := range j.mu.files {
		for i := len(h.changes) - 1; i >= 0 && err == nil; i-- {
			c := &h.changes[i]
			j.mu.lost += int64(c.written)
			if len(c.old) > 0 {
				_, err = h.file.WriteAt(c.old, c.off)
			}
			if err == nil {
				err = h.file.Truncate(c.size)
			}
		}
		h.file.Close()
		delete(j.mu.files, ino)
	}
	return err
}

// counts are the bytes flushed and lost so far.
func (j *journal) counts() (flushed, lost int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.flushed, j.mu.lost
}
