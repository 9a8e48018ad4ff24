package engine

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	"queen/engine/format"
)

// flights are the entries proposed by this node and not yet applied, by fuse number.
type flights struct {
	mu struct {
		sync.Mutex
		byFuse map[fuseKey]*flight
		landed uint64 // fuse number of the newest entry that was applied
		waits  []flightWait
		fenced format.Term // none is of an epoch below it
	}
}

// fuseKey names an entry of this node: fuse numbers begin anew in each epoch.
type fuseKey struct {
	epoch format.Term
	fuse  uint64
}

func keyOf(h format.EntryHeader) fuseKey { return fuseKey{h.Epoch, h.Fuse} }

// flightWait waits for an entry and all before it to be applied.
type flightWait struct {
	fuse uint64
	done chan struct{}
}

// land notes that an entry was applied.
func (f *flights) land(fuse uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.landed = fuse
	f.mu.waits = slices.DeleteFunc(f.mu.waits, func(w flightWait) bool {
		if w.fuse > fuse {
			return false
		}
		close(w.done)
		return true
	})
}

// behind reports that an entry is not applied yet.
func (f *flights) behind(fuse uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.landed < fuse
}

// wait returns once the entry of a fuse number, and with it all before it, is applied; lost says that the lead was lost before:
// then it may never be.
func (f *flights) wait(ctx context.Context, stopping, changed <-chan struct{}, fuse uint64) (lost bool, err *Error) {
	f.mu.Lock()
	if f.mu.landed >= fuse {
		f.mu.Unlock()
		return false, nil
	}
	w := flightWait{fuse, make(chan struct{})}
	f.mu.waits = append(f.mu.waits, w)
	f.mu.Unlock()
	defer f.leave(w)
	select {
	case <-w.done:
		return false, nil
	case <-changed:
		return true, nil
	case <-stopping:
		return false, errClosed()
	case <-ctx.Done():
		return false, errContext(ctx, OutcomeNone)
	}
}

// leave forgets a wait that is over.
func (f *flights) leave(w flightWait) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.waits = slices.DeleteFunc(f.mu.waits, func(o flightWait) bool { return o.done == w.done })
}

// put remembers an entry that is about to be proposed; false for one of an epoch that is over.
func (f *flights) put(fl *flight) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.header.Epoch < f.mu.fenced {
		return false
	}
	if f.mu.byFuse == nil {
		f.mu.byFuse = map[fuseKey]*flight{}
	}
	f.mu.byFuse[keyOf(fl.header)] = fl
	return true
}

// take returns and forgets the flight of an applied entry; nil when another node proposed it, or a
// previous life of this one.
func (f *flights) take(h format.EntryHeader) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.mu.byFuse[keyOf(h)]
	if fl == nil || fl.header != h {
		return nil
	}
	delete(f.mu.byFuse, keyOf(h))
	return fl
}

// restart forgets how far the entries of an earlier epoch were applied.
func (f *flights) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.landed = 0
}

// before takes the submissions of entries of earlier epochs, in the order in which they were proposed. There will be no more.
func (f *flights) before(epoch format.Term) (subs []*submission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.fenced = epoch
	var late []*flight
	for key, fl := range f.mu.byFuse {
		if key.epoch < epoch {
			late = append(late, fl)
			delete(f.mu.byFuse, key)
		}
	}
	slices.SortFunc(late, func(a, b *flight) int {
		return cmp.Or(cmp.Compare(a.header.Epoch, b.header.Epoch), cmp.Compare(a.header.Fuse, b.header.Fuse))
	})
	for _, fl := range late {
		subs = append(subs, fl.subs...)
	}
	return subs
}

// drain takes everything: nothing will be applied any more.
func (f *flights) drain() (subs []*submission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fl := range f.mu.byFuse {
		subs = append(subs, fl.subs...)
	}
	f.mu.byFuse = nil
	f.mu.landed = math.MaxUint64
	for _, w := range f.mu.waits {
		close(w.done)
	}
	f.mu.waits = nil
	return subs
}

// run is the proposing goroutine: while more than one call is about it packs whoever waits into the next entry
// and hands it to the sequencer, which returns when it can take another.
func (n *Node) run() {
	defer n.background.Done()
	for range n.fuser.wake {
		for {
			if idle, closed := n.fuser.rest(); closed {
				return
			} else if idle {
				break
			}
			if err := n.propose(false); err != nil {
				n.fuser.halt()
				if !n.killed.Load() && !errors.Is(err, errLeft) {
					n.cfg.Fatal(err)
				}
				n.abandon()
				return
			}
		}
	}
}

// commit submits what one call contributes and waits until it is applied, proposing it if nobody else proposes. The
// latter takes as long as the disk takes, whatever becomes of ctx.
func (n *Node) commit(ctx context.Context, subs ...*submission) *Error {
	if n.cluster != nil {
		if err := n.cluster.refuseCall(); err != nil {
			return err
		}
	}
	if n.fuser.submit(n.seq.Prompt(), subs...) {
		n.lead()
	}
	return waitAll(ctx, subs)
}

// waitAll waits for what one call contributes. When a part fails, what is in no entry yet is withdrawn, and the outcome is
// unknown unless no part was or may still be carried out.
func waitAll(ctx context.Context, subs []*submission) *Error {
	for i, s := range subs {
		err := s.wait(ctx)
		if err == nil {
			continue
		}
		done := i > 0
		for _, later := range subs[i+1:] {
			done = !later.withdraw() || done
		}
		if done {
			part := *err
			part.Outcome = OutcomeUnknown
			err = &part
		}
		return err
	}
	return nil
}

// lead proposes one entry and waits for its apply.
func (n *Node) lead() {
	err := n.propose(true)
	if err == nil {
		n.fuser.yield()
		return
	}
	n.fuser.halt()
	if n.killed.Load() {
		n.abandon()
		return
	}
	go n.cfg.Fatal(err) // it may end its goroutine, which must not be a caller's
}

// propose makes the next entry of what waits and hands it over. The caller is the one who leads.
func (n *Node) propose(wait bool) error {
	if n.cluster != nil {
		return n.cluster.propose()
	}
	subs := n.fuser.take()
	if len(subs) == 0 {
		return nil // all were withdrawn
	}
	subs = append(subs, n.riders(subs)...)
	p := n.pack(subs)
	p.Wait = wait
	err := n.seq.Propose(p)
	for _, s := range subs {
		s.recycle() // nobody reads the buffers any more
	}
	return err
}

// riders are parked pops that ride behind the pushes that will feed them: one commit from producer
// to consumer. Queues that hold messages back have none, since such a pop would find nothing.
func (n *Node) riders(subs []*submission) []*submission {
	if n.park.count() == 0 {
		return nil // as under load; who parks from now on is woken by apply
	}
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
					n.fuser.submit(false, r) // in the next one
					continue
				}
				r.state.Store(subTaken)
				out = append(out, r)
			}
		}
	}
	return out
}

// pack stamps and encodes the entry of subs and remembers them until it is applied. Its payload stays in their buffers. nil says
// that this node's epoch is over.
func (n *Node) pack(subs []*submission) *Proposal {
	fl := newFlight(n.stamp.next(), subs)
	fl.at = max(n.cfg.Clock.Mono(), 1)
	n.builder.Begin(fl.header)
	if n.cluster != nil {
		if b := n.origins(subs); b != nil {
			n.builder.Add(b)
		}
	}
	for _, s := range subs {
		s.flight = fl
		s.count = s.buf.Count
		s.first, s.ordinal = n.builder.Add(s.buf)
	}
	fl.head = n.builder.Head(slices.Grow(fl.head[:0], n.builder.HeadLen()))
	p := &n.proposal
	p.Head, p.Payload, p.Header = fl.head, n.builder.Payloads(), fl.header
	if !n.flights.put(fl) {
		return nil
	}
	return p
}
