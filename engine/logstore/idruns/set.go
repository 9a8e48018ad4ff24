package idruns

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
	"queen/engine/vfs"
)

// Options configures Open. The zero value of a field means its default.
type Options struct {
	// FS holds Dir, which exists; other files in it are left alone. Both are required.
	FS  vfs.FS
	Dir string
	// Group is the raft group whose ids these are; required.
	Group format.RaftGroup
	// Files is what Files said at the mark ClearTo, from a checkpoint's list. Runs on disk that are not
	// in it do not count. A ClearTo inside a group of chunks means the end of the group before: the chunks
	// since have to be added again.
	Files   []format.ManifestFile
	ClearTo uint64
	// FilterBytes bounds the resident filters; default 512 MiB, below 0 keeps none.
	FilterBytes int64
	// CacheBytes bounds the blocks kept in memory; default 16 MiB.
	CacheBytes int64
	// Pace, when set, is called by Add for every few thousand ids it writes and may wait.
	Pace func()
}

// ErrOrder says that a chunk does not follow the one before.
var ErrOrder = errors.New("idruns: the chunk does not follow the one before")

// Set is the id runs of one raft group. Open makes one.
type Set struct {
	opts  Options
	cache *runfile.Cache[format.IDBlock]

	// Owned by the goroutine that adds.
	last  Mark    // the newest one at which runs were made, for merging ahead
	pend  pending // chunks since
	ready map[string]*run
	jobs  map[string]*job
	build *filterJob

	mu struct {
		sync.RWMutex
		list *list
	}
}

// list is the runs that count at a moment, ascending by marks. It never changes; look-ups hold one
// while they read.
type list struct {
	runs    []*run
	clearTo uint64
	users   atomic.Int64
}

// Open opens the listed runs: heads, trailers and fences, not their blocks. Damaged ones are in
// Damaged; Open fails only where the directory can not be read or the list contradicts itself. Filters
// are made by Step; until then look-ups read.
func Open(o Options) (*Set, error) {
	if o.FilterBytes == 0 {
		o.FilterBytes = 512 << 20
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 16 << 20
	}
	if o.FS == nil || o.Dir == "" || o.Group == 0 || o.Group > 63 {
		return nil, fmt.Errorf("idruns: options: FS, Dir and Group (%d) are required", o.Group)
	}
	s := &Set{
		opts: o, cache: runfile.NewCache[format.IDBlock](o.CacheBytes), ready: map[string]*run{}, jobs: map[string]*job{},
	}
	o.ClearTo -= o.ClearTo % ChunkGroup
	files := slices.Clone(o.Files)
	slices.SortFunc(files, func(a, b format.ManifestFile) int { return cmp.Compare(a.First, b.First) })
	after := uint64(0)
	for _, f := range files {
		if f.First <= after || f.Last < f.First || f.Last > o.ClearTo {
			return nil, fmt.Errorf("idruns: open: the list names chunks %d to %d, after %d and up to %d", f.First, f.Last,
				after, o.ClearTo)
		}
		after = f.Last
	}
	names, err := o.FS.List(o.Dir)
	if err == nil {
		err = runfile.RemoveTemp(o.FS, o.Dir, names, s.ours)
	}
	if err != nil {
		return nil, fmt.Errorf("idruns: open: %w", err)
	}
	l := &list{clearTo: o.ClearTo}
	l.users.Store(1)
	for i := range files {
		l.runs = append(l.runs, s.openListed(&files[i]))
	}
	s.mu.list = l
	return s, nil
}

func (s *Set) ours(name string) bool {
	_, _, ok := parseRunName(name, s.opts.Group)
	return ok
}

func (s *Set) openListed(f *format.ManifestFile) *run {
	r := s.openRun(f.First, f.Last)
	if r.file != nil && uint64(r.size) != f.Size {
		r.err = fmt.Errorf("length %d, listed with %d", r.size, f.Size)
		r.file.Release()
		r.file = nil
	}
	r.sum, r.size = f.Sum, int64(f.Size)
	return r
}

// Close ends background work and closes the files once the look-ups under way have ended. Nothing may
// be called afterwards.
func (s *Set) Close() {
	for name := range s.jobs {
		s.cancel(name)
	}
	for _, r := range s.ready {
		r.release()
	}
	s.swap(nil, 0)
}

// acquire returns the current list; release it.
func (s *Set) acquire() *list {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.mu.list.users.Add(1)
	return s.mu.list
}

func (l *list) release() {
	if l.users.Add(-1) == 0 {
		for _, r := range l.runs {
			r.release()
		}
	}
}

// swap puts another list in place. Runs that are new in it belong to it from then on.
func (s *Set) swap(runs []*run, clearTo uint64) {
	s.mu.Lock()
	old := s.mu.list
	s.mu.list = &list{runs: runs, clearTo: clearTo}
	s.mu.list.users.Store(1)
	for _, r := range runs {
		if r.file != nil && slices.Contains(old.runs, r) {
			r.file.Retain()
		}
	}
	s.mu.Unlock()
	old.release()
}

// ClearTo is the newest mark up to which every chunk's ids are in runs, or were too old at some mark. It is divisible
// by ChunkGroup.
func (s *Set) ClearTo() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.list.clearTo
}

// Next is the number of the mark whose chunk Add wants next. It belongs to the goroutine that adds.
func (s *Set) Next() uint64 { return s.ClearTo() + uint64(len(s.pend)) + 1 }

// Files lists the runs that count at ClearTo, for a checkpoint's list. They are the same on every
// replica at that mark, and stay on disk until Discard is called without them.
func (s *Set) Files() []format.ManifestFile {
	l := s.acquire()
	defer l.release()
	files := make([]format.ManifestFile, len(l.runs))
	for i, r := range l.runs {
		files[i] = format.ManifestFile{
			Kind: format.FileIDRun, Number: r.last, First: r.first, Last: r.last, Size: uint64(r.size), Sum: r.sum,
		}
	}
	return files
}

// Damaged tells, as *DamageError, which runs can not be used.
func (s *Set) Damaged() (damaged []error) {
	l := s.acquire()
	defer l.release()
	for _, r := range l.runs {
		if r.file == nil {
			damaged = append(damaged, r.damage(r.err))
		}
	}
	return damaged
}

// Repair opens a run again, after its file was fetched from a replica that has it. First and last are
// the DamageError's.
func (s *Set) Repair(first, last uint64) error {
	l := s.acquire()
	defer l.release()
	i := slices.IndexFunc(l.runs, func(r *run) bool { return r.first == first && r.last == last })
	if i < 0 {
		return nil // merged or dropped meanwhile
	}
	r := s.openRun(first, last)
	r.sum = l.runs[i].sum
	if r.file == nil {
		return r.damage(r.err)
	}
	sum, err := runfile.Sum(s.opts.FS, s.opts.Dir, r.name)
	if err == nil && sum != r.sum {
		err = fmt.Errorf("sum %x, listed with %x", sum, r.sum)
	}
	if err != nil {
		r.release()
		return r.damage(err)
	}
	s.cancelWith(l.runs[i])
	runs := slices.Clone(l.runs)
	runs[i] = r
	s.swap(runs, l.clearTo)
	return nil
}

// Discard removes the runs of the group that neither count now, nor are being made, nor are in one of
// the lists: those of checkpoints that are kept, or of a peer that copies them. What a crash brings
// back is removed by the next Discard.
func (s *Set) Discard(lists ...[]format.ManifestFile) error {
	names, err := s.opts.FS.List(s.opts.Dir)
	if err != nil {
		return fmt.Errorf("idruns: %w", err)
	}
	l := s.acquire()
	defer l.release()
	for _, name := range names {
		first, last, ok := parseRunName(name, s.opts.Group)
		same := func(f format.ManifestFile) bool { return f.First == first && f.Last == last }
		switch {
		case !ok || s.ready[name] != nil:
			continue
		case slices.ContainsFunc(l.runs, func(r *run) bool { return r.name == name }):
			continue
		case slices.ContainsFunc(lists, func(list []format.ManifestFile) bool { return slices.ContainsFunc(list, same) }):
			continue
		}
		if err := s.opts.FS.Remove(path.Join(s.opts.Dir, name)); err != nil {
			return fmt.Errorf("idruns: %w", err)
		}
	}
	return nil
}
