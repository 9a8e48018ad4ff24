package idruns

import (
	"slices"
	"sync"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

// TestConcurrent: look-ups beside adds, merges, filters and discards find every id from the moment its
// chunk was added. Run it with -race.
func TestConcurrent(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs, nil, 0, 6000) // filters come and go
	defer s.Close()
	const marks, rows = 120, 60
	row := func(mark, i int) format.IDRow {
		return format.IDRow{
			Partition: format.PartitionID(64*(1+i%7) + 5), Hash: format.IDHash{byte(i * 37), byte(mark), byte(mark >> 8), byte(i)},
			Offset: format.Offset(mark), Place: format.Place{Index: format.Index(mark)}, W: format.Wall(1000 + mark*10),
		}
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for g := range 3 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for n := g; ; n += 7 {
				select {
				case <-done:
					return
				default:
				}
				clear := int(s.ClearTo())
				if clear == 0 {
					continue
				}
				var keys []Key
				var want []Original
				for k := range 50 {
					r := row(1+(n+k*13)%clear, k%rows)
					if k%3 == 0 {
						r = row(1+marks+k, 0)
						want = append(want, Original{})
					} else {
						want = append(want, Original{r, true})
					}
					keys = append(keys, Key{r.Partition, r.Hash})
				}
				got := make([]Original, len(keys))
				if err := s.ProbeBatch(keys, uint64(clear), got); err != nil || !slices.Equal(got, want) {
					t.Errorf("up to %d: %v %v, want %v", clear, err, got, want)
					return
				}
				if _, found, err := s.Probe(keys[1].Partition, keys[1].Hash); err != nil || !found {
					t.Errorf("up to %d: %v %v", clear, found, err)
					return
				}
			}
		}()
	}
	for mark := 1; mark <= marks; mark++ {
		var ids []format.IDRow
		for i := range rows {
			ids = append(ids, row(mark, i))
		}
		w := format.Wall(1000 + mark*10)
		if err := s.Add(Mark{Number: uint64(mark), W: w, Horizon: w - 4*10*marks}, Slice(ids)); err != nil {
			t.Fatal(err)
		}
		for range mark % 5 {
			if _, err := s.Step(70); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Discard(); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	readers.Wait()
}
