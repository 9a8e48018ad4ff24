package replication

import (
	"math/rand/v2"
	"testing"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

func testOptions(fs vfs.FS) logstore.Options {
	return logstore.Options{
		FS: fs, Dir: "/log", Clock: clock.NewFake(0), Rand: clock.NewFakeRand(1), SegmentBytes: 128 << 10,
		PoolReady: 1, PoolReserve: 1, TailBytes: 64 << 10, Fatal: func(error) {},
	}
}

func mustOpen(t testing.TB, o logstore.Options) *logstore.Store {
	t.Helper()
	s, err := logstore.Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

// encoded makes the bytes of a valid entry with commands and payload of these sizes.
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

func entry(i format.Index, term format.Term, data []byte) logstore.Entry {
	return logstore.Entry{Index: i, Term: term, Type: format.EntryEncoded, Data: data}
}

// reclaimOldest gives away whatever the store lets go of.
func reclaimOldest(s *logstore.Store) error {
	for _, in := range s.Segments() {
		if !in.Sealed {
			return nil
		}
		if err := s.Reclaim(in.Segment); err != nil {
			return err
		}
	}
	return nil
}
