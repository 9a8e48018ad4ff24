package ephemeral

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: the heap gives the lowest key first after any mix of additions, moves and removals, and every node knows its
// place. Method: random operations against a sorted slice.
func TestHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h heap[int]
	nodes := make([]*node[int], 200)
	for i := range nodes {
		nodes[i] = &node[int]{of: i}
	}
	for range 4_000 {
		n := nodes[r.IntN(len(nodes))]
		if r.IntN(3) == 0 {
			h.remove(n)
		} else {
			h.set(n, int64(r.IntN(1000)))
		}
		var keys []int64
		for _, n := range nodes {
			if n.in() {
				keys = append(keys, n.key)
				require.Same(t, n, h.items[n.at-1])
			}
		}
		require.Len(t, h.items, len(keys))
		if len(keys) > 0 {
			require.Equal(t, slices.Min(keys), h.first().key)
		}
	}
	for _, n := range nodes {
		h.remove(n)
	}
	require.Nil(t, h.first())
	require.LessOrEqual(t, cap(h.items), 64, "memory is given back")
}
