package format

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"
)

const (
	// ManifestVersion and ManifestMinReader are what this code writes, and the oldest reader of it.
	ManifestVersion   = 1
	ManifestMinReader = 1
	// ManifestHeadSize is the length of the head in front of the body.
	ManifestHeadSize = 64
	// MaxManifestBytes bounds the file.
	MaxManifestBytes = 256 << 20
)

var manifestMagic = [8]byte{'Q', 'U', 'E', 'E', 'N', 'M', 'A', 'N'}

// Manifest lists the files of a node that count. Two files alternate; the valid one with the highest
// generation counts, so a torn write leaves the generation before.
type Manifest struct {
	Generation    uint64
	Disk, Cluster UUID
	// Boot is the newest boot epoch.
	Boot     uint64
	Segments []ManifestSegment
	// RowRuns are merged runs; a .pidx belongs to its segment and is not listed.
	RowRuns []ManifestFile
	Groups  []ManifestGroup
}

// SegmentState says how far a segment has come. The numbers are on disk.
type SegmentState uint8

const (
	SegmentSealed SegmentState = 1
	// SegmentClosed has its row index and sidecar.
	SegmentClosed SegmentState = 2
)

// ManifestSegment is a sealed segment.
type ManifestSegment struct {
	Segment SegmentID
	State   SegmentState
	// End is the position behind the last extent, Checksum that extent's.
	End      uint64
	Checksum uint64
	Groups   []ManifestRange
}

// ManifestRange is what a segment holds of a raft group; First and Last are 0 when no entry.
type ManifestRange struct {
	Group            RaftGroup
	First, Last, Cut Index
}

// FileKind says what a listed file is. The numbers are on disk.
type FileKind uint8

const (
	FileRowRun     FileKind = 1
	FileIDRun      FileKind = 2
	FileCheckpoint FileKind = 3
	FileKeyedDelta FileKind = 4
	// FileKeyedManifest is what the keyed store of this node promised for a checkpoint.
	FileKeyedManifest FileKind = 5
)

// ManifestFile is an immutable file known by hash.
type ManifestFile struct {
	Kind   FileKind
	Number uint64
	// First and Last are what the file covers: runs, marks, or parent and number of a checkpoint file.
	First, Last uint64
	Size        uint64
	// Sum is xxh3-128 of the whole file.
	Sum [16]byte
}

// ManifestGroup is what is known of one replica's state.
type ManifestGroup struct {
	Group   RaftGroup
	Replica Replica
	// Floor is the raft log's: entries at or below it are reclaimable for raft.
	Floor Index
	// Marks ascend.
	Marks []ManifestMark
	// Checkpoints are the kept positions, newest first.
	Checkpoints []ManifestCheckpoint
	// Files are checkpoint files and id runs.
	Files []ManifestFile
}

// ManifestMark is a mark that was applied.
type ManifestMark struct {
	Number uint64
	Index  Index
	W      Wall
	// Chain is the node's own chain hash up to the mark, Digest its state digest.
	Chain, Digest [16]byte
}

// ManifestCheckpoint is a position from which the state can be loaded.
type ManifestCheckpoint struct {
	Mark  uint64
	Index Index
	// File is the newest checkpoint file of the chain: a base, or a delta whose parents lead to one.
	File uint64
	// Keyed is the version of the keyed store flushed for it.
	Keyed uint64
}

// ManifestName is the file that generation is written to.
func ManifestName(generation uint64) string { return fmt.Sprintf("manifest-%d.dat", generation%2) }

// Append appends the whole file to dst.
func (m *Manifest) Append(dst []byte) []byte {
	at := len(dst)
	dst = appendZeros(dst, ManifestHeadSize)
	dst = m.appendBody(dst)
	b, le := dst[at:], binary.LittleEndian
	copy(b, manifestMagic[:])
	b[8], b[9] = ManifestVersion, ManifestMinReader
	le.PutUint64(b[16:], m.Generation)
	le.PutUint64(b[24:], uint64(len(b)-ManifestHeadSize))
	sum := xxh3.Hash128(b[ManifestHeadSize:]).Bytes()
	copy(b[32:48], sum[:])
	le.PutUint32(b[60:], crc32c(b[:60]))
	return dst
}

// ParseManifest parses and verifies a whole file.
func ParseManifest(b []byte) (m Manifest, err error) {
	if len(b) < ManifestHeadSize || len(b) > MaxManifestBytes {
		return m, errorf("manifest", len(b), "length %d", len(b))
	}
	le := binary.LittleEndian
	if [8]byte(b) != manifestMagic {
		return m, errorf("manifest", 0, "magic %q want %q", b[:8], manifestMagic[:])
	}
	if b[8] == 0 || b[9] == 0 || b[9] > ManifestVersion {
		return m, errorf("manifest", 8, "version %d needs reader %d, this is reader %d", b[8], b[9], ManifestVersion)
	}
	if got, want := crc32c(b[:60]), le.Uint32(b[60:]); got != want {
		return m, errorf("manifest", 60, "checksum of the head %#x want %#x", got, want)
	}
	if !isZero(b[10:16]) || !isZero(b[48:60]) {
		return m, errorf("manifest", 10, "reserved bytes are not zero")
	}
	body := b[ManifestHeadSize:]
	if n := le.Uint64(b[24:]); n != uint64(len(body)) {
		return m, errorf("manifest", 24, "length %d want %d", len(body), n)
	}
	if got := xxh3.Hash128(body).Bytes(); got != [16]byte(b[32:48]) {
		return m, errorf("manifest", 32, "checksum of the body %x want %x", got, b[32:48])
	}
	d := decoder{b: body}
	m = d.manifest()
	m.Generation = le.Uint64(b[16:])
	return m, d.close("manifest", ManifestHeadSize)
}
