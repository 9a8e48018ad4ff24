package vfs

import "unsafe"

// AlignedBuffer returns n zero bytes that start at a multiple of BlockSize in memory, as direct I/O wants them. It
// is ordinary garbage-collected memory without pointers; the collector does not move it.
func AlignedBuffer(n int) []byte {
	if n == 0 {
		return nil
	}
	// Large allocations start on a page of the Go heap, which is usually enough: only the rest pays for the slack.
	if p := make([]byte, RoundUp(int64(n))); alignedMemory(p) {
		return p[:n:n]
	}
	p := make([]byte, n+BlockSize)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(p))) & (BlockSize - 1))
	return p[skip : skip+n : skip+n]
}

// RoundUp returns the smallest multiple of BlockSize that is not below n.
func RoundUp(n int64) int64 { return (n + BlockSize - 1) &^ (BlockSize - 1) }

// Aligned reports whether a range is made of whole blocks.
func Aligned(off int64, n int) bool { return (off|int64(n))&(BlockSize-1) == 0 }

func alignedMemory(p []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(p)))&(BlockSize-1) == 0
}

// BufferPool keeps aligned buffers of one size for reuse: never more than it was made for, however many are out.
type BufferPool struct {
	size int
	free chan []byte
}

// NewBufferPool makes a pool of buffers of size bytes that keeps at most keep of them.
func NewBufferPool(size, keep int) *BufferPool {
	return &BufferPool{size: size, free: make(chan []byte, keep)}
}

// Size is the length of every buffer of the pool.
func (b *BufferPool) Size() int { return b.size }

// Get returns a buffer with undefined content. It never blocks.
func (b *BufferPool) Get() []byte {
	select {
	case p := <-b.free:
		return p
	default:
		return AlignedBuffer(b.size)
	}
}

// Put gives a buffer back that came from Get, of which the caller keeps no view. What exceeds the pool is left to
// the collector.
func (b *BufferPool) Put(p []byte) {
	if cap(p) < b.size {
		return
	}
	select {
	case b.free <- p[:b.size]:
	default:
	}
}
