package format

import "encoding/binary"

// BeaconSlots is the number of 4 KiB slots of beacon.dat; slot Sequence mod BeaconSlots is written next.
const BeaconSlots = 8

const (
	beaconFixed     = 80
	beaconGroupSize = 32
	beaconClean     = 1
)

var beaconMagic = [8]byte{'Q', 'U', 'E', 'E', 'N', 'B', 'C', 'N'}

// Beacon says how far the log was durable at some moment. Losing it loses no message: it tells torn
// from rotten, and saves a scan.
type Beacon struct {
	// Sequence rises with every slot written; the valid slot with the highest one counts.
	Sequence uint64
	Disk     UUID
	// Boot is the boot epoch that wrote the slot.
	Boot uint64
	// Clean says that the node stopped in order: the log ends at End exactly.
	Clean bool
	// Segment, its Nonce and End (the position behind the extent) name the last durable extent, Extent and
	// Checksum identify it.
	Segment  SegmentID
	Nonce    uint64
	End      uint64
	Extent   uint32
	Checksum uint64
	Groups   []BeaconGroup
}

// BeaconGroup is what the beacon knows of one replica.
type BeaconGroup struct {
	Group   RaftGroup
	Replica Replica
	// Commit is the newest commit index known, Last the last durable entry.
	Commit, Last Index
}

// Encode writes the slot into the first BlockSize bytes of dst. There are at most 63 groups.
func (v *Beacon) Encode(dst []byte) {
	b := dst[:BlockSize]
	clear(b)
	le := binary.LittleEndian
	copy(b, beaconMagic[:])
	b[8], b[9], b[10], b[11] = SegmentVersion, SegmentMinReader, bit(v.Clean, beaconClean), byte(len(v.Groups))
	le.PutUint32(b[12:], uint32(v.Segment))
	le.PutUint64(b[16:], v.Sequence)
	le.PutUint64(b[24:], v.Boot)
	copy(b[32:48], v.Disk[:])
	le.PutUint64(b[48:], v.End)
	le.PutUint32(b[56:], v.Extent)
	le.PutUint64(b[64:], v.Checksum)
	le.PutUint64(b[72:], v.Nonce)
	for i := range v.Groups {
		g, at := &v.Groups[i], beaconFixed+i*beaconGroupSize
		b[at] = byte(g.Group)
		le.PutUint64(b[at+8:], uint64(g.Replica))
		le.PutUint64(b[at+16:], uint64(g.Commit))
		le.PutUint64(b[at+24:], uint64(g.Last))
	}
	sealBlock(b)
}

// ParseBeacon parses and verifies a slot.
func ParseBeacon(b []byte) (v Beacon, err error) {
	if err := openBlock("beacon", b, beaconMagic, SegmentVersion); err != nil {
		return v, err
	}
	le := binary.LittleEndian
	n := int(b[11])
	if n > 63 || b[10]&^beaconClean != 0 || le.Uint32(b[60:]) != 0 ||
		!isZero(b[beaconFixed+n*beaconGroupSize:BlockSize-4]) {
		return v, errorf("beacon", 10, "%d raft groups, or reserved bytes are not zero", n)
	}
	v = Beacon{
		Sequence: le.Uint64(b[16:]), Boot: le.Uint64(b[24:]), Disk: UUID(b[32:48]), Clean: b[10] != 0,
		Segment: SegmentID(le.Uint32(b[12:])), Nonce: le.Uint64(b[72:]), End: le.Uint64(b[48:]),
		Extent: le.Uint32(b[56:]), Checksum: le.Uint64(b[64:]),
	}
	for i := range n {
		g := b[beaconFixed+i*beaconGroupSize:][:beaconGroupSize]
		if g[0] == 0 || g[0] > 63 || !isZero(g[1:8]) {
			return v, errorf("beacon", beaconFixed+i*beaconGroupSize, "raft group %d", g[0])
		}
		v.Groups = append(v.Groups, BeaconGroup{
			RaftGroup(g[0]), Replica(le.Uint64(g[8:])), Index(le.Uint64(g[16:])), Index(le.Uint64(g[24:])),
		})
	}
	return v, nil
}
