package idruns

import (
	"slices"
	"sync"

	"queen/engine/format"
)

// Key is an id to look up.
type Key struct {
	Partition format.PartitionID
	Hash      format.IDHash
}

// Original is where an id was stored; the zero value says nowhere.
type Original struct {
	Row   format.IDRow
	Found bool
}

// Probe returns the newest row of an id. An error is a *DamageError: nothing is known of the id.
func (s *Set) Probe(pid format.PartitionID, hash format.IDHash) (row format.IDRow, found bool, err error) {
	l := s.acquire()
	defer l.release()
	k := keyOf(pid, &hash)
	h := k.hash()
	for _, r := range slices.Backward(l.runs) {
		if f := r.filter.Load(); f != nil {
			if k.less(&f.firsts[0]) || !f.parts[f.part(&k, 0)].has(h) {
				continue
			}
		}
		if row, found, err = r.find(&k, pid, hash); err != nil || found {
			return row, found, err
		}
	}
	return row, false, nil
}

// probing is what ProbeBatch works with.
type probing struct {
	keys []probeKey // not found yet, in order
	hits []bool
}

type probeKey struct {
	key
	hash uint64
	at   int // in the caller's slice
}

var probings = sync.Pool{New: func() any { return new(probing) }}

// ProbeBatch looks up the ids of a batch, one pass per run over all of them, and fills originals, as
// long as keys, with the newest row of each. Runs that begin after chunk upto are passed over: to say
// "clear up to mark upto" they do not matter. On error nothing is known of the ids.
func (s *Set) ProbeBatch(keys []Key, upto uint64, originals []Original) error {
	l := s.acquire()
	defer l.release()
	p := probings.Get().(*probing)
	defer probings.Put(p)
	p.keys = p.keys[:0]
	for i := range keys {
		originals[i] = Original{}
		k := keyOf(keys[i].Partition, &keys[i].Hash)
		p.keys = append(p.keys, probeKey{k, k.hash(), i})
	}
	slices.SortFunc(p.keys, func(a, b probeKey) int {
		switch {
		case a.less(&b.key):
			return -1
		case b.less(&a.key):
			return 1
		}
		return 0
	})
	for _, r := range slices.Backward(l.runs) {
		if r.first > upto {
			continue
		}
		if err := p.pass(r, keys, originals); err != nil {
			return err
		}
	}
	return nil
}

// pass looks the keys that are left up in one run.
func (p *probing) pass(r *run, keys []Key, originals []Original) error {
	p.sift(r)
	left := p.keys[:0]
	for i := range p.keys {
		k := &p.keys[i]
		if p.hits[i] {
			id := &keys[k.at]
			row, found, err := r.find(&k.key, id.Partition, id.Hash)
			if err != nil {
				return err
			}
			if found {
				originals[k.at] = Original{row, true}
				continue
			}
		}
		left = append(left, *k)
	}
	p.keys = left
	return nil
}

// sift marks the keys that the run may hold. It is a loop of its own, without branches on what was
// read, so that the memory accesses of several keys overlap.
func (p *probing) sift(r *run) {
	p.hits = append(p.hits[:0], make([]bool, len(p.keys))...)
	f := r.filter.Load()
	part := 0
	for i := range p.keys {
		k := &p.keys[i]
		switch {
		case f == nil:
			p.hits[i] = true
		case !k.less(&f.firsts[0]):
			part = f.part(&k.key, part)
			p.hits[i] = f.parts[part].has(k.hash)
		}
	}
}
