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
	k := format.IDFence(pid, hash)
	for _, r := range slices.Backward(l.runs) {
		if f := r.filter.Load(); f != nil && !f.has(k.Spread) {
			continue
		}
		if row, found, err = r.find(k); err != nil || found {
			return row, found, err
		}
	}
	return row, false, nil
}

// probing is what ProbeBatch works with: the ids not found yet.
type probing struct {
	spreads []uint64
	at      []int32 // in the caller's slice
	hits    []bool
	places  []place
}

// place is where in a sieve a print is looked for.
type place struct {
	from, to uint32
	print    uint16
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
	p.spreads, p.at = p.spreads[:0], p.at[:0]
	for i := range keys {
		originals[i] = Original{}
		p.spreads = append(p.spreads, format.IDSpread(keys[i].Partition, &keys[i].Hash))
		p.at = append(p.at, int32(i))
	}
	p.hits = append(p.hits[:0], make([]bool, len(keys))...)
	for _, r := range slices.Backward(l.runs) {
		if r.first > upto || len(p.at) == 0 {
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
	if f := r.filter.Load(); f != nil && !p.sift(f) {
		return nil
	} else if f == nil {
		for i := range p.at {
			p.hits[i] = true
		}
	}
	left := 0
	for i, at := range p.at {
		if p.hits[i] {
			k := format.Fence{Partition: keys[at].Partition, Hash: keys[at].Hash, Spread: p.spreads[i]}
			row, found, err := r.find(k)
			if err != nil {
				return err
			}
			if found {
				originals[at] = Original{row, true}
				continue
			}
		}
		p.spreads[left], p.at[left] = p.spreads[i], at
		left++
	}
	p.spreads, p.at = p.spreads[:left], p.at[:left]
	return nil
}

// sift marks the keys that the run may hold and reports whether there are any. Each key costs two cache misses one
// after the other; in two loops without branches on what was read those of different keys wait together.
func (p *probing) sift(f *sieve) (any bool) {
	p.places = slices.Grow(p.places[:0], len(p.spreads))[:len(p.spreads)]
	for i, spread := range p.spreads {
		at, print := f.bucket(spread)
		from, to := f.printsOf(at)
		p.places[i] = place{from, to, print}
	}
	for i := range p.places {
		w := &p.places[i]
		hit := f.among(w.print, w.from, w.to)
		p.hits[i] = hit
		any = any || hit
	}
	return any
}
