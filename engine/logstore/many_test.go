package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
	"queen/engine/vfs"
)

// readsFS tells of every read of a file.
type readsFS struct {
	vfs.FS
	read func(bytes int)
}

func (f *readsFS) Open(name string, flags vfs.Flags) (vfs.File, error) {
	file, err := f.FS.Open(name, flags)
	if err != nil {
		return nil, err
	}
	return &readsFile{file, f}, nil
}

type readsFile struct {
	vfs.File
	fs *readsFS
}

func (f *readsFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fs.read != nil {
		f.fs.read(len(p))
	}
	return f.File.ReadAt(p, off)
}

// forgetHeads leaves a store as one that was just opened.
func forgetHeads(s *Store) {
	for i := range s.heads.slots {
		s.heads.slots[i].Lock()
		s.heads.slots[i].segment = 0
		s.heads.slots[i].Unlock()
	}
}

// written is an entry or a frame, and where it is.
type written struct {
	at   EntryPos
	data []byte
}

// appendAll writes entries of these sizes, of which raft needs none.
func appendAll(t testing.TB, s *Store, sizes ...int) (all []written) {
	t.Helper()
	for _, size := range sizes {
		i := format.Index(1)
		if st, ok := s.Replica(1, 1); ok {
			i = st.Last + 1
		}
		save := Save{Group: 1, Replica: 1, Entries: []Entry{entry(i, 1, encoded(30, size, uint64(i)))}, Commit: i, Floor: i - 1}
		require.NoError(t, s.Append(&save))
		all = append(all, written{save.Placed[0], save.Entries[0].Data})
	}
	return all
}

// checkMany asks for ranges at once and one by one.
func checkMany(t *testing.T, s *Store, wants []Want) {
	t.Helper()
	for i := range wants {
		wants[i].Data = []byte("before")
	}
	s.ReadMany(wants)
	for i := range wants {
		w := &wants[i]
		data, index, err := s.ReadIndexed(w.Pos, w.Off, w.N, []byte("before"))
		require.Equal(t, fmt.Sprint(err), fmt.Sprint(w.Err), "%+v", w.Pos)
		require.True(t, bytes.Equal(data, w.Data), "%+v [%d,+%d): %d bytes, want %d", w.Pos, w.Off, w.N, len(w.Data), len(data))
		if err == nil {
			require.Equal(t, index, w.Index)
		}
	}
}

// TestReadMany: ranges that are read together are what they are when they are read alone, to the byte and to the error,
// whatever is asked for at once: of entries in memory and on disk, in one piece and in fragments, of frames in bulk
// segments, ranges that reach too far, and of segments that are gone.
func TestReadMany(t *testing.T) {
	for _, inline := range []bool{true, false} {
		mem := vfs.NewMem()
		o := testOptions(mem)
		o.inline, o.SegmentBytes, o.TailBytes = inline, 5<<20, 256<<10
		s := mustOpen(t, o)
		var sizes []int
		for i := range 200 {
			sizes = append(sizes, []int{10, 500, 3000, 20_000, 200 << 10, 90_000, 16 << 10, 7}[i%8])
			if i%50 == 20 {
				sizes = append(sizes, 1500<<10)
			}
		}
		all := appendAll(t, s, sizes...)
		frames, placed, err := writeBulk(s, []int{100, 9000, 4000, 30, 60_000})
		require.NoError(t, err)
		for i, f := range frames {
			all = append(all, written{placed[i], f.Frame})
		}
		require.Greater(t, len(s.Segments()), 2)
		rng := rand.New(rand.NewPCG(1, 2))
		ask := func() {
			wants := make([]Want, 1+rng.IntN(60))
			at := rng.IntN(len(all))
			for i := range wants {
				if rng.IntN(10) == 0 {
					at = rng.IntN(len(all))
				} else {
					at = (at + rng.IntN(3)) % len(all)
				}
				size := uint32(len(all[at].data))
				w := Want{Pos: all[at].at, Off: rng.Uint32N(size + 1)}
				switch rng.IntN(8) {
				case 0:
					w.Off, w.N = 0, size
				case 1:
					w.N = AllBytes
				case 2:
					w.N = size - w.Off + 1
				default:
					w.N = rng.Uint32N(min(size-w.Off, 30_000) + 1)
				}
				wants[i] = w
			}
			checkMany(t, s, wants)
		}
		for range 100 {
			ask()
		}
		require.NoError(t, s.Close())
		s = mustOpen(t, o)
		for i := range 100 {
			if i%10 == 0 {
				forgetHeads(s)
			}
			ask()
		}
		require.NoError(t, s.Reclaim(1))
		for range 20 {
			ask()
		}
		require.NoError(t, s.Close())
	}
}

// TestReadManyReadsTogether: what lies together is read at once, what lies far apart is read alone, and with a
// head that is not known the same, a second time.
func TestReadManyReadsTogether(t *testing.T) {
	var reads, read atomic.Int64
	fs := &readsFS{FS: vfs.NewMem()}
	o := testOptions(fs)
	o.SegmentBytes, o.TailBytes = 16<<20, -1
	s := mustOpen(t, o)
	defer s.Close()
	const entryBytes, piece = 200 << 10, 5 << 10
	all := appendAll(t, s, entryBytes, entryBytes, entryBytes, entryBytes, entryBytes, entryBytes, entryBytes, entryBytes)
	fs.read = func(n int) { reads.Add(1); read.Add(int64(n)) }
	ask := func(every int) (wanted int64) {
		reads.Store(0)
		read.Store(0)
		var wants []Want
		for off := uint32(1000); off+piece <= entryBytes; off += uint32(every) { // of each entry in turn, as a partition has them
			for _, e := range all {
				wants = append(wants, Want{Pos: e.at, Off: off, N: piece})
				wanted += piece
			}
		}
		s.ReadMany(wants)
		for i := range wants {
			require.NoError(t, wants[i].Err)
			require.Equal(t, all[i%len(all)].data[wants[i].Off:][:piece], wants[i].Data)
		}
		return wanted
	}
	ask(2 * piece)
	require.LessOrEqual(t, reads.Load(), int64(len(all)*entryBytes/runMost+3), "160 ranges next to each other")
	require.LessOrEqual(t, read.Load(), int64(len(all))*(entryBytes+8<<10))
	forgetHeads(s)
	ask(2 * piece)
	require.LessOrEqual(t, reads.Load(), int64(4*len(all)))

	wanted := ask(70 << 10)
	require.Equal(t, int64(3*len(all)), reads.Load(), "ranges far from each other")
	require.LessOrEqual(t, read.Load(), 3*wanted)
	forgetHeads(s)
	ask(70 << 10)
	require.LessOrEqual(t, reads.Load(), int64(4*len(all)))
}

// TestReadManyReadsFragmentsTogether: of an entry in fragments is read together what lies in one of them, from when it was
// written on, and once its head is known after the store was opened.
func TestReadManyReadsFragmentsTogether(t *testing.T) {
	var reads atomic.Int64
	fs := &readsFS{FS: vfs.NewMem()}
	o := testOptions(fs)
	o.SegmentBytes, o.TailBytes = 16<<20, -1
	s := mustOpen(t, o)
	const entryBytes, piece = 3 << 20, 20 << 10
	all := appendAll(t, s, entryBytes, entryBytes)
	ask := func() int64 {
		reads.Store(0)
		var wants []Want
		for off := uint32(70_000); off+piece <= entryBytes; off += 2 * piece {
			for _, e := range all {
				wants = append(wants, Want{Pos: e.at, Off: off, N: piece})
			}
		}
		require.Greater(t, len(wants), 100)
		s.ReadMany(wants)
		for i := range wants {
			require.NoError(t, wants[i].Err)
			require.True(t, bytes.Equal(all[i%len(all)].data[wants[i].Off:][:piece], wants[i].Data))
		}
		return reads.Load()
	}
	fs.read = func(int) { reads.Add(1) }
	const together = 2*(entryBytes/runMost+1) + 2*3*2 // those that cross from one fragment to the next are read alone
	require.LessOrEqual(t, ask(), int64(together))
	forgetHeads(s)
	require.LessOrEqual(t, ask(), int64(together+2))
	fs.read = nil
	require.NoError(t, s.Close())
	s = mustOpen(t, o)
	defer s.Close()
	fs.read = func(int) { reads.Add(1) }
	require.LessOrEqual(t, ask(), int64(together+2))
}

// TestReadManyWhileReclaimed: a segment is given away while ranges of it are read. Those that are being read are what
// they were, the others are told that it is gone, and its file, written anew as another segment, is never taken for it.
func TestReadManyWhileReclaimed(t *testing.T) {
	fs := &readsFS{FS: vfs.NewMem()}
	o := testOptions(fs)
	o.SegmentBytes, o.TailBytes = 512<<10, -1
	s := mustOpen(t, o)
	defer s.Close()
	var all []written
	for len(s.Segments()) < 4 {
		all = append(all, appendAll(t, s, 20_000, 60_000)...)
	}
	var wants []Want
	var of []written
	for _, e := range all {
		if e.at.Segment < 3 && len(e.data) < 60_000 {
			wants, of = append(wants, Want{Pos: e.at, Off: 500, N: 15_000}), append(of, e)
		}
	}
	g, _ := s.readable(1)
	done := make(chan error, 1)
	fs.read = func(int) {
		fs.read = nil
		go func() { done <- s.Reclaim(1) }()
		for gone := false; !gone; { // until Reclaim has taken the segment away
			s.handles.mu.Lock()
			gone = g.gone
			s.handles.mu.Unlock()
		}
	}
	s.ReadMany(wants)
	require.NoError(t, <-done)
	got, gone := 0, 0
	for i := range wants {
		w := &wants[i]
		if w.Pos.Segment == 1 && errors.Is(w.Err, ErrReclaimed) {
			gone++
			continue
		}
		require.NoError(t, w.Err)
		require.Equal(t, of[i].data[500:15_500], w.Data)
		if w.Pos.Segment == 1 {
			got++
		}
	}
	require.NotZero(t, got)
	require.NotZero(t, gone)
	for n := s.Stats().Segments; s.Stats().Segments < n+2; {
		all = append(all, appendAll(t, s, 20_000, 60_000)...)
	}
	clear(wants)
	for i := range wants {
		wants[i] = Want{Pos: of[i].at, Off: 500, N: 15_000}
	}
	checkMany(t, s, wants)
	for i := range wants {
		require.Equal(t, wants[i].Pos.Segment == 1, errors.Is(wants[i].Err, ErrReclaimed))
	}
}

// TestReadManyMeetsRot: a head whose checksum is wrong is served with nothing behind it, as when it is read alone.
func TestReadManyMeetsRot(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.SegmentBytes, o.TailBytes = 8<<20, -1
	s := mustOpen(t, o)
	defer s.Close()
	all := appendAll(t, s, 20_000, 200<<10, 300)
	for _, e := range all {
		name := path.Join(o.Dir, format.SegmentID(e.at.Segment).FileName())
		require.NoError(t, mem.FlipBit(name, int64(e.at.Pos)+26, 2)) // its index
	}
	forgetHeads(s)
	wants := []Want{{Pos: all[0].at, Off: 5000, N: 100}, {Pos: all[1].at, Off: 150 << 10, N: 100}, {Pos: all[1].at, Off: 100, N: 1000},
		{Pos: all[2].at, Off: 100, N: 100}}
	checkMany(t, s, wants)
	for i := range wants {
		var rot *CorruptionError
		require.ErrorAs(t, wants[i].Err, &rot)
	}
}
