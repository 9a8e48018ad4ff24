package live

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options says what a Value is made from.
type Options[T any] struct {
	// Paths are the files, read together.
	Paths []string
	// Make turns their contents, in the order of Paths, into the value. It must not keep an error half done.
	Make func(contents [][]byte) (T, error)
	// Now is the time; required.
	Now func() time.Time
	// Every is the pause between looks; default one second.
	Every time.Duration
	// Changed is told the outcome of a look that found other files than before: nil, or the error that leaves the value
	// as it was. The same error is told once. Default: nobody.
	Changed func(error)
}

// Value follows files.
type Value[T any] struct {
	opts    Options[T]
	current atomic.Pointer[T]
	// due is when to look next, in nanoseconds of Unix time.
	due atomic.Int64

	mu struct {
		sync.Mutex
		stamps []stamp
		failed string // the error that was told last
	}
}

// stamp is what tells a changed file: a rewritten one has another time or size, a replaced one another inode.
type stamp struct {
	info os.FileInfo
}

func (s stamp) same(o stamp) bool {
	return s.info != nil && o.info != nil && s.info.Size() == o.info.Size() &&
		s.info.ModTime().Equal(o.info.ModTime()) && os.SameFile(s.info, o.info)
}

// sizeMax bounds a file that is read.
const sizeMax = 16 << 20

// Open reads the files for the first time; what is wrong with them is the error.
func Open[T any](o Options[T]) (*Value[T], error) {
	if o.Every <= 0 {
		o.Every = time.Second
	}
	if o.Changed == nil {
		o.Changed = func(error) {}
	}
	v := &Value[T]{opts: o}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.readLocked(); err != nil {
		return nil, err
	}
	v.postpone()
	return v, nil
}

// Get is the value. When it is time, one caller looks at the files first; others take what there is.
func (v *Value[T]) Get() T {
	now, due := v.opts.Now().UnixNano(), v.due.Load()
	// A clock that was set back by more than the pause must not put the next look off for long.
	early := now < due && due-now <= int64(v.opts.Every)
	if !early && v.due.CompareAndSwap(due, now+int64(v.opts.Every)) {
		v.look()
	}
	return *v.current.Load()
}

// Reload reads the files now, whether they changed or not; an error leaves the value as it was.
func (v *Value[T]) Reload() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.postpone()
	err := v.readLocked()
	v.noteLocked(err)
	return err
}

func (v *Value[T]) postpone() { v.due.Store(v.opts.Now().Add(v.opts.Every).UnixNano()) }

func (v *Value[T]) look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	changed := false
	for i, path := range v.opts.Paths {
		info, err := os.Stat(path)
		if err != nil {
			v.tellLocked(err)
			return
		}
		changed = changed || !v.mu.stamps[i].same(stamp{info})
	}
	if !changed {
		v.mu.failed = ""
		return
	}
	v.tellLocked(v.readLocked())
}

// tellLocked reports a success, and a failure that was not reported yet.
func (v *Value[T]) tellLocked(err error) {
	if err == nil || err.Error() != v.mu.failed {
		v.opts.Changed(err)
	}
	v.noteLocked(err)
}

func (v *Value[T]) noteLocked(err error) {
	v.mu.failed = ""
	if err != nil {
		v.mu.failed = err.Error()
	}
}

// readLocked reads all files and makes the value. Stamps are kept only of files that made one, so that a file that was
// read half written is read again.
func (v *Value[T]) readLocked() error {
	contents := make([][]byte, len(v.opts.Paths))
	stamps := make([]stamp, len(v.opts.Paths))
	for i, path := range v.opts.Paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Size() > sizeMax {
			return fmt.Errorf("%s: %d bytes, at most %d", path, info.Size(), sizeMax)
		}
		stamps[i] = stamp{info}
		if contents[i], err = os.ReadFile(path); err != nil {
			return err
		}
	}
	made, err := v.opts.Make(contents)
	if err != nil {
		return err
	}
	v.current.Store(&made)
	v.mu.stamps = stamps
	return nil
}
