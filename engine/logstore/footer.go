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

// readFooter reads the footer of a segment. No trailer and no error means that there is none of this life
// of the file; a trailer with a *CorruptionError that the rest does not fit it.
func readFooter(f vfs.File, head *format.SegmentHead) (*format.FooterTrailer, []format.FooterGroup, error) {
	block := make([]byte, format.BlockSize)
	size := int64(head.Size)
	if _, err := f.ReadAt(block, size-format.BlockSize); err != nil {
		return nil, nil, err
	}
	t, err := format.ParseFooterTrailer(block)
	if err != nil || t.Segment != head.Segment || t.Nonce != head.Nonce {
		return nil, nil, nil
	}
	if int64(t.End)+int64(t.Size()) > size {
		return &t, nil, corrupt(f.Name(), size-format.BlockSize, "footer of %d bytes behind %d", t.Size(), t.End)
	}
	at := size - format.BlockSize - int64(t.DirectorySize())
	directory := make([]byte, t.DirectorySize())
	if _, err := f.ReadAt(directory, at); err != nil {
		return nil, nil, err
	}
	groups, _, err := t.ParseDirectory(directory)
	if err != nil {
		return &t, nil, corrupt(f.Name(), at, "%w", err)
	}
	return &t, groups, nil
}

// takeFooter fills the segment from its footer.
func (g *segment) takeFooter(t *format.FooterTrailer, groups []format.FooterGroup) error {
	g.sealed, g.used, g.extents, g.sum = true, int64(t.End), t.LastExtent, t.LastChecksum
	for i := range groups {
		in := &groups[i]
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
