package engine

import (
	"slices"

	"queen/engine/format"
	"queen/engine/logstore/idruns"
	"queen/engine/machine"
)

// idsAhead is up to how many callers' ids are looked up at a time, and partitionsAhead how many partitions are under
// one hold of the state lock. A push of many partitions with a message each would take the lock, and ask every run,
// as often as it has messages.
const (
	idsAhead        = 1024
	partitionsAhead = 64
)

// pushIDs is what is known of the callers' ids of some of a push's ops, before their frames are encoded.
type pushIDs struct {
	from, to int             // the ops
	first    []int           // of each: number of its first id
	hashes   []format.IDHash // of every id, in order
	hits     []idHit         // originals that the runs know, ascending
	next     int             // number of the id whose turn it is
	lookup   machine.PartitionLookup
}

type idHit struct {
	at  int // number of the id
	row format.IDRow
}

// lookAhead makes the ids of an op known, and of some ops behind it. The calls come in the order of the ops.
func (p *pushEncoder) lookAhead(op int) {
	x := &p.ids
	if op >= x.to {
		x.from, x.to = op, op
		x.first, x.hashes, x.hits = x.first[:0], x.hashes[:0], x.hits[:0]
		for x.to < len(p.ops) && (x.to == op || len(x.hashes) < idsAhead) {
			x.first = append(x.first, len(x.hashes))
			if a, ok := p.ops[x.to].(*Append); ok {
				x.hash(p.n, a)
			}
			x.to++
		}
		if len(x.hashes) > 0 && !p.dry {
			x.hits = p.evidence.probe(p, x)
		}
	}
	x.next = x.first[op-x.from]
}

func (x *pushIDs) hash(n *Node, a *Append) {
	for i := range a.Messages {
		if id := a.Messages[i].TransactionID; id != "" {
			x.hashes = append(x.hashes, format.HashID(n.identity.hashKey, viewBytes(id)))
		}
	}
}

// take is the number of the next id; ids are taken in order, also those that no frame stores.
func (x *pushIDs) take() int {
	x.next++
	return x.next - 1
}

// probe asks the runs for all ids of x.
func (e *idEvidence) probe(p *pushEncoder, x *pushIDs) []idHit {
	if !e.known {
		e.begin(p.n)
	}
	if e.clear == 0 {
		return x.hits
	}
	e.keys = slices.Grow(e.keys[:0], len(x.hashes))[:len(x.hashes)]
	p.partitionsOf(x, e.keys)
	e.found = slices.Grow(e.found[:0], len(e.keys))[:len(e.keys)]
	if e.lookUp(p.n) {
		for i := range e.found {
			// An id of no partition has partition 0, of which there are no rows.
			if e.found[i].Found {
				x.hits = append(x.hits, idHit{i, e.found[i].Row})
			}
		}
	}
	return x.hits
}

// partitionsOf fills keys with the ids of x and the partitions they are meant for, 0 for one that does not exist: it has
// no originals.
func (p *pushEncoder) partitionsOf(x *pushIDs, keys []idruns.Key) {
	for from := x.from; from < x.to; {
		queue, to := "", from
		x.lookup.Names = x.lookup.Names[:0]
		for ; to < x.to && len(x.lookup.Names) < partitionsAhead; to++ {
			a, ok := p.ops[to].(*Append)
			if !ok {
				a = &Append{Queue: queue}
			}
			if len(x.lookup.Names) > 0 && a.Queue != queue {
				break
			}
			queue = a.Queue
			x.lookup.Names = append(x.lookup.Names, viewBytes(a.Partition))
		}
		n := p.n
		n.state.RLock()
		q, _ := n.state.m.QueueByName(p.caller.Tenant, queue)
		n.state.m.FindPartitions(q.ID, &x.lookup)
		n.state.RUnlock()
		for op := from; op < to; op++ {
			end := len(x.hashes)
			if op+1 < x.to {
				end = x.first[op+1-x.from]
			}
			for i := x.first[op-x.from]; i < end; i++ {
				keys[i] = idruns.Key{Partition: x.lookup.IDs[op-from], Hash: x.hashes[i]}
			}
		}
		from = to
	}
}

// lookUp asks the runs for keys, into found. What can not be read makes the ops of the submission be refused.
func (e *idEvidence) lookUp(n *Node) bool {
	n.counters.runProbes.Add(uint64(len(e.keys)))
	if err := n.ids.set.ProbeBatch(e.keys, e.clear, e.found); err != nil {
		n.event("id runs", err)
		e.clear, e.err = 0, &Error{Code: CodeCorrupt, Message: "what is known of older ids can not be read", Cause: err}
		return false
	}
	return true
}

// attach puts into the command of a frame what is known of its ids: at are their numbers, in order, one for each
// message of the frame that has an id.
func (x *pushIDs) attach(e *idEvidence, a *format.Append, at []int) {
	a.ClearTo = e.clear
	if e.clear == 0 || len(x.hits) == 0 {
		return
	}
	next := 0
	for i := range a.Count {
		if a.IDs == format.IDsSome && a.Bitmap[i/8]>>(i%8)&1 == 0 {
			continue
		}
		h, ok := slices.BinarySearchFunc(x.hits, at[next], func(h idHit, at int) int { return h.at - at })
		next++
		if ok {
			r := &x.hits[h].row
			a.Originals = append(a.Originals, format.Original{At: i, Offset: r.Offset, Place: r.Place, W: r.W})
		}
	}
}
