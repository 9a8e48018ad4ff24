package slab

import (
	"cmp"
	"unsafe"
)

const (
	duePage  = 4096 // items per page of the heap
	dueRoot  = 3    // so that four brothers share a page and, mostly, a cache line
	duePlace = 1024 // handles per page of places
	dueKinds = 256
)

// DueItem is one thing to do at a time: Due in microseconds of a clock that the caller chooses.
type DueItem struct {
	Due    int64
	Handle Handle
	Kind   uint8
}

// Due is the index of what falls due when: at most one item per (kind, handle), popped in the order of (due, handle,
// kind) whatever the order of adding. It is not state: rebuild it at open.
//
// It is a 4-ary heap that knows the place of each item, not a timing wheel: nothing here is checkpointed, so moving
// items costs no dirt; a deadline later than most is stored and cancelled without climbing (leases are), Next is
// exact, a jump of the clock costs nothing, and there are no cascades to stall on.
//
// INVARIANT: no item comes before its parent, and places[kind][handle] is where the item is (TestDueModel).
type Due struct {
	pages  []*[duePage]DueItem
	len    uint32 // items, at dueRoot .. dueRoot+len-1
	places [dueKinds][]*placePage
	spare  *placePage // an empty page, so that a lone item coming and going allocates nothing
}

type placePage struct {
	used int
	at   [duePlace]uint32 // 0: not here
}

// NewDue returns an empty index.
func NewDue() *Due { return new(Due) }

func (d *Due) item(i uint32) *DueItem { return &d.pages[i/duePage][i%duePage] }

func before(a, b *DueItem) bool {
	if a.Due != b.Due {
		return a.Due < b.Due
	}
	return cmp.Or(cmp.Compare(a.Handle, b.Handle), cmp.Compare(a.Kind, b.Kind)) < 0
}

func parentOf(i uint32) uint32     { return i/4 + 2 }
func firstChildOf(i uint32) uint32 { return i*4 - 8 }

// place returns the entry for a handle, or nil if its page is not there.
func (d *Due) place(kind uint8, h Handle) *uint32 {
	pages := d.places[kind]
	if n := int(h / duePlace); n < len(pages) && pages[n] != nil {
		return &pages[n].at[h%duePlace]
	}
	return nil
}

// Add sets the due time of (kind, handle), replacing an earlier one.
func (d *Due) Add(due int64, h Handle, kind uint8) {
	item := DueItem{Due: due, Handle: h, Kind: kind}
	if p := d.place(kind, h); p != nil && *p != 0 {
		i := *p
		*d.item(i) = item
		d.fix(i)
		return
	}
	d.addPlace(kind, h)
	i := dueRoot + d.len
	if int(i/duePage) == len(d.pages) {
		d.pages = append(d.pages, new([duePage]DueItem))
	}
	d.len++
	d.up(i, item)
}

func (d *Due) addPlace(kind uint8, h Handle) {
	n := int(h / duePlace)
	for len(d.places[kind]) <= n {
		d.places[kind] = append(d.places[kind], nil)
	}
	if d.places[kind][n] == nil {
		if d.spare == nil {
			d.spare = new(placePage)
		}
		d.places[kind][n], d.spare = d.spare, nil
	}
	d.places[kind][n].used++
}

// Cancel removes (kind, handle) and says whether it was there.
func (d *Due) Cancel(h Handle, kind uint8) bool {
	p := d.place(kind, h)
	if p == nil || *p == 0 {
		return false
	}
	d.remove(*p)
	return true
}

// At returns the due time of (kind, handle), if it has one.
func (d *Due) At(h Handle, kind uint8) (due int64, ok bool) {
	p := d.place(kind, h)
	if p == nil || *p == 0 {
		return 0, false
	}
	return d.item(*p).Due, true
}

// Next returns the earliest due time; ok is false if there is nothing.
func (d *Due) Next() (due int64, ok bool) {
	if d.len == 0 {
		return 0, false
	}
	return d.item(dueRoot).Due, true
}

// PopDue removes items with Due <= upTo in order, at most limit of them, and gives each to emit, which may Add and
// Cancel; what it adds at or before upTo is popped in the same call. It returns the number popped.
func (d *Due) PopDue(upTo int64, limit int, emit func(it DueItem)) int {
	n := 0
	for ; n < limit && d.len > 0 && d.item(dueRoot).Due <= upTo; n++ {
		it := *d.item(dueRoot)
		d.remove(dueRoot)
		emit(it)
	}
	return n
}

// remove takes out the item at i; the last item fills the hole.
func (d *Due) remove(i uint32) {
	it := *d.item(i)
	page := d.places[it.Kind][it.Handle/duePlace]
	page.at[it.Handle%duePlace] = 0
	if page.used--; page.used == 0 {
		d.places[it.Kind][it.Handle/duePlace], d.spare = nil, page
	}
	d.len--
	last := dueRoot + d.len
	moved := *d.item(last)
	*d.item(last) = DueItem{}
	if i != last {
		*d.item(i) = moved
		d.fix(i)
	}
	// One spare page is kept, so that a length going to and fro over a boundary allocates nothing.
	if keep := int(last/duePage) + 2; keep < len(d.pages) {
		d.pages[keep] = nil
		d.pages = d.pages[:keep]
	}
}

// fix moves the item at i to where it belongs.
func (d *Due) fix(i uint32) {
	item := *d.item(i)
	if i > dueRoot && before(&item, d.item(parentOf(i))) {
		d.up(i, item)
		return
	}
	d.down(i, item)
}

func (d *Due) set(i uint32, item DueItem) {
	*d.item(i) = item
	*d.place(item.Kind, item.Handle) = i
}

func (d *Due) up(i uint32, item DueItem) {
	for i > dueRoot {
		p := parentOf(i)
		if !before(&item, d.item(p)) {
			break
		}
		d.set(i, *d.item(p))
		i = p
	}
	d.set(i, item)
}

func (d *Due) down(i uint32, item DueItem) {
	end := dueRoot + d.len
	for {
		c := firstChildOf(i)
		if c >= end {
			break
		}
		least := c
		for k := c + 1; k < min(c+4, end); k++ {
			if before(d.item(k), d.item(least)) {
				least = k
			}
		}
		if !before(d.item(least), &item) {
			break
		}
		d.set(i, *d.item(least))
		i = least
	}
	d.set(i, item)
}

// Len returns the number of items.
func (d *Due) Len() int { return int(d.len) }

// Bytes returns the memory held, in bytes.
func (d *Due) Bytes() int64 {
	n := int64(unsafe.Sizeof(*d)) + int64(len(d.pages))*int64(unsafe.Sizeof([duePage]DueItem{})+8)
	for _, pages := range d.places {
		n += int64(cap(pages)) * 8
		for _, p := range pages {
			if p != nil {
				n += int64(unsafe.Sizeof(*p))
			}
		}
	}
	return n
}
