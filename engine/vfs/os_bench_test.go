//go:build linux

package vfs_test

import (
	"path"
	"testing"

	"queen/engine/vfs"
)

// BenchmarkWriteAtSync writes one durable block after another into space that was written before, in each mode.
func BenchmarkWriteAtSync(b *testing.B) {
	const fileBytes = 16 << 20
	for _, mode := range []vfs.Mode{vfs.ModeDirectDSync, vfs.ModeDirectSync, vfs.ModeBufferedSync} {
		b.Run(mode.String(), func(b *testing.B) {
			f, err := vfs.NewOS(vfs.OSOptions{BestMode: mode}).Open(path.Join(b.TempDir(), "f"), vfs.Create|vfs.Direct)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			if err := f.WriteAtSync(vfs.AlignedBuffer(fileBytes), 0); err != nil {
				b.Fatal(err)
			}
			block := vfs.AlignedBuffer(vfs.BlockSize)
			pos := int64(0)
			for b.Loop() {
				if err := f.WriteAtSync(block, pos); err != nil {
					b.Fatal(err)
				}
				pos = (pos + vfs.BlockSize) % fileBytes
			}
			b.ReportMetric(0, "B/op")
		})
	}
}
