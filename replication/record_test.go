package replication

import (
	"testing"

	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"
	"github.com/stretchr/testify/require"
)

// TestDummyAt: the record for a copy is the newest one that is not above its entry; another replica's is none.
func TestDummyAt(t *testing.T) {
	d := &LogDB{}
	d.mu.held = map[raftio.NodeInfo]*held{}
	d.heldOf(1, 2).dummies = []pb.Snapshot{{Index: 5}, {Index: 9}}
	for upto, want := range map[uint64]uint64{4: 0, 5: 5, 8: 5, 9: 9, 20: 9} {
		got, ok := d.dummyAt(1, 2, upto)
		require.Equal(t, want > 0, ok, upto)
		require.Equal(t, want, got.Index, upto)
	}
	_, ok := d.dummyAt(2, 2, 9)
	require.False(t, ok)
}
