package logstore

import (
	"testing"

	"queen/engine/vfs"
)

// TestBufferClasses checks that each size gets the smallest class that holds it, and that classes waste at
// most a fifth.
func TestBufferClasses(t *testing.T) {
	for n := vfs.BlockSize; n <= 9<<20; n += vfs.BlockSize {
		class := classOf(n)
		size := classBytes(class)
		if size < n || class > 0 && classBytes(class-1) >= n || float64(size-n) > 0.2*float64(size) {
			t.Fatalf("%d bytes: class %d of %d bytes", n, class, size)
		}
	}
}
