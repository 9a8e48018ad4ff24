package logstore

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

// oneAtATime is a hook that fails a durable write which begins before the one before it has ended. Each calls began
// when it is under way.
func oneAtATime(began func()) func(vfs.Op) error {
	var busy atomic.Bool
	return func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpWriteSync:
			if !busy.CompareAndSwap(false, true) {
				return errors.New("two durable writes at a time")
			}
			began()
		case vfs.OpPersist:
			busy.Store(false)
		}
		return nil
	}
}

// TestWaitingAppendsShareAWrite: while a caller writes for itself others queue up; all of them are durable with one
// write more, and no two writes overlap.
func TestWaitingAppendsShareAWrite(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	writes := 0
	entered, leave := make(chan struct{}), make(chan struct{})
	mem.SetHook(oneAtATime(func() {
		if writes++; writes == 1 {
			close(entered)
			<-leave
		}
	}))
	appendOne := func(group format.RaftGroup) {
		if err := s.Append(&Save{Group: group, Replica: 1, Entries: []Entry{entry(1, 1, encoded(9, 9, 1))}}); err != nil {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	all.Go(func() { appendOne(1) })
	<-entered
	for g := format.RaftGroup(2); g < 10; g++ {
		all.Go(func() { appendOne(g) })
	}
	waiting := func() int {
		s.writer.queue.Lock()
		defer s.writer.queue.Unlock()
		return len(s.writer.queue.waiting)
	}
	for waiting() < 8 {
		runtime.Gosched()
	}
	close(leave)
	all.Wait()
	if writes != 2 {
		t.Fatalf("%d writes, want 2", writes)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOneWriterAtATime appends from many goroutines at once over several segments: every entry is durable when its Append
// returns, and no two durable writes overlap.
func TestOneWriterAtATime(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.inline, o.PoolReady = false, 3
	s := mustOpen(t, o)
	mem.SetHook(oneAtATime(runtime.Gosched))
	const groups, entries = 8, 60
	var all sync.WaitGroup
	for g := format.RaftGroup(1); g <= groups; g++ {
		all.Go(func() {
			for i := format.Index(1); i <= entries; i++ {
				v := &Save{Group: g, Replica: 1, Entries: []Entry{entry(i, 1, encoded(20, int(i)*30, uint64(i)))}}
				if err := s.Append(v); err != nil || v.Placed[0].IsZero() {
					t.Errorf("group %d entry %d at %v: %v", g, i, v.Placed, err)
					return
				}
			}
		})
	}
	all.Wait()
	after := mem.Crash(vfs.DropUnsynced())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, Options{FS: after, Dir: o.Dir, SegmentBytes: o.SegmentBytes, PoolReady: 1, inline: true})
	for g := format.RaftGroup(1); g <= groups; g++ {
		if st, ok := r.Replica(g, 1); !ok || st.Last != entries {
			t.Errorf("group %d: %+v", g, st)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkAppendAlone: one caller, one entry of a block at a time, on memory. It counts what the log adds to the
// disk's own time: allocations, and the goroutines that have to be woken.
func BenchmarkAppendAlone(b *testing.B) {
	o := testOptions(vfs.NewMem())
	o.SegmentBytes, o.PoolReady, o.TailBytes = 64<<20, 2, 1<<20
	s := mustOpen(b, o)
	data := encoded(60, 1024, 1)
	save := &Save{Group: 1, Replica: 1, Entries: []Entry{entry(0, 1, data)}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		save.Entries[0].Index, save.Commit = format.Index(i+1), format.Index(i+1)
		if err := s.Append(save); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
