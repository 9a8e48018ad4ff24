package idruns

import (
	"cmp"
	"math/bits"
	"slices"
)

// ref stands for a row while rows are put in order.
type ref struct {
	spread uint64
	at     uint32
}

// sorter puts rows in order by their spreads. These lie evenly over their range (format.IDSpread), so a row's place is
// known to within a few rows by a multiplication: rows are dealt into slots, and only what shares a slot is compared.
// Of many rows the slots are coarse, and each is dealt once more: at once into as many slots as there are rows, every
// row would cost two cache misses. That is linear; for numbers that are not even it is slower, not wrong. It keeps its
// memory.
type sorter struct {
	refs []ref
	ends []uint32
	fine *sorter // of a coarse slot
}

const (
	// slotRows is how many rows share a slot if they lie evenly, coarseRows how many share a coarse one, of which
	// there are some if the rows are more than fineMax.
	slotRows   = 4
	coarseRows = 1024
	fineMax    = 1 << 14
	// insertionMax is up to how many rows insertion is the faster way to sort a slot.
	insertionMax = 24
)

// begin expects n rows whose spreads lie in [low, high]: count has to be called for each, then counted, then place for
// each, then finish.
func (s *sorter) begin(n int, low, high uint64) dealer {
	slots := n / slotRows
	if n > fineMax {
		slots = n / coarseRows
	}
	slots = max(1, slots)
	s.refs = slices.Grow(s.refs[:0], n)[:n]
	s.ends = slices.Grow(s.ends[:0], slots+1)[:slots+1]
	clear(s.ends)
	// The range is stretched over all 64 bits, so that the slot is the high half of a product.
	return dealer{s: s, low: low, shift: uint(bits.LeadingZeros64(high - low)), slots: uint64(slots)}
}

// dealer is a sort under way.
type dealer struct {
	s     *sorter
	low   uint64
	shift uint
	slots uint64
}

func (d *dealer) slot(spread uint64) uint64 {
	slot, _ := bits.Mul64((spread-d.low)<<d.shift, d.slots)
	return slot
}

func (d *dealer) count(spread uint64) { d.s.ends[d.slot(spread)+1]++ }

// counted turns counts into the first place of each slot.
func (d *dealer) counted() {
	sum := uint32(0)
	for i, n := range d.s.ends {
		sum += n
		d.s.ends[i] = sum
	}
}

func (d *dealer) place(spread uint64, at uint32) {
	e := &d.s.ends[d.slot(spread)]
	d.s.refs[*e] = ref{spread, at}
	*e++
}

// finish sorts each slot and returns all in order, good until the next begin. less decides between rows of one spread.
func (d *dealer) finish(less func(a, b uint32) bool) []ref {
	from := uint32(0)
	for _, end := range d.s.ends[:d.slots] {
		d.s.sortSlot(d.s.refs[from:end], less)
		from = end
	}
	return d.s.refs
}

func (s *sorter) sortSlot(refs []ref, less func(a, b uint32) bool) {
	switch {
	case len(refs) <= insertionMax:
		insert(refs, less)
	case len(refs) <= 2*coarseRows && len(refs) < len(s.refs)/2:
		if s.fine == nil {
			s.fine = new(sorter)
		}
		copy(refs, s.fine.sort(refs, less))
	default:
		slices.SortFunc(refs, func(a, b ref) int {
			switch {
			case a.spread != b.spread:
				return cmp.Compare(a.spread, b.spread)
			case less(a.at, b.at):
				return -1
			case less(b.at, a.at):
				return 1
			}
			return 0
		})
	}
}

func (s *sorter) sort(refs []ref, less func(a, b uint32) bool) []ref {
	low, high := ^uint64(0), uint64(0)
	for i := range refs {
		low, high = min(low, refs[i].spread), max(high, refs[i].spread)
	}
	deal := s.begin(len(refs), low, high)
	for i := range refs {
		deal.count(refs[i].spread)
	}
	deal.counted()
	for i := range refs {
		deal.place(refs[i].spread, refs[i].at)
	}
	return deal.finish(less)
}

func insert(refs []ref, less func(a, b uint32) bool) {
	for i := 1; i < len(refs); i++ {
		r := refs[i]
		k := i
		for k > 0 && (refs[k-1].spread > r.spread || refs[k-1].spread == r.spread && less(r.at, refs[k-1].at)) {
			refs[k] = refs[k-1]
			k--
		}
		refs[k] = r
	}
}
