package sidecar

import (
	"cmp"
	"slices"

	"queen/engine/format"
)

// Difference is one chunk about which two nodes do not agree. Have is nil when only the other node has
// it, and Want is nil when only this one does.
type Difference struct {
	Group      format.RaftGroup
	Mark       uint64
	Have, Want *Chunk
}

// Compare holds this node's chunks against another's, in any order, and returns where they differ by
// (group, mark). Chunks that have the same hash hold the same entries with the same outcomes, whatever
// segments they lie in.
func Compare(have, want []Chunk) []Difference {
	have, want = sorted(have), sorted(want)
	var out []Difference
	for len(have) > 0 || len(want) > 0 {
		switch order := compareHeads(have, want); {
		case order < 0:
			out = append(out, Difference{Group: have[0].Group, Mark: have[0].Mark, Have: &have[0]})
			have = have[1:]
		case order > 0:
			out = append(out, Difference{Group: want[0].Group, Mark: want[0].Mark, Want: &want[0]})
			want = want[1:]
		default:
			if have[0] != want[0] {
				out = append(out, Difference{have[0].Group, have[0].Mark, &have[0], &want[0]})
			}
			have, want = have[1:], want[1:]
		}
	}
	return out
}

func sorted(chunks []Chunk) []Chunk {
	out := slices.Clone(chunks)
	slices.SortFunc(out, compareChunks)
	return out
}

func compareChunks(a, b Chunk) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Mark, b.Mark))
}

func compareHeads(a, b []Chunk) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return compareChunks(a[0], b[0])
}
