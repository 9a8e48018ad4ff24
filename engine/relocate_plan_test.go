package engine

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
)

// segmentOf is a segment of 100 blocks with so many of them live. Its entries are 10 n to 10 n + 9; their
// outcomes lie one segment later by one entry.
func segmentOf(n uint32, live int64, shares ...classShare) logSegment {
	first := format.Index(10 * n)
	return logSegment{
		measured: &measured{segment: n, alloc: 100 << 20, exact: true, live: live << 20, classes: shares},
		entries:  []format.FooterRange{{First: first, Last: first + 9}},
		outcomes: []format.FooterRange{{First: first - 1, Last: first + 8}},
	}
}

func planOf(budget int64, blocked uint32, segments ...logSegment) *relocationPlan {
	p := &relocationPlan{now: 1000, budget: budget << 20, segmentBytes: 100 << 20, blocked: func(s uint32) bool { return s == blocked }}
	p.log(segments)
	return p
}

func (p *relocationPlan) check(t *testing.T, what string, dead, move []uint32) {
	t.Helper()
	var moved []uint32
	for _, m := range p.move {
		moved = append(moved, m.segment)
	}
	gone := slices.Sorted(slices.Values(append(slices.Clone(p.dead), p.after...)))
	slices.Sort(moved)
	if !slices.Equal(gone, dead) || !slices.Equal(moved, move) {
		t.Errorf("%s: dead %v move %v, want %v and %v", what, gone, moved, dead, move)
	}
}

// TestPlanOfTheLog: what is dead goes and what is sparse moves, but not what holds outcomes of a segment
// that stays; units that are sparse together go together.
func TestPlanOfTheLog(t *testing.T) {
	seg := segmentOf
	planOf(1000, 0, seg(1, 0), seg(2, 0), seg(3, 100)).check(t, "the dead", []uint32{1, 2}, nil)
	planOf(1000, 0, seg(1, 10), seg(2, 49), seg(3, 60), seg(4, 100)).check(t, "the sparse", nil, []uint32{1, 2})
	planOf(1000, 0, seg(1, 100), seg(2, 0), seg(3, 0)).check(t, "a dead one held by a full one", []uint32{3}, nil)
	p := planOf(1000, 0, seg(1, 70), seg(2, 0), seg(3, 0))
	if p.check(t, "a pair", []uint32{2, 3}, []uint32{1}); !slices.Equal(p.after, []uint32{2}) {
		t.Errorf("%v go after what is copied, 2 holds outcomes of it", p.after)
	}
	planOf(1000, 0, seg(1, 100), seg(2, 10), seg(3, 10)).check(t, "a chain of three", nil, []uint32{1, 2, 3})
	planOf(1000, 0, seg(1, 100), seg(2, 90), seg(3, 10)).check(t, "a chain that is full", nil, nil)
	p = planOf(1000, 1, seg(1, 10), seg(2, 10), seg(3, 10), seg(4, 0))
	p.check(t, "the first can not be read", []uint32{4}, []uint32{2, 3})
	if !slices.Equal(p.empty, []uint32{2}) {
		t.Errorf("emptied %v, only 2 holds outcomes of one that stays", p.empty)
	}
	planOf(1000, 1, seg(1, 10), seg(2, 0), seg(3, 10), seg(4, 0)).check(t, "it holds one", []uint32{4}, []uint32{3})
	p = planOf(15, 0, seg(1, 10), seg(2, 10), seg(3, 0))
	if p.check(t, "budget", nil, []uint32{1}); !p.more {
		t.Error("what the budget left is not reported")
	}
	unread := seg(1, 0)
	unread.exact = false
	planOf(1000, 0, unread, seg(2, 100)).check(t, "not counted", nil, []uint32{1})
}

// TestPlanWaits: a segment is not rewritten for the sake of frames that are about to end, and is when they
// have long to go.
func TestPlanWaits(t *testing.T) {
	share := func(expiry, ends format.Wall) classShare {
		return classShare{class: 5, bytes: 1, expiry: expiry, ends: ends}
	}
	ever := classShare{class: classForever, bytes: 1}
	planOf(1000, 0, segmentOf(1, 20, ever, share(400, 1050))).check(t, "soon", nil, nil)
	planOf(1000, 0, segmentOf(1, 20, ever, share(400, 1300))).check(t, "later", nil, []uint32{1})
	planOf(1000, 0, segmentOf(1, 20, ever, classShare{class: 9, expiry: 1, ends: 5000}, share(400, 1001))).check(t, "the first to end counts", nil, nil)
	planOf(1000, 0, segmentOf(1, 20, ever)).check(t, "for ever", nil, []uint32{1})
	p := planOf(1000, 0, segmentOf(1, 70, share(400, 1050)), segmentOf(2, 0), segmentOf(3, 0))
	p.check(t, "it holds another meanwhile", []uint32{3}, nil)
}

// TestPlanOfBulkSegments: dead and sparse ones go, and eight small ones of one class and size become one.
func TestPlanOfBulkSegments(t *testing.T) {
	bulk := func(n uint32, alloc, live int64, c endClass) *measured {
		return &measured{segment: n, alloc: alloc, exact: true, live: live, classes: []classShare{{class: c, bytes: live, expiry: 1e9, ends: 1e9}}}
	}
	p := planOf(1000, 0)
	p.bulks([]*measured{bulk(1, 40<<10, 0, 0), bulk(2, 90<<20, 30<<20, 4), bulk(3, 90<<20, 60<<20, 4), bulk(4, 30<<10, 4<<10, 4)})
	p.check(t, "dead, sparse, full, small", []uint32{1}, []uint32{2})
	p = planOf(1000, 0)
	var all []*measured
	for n := range uint32(30) {
		all = append(all, bulk(n+1, 60<<10, 30<<10, endClass(n%3)))
	}
	p.bulks(all)
	p.check(t, "small ones", nil, []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24})
	all = all[:0]
	for n := range uint32(8) {
		all = append(all, bulk(n+1, 60<<10<<(2*(n%2)), 50<<10<<(2*(n%2)), classForever))
	}
	p = planOf(1000, 0)
	p.bulks(all)
	p.check(t, "of two sizes", nil, nil)
}

// Goal: a pass counts a few segments and not all that wait, those that die first, and one at least.
func TestCountsAreBounded(t *testing.T) {
	of := func(sizes map[format.SegmentID]int64) map[format.SegmentID]*measured {
		m := map[format.SegmentID]*measured{}
		for s, size := range sizes {
			m[s] = &measured{segment: uint32(s), alloc: size}
		}
		return m
	}
	const segment = countBytes / 2
	count := of(map[format.SegmentID]int64{1: segment, 2: segment, 3: segment, 9: segment})
	trimCount(count, of(map[format.SegmentID]int64{9: segment}))
	require.Equal(t, []format.SegmentID{1, 9}, slices.Sorted(maps.Keys(count)))

	count = of(map[format.SegmentID]int64{4: 2 * countBytes, 5: 1})
	trimCount(count, nil)
	require.Equal(t, []format.SegmentID{4}, slices.Sorted(maps.Keys(count)))

	small := of(map[format.SegmentID]int64{1: 1 << 20, 2: 1 << 20, 3: 1 << 20})
	trimCount(small, nil)
	require.Len(t, small, 3)
}
