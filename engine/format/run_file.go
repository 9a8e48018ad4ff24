package format

import "encoding/binary"

// A run is a sorted file of packed blocks:
//
//	| head block | row or id blocks | fence blocks | trailer block |
//
// A fence is the key of a block's first row. Row runs come from one closed segment (.pidx) or from
// merging; id runs from a few chunks or from merging. Runs are immutable.
const (
	// RunVersion and RunMinReader are what this code writes, and the oldest reader of it. Ids are laid out
	// by their spread since version 2; an id run of version 1 is refused.
	RunVersion   = 2
	RunMinReader = 2
	idsSince     = 2

	runLayout = 32
	fenceSize = 24
	// FencesPerBlock is how many fences a 4 KiB block holds.
	FencesPerBlock = (BlockSize - 8) / fenceSize
)

var (
	runMagic     = [8]byte{'Q', 'U', 'E', 'E', 'N', 'R', 'U', 'N'}
	runTailMagic = [8]byte{'Q', 'U', 'E', 'E', 'N', 'R', 'N', 'T'}
)

// RunKind says what the blocks of a run hold. The numbers are on disk.
type RunKind uint8

const (
	RunRows RunKind = 1
	RunIDs  RunKind = 2
)

// RunHead is block 0 of a run. It holds nothing of the node, so that id runs are equal on all replicas.
type RunHead struct {
	Kind RunKind
	// Group is the raft group of an id run; 0 for row runs, which serve all groups.
	Group RaftGroup
	// Number names the run; a row's Back counts in it.
	Number uint32
	// First and Last are what the run covers: numbers of runs for rows, of marks for ids.
	First, Last uint64
	// IDs is how the rows of an id run are laid out; zero for row runs.
	IDs IDLayout
}

// RunTrailer is the last block of a run.
type RunTrailer struct {
	Rows uint64
	// Blocks is the number of row or id blocks, FenceBlocks that of the blocks behind them.
	Blocks, FenceBlocks uint32
	// Low and High bound the rows' times.
	Low, High Wall
	// Content is a checksum over the checksums of the row or id blocks: files of one name and length that
	// differ in it are not the same file.
	Content uint32
}

// Encode writes block 0 into the first BlockSize bytes of dst.
func (h *RunHead) Encode(dst []byte) {
	b := dst[:BlockSize]
	clear(b)
	le := binary.LittleEndian
	copy(b, runMagic[:])
	b[8], b[9], b[10], b[11] = RunVersion, RunMinReader, byte(h.Kind), byte(h.Group)
	le.PutUint32(b[12:], h.Number)
	le.PutUint64(b[16:], h.First)
	le.PutUint64(b[24:], h.Last)
	for i := range h.IDs.Low {
		le.PutUint64(b[runLayout+16*i:], h.IDs.Low[i])
		le.PutUint64(b[runLayout+16*i+8:], h.IDs.Top[i])
	}
	sealBlock(b)
}

// ParseRunHead parses and verifies block 0.
func ParseRunHead(b []byte) (h RunHead, err error) {
	if err := openBlock("run head", b, runMagic, RunVersion); err != nil {
		return h, err
	}
	le := binary.LittleEndian
	h = RunHead{
		Kind: RunKind(b[10]), Group: RaftGroup(b[11]), Number: le.Uint32(b[12:]),
		First: le.Uint64(b[16:]), Last: le.Uint64(b[24:]),
	}
	if h.Kind != RunRows && h.Kind != RunIDs || h.Group > 63 || h.Last < h.First || !isZero(b[runLayout+16*IDColumns:BlockSize-4]) {
		return h, errorf("run head", 10, "kind %d group %d covers %d to %d", h.Kind, h.Group, h.First, h.Last)
	}
	if h.Kind == RunIDs && b[8] < idsSince {
		return h, errorf("run head", 8, "ids of version %d", b[8])
	}
	for i := range h.IDs.Low {
		low, top := le.Uint64(b[runLayout+16*i:]), le.Uint64(b[runLayout+16*i+8:])
		if low > top || h.Kind == RunRows && top != 0 {
			return h, errorf("run head", runLayout+16*i, "column %d from %d to %d", i, low, top)
		}
		h.IDs.Low[i], h.IDs.Top[i] = low, top
	}
	return h, nil
}

// Encode writes the last block into the first BlockSize bytes of dst.
func (t *RunTrailer) Encode(dst []byte) {
	b := dst[:BlockSize]
	clear(b)
	le := binary.LittleEndian
	copy(b, runTailMagic[:])
	b[8], b[9] = RunVersion, RunMinReader
	le.PutUint64(b[16:], t.Rows)
	le.PutUint32(b[24:], t.Blocks)
	le.PutUint32(b[28:], t.FenceBlocks)
	le.PutUint64(b[32:], uint64(t.Low))
	le.PutUint64(b[40:], uint64(t.High))
	le.PutUint32(b[48:], t.Content)
	sealBlock(b)
}

// ParseRunTrailer parses and verifies the last block of a file of size bytes.
func ParseRunTrailer(b []byte, size int64) (t RunTrailer, err error) {
	if err := openBlock("run trailer", b, runTailMagic, RunVersion); err != nil {
		return t, err
	}
	le := binary.LittleEndian
	t = RunTrailer{
		Rows: le.Uint64(b[16:]), Blocks: le.Uint32(b[24:]), FenceBlocks: le.Uint32(b[28:]),
		Low: Wall(le.Uint64(b[32:])), High: Wall(le.Uint64(b[40:])),
		Content: le.Uint32(b[48:]),
	}
	if !isZero(b[10:16]) || !isZero(b[52:BlockSize-4]) {
		return t, errorf("run trailer", 10, "reserved bytes are not zero")
	}
	if want := (2 + int64(t.Blocks) + int64(t.FenceBlocks)) * BlockSize; size != want ||
		int(t.FenceBlocks) != blocks(int(t.Blocks), FencesPerBlock) {
		return t, errorf("run trailer", 24, "%d blocks and %d fence blocks in %d bytes", t.Blocks, t.FenceBlocks, size)
	}
	return t, nil
}

// Fence is the key of a block's first row: the partition, and the base (row runs) or hash (id runs).
type Fence struct {
	Partition PartitionID
	Base      Offset
	Hash      IDHash
	// Spread is IDSpread of the other two in an id run; it is not stored.
	Spread uint64
}

// IDFence is the fence of an id.
func IDFence(pid PartitionID, hash IDHash) Fence {
	return Fence{Partition: pid, Hash: hash, Spread: IDSpread(pid, &hash)}
}

// AppendFenceBlock appends fence block number block, which holds at most FencesPerBlock fences.
func AppendFenceBlock(dst []byte, kind RunKind, block uint32, fences []Fence) []byte {
	at := len(dst)
	dst = appendZeros(dst, BlockSize)
	b, le := dst[at:], binary.LittleEndian
	le.PutUint32(b[4:], uint32(len(fences)))
	for i := range fences {
		f := b[8+i*fenceSize:]
		le.PutUint64(f, uint64(fences[i].Partition))
		if kind == RunRows {
			le.PutUint64(f[8:], uint64(fences[i].Base))
		} else {
			copy(f[8:fenceSize], fences[i].Hash[:])
		}
	}
	le.PutUint32(b, fenceSum(block, b[4:]))
	return dst
}

// ParseFenceBlock verifies fence block number block and appends its fences to dst.
func ParseFenceBlock(dst []Fence, kind RunKind, block uint32, b []byte) ([]Fence, error) {
	if len(b) != BlockSize {
		return dst, errorf("fence block", 0, "length %d want %d", len(b), BlockSize)
	}
	le := binary.LittleEndian
	if got, want := fenceSum(block, b[4:]), le.Uint32(b); got != want {
		return dst, errorf("fence block", 0, "checksum %#x want %#x", got, want)
	}
	n := le.Uint32(b[4:])
	if n == 0 || n > FencesPerBlock || !isZero(b[8+n*fenceSize:]) {
		return dst, errorf("fence block", 4, "%d fences", n)
	}
	for i := range int(n) {
		f := b[8+i*fenceSize:][:fenceSize]
		v := Fence{Partition: PartitionID(le.Uint64(f))}
		if kind == RunRows {
			v.Base = Offset(le.Uint64(f[8:]))
		} else {
			v = IDFence(v.Partition, IDHash(f[8:]))
		}
		dst = append(dst, v)
	}
	return dst, nil
}

func fenceSum(block uint32, b []byte) uint32 {
	var where [4]byte
	binary.LittleEndian.PutUint32(where[:], block)
	return crc32cPair(where[:], b)
}
