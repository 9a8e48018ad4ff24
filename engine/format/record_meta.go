package format

import "encoding/binary"

// The small records of a replica. Each has a Record method that returns head and body for AppendRecord
// (Covered is the whole body) and a parser for what ParseRecord returned.

// HardState is what a replica must remember to vote and commit safely.
type HardState struct {
	Group   RaftGroup
	Replica Replica
	Term    Term
	Vote    Replica
	Commit  Index
}

// Record returns the record of s: commit in the head's index, vote in the body.
func (s *HardState) Record() (RecordHead, []byte) {
	return RecordHead{
		Kind: RecordHardState, Group: s.Group, Replica: s.Replica, Index: s.Commit, Term: s.Term, Covered: 8,
	}, binary.LittleEndian.AppendUint64(nil, uint64(s.Vote))
}

// ParseHardState is the way back.
func ParseHardState(h *RecordHead, body []byte) (s HardState, err error) {
	if err := plainRecord(h, body, RecordHardState, 0); err != nil {
		return s, err
	}
	if len(body) != 8 {
		return s, errorf("hardstate", 8, "length %d want 8", len(body))
	}
	return HardState{h.Group, h.Replica, h.Term, Replica(binary.LittleEndian.Uint64(body)), h.Index}, nil
}

// MemberRole says what a replica is in a membership.
type MemberRole uint8

const (
	MemberVoter    MemberRole = 1
	MemberNonVoter MemberRole = 2
	MemberWitness  MemberRole = 3
	// MemberRemoved replicas have no address and never come back.
	MemberRemoved MemberRole = 4
)

// Member is one replica of a membership.
type Member struct {
	Role    MemberRole
	Replica Replica
	Address string
}

// MaxMembers bounds a membership, removed replicas included.
const MaxMembers = 4096

// Snapshot is where a replica's raft log begins: all state up to Index is in the state machine.
type Snapshot struct {
	Group   RaftGroup
	Replica Replica
	Index   Index
	Term    Term
	// OnDisk is the index the state machine had made durable.
	OnDisk Index
	// Dummy says that no image belongs to the record: the state machine keeps its own files.
	Dummy bool
	// ConfigChange is the index of the newest membership change at or below Index.
	ConfigChange Index
	// Members are ordered by (role, replica).
	Members []Member
	// Extra is the raft library's own description of a streamed image, empty for dummies.
	Extra []byte
}

const snapshotDummy = 1

// Record returns the record of s.
func (s *Snapshot) Record() (RecordHead, []byte) {
	h := RecordHead{
		Kind: RecordSnapshot, Group: s.Group, Replica: s.Replica, Index: s.Index, Term: s.Term,
		Flags: bit(s.Dummy, snapshotDummy),
	}
	body := putUvarint(nil, uint64(s.OnDisk))
	body = putUvarint(body, uint64(s.ConfigChange))
	body = putMembers(body, s.Members)
	body = putBytes(body, s.Extra)
	h.Covered = uint32(len(body))
	return h, body
}

// ParseSnapshot is the way back. Extra aliases body.
func ParseSnapshot(h *RecordHead, body []byte) (s Snapshot, err error) {
	if err := plainRecord(h, body, RecordSnapshot, snapshotDummy); err != nil {
		return s, err
	}
	d := decoder{b: body}
	s = Snapshot{
		Group: h.Group, Replica: h.Replica, Index: h.Index, Term: h.Term, Dummy: h.Flags != 0,
		OnDisk: Index(d.uvarint()), ConfigChange: Index(d.uvarint()), Members: d.members(), Extra: d.bytes(),
	}
	return s, d.close("snapshot", RecordHeadSize)
}

// Bootstrap is the membership a replica was started with for the first time.
type Bootstrap struct {
	Group   RaftGroup
	Replica Replica
	// Join says that the replica joined an existing raft group and knew no members.
	Join bool
	// Type is the raft library's state machine type, kept for it.
	Type    uint8
	Members []Member
}

const bootstrapJoin = 1

// Record returns the record of v.
func (v *Bootstrap) Record() (RecordHead, []byte) {
	body := putMembers([]byte{v.Type}, v.Members)
	return RecordHead{
		Kind: RecordBootstrap, Group: v.Group, Replica: v.Replica, Flags: bit(v.Join, bootstrapJoin),
		Covered: uint32(len(body)),
	}, body
}

// ParseBootstrap is the way back.
func ParseBootstrap(h *RecordHead, body []byte) (v Bootstrap, err error) {
	if err := plainRecord(h, body, RecordBootstrap, bootstrapJoin); err != nil {
		return v, err
	}
	d := decoder{b: body}
	v = Bootstrap{Group: h.Group, Replica: h.Replica, Join: h.Flags != 0, Type: d.u8(), Members: d.members()}
	return v, d.close("bootstrap", RecordHeadSize)
}

// PositionRecord returns the head of a record that is nothing but a position: floor, cut or removed
// (index 0). Its body is empty.
func PositionRecord(kind RecordKind, g RaftGroup, r Replica, i Index) RecordHead {
	return RecordHead{Kind: kind, Group: g, Replica: r, Index: i}
}

// ParsePosition checks that a floor, cut or removed record says nothing more.
func ParsePosition(h *RecordHead, body []byte) error {
	switch h.Kind {
	case RecordFloor, RecordCut, RecordRemoved:
	default:
		return errorf("record", 4, "kind %d is no position", h.Kind)
	}
	if err := plainRecord(h, body, h.Kind, 0); err != nil {
		return err
	}
	if len(body) != 0 {
		return errorf("record", 8, "length %d want 0", len(body))
	}
	return nil
}

// plainRecord checks kind and flags, and that the checksum covers the whole body.
func plainRecord(h *RecordHead, body []byte, kind RecordKind, flags uint8) error {
	if h.Kind != kind || h.Flags&^flags != 0 || h.Covered != h.Length || len(body) != int(h.Length) {
		return errorf("record", 4, "kind %d flags %#x covered %d of %d, want kind %d, all covered",
			h.Kind, h.Flags, h.Covered, h.Length, kind)
	}
	return nil
}

func putMembers(b []byte, members []Member) []byte {
	b = putUvarint(b, uint64(len(members)))
	for i := range members {
		m := &members[i]
		b = putUvarint(append(b, byte(m.Role)), uint64(m.Replica))
		b = append(putUvarint(b, uint64(len(m.Address))), m.Address...)
	}
	return b
}

func (d *decoder) members() []Member {
	n := d.count(3)
	if n > MaxMembers {
		d.fail("too many members")
	}
	if n == 0 || d.bad != "" {
		return nil
	}
	members := make([]Member, n)
	for i := range members {
		members[i] = Member{
			Role: MemberRole(d.enum(uint8(MemberRemoved))), Replica: Replica(d.uvarint()),
			Address: string(d.bytes()),
		}
	}
	return members
}
