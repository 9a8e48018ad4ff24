package ephemeral

// list is a doubly linked list of things that hold their own links, so that leaving costs no search and no allocation.
type list[T any] struct {
	front, back *link[T]
	n           int
}

// link is a place in a list. when is for lists in order of time.
type link[T any] struct {
	next, prev *link[T]
	in         bool
	when       int64
	of         T
}

func (l *list[T]) push(e *link[T]) {
	e.prev, e.next, e.in = l.back, nil, true
	if l.back != nil {
		l.back.next = e
	} else {
		l.front = e
	}
	l.back = e
	l.n++
}

// remove takes e out, if it is in.
func (l *list[T]) remove(e *link[T]) {
	if !e.in {
		return
	}
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		l.front = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		l.back = e.prev
	}
	e.next, e.prev, e.in = nil, nil, false
	l.n--
}

// touch puts e at the back as of now: the list stays in order of time, because time never falls.
func (l *list[T]) touch(e *link[T], now int64) {
	l.remove(e)
	e.when = now
	l.push(e)
}
