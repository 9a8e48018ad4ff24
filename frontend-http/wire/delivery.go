package wire

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Delivery verdicts.
//
// A successful write proves nothing: the peer may have closed before it, without the kernel knowing yet. The next read
// on the connection does know. The answer is judged by the first of these events:
//
//	write error, or closed with nothing written   failed
//	read: reset within ResetWindow                failed
//	read: any end while bytes are unacknowledged  failed
//	read: end, all bytes acknowledged             delivered (to the peer's kernel)
//	read: bytes, all acknowledged, no reset       delivered
//	read: bytes, some of ours unacknowledged      undecided, the next event judges
//	closed by this side                           by the peer's state at that moment
//
// "delivered" is the absence of evidence, never a proof: a client that crashed after its kernel took the bytes looks
// delivered, and its lease covers it. "failed" may, rarely, hit an answer that was read (a peer that resets right after
// reading), so what it triggers must be conditional on the same lease and must allow a second delivery.

// delivery is one answer under observation.
type delivery struct {
	settle    func(ok bool)
	writtenAt atomic.Int64 // Listener.now of the last write of the answer, 0 before the first
}

func (d *delivery) written() bool { return d.writtenAt.Load() != 0 }

// verdict is what an event says about an answer.
type verdict int

const (
	undecided verdict = iota
	delivered
	failed
)

// sight is everything a verdict is drawn from.
type sight struct {
	written    bool
	sinceWrite time.Duration
	window     time.Duration // Options.ResetWindow
	unacked    int           // bytes of ours the peer's kernel has not acknowledged, 0 when unknown
	peer       peerCondition
}

// Deliver observes the answer of the running handler, which carries a claim, and calls settle exactly once: false when
// the answer is known not to have reached the client, true otherwise. settle(true) comes with the client's next request
// or close, so only false is of use: hand the claim back, if it is still the same one and unacknowledged.
//
// settle runs on the connection's goroutine, or on the one that closes the connection; it must not block. One answer
// per connection is observed: an earlier one still undecided is settled as true. It may be settled before Deliver
// returns, when the connection is already closed.
func (c *Conn) Deliver(settle func(ok bool)) {
	if c == nil {
		settle(true)
		return
	}
	d := &delivery{settle: settle}
	if old := c.pending.Swap(d); old != nil {
		old.settle(true)
	}
	c.mu.Lock()
	closed := c.mu.closed
	c.mu.Unlock()
	if closed {
		c.settle(d, failed)
	}
}

// settle calls back if d is still the pending delivery. The swap makes it happen once, whoever comes first.
func (c *Conn) settle(d *delivery, v verdict) {
	if v == undecided || !c.pending.CompareAndSwap(d, nil) {
		return
	}
	if v == failed {
		c.ln.deliveriesFailed.Add(1)
	}
	d.settle(v == delivered)
}

func (c *Conn) noteWrite(d *delivery, err error) {
	if err != nil {
		c.settle(d, failed)
		return
	}
	d.writtenAt.Store(int64(c.ln.now()))
}

func (c *Conn) settleAfterRead(d *delivery, n int, err error) {
	if !d.written() {
		return
	}
	c.mu.Lock()
	if c.mu.closed {
		c.mu.Unlock()
		return // the closer has judged, or is about to
	}
	s := c.lookLocked(d)
	c.mu.Unlock()
	c.settle(d, s.afterRead(n, err))
}

// lookLocked asks the kernel about the connection. The caller holds mu, and the descriptor is still open.
func (c *Conn) lookLocked(d *delivery) sight {
	s := sight{
		window: c.ln.opts.ResetWindow, peer: peerState(c.mu.fd), unacked: unackedBytes(unackedSeqs(c.mu.fd), c.mu.finSent),
	}
	if at := d.writtenAt.Load(); at != 0 {
		s.written, s.sinceWrite = true, c.ln.now()-time.Duration(at)
	}
	return s
}

// unackedBytes takes our own FIN off the send queue's length: it occupies one sequence number, the last one, and a peer
// that got the whole answer may close before it has acknowledged our close.
func unackedBytes(seqs int, finSent bool) int {
	if finSent && seqs > 0 {
		return seqs - 1
	}
	return seqs
}

// afterRead judges by what a read returned.
func (s sight) afterRead(n int, err error) verdict {
	switch {
	case !s.written:
		return undecided
	case n > 0 && s.peer != peerReset:
		if s.unacked > 0 {
			return undecided
		}
		return delivered
	case n == 0 && errors.Is(err, net.ErrClosed):
		return undecided // Close judges
	case s.unacked > 0:
		return failed
	case n == 0 && errors.Is(err, io.EOF):
		return delivered
	case s.peer == peerReset || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		return s.afterReset()
	}
	return delivered // an idle timeout with everything acknowledged
}

// atClose judges when this side closes the connection and nothing more will be read.
func (s sight) atClose() verdict {
	switch {
	case !s.written:
		return failed
	case s.peer == peerReset:
		return s.afterReset()
	case s.peer == peerClosed && s.unacked > 0:
		return failed
	}
	return delivered // bytes still under way are sent by the kernel after the close
}

// afterReset tells a client that never read its answer from one that read it and closed abruptly, by time.
func (s sight) afterReset() verdict {
	if s.unacked > 0 || s.sinceWrite < s.window {
		return failed
	}
	return delivered
}
