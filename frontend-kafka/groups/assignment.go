package groups

import (
	"bytes"
	"slices"
)

// topics lists the topics of an assignment, ascending.
func (a assignment) topics() [][16]byte {
	ids := make([][16]byte, 0, len(a))
	for id := range a {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(x, y [16]byte) int { return bytes.Compare(x[:], y[:]) })
	return ids
}

func (a assignment) has(topic [16]byte, n int32) bool {
	_, ok := slices.BinarySearch(a[topic], n)
	return ok
}

func (a assignment) add(topic [16]byte, n int32) {
	i, ok := slices.BinarySearch(a[topic], n)
	if !ok {
		a[topic] = slices.Insert(a[topic], i, n)
	}
}

// size is the number of partitions.
func (a assignment) size() (n int) {
	for _, list := range a {
		n += len(list)
	}
	return n
}

func (a assignment) equal(b assignment) bool {
	if len(a) != len(b) {
		return false
	}
	for id, list := range a {
		if !slices.Equal(list, b[id]) {
			return false
		}
	}
	return true
}

// within tells whether every partition is one of b's. Nil is.
func (a assignment) within(b assignment) bool {
	for id, list := range a {
		for _, n := range list {
			if !b.has(id, n) {
				return false
			}
		}
	}
	return true
}

// split divides a into what is also in b and what is not.
func (a assignment) split(b assignment) (both, only assignment) {
	both, only = assignment{}, assignment{}
	for id, list := range a {
		for _, n := range list {
			to := only
			if b.has(id, n) {
				to = both
			}
			to[id] = append(to[id], n)
		}
	}
	return both, only
}

// touches tells whether a and b have a partition in common.
func (a assignment) touches(b assignment) bool {
	for id, list := range a {
		for _, n := range list {
			if b.has(id, n) {
				return true
			}
		}
	}
	return false
}

// join is a with all of b.
func (a assignment) join(b assignment) assignment {
	out := assignment{}
	for _, from := range [...]assignment{a, b} {
		for id, list := range from {
			out[id] = append(out[id], list...)
		}
	}
	for id, list := range out {
		slices.Sort(list)
		out[id] = slices.Compact(list)
	}
	return out
}
