package vfs

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// The pending changes, applied to what is durable, always give what readers see, with failed flushes among the
// operations.
func TestMemPendingYieldsCurrent(t *testing.T) {
	const space = 3 * BlockSize
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := &inode{}
		for step := range 30 {
			off := rng.Int64N(space)
			data := bytes.Repeat([]byte{byte(step + 1)}, 1+rng.IntN(space))
			switch rng.IntN(8) {
			case 0:
				n.sync()
			case 1:
				n.markLost()
			case 2:
				n.apply(&change{kind: changeResize, size: off})
			case 3:
				n.apply(&change{kind: changeAllocate, size: off})
			case 4, 5:
				w := &change{off: off, data: data}
				n.apply(w)
				n.persist(w)
			default:
				n.apply(&change{off: off, data: data})
			}
			im := n.disk.clone()
			for _, c := range n.pending {
				c.applyTo(&im)
			}
			if !bytes.Equal(contentOf(&im), contentOf(&n.cur)) {
				t.Fatalf("seed %d, step %d: disk and pending changes give %d bytes that differ from the %d seen",
					seed, step, im.size, n.cur.size)
			}
		}
	}
}

func contentOf(im *image) []byte {
	p := make([]byte, im.size)
	im.readAt(p, 0)
	return p
}
