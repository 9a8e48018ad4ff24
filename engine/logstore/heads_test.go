package logstore

import (
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
	"queen/engine/vfs"
)

// TestKnownHeads: what is read behind the head of an entry whose head is known is what is there, of the right entry also
// where many share the places to remember; what the head's checksum covers is verified at every read.
func TestKnownHeads(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	defer s.Close()
	var data [][]byte
	var at []EntryPos
	for i := range 200 {
		d := encoded(100, 3000+i, uint64(i))
		save := Save{Group: 1, Replica: 1, Entries: []Entry{entry(format.Index(i+1), 1, d)}, Commit: format.Index(i + 1)}
		require.NoError(t, s.Append(&save))
		data, at = append(data, d), append(at, save.Placed[0])
	}
	known := 0
	for range 3 {
		for i, pos := range at {
			got, index, err := s.ReadIndexed(pos, 500, 2000, nil)
			require.NoError(t, err)
			require.Equal(t, format.Index(i+1), index)
			require.Equal(t, data[i][500:2500], got)
			if _, _, ok := s.heads.get(pos.Segment, pos.Pos); ok {
				known++
			}
		}
	}
	require.Greater(t, known, 300, "most entries are on disk alone, and read three times")

	pos := at[0]
	_, _, ok := s.heads.get(pos.Segment, pos.Pos)
	require.True(t, ok)
	name := path.Join(testOptions(fs).Dir, format.SegmentID(pos.Segment).FileName())
	require.NoError(t, fs.FlipBit(name, int64(pos.Pos)+format.RecordHeadSize+60, 3))
	var rot *CorruptionError
	_, err := s.ReadAt(pos, 0, 200, nil)
	require.ErrorAs(t, err, &rot)
	_, err = s.ReadAt(pos, 0, AllBytes, nil)
	require.ErrorAs(t, err, &rot)
	_, _, err = s.ReadIndexed(pos, 2900, 2000, nil)
	require.ErrorIs(t, err, ErrRange)
}

// TestHeadsOfOnePlace: a head is that of its place alone, whatever shares the slot.
func TestHeadsOfOnePlace(t *testing.T) {
	var h heads
	slot := h.slot(7, 4096)
	h.put(7, 4096, format.RecordHead{Kind: format.RecordEntry, Index: 1}, 8)
	for segment := uint32(1); segment < 40; segment++ {
		shared := 0
		for pos := uint32(0); shared < 5; pos += 8 {
			if h.slot(segment, pos) != slot || segment == 7 && pos == 4096 {
				continue
			}
			shared++
			_, _, ok := h.get(segment, pos)
			require.False(t, ok, "segment %d, position %d", segment, pos)
		}
	}
	for segment, shared := uint32(8), 0; shared < 5; segment++ {
		if h.slot(segment, 4096) == slot {
			shared++
			_, _, ok := h.get(segment, 4096)
			require.False(t, ok, "segment %d", segment)
		}
	}
	head, prefix, ok := h.get(7, 4096)
	require.True(t, ok)
	require.Equal(t, format.Index(1), head.Index)
	require.Equal(t, uint32(8), prefix)
}
