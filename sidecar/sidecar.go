package sidecar

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
	"queen/engine/vfs"
)

// A sidecar file is one head, then fixed rows, all integers little-endian:
//
//	| magic "QUEENHSC" 8 | version 1 | min reader 1 | 0 (2) | segment u32 | end u64 | checksum u64 |
//	| chunks u32 | queues u32 | root 16 | chunk rows | queue rows |
//	chunk row: | group u8 | 0 (7) | mark u64 | first u64 | last u64 | bytes u64 | hash 16 |
//	queue row: | queue u64 | bytes u64 | newest W i64 |
//
// The root is xxh3-128 over everything else. It is of this node: segments differ between replicas.
const (
	// Version and MinReader are what this code writes, and the oldest reader of it.
	Version   = 1
	MinReader = 1

	headSize  = 56
	chunkSize = 56
	queueSize = 24
	// MaxBytes bounds a sidecar file.
	MaxBytes = 64 << 20
)

var magic = [8]byte{'Q', 'U', 'E', 'E', 'N', 'H', 'S', 'C'}

// Sidecar is the list of one segment.
type Sidecar struct {
	Segment format.SegmentID
	// End is the position behind the segment's last extent, Checksum that extent's.
	End, Checksum uint64
	Chunks        []Chunk
	Queues        []Queue
	// Root is filled in by Append and Parse.
	Root [16]byte
}

// Chunk is what lies between two Marks of a raft group, the second one included.
type Chunk struct {
	Group       format.RaftGroup
	Mark        uint64
	First, Last format.Index
	// Bytes are the entries' bytes, payload included.
	Bytes uint64
	Hash  [16]byte
}

// Queue is what the segment stored of a queue. Retention and trims since do not change it.
type Queue struct {
	Queue format.QueueID
	// Bytes are those of the frames as stored.
	Bytes uint64
	// NewestW is the newest createdAt.
	NewestW format.Wall
}

// FileName is that of the segment with another ending.
func FileName(s format.SegmentID) string { return strings.TrimSuffix(s.FileName(), ".dat") + ".hsc" }

// Append appends the whole file to dst and sets Root.
func (s *Sidecar) Append(dst []byte) []byte {
	at := len(dst)
	le := binary.LittleEndian
	dst = append(dst, magic[:]...)
	dst = append(dst, Version, MinReader, 0, 0)
	dst = le.AppendUint32(dst, uint32(s.Segment))
	dst = le.AppendUint64(dst, s.End)
	dst = le.AppendUint64(dst, s.Checksum)
	dst = le.AppendUint32(dst, uint32(len(s.Chunks)))
	dst = le.AppendUint32(dst, uint32(len(s.Queues)))
	dst = append(dst, make([]byte, 16)...)
	for i := range s.Chunks {
		c := &s.Chunks[i]
		dst = append(dst, byte(c.Group), 0, 0, 0, 0, 0, 0, 0)
		dst = le.AppendUint64(dst, c.Mark)
		dst = le.AppendUint64(dst, uint64(c.First))
		dst = le.AppendUint64(dst, uint64(c.Last))
		dst = le.AppendUint64(dst, c.Bytes)
		dst = append(dst, c.Hash[:]...)
	}
	for _, q := range s.Queues {
		dst = le.AppendUint64(dst, uint64(q.Queue))
		dst = le.AppendUint64(dst, q.Bytes)
		dst = le.AppendUint64(dst, uint64(q.NewestW))
	}
	s.Root = root(dst[at:])
	copy(dst[at+40:], s.Root[:])
	return dst
}

func root(b []byte) [16]byte {
	h := xxh3.New()
	_, _ = h.Write(b[:40])
	_, _ = h.Write(b[headSize:])
	return h.Sum128().Bytes()
}

// Parse reads a whole file and verifies its root.
func Parse(b []byte) (s Sidecar, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < headSize || [8]byte(b) != magic:
		return s, fmt.Errorf("sidecar: %d bytes that are no sidecar", len(b))
	case b[9] == 0 || b[9] > Version:
		return s, fmt.Errorf("sidecar: version %d needs reader %d, this is reader %d", b[8], b[9], Version)
	}
	chunks, queues := uint64(le.Uint32(b[32:])), uint64(le.Uint32(b[36:]))
	if want := headSize + chunks*chunkSize + queues*queueSize; uint64(len(b)) != want {
		return s, fmt.Errorf("sidecar: %d bytes, want %d", len(b), want)
	}
	if got, want := root(b), [16]byte(b[40:headSize]); got != want {
		return s, fmt.Errorf("sidecar: root %x want %x", got, want)
	}
	s = Sidecar{
		Segment: format.SegmentID(le.Uint32(b[12:])), End: le.Uint64(b[16:]), Checksum: le.Uint64(b[24:]), Root: root(b),
		Chunks: make([]Chunk, chunks), Queues: make([]Queue, queues),
	}
	b = b[headSize:]
	for i := range s.Chunks {
		s.Chunks[i] = Chunk{
			Group: format.RaftGroup(b[0]), Mark: le.Uint64(b[8:]), First: format.Index(le.Uint64(b[16:])),
			Last: format.Index(le.Uint64(b[24:])), Bytes: le.Uint64(b[32:]), Hash: [16]byte(b[40:chunkSize]),
		}
		b = b[chunkSize:]
	}
	for i := range s.Queues {
		s.Queues[i] = Queue{format.QueueID(le.Uint64(b)), le.Uint64(b[8:]), format.Wall(le.Uint64(b[16:]))}
		b = b[queueSize:]
	}
	return s, nil
}

// Write puts the sidecar of a segment into dir, durably.
func Write(fs vfs.FS, dir string, s *Sidecar) error {
	if err := vfs.WriteFileSync(fs, dir+"/"+FileName(s.Segment), s.Append(nil)); err != nil {
		return fmt.Errorf("sidecar: segment %d: %w", s.Segment.Number(), err)
	}
	return nil
}

// Read returns the sidecar of a segment. An error says that it is missing or damaged: it can be made
// again from the segment.
func Read(fs vfs.FS, dir string, id format.SegmentID) (Sidecar, error) {
	b, err := vfs.ReadFile(fs, dir+"/"+FileName(id), MaxBytes)
	if err != nil {
		return Sidecar{}, fmt.Errorf("sidecar: segment %d: %w", id.Number(), err)
	}
	s, err := Parse(b)
	if err == nil && s.Segment != id {
		err = fmt.Errorf("sidecar: that of segment %d under the name of %d", s.Segment.Number(), id.Number())
	}
	return s, err
}
