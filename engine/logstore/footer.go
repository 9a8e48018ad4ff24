package logstore

import (
	"fmt"
	"maps"
	"slices"

	"queen/engine/format"
	"queen/engine/vfs"
)

// encodeFooter returns the blocks that end a segment. Where entries are is taken from the index: a segment
// that is written is never index-closed, so all its entries are in there.
func (s *Store) encodeFooter(g *segment) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := format.Footer{
		Segment: g.head.Segment, Nonce: g.head.Nonce, Boot: s.boot,
		End: uint64(g.used), LastExtent: g.extents, LastChecksum: g.sum,
	}
	for _, key := range slices.SortedFunc(maps.Keys(g.groups), compareKeys) {
		in := g.groups[key]
		group := format.FooterGroup{
			Group: key.group, Replica: key.replica, Cut: in.cut, Outcomes: in.outcomes,
			FirstSlot: uint32(len(f.Positions)),
		}
		r := s.replicas[key]
		for _, e := range in.entries {
			if r == nil {
				break // removed
			}
			group.Entries = append(group.Entries, e)
			for i := e.First; i <= e.Last; i++ {
				ref, _ := r.find(i)
				f.Positions = append(f.Positions, ref.pos.Pos)
			}
		}
		f.Groups = append(f.Groups, group)
	}
	b := f.Append(nil)
	out := vfs.AlignedBuffer(len(b))
	copy(out, b)
	return out
}

// readFooter reads the footer of a segment. nil and no error means that there is none of this life of the
// file; a footer with a *CorruptionError that its trailer is there and the rest does not fit it.
func readFooter(f vfs.File, head *format.SegmentHead) (*footer, error) {
	block := make([]byte, format.BlockSize)
	size := int64(head.Size)
	if _, err := f.ReadAt(block, size-format.BlockSize); err != nil {
		return nil, err
	}
	t, err := format.ParseFooterTrailer(block)
	if err != nil || t.Segment != head.Segment || t.Nonce != head.Nonce {
		return nil, nil
	}
	out := &footer{FooterTrailer: t}
	if int64(t.End)+int64(t.Size()) > size {
		return out, corrupt(f.Name(), size-format.BlockSize, "footer of %d bytes behind %d", t.Size(), t.End)
	}
	at := size - format.BlockSize - int64(t.DirectorySize())
	directory := make([]byte, t.DirectorySize())
	if _, err := f.ReadAt(directory, at); err != nil {
		return nil, err
	}
	if out.groups, out.replaces, err = t.ParseDirectory(directory); err != nil {
		return out, corrupt(f.Name(), at, "%w", err)
	}
	return out, nil
}

// footer is a parsed footer without its positions.
type footer struct {
	format.FooterTrailer
	groups   []format.FooterGroup
	replaces []format.SegmentID
}

// takeFooter fills the segment from its footer.
func (g *segment) takeFooter(t *footer) error {
	g.sealed, g.used, g.extents, g.sum, g.replaces = true, int64(t.End), t.LastExtent, t.LastChecksum, t.replaces
	for i := range t.groups {
		in := &t.groups[i]
		key := replicaKey{in.Group, in.Replica}
		if g.groups[key] != nil || in.Group == 0 || in.Group > 63 {
			return fmt.Errorf("footer names group %d replica %d twice or wrongly", in.Group, in.Replica)
		}
		g.groups[key] = &groupRange{entries: in.Entries, outcomes: in.Outcomes, cut: in.Cut}
	}
	return nil
}

func compareKeys(a, b replicaKey) int {
	if a.group != b.group {
		return int(a.group) - int(b.group)
	}
	return compare(a.replica, b.replica)
}
