package rows

import (
	"cmp"
	"errors"

	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
	"queen/engine/vfs"
)

// Options configures Open. The zero value of a field means its default.
type Options struct {
	// FS holds Dir; required. Dir exists; other files in it are left alone.
	FS  vfs.FS
	Dir string
	// Closed are the numbers of the segments that count as index-closed, ascending. Those that no good
	// file covers are lost, and look-ups that need them fail until they are made again. nil takes what
	// the files say.
	Closed []uint32
	// Files are the merged runs a manifest lists; their sums are taken from it, others are computed.
	Files []format.ManifestFile
	// CacheBytes bounds the blocks kept in memory; default 32 MiB.
	CacheBytes int64
	// Fanout is how many runs of one tier are merged into one of the next; default 6. There are three
	// merges in the life of a row. A larger one merges less often, but more at a time, and more files come and go.
	Fanout int
	// MergeRows is how many rows a call of Merge merges; default 65536. Whoever calls it does what can not wait between
	// two calls: a merge of many segments takes a minute of the share that is background work's.
	MergeRows int
	// Pace is called by Merge, ReplaceSegments and Walk for every 128 KiB or so they have read, and by Close for as
	// much that it writes: it may wait, and ends the call with its error. It is called by several goroutines. nil
	// does nothing.
	Pace func() error
}

// Runs is the index files of a node: one run per closed segment, merged in three tiers. They serve all
// raft groups, of which each has an Index. Open makes one.
type Runs struct {
	opts  Options
	cache *runfile.Cache[format.RowBlock]

	// background is held by what rewrites or removes files. closing is held by Close, which only adds
	// the newest run; it is acquired after background. mu is acquired after both.
	background struct {
		sync.Mutex
		merge     *merge // under way; nil when none is
		cancelled bool   // the newest one was
	}
	closing sync.Mutex

	mu struct {
		sync.RWMutex
		list    *list
		indexes map[format.RaftGroup]*Index
	}
}

// Open reads the directory: heads, trailers and fences of runs, not their blocks. Runs that a larger
// one covers, and what interrupted writers left, are removed. Damaged runs are in Lost; Open fails
// only where the directory itself can not be read or contradicts itself.
func Open(o Options) (*Runs, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	if o.Fanout == 0 {
		o.Fanout = 6
	}
	if o.MergeRows == 0 {
		o.MergeRows = 1 << 16
	}
	if o.FS == nil || o.Dir == "" || o.Fanout < 2 || o.CacheBytes < 0 || o.MergeRows < 1 {
		return nil, fmt.Errorf("rows: options: FS and Dir are required, Fanout %d must be at least 2, MergeRows %d at least 1", o.Fanout, o.MergeRows)
	}
	x := &Runs{opts: o, cache: runfile.NewCache[format.RowBlock](o.CacheBytes)}
	x.mu.indexes = map[format.RaftGroup]*Index{}
	names, err := o.FS.List(o.Dir)
	if err == nil {
		err = runfile.RemoveTemp(o.FS, o.Dir, names, ours)
	}
	if err == nil {
		err = x.removePieces(names)
	}
	if err != nil {
		return nil, fmt.Errorf("rows: open: %w", err)
	}
	runs, lost := x.openAll(names)
	runs, covered, err := uncovered(runs)
	if err == nil {
		err = x.remove(covered)
	}
	if err == nil {
		err = x.sums(runs)
	}
	for _, r := range covered {
		r.file.Release()
	}
	x.mu.list = &list{runs: runs, lost: x.gaps(runs, lost)}
	x.mu.list.users.Store(1)
	if err != nil {
		x.Shut()
		return nil, err
	}
	return x, nil
}

// openAll opens every run there is, in order of what they cover, larger ones first.
func (x *Runs) openAll(names []string) (runs []*run, lost []Gap) {
	for _, name := range names {
		first, last, ok := parseRunName(name)
		if !ok {
			continue
		}
		if r, err := x.openRun(name, first, last); err != nil {
			lost = append(lost, Gap{first, last, err})
		} else {
			runs = append(runs, r)
		}
	}
	for _, f := range x.opts.Files {
		if name := runName(uint32(f.First), uint32(f.Last)); !slices.Contains(names, name) {
			lost = append(lost, Gap{uint32(f.First), uint32(f.Last), fmt.Errorf("%s is gone", name)})
		}
	}
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.last, a.last)) })
	return runs, lost
}

// uncovered tells the runs that count from those that a larger one covers. Runs can not overlap
// otherwise.
func uncovered(runs []*run) (count, covered []*run, err error) {
	for _, r := range runs {
		k := len(count)
		switch {
		case k == 0 || r.first > count[k-1].last:
			count = append(count, r)
		case r.last <= count[k-1].last:
			covered = append(covered, r)
		default:
			count = append(count, r) // so that it is closed
			err = fmt.Errorf("rows: %s and %s overlap", count[k-1].file.Name, r.file.Name)
		}
	}
	return count, covered, err
}

// sums takes the sums of merged runs from the manifest's list, or computes them.
func (x *Runs) sums(runs []*run) error {
	for _, r := range runs {
		if r.first == r.last {
			continue
		}
		i := slices.IndexFunc(x.opts.Files, func(f format.ManifestFile) bool {
			return f.First == uint64(r.first) && f.Number == r.listed() && f.Size == uint64(r.file.Size)
		})
		if i >= 0 {
			r.sum = x.opts.Files[i].Sum
			continue
		}
		var err error
		if r.sum, err = runfile.Sum(x.opts.FS, x.opts.Dir, r.file.Name); err != nil {
			return r.damage(err)
		}
	}
	return nil
}

// listed is the number under which a manifest lists the run. A run that is replaced keeps its name, so the
// checksum of its content is part of it.
func (r *run) listed() uint64 { return uint64(r.file.Trailer.Content)<<32 | uint64(r.last) }

// gaps is what is lost: the segments of Closed that no run covers, or without that list the ranges of
// damaged runs that no other run covers.
func (x *Runs) gaps(runs []*run, damaged []Gap) (lost []Gap) {
	covers := func(n uint32) bool {
		return slices.ContainsFunc(runs, func(r *run) bool { return r.first <= n && n <= r.last })
	}
	why := func(n uint32) error {
		for _, g := range damaged {
			if g.First <= n && n <= g.Last {
				return g.Err
			}
		}
		return errLost
	}
	add := func(n uint32) {
		if covers(n) {
			return
		}
		if k := len(lost); k > 0 && lost[k-1].Last+1 == n {
			lost[k-1].Last = n
			return
		}
		lost = append(lost, Gap{n, n, why(n)})
	}
	if x.opts.Closed != nil {
		for _, n := range x.opts.Closed {
			add(n)
		}
		return lost
	}
	slices.SortFunc(damaged, func(a, b Gap) int { return cmp.Compare(a.First, b.First) })
	next := uint64(0)
	for _, g := range damaged {
		for n := max(next, uint64(g.First)); n <= uint64(g.Last); n++ {
			add(uint32(n))
		}
		next = max(next, uint64(g.Last)+1)
	}
	return lost
}

// remove unlinks runs and makes that durable.
func (x *Runs) remove(runs []*run) error {
	for _, r := range runs {
		if err := x.opts.FS.Remove(path.Join(x.opts.Dir, r.file.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rows: %w", err)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	if err := x.opts.FS.SyncDir(x.opts.Dir); err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	return nil
}

// Shut closes the files once the look-ups under way have ended. Nothing may be called afterwards.
func (x *Runs) Shut() {
	x.background.Lock()
	x.cancelMerge(func(*run) bool { return true })
	x.background.Unlock()
	x.swap(func([]*run, []Gap) ([]*run, []Gap) { return nil, nil })
}

// swap replaces the list by what edit makes of a copy of it. Runs that are new there belong to the
// list from then on.
func (x *Runs) swap(edit func(runs []*run, lost []Gap) ([]*run, []Gap)) {
	x.mu.Lock()
	old := x.mu.list
	runs, lost := edit(slices.Clone(old.runs), slices.Clone(old.lost))
	x.mu.list = &list{runs: runs, lost: lost}
	x.mu.list.users.Store(1)
	for _, r := range runs {
		if slices.Contains(old.runs, r) {
			r.file.Retain()
		}
	}
	x.mu.Unlock()
	old.release()
}

// Index returns the index of a raft group, made at the first call: its next row is the one after the
// rows in files. Call it once nothing is lost, else that number may be too low.
func (x *Runs) Index(g format.RaftGroup) *Index {
	x.mu.Lock()
	defer x.mu.Unlock()
	if i := x.mu.indexes[g]; i != nil {
		return i
	}
	next := uint64(1)
	for _, r := range x.mu.list.runs {
		if n, ok := r.census.of(g); ok {
			next = max(next, n.hi)
		}
	}
	i := New(next)
	i.runs = x
	x.mu.indexes[g] = i
	return i
}

// Holds reports whether files hold the index of a segment of the commit stream, or did until it was
// reclaimed.
func (x *Runs) Holds(segment uint32) bool {
	l := x.acquire()
	defer l.release()
	return l.holds(segment)
}

// Last is the newest segment that files cover.
func (x *Runs) Last() uint32 {
	l := x.acquire()
	defer l.release()
	return l.last()
}

func (l *list) holds(segment uint32) bool {
	return slices.ContainsFunc(l.runs, func(r *run) bool { return r.first <= segment && segment <= r.last })
}

// Lost lists the gaps, ascending.
func (x *Runs) Lost() []Gap {
	l := x.acquire()
	defer l.release()
	return slices.Clone(l.lost)
}

// Files lists the merged runs for the manifest; the others belong to their segments.
func (x *Runs) Files() (files []format.ManifestFile) {
	l := x.acquire()
	defer l.release()
	for _, r := range l.runs {
		if r.first < r.last {
			files = append(files, format.ManifestFile{
				Kind: format.FileRowRun, Number: r.listed(), First: uint64(r.first), Last: uint64(r.last),
				Size: uint64(r.file.Size), Sum: r.sum,
			})
		}
	}
	return files
}

// Segments lists, ascending, every segment that rows of the files may lie in.
func (x *Runs) Segments() []format.SegmentID {
	l := x.acquire()
	defer l.release()
	var c census
	for _, r := range l.runs {
		c.merge(&r.census)
	}
	return c.segments
}

// Walk gives every row of the files that lies in the segment to emit, partition by partition; they
// stay good after the call. It reads past the cache.
func (x *Runs) Walk(segment format.SegmentID, emit func(r *Row) error) error {
	return x.WalkAll(func(s format.SegmentID) bool { return s == segment }, emit)
}

// WalkAll is Walk for the segments of a set: each file is read once. Rows come file by file, and there
// sorted by partition and base.
func (x *Runs) WalkAll(in func(format.SegmentID) bool, emit func(r *Row) error) error {
	l := x.acquire()
	defer l.release()
	for _, r := range l.runs {
		if !slices.ContainsFunc(r.census.segments, in) {
			continue
		}
		next := x.source(r)
		var f format.Row
		for {
			ok, err := next(&f)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if !in(f.Segment) {
				continue
			}
			row := ofFormat(&f)
			row.Refused = slices.Clone(row.Refused)
			if err := emit(&row); err != nil {
				return err
			}
		}
	}
	return nil
}
