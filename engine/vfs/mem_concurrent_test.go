package vfs_test

import (
	"fmt"
	"sync"
	"testing"

	"queen/engine/vfs"
)

// Several goroutines write synced blocks, each into its own file, while crashes are taken. Every crash holds, of
// each file, at least what its writer had been told is durable before the crash.
func TestMemConcurrentCrashes(t *testing.T) {
	const writers, blocks = 4, 40
	m := vfs.NewMem()
	var files [writers]vfs.File
	for i := range files {
		files[i] = must(vfs.OpenNew(m, fmt.Sprint("f", i)))(t)
	}
	ok(t, m.SyncDir("/"))
	var told struct {
		sync.Mutex
		durable [writers]int
	}
	var wg sync.WaitGroup
	for i, f := range files {
		wg.Go(func() {
			block := make([]byte, vfs.BlockSize)
			for n := range blocks {
				block[0] = byte(n + 1)
				if err := f.WriteAtSync(block, int64(n)*vfs.BlockSize); err != nil {
					t.Error(err)
					return
				}
				told.Lock()
				told.durable[i] = n + 1
				told.Unlock()
			}
		})
	}
	for seed := range uint64(50) {
		told.Lock()
		durable := told.durable
		told.Unlock()
		disk := m.Crash(vfs.RandomSubset(seed))
		for i, want := range durable {
			content := must(vfs.ReadFile(disk, fmt.Sprint("f", i), 1<<20))(t)
			for n := range want {
				if len(content) <= n*vfs.BlockSize || content[n*vfs.BlockSize] != byte(n+1) {
					t.Fatalf("seed %d: block %d of file %d is lost", seed, n, i)
				}
			}
		}
	}
	wg.Wait()
}
