package frontendhttp

import (
	"sync"

	"queen/engine"
	"queen/engine/format"
)

// maxCredit bounds the allowance that credit frames can add up to, messages.
const maxCredit = 1 << 20

// window is the flow control of one stream.
//
// The allowance starts at maxInFlight. A message sent takes one; a message settled gives one back, and so does one whose
// lease is over. A credit frame adds to it, which under commitOnDelivery is the only way it grows again.
//
// INVARIANT: a message is sent only out of the allowance, so what a client has neither settled nor granted credit for is
// never more than it asked for (TestCreditIsNeverExceeded).
type window struct {
	// changed has room for one signal: something came back.
	changed chan struct{}

	mu struct {
		sync.Mutex
		allowance int
		bytes     int64 // payload bytes that may still be sent
		most      int64 // bytes when nothing is in flight
		claims    map[format.PartitionID]*flight
		free      []int64 // sizes of messages without a lease, oldest first
	}
}

// flight is what one lease holds of one partition and the stream has sent.
type flight struct {
	lease string
	until int64 // clock.Mono at which the lease is over
	open  []sent
	// touched says that something of it was settled: it can not be handed back as if never delivered.
	touched bool
}

type sent struct {
	offset format.Offset
	id     string
	bytes  int64
}

func newWindow(r *order) *window {
	w := &window{changed: make(chan struct{}, 1)}
	w.mu.allowance, w.mu.bytes, w.mu.most = r.messages, r.bytes, r.bytes
	return w
}

// signal wakes the pump; the channel keeps one.
func (w *window) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// room is how much may be sent now; 0 means wait.
func (w *window) room(now int64) (messages int, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expireLocked(now)
	if w.mu.bytes <= 0 {
		return 0, 0
	}
	return max(w.mu.allowance, 0), w.mu.bytes
}

// idle says that no byte is in flight: then a single message may be larger than the bound.
func (w *window) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.bytes == w.mu.most
}

// nextExpiry is when the first lease is over; 0 when there is none.
func (w *window) nextExpiry() (at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.mu.claims {
		if at == 0 || f.until < at {
			at = f.until
		}
	}
	return at
}

func (w *window) expireLocked(now int64) {
	for id, f := range w.mu.claims {
		if f.until <= now {
			w.dropLocked(id, f)
		}
	}
}

// dropLocked gives everything back that a flight has open.
func (w *window) dropLocked(id format.PartitionID, f *flight) {
	w.settleLocked(f, len(f.open))
	delete(w.mu.claims, id)
}

// settleLocked gives back the first n open messages.
func (w *window) settleLocked(f *flight, n int) {
	for _, m := range f.open[:n] {
		w.mu.bytes += m.bytes
	}
	w.mu.allowance += n
	f.open = f.open[n:]
}

// sending takes a delivery out of the window before it is written, so that an ack that comes at once finds it.
func (w *window) sending(d *engine.Delivery, shares [][]sent, until int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.claims == nil {
		w.mu.claims = map[format.PartitionID]*flight{}
	}
	for i := range d.Claims {
		for _, m := range shares[i] {
			w.mu.allowance--
			w.mu.bytes -= m.bytes
			if d.Lease == "" {
				w.mu.free = append(w.mu.free, m.bytes)
			}
		}
		if d.Lease == "" || len(shares[i]) == 0 {
			continue
		}
		id := d.Claims[i].PartitionID
		if old := w.mu.claims[id]; old != nil {
			w.dropLocked(id, old) // the broker gave the partition out again, so the older lease is over
		}
		w.mu.claims[id] = &flight{lease: d.Lease, until: until, open: shares[i]}
	}
}

// unsent forgets a delivery whose write failed; whoever wrote it hands it back.
func (w *window) unsent(lease string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, f := range w.mu.claims {
		if f.lease == lease {
			delete(w.mu.claims, id)
		}
	}
}

// acked gives back what an ack settled. Completed settles every earlier message of the partition too (S-ack-2).
func (w *window) acked(a *engine.Ack, r *engine.Result) {
	if r.Err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.mu.claims[a.Partition]
	if f == nil || a.Lease != "" && a.Lease != f.lease {
		return
	}
	if r.Ack.Released {
		w.dropLocked(a.Partition, f)
	} else if a.Status == format.AckCompleted {
		n := f.upTo(a)
		f.touched = f.touched || n > 0
		w.settleLocked(f, n)
	}
	w.signal()
}

// upTo counts the open messages up to the one an ack names, that included; 0 when it is not among them.
func (f *flight) upTo(a *engine.Ack) int {
	for i, m := range f.open {
		if a.HasOffset && m.offset == a.Offset || !a.HasOffset && m.id == a.TransactionID {
			return i + 1
		}
	}
	return 0
}

// credit adds to the allowance; false when that would be too much.
func (w *window) credit(n int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > maxCredit || int64(w.mu.allowance)+n > maxCredit {
		return false
	}
	w.mu.allowance += int(n)
	paid := min(int(n), len(w.mu.free))
	for _, b := range w.mu.free[:paid] {
		w.mu.bytes += b
	}
	w.mu.free = w.mu.free[paid:]
	w.signal()
	return true
}

// extended notes the new end of a lease.
func (w *window) extended(lease string, until int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.mu.claims {
		if f.lease == lease {
			f.until = until
		}
	}
}

// held are the ops that hand back what is still leased, uncounted. A release is for leases of which nothing was
// settled; for the others a retry of the first open message ends the lease, and that message was never at the head
// before, so its next delivery is its first.
func (w *window) held(group string, now int64) (ops []engine.Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expireLocked(now)
	for id, f := range w.mu.claims {
		switch {
		case len(f.open) == 0:
		case !f.touched:
			ops = append(ops, &engine.Release{Lease: f.lease, Partition: id})
		default:
			ops = append(ops, &engine.Ack{Partition: id, Group: group, Lease: f.lease, Status: format.AckRetry,
				Offset: f.open[0].offset, HasOffset: true})
		}
	}
	return ops
}
