package engine

import (
	"encoding/binary"
	"sync"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
)

// chunkHash hashes the chunk that is forming: the entries since the last Mark, with their outcomes,
// without payload. It belongs to the node, never to the state: a difference between replicas is no
// state (engine design section 10).
type chunkHash struct {
	mu struct {
		sync.Mutex
		hash    *xxh3.Hasher
		chain   [16]byte // of the last closed chunk
		bytes   int64    // log bytes of the open chunk
		entries uint64
		since   int64 // mono reading at its first entry
		first   format.Index
		last    endedChunk
	}
	scratch []byte
}

// add takes one applied entry into the open chunk. A Mark ends its chunk, if it was accepted: its own
// outcome does not count.
func (c *chunkHash) add(i format.Index, term format.Term, kind format.EntryType, e *format.Entry, outcome []byte, now int64, mark bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.hash == nil {
		c.mu.hash = xxh3.New()
	}
	b := c.scratch[:0]
	b = binary.LittleEndian.AppendUint64(b, uint64(i))
	b = binary.LittleEndian.AppendUint64(b, uint64(term))
	b = append(b, byte(kind))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Header.Epoch))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Header.T))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Header.W))
	b = binary.LittleEndian.AppendUint64(b, e.Header.Fuse)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Commands)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.IDs)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(outcome)))
	c.scratch = b
	c.mu.hash.Write(b)
	c.mu.hash.Write(e.Commands)
	c.mu.hash.Write(e.IDs)
	if c.mu.first == 0 {
		c.mu.first = i
	}
	if mark {
		c.closeLocked()
		return
	}
	c.mu.hash.Write(outcome)
	if c.mu.entries == 0 {
		c.mu.since = now
	}
	c.mu.bytes += int64(e.Len)
	c.mu.entries++
}

func (c *chunkHash) closeLocked() {
	sum := c.mu.hash.Sum128().Bytes()
	c.mu.last = endedChunk{first: c.mu.first, bytes: c.mu.bytes, hash: sum, before: c.mu.chain}
	c.mu.first = 0
	c.mu.hash.Reset()
	c.mu.hash.Write(c.mu.chain[:])
	c.mu.hash.Write(sum[:])
	c.mu.chain = c.mu.hash.Sum128().Bytes()
	c.mu.hash.Reset()
	c.mu.bytes, c.mu.entries = 0, 0
}

// endedChunk is a chunk that a Mark closed.
type endedChunk struct {
	first format.Index
	bytes int64 // of its entries, the Mark left out
	hash  [16]byte
	// before is the chain hash of the chunk before it.
	before [16]byte
}

// ended is the newest closed chunk.
func (c *chunkHash) ended() endedChunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.last
}

func (c *chunkHash) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.bytes
}

// open reads the open chunk's size, and when its first entry was applied.
func (c *chunkHash) open() (bytes int64, entries uint64, since int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.bytes, c.mu.entries, c.mu.since
}

// chain is the chain hash of the last closed chunk.
func (c *chunkHash) chain() [16]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.chain
}

// restore continues a chain from a checkpoint taken at a Mark.
func (c *chunkHash) restore(chain [16]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.chain = chain
}
