package logstore

import (
	"bytes"
	"sync"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

// TestOnDisk runs the store on the machine's file system with its goroutines: several groups append at
// once, the pool fills in the background, and everything is there after a clean stop.
func TestOnDisk(t *testing.T) {
	o := Options{
		FS: vfs.NewOS(vfs.OSOptions{}), Dir: t.TempDir(), SegmentBytes: 4 << 20, PoolReady: 1, PoolReserve: 1, TailBytes: 1 << 20,
		Fatal: func(err error) { t.Error(err) },
	}
	s := mustOpen(t, o)
	const groups, each = 8, 40
	var wg sync.WaitGroup
	for g := range groups {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range each {
				e := entry(format.Index(i+1), 1, encoded(20, 20000+100*g, uint64(i)))
				v := Save{Group: format.RaftGroup(g + 1), Replica: 1, Entries: []Entry{e}, Commit: e.Index}
				if err := s.Append(&v); err != nil {
					t.Error(err)
					return
				}
				if got, err := s.ReadAt(v.Placed[0], 0, AllBytes, nil); err != nil || !bytes.Equal(got, e.Data) {
					t.Errorf("read of what was written: %v", err)
				}
			}
		}()
	}
	wg.Wait()
	t.Logf("%+v", s.Stats())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, o)
	defer s.Close()
	for g := range groups {
		n := 0
		err := s.Replay(format.RaftGroup(g+1), 1, func(v View) error { n++; return nil })
		st, _ := s.Replica(format.RaftGroup(g+1), 1)
		if err != nil || n != each || st.Commit != each {
			t.Fatalf("group %d: %d entries, %+v: %v", g+1, n, st, err)
		}
	}
}
