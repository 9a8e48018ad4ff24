package slab

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

type dueKey struct {
	h    Handle
	kind uint8
}

type dueModel map[dueKey]int64

func (m dueModel) sorted() []DueItem {
	items := make([]DueItem, 0, len(m))
	for k, due := range m {
		items = append(items, DueItem{due, k.h, k.kind})
	}
	slices.SortFunc(items, func(a, b DueItem) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Handle, b.Handle), cmp.Compare(a.Kind, b.Kind))
	})
	return items
}

func checkDue(t *testing.T, d *Due) {
	t.Helper()
	for i := uint32(dueRoot); i < dueRoot+d.len; i++ {
		it := d.item(i)
		if i > dueRoot && before(it, d.item(parentOf(i))) {
			t.Fatalf("item %d comes before its parent", i)
		}
		if p := d.place(it.Kind, it.Handle); p == nil || *p != i {
			t.Fatalf("item %d is not where its place says", i)
		}
	}
}

// TestDueModel adds, moves, cancels and pops beside a sorted list, with few distinct times (ties), with jumps of
// hours, with limits, and with changes from inside emit.
func TestDueModel(t *testing.T) {
	const hour = 3600 * 1000000
	d, m, rng := NewDue(), dueModel{}, rand.New(rand.NewPCG(9, 9))
	now := int64(-hour) // times before zero are times like any other
	for round := range 400 {
		for range rng.IntN(120) {
			k := dueKey{Handle(rng.IntN(6000)), uint8(rng.IntN(3))}
			if rng.IntN(200) == 0 {
				k.h = Handle(1<<22 + rng.IntN(2))
			}
			switch rng.IntN(4) {
			case 0:
				_, want := m[k]
				if d.Cancel(k.h, k.kind) != want {
					t.Fatalf("cancel of %v: want %v", k, want)
				}
				delete(m, k)
			default:
				due := now + int64(rng.IntN(20))*hour/10
				d.Add(due, k.h, k.kind)
				m[k] = due
			}
			due, ok := d.At(k.h, k.kind)
			if want, has := m[k]; ok != has || due != want {
				t.Fatalf("%v is due at %d (%v), want %d (%v)", k, due, ok, want, has)
			}
		}
		if round%20 == 0 {
			checkDue(t, d)
		}
		if rng.IntN(3) == 0 {
			now += int64(rng.IntN(3)) * hour
		}
		popDue(t, d, m, now, 1+rng.IntN(200), rng)
	}
	popDue(t, d, m, now+100*hour, 1<<30, nil)
	if d.Len() != 0 || len(m) != 0 {
		t.Fatalf("%d left, want %d", d.Len(), len(m))
	}
	if kept := d.Bytes(); kept > 400<<10 { // two pages, one spare, and the directories for the highest handles
		t.Fatalf("%d bytes held by an empty index", kept)
	}
}

// popDue pops and compares item by item. From inside emit it sometimes cancels the next item or adds one that is due
// at once.
func popDue(t *testing.T, d *Due, m dueModel, upTo int64, limit int, rng *rand.Rand) {
	t.Helper()
	want := m.sorted()
	if due, ok := d.Next(); ok != (len(want) > 0) || ok && due != want[0].Due {
		t.Fatalf("next is %d (%v)", due, ok)
	}
	popped := 0
	n := d.PopDue(upTo, limit, func(it DueItem) {
		popped++
		if it != want[0] || it.Due > upTo {
			t.Fatalf("popped %+v, want %+v, up to %d", it, want[0], upTo)
		}
		delete(m, dueKey{it.Handle, it.Kind})
		want = want[1:]
		if rng == nil || rng.IntN(10) > 0 {
			return
		}
		if len(want) > 0 && rng.IntN(2) == 0 {
			d.Cancel(want[0].Handle, want[0].Kind)
			delete(m, dueKey{want[0].Handle, want[0].Kind})
		} else {
			k := dueKey{Handle(rng.IntN(6000)), 7}
			d.Add(upTo-int64(rng.IntN(2)), k.h, k.kind)
			m[k], _ = d.At(k.h, k.kind)
		}
		want = m.sorted()
	})
	if n != popped || d.Len() != len(m) {
		t.Fatalf("popped %d, counted %d; %d left, want %d", popped, n, d.Len(), len(m))
	}
	if n < limit && len(want) > 0 && want[0].Due <= upTo {
		t.Fatalf("%+v was left, up to %d", want[0], upTo)
	}
}

// TestDueOrderIsOfTheItemsOnly: whatever the order of adding, and whatever was cancelled on the way, the order of
// popping is one.
func TestDueOrderIsOfTheItemsOnly(t *testing.T) {
	var first []DueItem
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 0))
		d := NewDue()
		for _, i := range rng.Perm(5000) {
			d.Add(int64(rng.IntN(100)), Handle(i+1), 1)
			d.Add(int64(i%17), Handle(i+1), 2)
			d.Add(int64(i%17), Handle(i+1), 1)
		}
		var got []DueItem
		d.PopDue(1<<62, 1<<30, func(it DueItem) { got = append(got, it) })
		if first == nil {
			first = got
		}
		if len(got) != 10000 || !slices.Equal(got, first) {
			t.Fatalf("seed %d: another order", seed)
		}
	}
}
