package engine

import (
	"sync"

	"queen/engine/format"
)

// flights are the entries proposed by this node and not yet applied, by fuse number.
type flights struct {
	mu struct {
		sync.Mutex
		byFuse map[uint64]*flight
	}
}

func (f *flights) put(fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.byFuse == nil {
		f.mu.byFuse = map[uint64]*flight{}
	}
	f.mu.byFuse[fl.header.Fuse] = fl
}

// take returns and forgets the flight of an applied entry; nil when another node proposed it, or a
// previous life of this one.
func (f *flights) take(h format.EntryHeader) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.mu.byFuse[h.Fuse]
	if fl == nil || fl.header != h {
		return nil
	}
	delete(f.mu.byFuse, h.Fuse)
	return fl
}

// drain takes everything: nothing will be applied any more.
func (f *flights) drain() (subs []*submission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fl := range f.mu.byFuse {
		subs = append(subs, fl.subs...)
	}
	f.mu.byFuse = nil
	return subs
}

// run is the proposing goroutine: it packs whoever waits into the next entry and hands it to the
// sequencer, which returns when it can take another.
func (n *Node) run() {
	defer n.background.Done()
	for {
		subs := n.fuser.take()
		if len(subs) == 0 {
			if n.fuser.closed() {
				return
			}
			<-n.fuser.wake
			continue
		}
		subs = append(subs, n.riders(subs)...)
		if err := n.seq.Propose(n.pack(subs)); err != nil {
			if !n.killed.Load() {
				n.cfg.Fatal(err)
			}
			n.abandon()
			return
		}
	}
}

// riders are parked pops that ride behind the pushes that will feed them: one commit from producer
// to consumer. Queues that hold messages back have none, since such a pop would find nothing.
func (n *Node) riders(subs []*submission) []*submission {
	var out []*submission
	left := n.fuser.room
	for _, s := range subs {
		for _, q := range s.queues {
			if n.holdsBack(q) {
				continue
			}
			for _, c := range n.park.ride(q, s.buf.Count) {
				r := c.submission()
				if left -= r.size(); left < 0 {
					n.fuser.submit(r) // in the next one
					continue
				}
				r.state.Store(subTaken)
				out = append(out, r)
			}
		}
	}
	return out
}

// pack stamps and encodes the entry of subs and remembers them until it is applied.
func (n *Node) pack(subs []*submission) []byte {
	fl := &flight{subs: subs, header: n.stamp.next()}
	size := format.EntryFixedHead
	n.builder.Begin(fl.header)
	for _, s := range subs {
		size += s.size()
		s.flight = fl
		s.first, _ = n.builder.Add(s.buf)
	}
	n.flights.put(fl)
	data := n.builder.Finish(make([]byte, 0, size))
	for _, s := range subs {
		s.recycle()
	}
	return data
}
