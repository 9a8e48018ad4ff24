package runfile

import (
	"fmt"
	"io"
	"path"
	"sync/atomic"

	"queen/engine/format"
	"queen/engine/vfs"
)

// File is an open run. Its users are counted: it is closed when the last one lets go.
type File[B any] struct {
	Head    format.RunHead
	Trailer format.RunTrailer
	// Name is the file's name in its directory, Size its length.
	Name string
	Size int64

	fences []format.Fence
	file   vfs.File
	kind   *Kind[B]
	id     uint64
	cache  *Cache[B]
	users  atomic.Int64
}

// Kind says how the blocks of a file are read.
type Kind[B any] struct {
	Kind  format.RunKind
	Parse func(*format.RunHead, []byte) (B, error)
	// First is the key of a block's first row.
	First func(*B) format.Fence
}

// Rows and IDs are the kinds there are.
var (
	Rows = &Kind[format.RowBlock]{format.RunRows, parseRows, func(b *format.RowBlock) format.Fence {
		pid, base := b.Key(0)
		return format.Fence{Partition: pid, Base: base}
	}}
	IDs = &Kind[format.IDBlock]{format.RunIDs, format.ParseIDBlock, func(b *format.IDBlock) format.Fence {
		pid, hash := b.Key(0)
		return format.IDFence(pid, hash)
	}}
)

func parseRows(_ *format.RunHead, b []byte) (format.RowBlock, error) { return format.ParseRowBlock(b) }

var fileIDs atomic.Uint64

// Open opens a run and verifies its head, its trailer and its fences; its blocks are verified as they
// are read. The caller is its first user. Damage is an *Error; so is a file that is not there.
func Open[B any](fs vfs.FS, dir, name string, kind *Kind[B], cache *Cache[B]) (*File[B], error) {
	file, err := fs.Open(path.Join(dir, name), vfs.ReadOnly)
	if err != nil {
		return nil, &Error{File: name, Err: err}
	}
	f := &File[B]{Name: name, file: file, kind: kind, id: fileIDs.Add(1), cache: cache}
	f.users.Store(1)
	if err := f.load(); err != nil {
		f.Release()
		return nil, err
	}
	return f, nil
}

func (f *File[B]) load() (err error) {
	if f.Size, err = f.file.Size(); err != nil {
		return f.fault(0, err)
	}
	if f.Size < 2*format.BlockSize {
		return f.fault(0, fmt.Errorf("length %d is shorter than a head and a trailer", f.Size))
	}
	var b [format.BlockSize]byte
	if err := f.read(b[:], 0); err != nil {
		return err
	}
	if f.Head, err = format.ParseRunHead(b[:]); err != nil {
		return f.fault(0, err)
	}
	if f.Head.Kind != f.kind.Kind {
		return f.fault(0, fmt.Errorf("kind %d want %d", f.Head.Kind, f.kind.Kind))
	}
	end := f.Size - format.BlockSize
	if err := f.read(b[:], end); err != nil {
		return err
	}
	if f.Trailer, err = format.ParseRunTrailer(b[:], f.Size); err != nil {
		return f.fault(end, err)
	}
	return f.loadFences()
}

func (f *File[B]) loadFences() error {
	t := &f.Trailer
	raw := make([]byte, int64(t.FenceBlocks)*format.BlockSize) // the trailer was checked against the size
	at := (1 + int64(t.Blocks)) * format.BlockSize
	if err := f.read(raw, at); err != nil {
		return err
	}
	f.fences = make([]format.Fence, 0, t.Blocks)
	for i := range t.FenceBlocks {
		var err error
		b := raw[int(i)*format.BlockSize:][:format.BlockSize]
		if f.fences, err = format.ParseFenceBlock(f.fences, f.kind.Kind, i, b); err != nil {
			return f.fault(at+int64(i)*format.BlockSize, err)
		}
	}
	if len(f.fences) != int(t.Blocks) {
		return f.fault(at, fmt.Errorf("%d fences for %d blocks", len(f.fences), t.Blocks))
	}
	return nil
}

func (f *File[B]) read(p []byte, at int64) error {
	if n, err := f.file.ReadAt(p, at); n < len(p) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return f.fault(at, err)
	}
	return nil
}

func (f *File[B]) fault(pos int64, err error) error { return &Error{File: f.Name, Pos: pos, Err: err} }

// Damage makes an *Error about a position in a block.
func (f *File[B]) Damage(block int, err error) error { return f.fault(blockPos(block), err) }

func blockPos(block int) int64 { return (1 + int64(block)) * format.BlockSize }

// Retain adds a user. The caller is one itself, so that the file is open.
func (f *File[B]) Retain() { f.users.Add(1) }

// Release lets go of the file; the last user closes it.
func (f *File[B]) Release() {
	if f.users.Add(-1) == 0 {
		_ = f.file.Close() // it was only read
	}
}

// Blocks is the number of blocks.
func (f *File[B]) Blocks() int { return len(f.fences) }

// Fence is the key of the first row of block i.
func (f *File[B]) Fence(i int) *format.Fence { return &f.fences[i] }

// Find returns the block that holds the last key not above k, or -1 when all are above.
func (f *File[B]) Find(k format.Fence) int { return format.FindBlock(f.kind.Kind, f.fences, k) }

// Block returns block i, verified, from the cache or the disk. It is immutable.
func (f *File[B]) Block(i int) (*B, error) {
	k := cacheKey{f.id, uint32(i)}
	if b := f.cache.get(k); b != nil {
		return b, nil
	}
	raw := make([]byte, format.BlockSize)
	if err := f.read(raw, blockPos(i)); err != nil {
		return nil, err
	}
	b, err := f.parse(raw, i)
	if err != nil {
		return nil, err
	}
	f.cache.put(k, b)
	return b, nil
}

func (f *File[B]) parse(raw []byte, i int) (*B, error) {
	b, err := f.kind.Parse(&f.Head, raw)
	if err != nil {
		return nil, f.Damage(i, err)
	}
	if first := f.kind.First(&b); first != f.fences[i] {
		return nil, f.Damage(i, fmt.Errorf("block begins with %v, its fence says %v", first, f.fences[i]))
	}
	return &b, nil
}

// scanBlocks is how many blocks a Scanner reads at a time.
const scanBlocks = 32

// Scanner reads the blocks of a file one after the other, past the cache. It is used by one goroutine.
type Scanner[B any] struct {
	f    *File[B]
	raw  []byte
	at   int // block that raw starts with
	next int
}

// Scan starts at block first.
func (f *File[B]) Scan(first int) *Scanner[B] { return &Scanner[B]{f: f, at: first, next: first} }

// Next returns the next block, valid until the call after; nil at the end.
func (s *Scanner[B]) Next() (*B, error) {
	if s.next >= s.f.Blocks() {
		return nil, nil
	}
	if s.next-s.at >= len(s.raw)/format.BlockSize {
		n := min(scanBlocks, s.f.Blocks()-s.next) * format.BlockSize
		if cap(s.raw) < n {
			s.raw = make([]byte, n)
		}
		s.raw, s.at = s.raw[:n], s.next
		if err := s.f.read(s.raw, blockPos(s.at)); err != nil {
			s.raw = s.raw[:0]
			return nil, err
		}
	}
	b := s.raw[(s.next-s.at)*format.BlockSize:][:format.BlockSize]
	s.next++
	return s.f.parse(b, s.next-1)
}

// Block is the number of the block that Next returned last.
func (s *Scanner[B]) Block() int { return s.next - 1 }
