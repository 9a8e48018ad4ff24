package ephemeral

// heap is a binary heap of things that can be found and moved again: each knows its place. It serves two purposes: what
// falls due by time, and what waits for redelivery by number.
//
// INVARIANT: items[i].at == i+1 for all i; at is 0 outside a heap (TestHeap).
type heap[T any] struct{ items []*node[T] }

// node is a place in a heap.
type node[T any] struct {
	key  int64
	rank uint8 // breaks ties of key, lowest first
	at   int
	of   T
}

func (n *node[T]) before(o *node[T]) bool { return n.key < o.key || n.key == o.key && n.rank < o.rank }

func (n *node[T]) in() bool { return n.at != 0 }

// first is the item with the lowest key; nil when there is none.
func (h *heap[T]) first() *node[T] {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

// set adds n under key, or moves it there.
func (h *heap[T]) set(n *node[T], key int64) {
	n.key = key
	if !n.in() {
		h.items = append(h.items, n)
		n.at = len(h.items)
	}
	h.up(n.at - 1)
	h.down(n.at - 1)
}

// remove takes n out, if it is in.
func (h *heap[T]) remove(n *node[T]) {
	if !n.in() {
		return
	}
	i, last := n.at-1, len(h.items)-1
	h.swap(i, last)
	h.items[last] = nil
	h.items = h.items[:last]
	n.at = 0
	if i < last {
		h.up(i)
		h.down(i)
	}
	if cap(h.items) > 64 && len(h.items) < cap(h.items)/4 {
		h.items = append(make([]*node[T], 0, cap(h.items)/2), h.items...)
	}
}

func (h *heap[T]) swap(i, k int) {
	h.items[i], h.items[k] = h.items[k], h.items[i]
	h.items[i].at, h.items[k].at = i+1, k+1
}

func (h *heap[T]) up(i int) {
	for i > 0 && h.items[i].before(h.items[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (h *heap[T]) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h.items); c++ {
			if h.items[c].before(h.items[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
