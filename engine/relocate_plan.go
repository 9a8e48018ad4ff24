package engine

import (
	"math/bits"
	"slices"

	"queen/engine/format"
	"queen/engine/logstore"
)

// relocationPlan says which segments go, and which of them are rewritten first.
type relocationPlan struct {
	now    format.Wall
	budget int64 // of live bytes that may still be copied

	dead []uint32
	move []*measured
	// after are dead segments that hold outcomes of some of move: they go when those have.
	after []uint32
	// empty are those of move that stay, for the outcomes in them, when their frames have moved.
	empty []uint32
	more  bool // something was left because of the budget

	// segmentBytes is the size from which on bulk segments are not merged any more.
	segmentBytes int64
	// blocked are segments that can not be read to their end; they stay as they are.
	blocked func(segment uint32) bool
}

// logSegment is a segment of the commit stream as the plan sees it.
type logSegment struct {
	*measured
	entries, outcomes []format.FooterRange
}

func ofLog(m *measured, s *logstore.SegmentInfo, group format.RaftGroup) logSegment {
	l := logSegment{measured: m}
	for i := range s.Groups {
		if g := &s.Groups[i]; g.Group == group {
			l.entries = append(l.entries, g.Entries...)
			l.outcomes = append(l.outcomes, g.Outcomes...)
		}
	}
	return l
}

// holds says that outcomes of the segment's entries lie in a later one: while its index may have to be
// made again that one stays.
func (l *logSegment) holds(later *logSegment) bool {
	return slices.ContainsFunc(later.outcomes, func(o format.FooterRange) bool {
		return slices.ContainsFunc(l.entries, func(e format.FooterRange) bool { return o.First <= e.Last && e.First <= o.Last })
	})
}

// mayMove says that a segment can be rewritten at all now.
func (p *relocationPlan) mayMove(m *measured) bool { return !m.waits(p.now) && !p.blocked(m.segment) }

// sparse says that rewriting the segments frees at least half of what they take.
func sparse(all ...*measured) bool {
	var alloc, rewritten int64
	for _, m := range all {
		alloc += m.alloc
		if !m.isDead() {
			rewritten += m.rewritten()
		}
	}
	return 2*rewritten < alloc
}

// take plans segments that go together, or none of them; false when the budget is too small.
func (p *relocationPlan) take(all ...*measured) bool {
	bytes := int64(0)
	for _, m := range all {
		if !m.isDead() {
			bytes += m.rewritten()
		}
	}
	if bytes > p.budget {
		p.more = true
		return false
	}
	p.budget -= bytes
	for _, m := range all {
		switch {
		case !m.isDead():
			p.move = append(p.move, m)
		case len(all) == 1:
			p.dead = append(p.dead, m.segment)
		default:
			p.after = append(p.after, m.segment)
		}
	}
	return true
}

// log plans the segments of the commit stream, oldest first. One that stays with live frames keeps the
// later ones that hold outcomes of it: together they take at most twice what is live in them, or all of
// them go.
func (p *relocationPlan) log(segments []logSegment) {
	var stay []*logSegment
	for i := range segments {
		s := &segments[i]
		if sparse(s.measured) {
			unit := unitOf(s, stay)
			if p.mayGo(unit) && p.take(unit...) {
				stay = slices.DeleteFunc(stay, func(l *logSegment) bool { return slices.Contains(unit, l.measured) })
				continue
			}
			if p.isCaught(unit) && p.take(s.measured) {
				p.empty = append(p.empty, s.segment)
				continue
			}
		}
		if !s.isDead() {
			stay = append(stay, s)
		}
	}
}

// unitOf is a segment with all that keep it: those that stay and of which it holds outcomes, and what in
// turn keeps those. stay ascends.
func unitOf(s *logSegment, stay []*logSegment) []*measured {
	members, unit := []*logSegment{s}, []*measured{s.measured}
	for _, l := range slices.Backward(stay) {
		if slices.ContainsFunc(members, l.holds) {
			members, unit = append(members, l), append(unit, l.measured)
		}
	}
	return unit
}

// isCaught says that a live segment, the first of its unit, stays for one that can not be read to its end: it
// gives its frames away, or it would in turn keep what comes after it, and so on to the end of the log.
func (p *relocationPlan) isCaught(unit []*measured) bool {
	s := unit[0]
	return !s.isDead() && p.mayMove(s) && slices.ContainsFunc(unit[1:], func(m *measured) bool { return p.blocked(m.segment) })
}

// mayGo says that a unit can be rewritten now, and that this is worth it.
func (p *relocationPlan) mayGo(unit []*measured) bool {
	return sparse(unit...) && !slices.ContainsFunc(unit, func(m *measured) bool { return !m.isDead() && !p.mayMove(m) })
}

// mergeBulks is how many small bulk segments of one class become one.
const mergeBulks = 8

// bulks plans bulk segments: the dead, the sparse, and small ones that belong together.
func (p *relocationPlan) bulks(segments []*measured) {
	type kind struct {
		class endClass
		tier  int
	}
	small := map[kind][]*measured{}
	var kinds []kind
	for _, b := range segments {
		if b.isDead() || p.mayMove(b) && sparse(b) {
			p.take(b)
			continue
		}
		if b.alloc > p.segmentBytes/4 || !p.mayMove(b) {
			continue
		}
		k := kind{b.main(), bits.Len64(uint64(b.alloc)) / 2}
		if small[k] == nil {
			kinds = append(kinds, k)
		}
		small[k] = append(small[k], b)
	}
	for _, k := range kinds {
		for all := small[k]; len(all) >= mergeBulks; all = all[mergeBulks:] {
			p.take(all[:mergeBulks]...)
		}
	}
}
