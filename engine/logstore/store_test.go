package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// testOptions makes a small store whose calls on the file system are the same in every run.
func testOptions(fs vfs.FS) Options {
	return Options{
		FS: fs, Dir: "/log", Clock: clock.NewFake(0), Rand: clock.NewFakeRand(1), SegmentBytes: 128 << 10,
		PoolReady: 1, PoolReserve: 1, TailBytes: 64 << 10, inline: true,
		Fatal: func(error) {},
	}
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

// encoded makes a valid entry of package format with commands and payload of these sizes.
func encoded(commands, payload int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	buf := format.CommandBuf{Commands: make([]byte, commands), Payload: make([]byte, payload), Count: 1}
	for i := range buf.Commands {
		buf.Commands[i] = byte(r.Uint32())
	}
	for i := range buf.Payload {
		buf.Payload[i] = byte(r.Uint32())
	}
	var b format.EntryBuilder
	b.Begin(format.EntryHeader{Epoch: 1, Fuse: seed})
	b.Add(&buf)
	return b.Finish(nil)
}

func entry(i format.Index, term format.Term, data []byte) Entry {
	return Entry{Index: i, Term: term, Type: format.EntryEncoded, Data: data}
}

func outcome(t testing.TB, first, last format.Index, term format.Term) Outcome {
	b := format.OutcomeBuilder{Term: term}
	b.Begin(first, uint64(first))
	for i := first; i <= last; i++ {
		b.Add([]byte{0, byte(format.CodeMoved)})
	}
	_, body := b.Record(1, 1)
	return Outcome{First: first, Last: last, Term: term, Bytes: bytes.Clone(body)}
}

// TestAppendReplayRead writes entries of many sizes over several segments, and reads them back before and
// after a clean stop and after the process died.
func TestAppendReplayRead(t *testing.T) {
	for _, sizes := range [][]int{{10, 500, 3000, 20000, 4000, 64}, {100}} {
		fs := vfs.NewMem()
		s := mustOpen(t, testOptions(fs))
		var want [][]byte
		var pos []EntryPos
		for i := range 60 {
			data := encoded(30+i, sizes[i%len(sizes)], uint64(i))
			save := Save{Group: 1, Replica: 1, Entries: []Entry{entry(format.Index(i+1), 1, data)}, Commit: format.Index(i + 1)}
			if i > 0 && i%3 == 0 {
				save.Outcomes = []Outcome{outcome(t, format.Index(i-2), format.Index(i), 1)}
			}
			if err := s.Append(&save); err != nil {
				t.Fatalf("append %d: %v", i, err)
			}
			want = append(want, data)
			pos = append(pos, save.Placed[0])
		}
		checkHeld(t, s, want, pos)
		died := fs.Crash(vfs.KeepAll())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, fs := range []*vfs.Mem{fs, died, died.Crash(vfs.DropUnsynced())} {
			s := mustOpen(t, testOptions(fs))
			checkHeld(t, s, want, pos)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func checkHeld(t *testing.T, s *Store, want [][]byte, pos []EntryPos) {
	t.Helper()
	n := 0
	err := s.Replay(1, 1, func(v View) error {
		if int(v.Index) != n+1 || v.Pos != pos[n] || v.Len != uint32(len(want[n])) || v.Term != 1 {
			return fmt.Errorf("entry %d: %+v at %v", n+1, v, pos[n])
		}
		e, err := format.ParseEntryHead(v.Head)
		if err != nil {
			return err
		}
		if !bytes.Equal(v.Head[:e.PayloadBase], want[n][:e.PayloadBase]) {
			return fmt.Errorf("entry %d: head differs", n+1)
		}
		if has := n+1 <= (len(want)-1)/3*3; has != (v.Outcome != nil) {
			return fmt.Errorf("entry %d: outcome %v", n+1, v.Outcome)
		}
		n++
		return nil
	})
	if err != nil || n != len(want) {
		t.Fatalf("replayed %d of %d: %v", n, len(want), err)
	}
	for i := range want {
		got, err := s.ReadAt(pos[i], 0, AllBytes, nil)
		if err != nil || !bytes.Equal(got, want[i]) {
			t.Fatalf("entry %d at %v: %d bytes, want %d: %v", i+1, pos[i], len(got), len(want[i]), err)
		}
		off, size := len(want[i])/3, len(want[i])/2
		got, err = s.ReadAt(pos[i], uint32(off), uint32(size), []byte("x"))
		if err != nil || !bytes.Equal(got, append([]byte("x"), want[i][off:off+size]...)) {
			t.Fatalf("part of entry %d: %v", i+1, err)
		}
	}
	if _, err := s.ReadAt(pos[0], 1, uint32(len(want[0])), nil); !errors.Is(err, ErrRange) {
		t.Fatalf("read beyond the entry: %v", err)
	}
}

// TestFragmentsStayInOneSegment appends entries of several MiB among small ones.
func TestFragmentsStayInOneSegment(t *testing.T) {
	if testing.Short() {
		t.Skip("entries of megabytes, one after the other")
	}
	fs := vfs.NewMem()
	o := testOptions(fs)
	o.SegmentBytes, o.TailBytes = 16<<20, -1
	s := mustOpen(t, o)
	var want [][]byte
	var pos []EntryPos
	for i := range 12 {
		size := 100
		if i%2 == 1 {
			size = (i + 1) << 19
		}
		data := encoded(2000, size, uint64(i))
		if i == 5 {
			data = encoded(3<<20, 1<<20, 5) // head and commands lie in fragments too
		}
		save := Save{Group: 1, Replica: 1, Entries: []Entry{entry(format.Index(i+1), 1, data)}}
		if err := s.Append(&save); err != nil {
			t.Fatal(err)
		}
		want, pos = append(want, data), append(pos, save.Placed[0])
	}
	if err := s.Append(&Save{Group: 1, Replica: 1, Entries: []Entry{entry(13, 1, make([]byte, s.MaxEntry()+1))}}); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("too large: %v", err)
	}
	died := fs.Crash(vfs.DropUnsynced())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, fs := range []*vfs.Mem{fs, died} {
		o.FS = fs
		s := mustOpen(t, o)
		n := 0
		if err := s.Replay(1, 1, func(v View) error {
			e, err := format.ParseEntryHead(v.Head)
			if err != nil || !bytes.Equal(e.Commands, want[n][64:64+len(e.Commands)]) || v.Pos != pos[n] {
				return fmt.Errorf("entry %d: %v", n+1, err)
			}
			n++
			return nil
		}); err != nil || n != len(want) {
			t.Fatalf("replayed %d: %v", n, err)
		}
		for i := range want {
			got, err := s.ReadAt(pos[i], 0, AllBytes, nil)
			if err != nil || !bytes.Equal(got, want[i]) {
				t.Fatalf("entry %d: %v", i+1, err)
			}
			for _, at := range []int{0, len(want[i]) / 2, len(want[i]) - 10} {
				if got, err = s.ReadAt(pos[i], uint32(at), 10, nil); err != nil || !slices.Equal(got, want[i][at:at+10]) {
					t.Fatalf("entry %d at %d: %v", i+1, at, err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
