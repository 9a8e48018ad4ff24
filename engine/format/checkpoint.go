package format

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// A checkpoint file is | head block | chunks |: the state machine's rows as a stream of bytes, cut into
// chunks that are verified one by one. Every chunk but the last is ChunkBytes long, head included; the
// last is padded to whole blocks.
const (
	// CheckpointVersion and CheckpointMinReader are what this code writes, and the oldest reader of it.
	CheckpointVersion   = 1
	CheckpointMinReader = 1
	// ChunkBytes is the length of a chunk in the file.
	ChunkBytes = 1 << 20
	// ChunkHeadSize is the length of a chunk's head, ChunkBody the most it holds.
	ChunkHeadSize = 16
	ChunkBody     = ChunkBytes - ChunkHeadSize

	chunkLast = 1 << 31
)

var checkpointMagic = [8]byte{'Q', 'U', 'E', 'E', 'N', 'C', 'K', 'P'}

// CheckpointKind says what a checkpoint file holds. The numbers are on disk.
type CheckpointKind uint8

const (
	// CheckpointBase is all rows.
	CheckpointBase CheckpointKind = 1
	// CheckpointDelta is the rows written since Parent.
	CheckpointDelta CheckpointKind = 2
)

// CheckpointHead is block 0 of a checkpoint file.
type CheckpointHead struct {
	Kind  CheckpointKind
	Group RaftGroup
	// Number names the file, Parent the file that a delta stands on (0 for a base).
	Number, Parent uint64
	// Mark and Index are the position of the state, T and W its stamps.
	Mark  uint64
	Index Index
	T     Mono
	W     Wall
	// Cluster is the raft group's cluster id.
	Cluster UUID
	// Level is the behaviour level of the state, Content the version of the machine's bytes inside.
	Level, Content uint32
	// Digest is the state digest at Mark.
	Digest [16]byte
}

// Encode writes block 0 into the first BlockSize bytes of dst.
func (h *CheckpointHead) Encode(dst []byte) {
	b := dst[:BlockSize]
	clear(b)
	le := binary.LittleEndian
	copy(b, checkpointMagic[:])
	b[8], b[9], b[10], b[11] = CheckpointVersion, CheckpointMinReader, byte(h.Kind), byte(h.Group)
	le.PutUint32(b[12:], ChunkBytes)
	le.PutUint64(b[16:], h.Number)
	le.PutUint64(b[24:], h.Parent)
	le.PutUint64(b[32:], h.Mark)
	le.PutUint64(b[40:], uint64(h.Index))
	le.PutUint64(b[48:], uint64(h.T))
	le.PutUint64(b[56:], uint64(h.W))
	copy(b[64:80], h.Cluster[:])
	le.PutUint32(b[80:], h.Level)
	le.PutUint32(b[84:], h.Content)
	copy(b[88:104], h.Digest[:])
	sealBlock(b)
}

// ParseCheckpointHead parses and verifies block 0.
func ParseCheckpointHead(b []byte) (h CheckpointHead, err error) {
	if err := openBlock("checkpoint head", b, checkpointMagic, CheckpointVersion); err != nil {
		return h, err
	}
	le := binary.LittleEndian
	h = CheckpointHead{
		Kind: CheckpointKind(b[10]), Group: RaftGroup(b[11]), Number: le.Uint64(b[16:]), Parent: le.Uint64(b[24:]),
		Mark: le.Uint64(b[32:]), Index: Index(le.Uint64(b[40:])), T: Mono(le.Uint64(b[48:])), W: Wall(le.Uint64(b[56:])),
		Cluster: UUID(b[64:80]), Level: le.Uint32(b[80:]), Content: le.Uint32(b[84:]), Digest: [16]byte(b[88:104]),
	}
	if h.Kind != CheckpointBase && h.Kind != CheckpointDelta || h.Group == 0 || h.Group > 63 ||
		(h.Kind == CheckpointBase) != (h.Parent == 0) {
		return h, errorf("checkpoint head", 10, "kind %d group %d parent %d", h.Kind, h.Group, h.Parent)
	}
	if le.Uint32(b[12:]) != ChunkBytes || !isZero(b[104:BlockSize-4]) {
		return h, errorf("checkpoint head", 12, "chunks of %d bytes, or reserved bytes are not zero", le.Uint32(b[12:]))
	}
	return h, nil
}

// FinishChunk completes a chunk that holds its body from ChunkHeadSize on: it writes the head, and pads
// a last chunk with zeros to whole blocks. A chunk that is not the last must be full.
func (h *CheckpointHead) FinishChunk(b []byte, number uint32, last bool) []byte {
	length := uint32(len(b) - ChunkHeadSize)
	if last {
		length |= chunkLast
		b = appendZeros(b, -len(b)&(BlockSize-1))
	}
	binary.LittleEndian.PutUint32(b[8:], number)
	binary.LittleEndian.PutUint32(b[12:], length)
	binary.LittleEndian.PutUint64(b, h.chunkSum(b))
	return b
}

// ParseChunk verifies chunk number of the file and returns its body, which aliases b. b is ChunkBytes
// long, or shorter at the end of the file.
func (h *CheckpointHead) ParseChunk(b []byte, number uint32) (body []byte, last bool, err error) {
	if len(b) < ChunkHeadSize || len(b) > ChunkBytes {
		return nil, false, errorf("checkpoint chunk", 0, "length %d", len(b))
	}
	le := binary.LittleEndian
	if got, want := h.chunkSum(b), le.Uint64(b); got != want {
		return nil, false, errorf("checkpoint chunk", 0, "checksum %#x want %#x", got, want)
	}
	length := le.Uint32(b[12:])
	last = length&chunkLast != 0
	length &^= chunkLast
	size := (ChunkHeadSize + int(length) + BlockSize - 1) &^ (BlockSize - 1)
	if le.Uint32(b[8:]) != number || size != len(b) || !last && length != ChunkBody ||
		!isZero(b[ChunkHeadSize+int(length):]) {
		return nil, false, errorf("checkpoint chunk", 8, "number %d of %d bytes in %d", le.Uint32(b[8:]), length, len(b))
	}
	return b[ChunkHeadSize : ChunkHeadSize+int(length)], last, nil
}

// chunkSum is seeded with the file's identity: a chunk of another file, or generation, does not verify.
func (h *CheckpointHead) chunkSum(b []byte) uint64 {
	return xxh3.HashSeed(b[8:], h.Number<<8|uint64(h.Group))
}
