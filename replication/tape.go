package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"queen/engine/clock"
)

// tape is a copy of this node's state on its way to another node, as bytes that are numbered from 0. What was written and that node has
// not confirmed is kept, so that it goes on over another connection where one broke off. It travels in pieces of {length u32} and
// bytes; a length of 0 ends it, with the xxh3-128 of all bytes behind. Each piece is confirmed by the number of bytes that came until
// then, the end by tapeTaken.
type tape struct {
	number uint64 // by which it is asked for again
	ctx    context.Context
	cancel context.CancelFunc
	began  int64 // monotonic
	told   bool  // that it is under way for long; the census's

	mu struct {
		sync.Mutex
		changed sync.Cond
		kept    []byte // from byte from on
		from    uint64
		sent    uint64 // bytes that were handed to a connection, at most
		sum     *xxh3.Hasher
		whole   bool        // all is written
		ended   bool        // ctx has ended: nobody takes it any more
		taken   bool        // the other node has confirmed all
		taker   net.Conn    // the connection that it goes over
		idle    clock.Timer // ends it when it has had no taker for a while
	}
}

const (
	// tapeKept bounds what is kept of a tape, and tapePiece what is sent at a time.
	tapeKept  = 4 << 20
	tapePiece = 64 << 10
	// tapeWait is how long it waits for its node to come back, which may be busy with what came. The log and the segments stay until
	// it is written.
	tapeWait = 2 * time.Minute
	// tapeTaken confirms all.
	tapeTaken = ^uint64(0)
)

// errTapeEnded: all of it was taken, or nobody took it for too long, or its node began another one.
var errTapeEnded = errors.New("replication: that copy of the state has ended")

// newTape makes one that ends with ctx.
func newTape(ctx context.Context, ticks clock.Clock, number uint64) *tape {
	t := &tape{number: number, began: ticks.Mono()}
	t.ctx, t.cancel = context.WithCancel(ctx)
	t.mu.changed.L, t.mu.sum = &t.mu.Mutex, xxh3.New()
	t.mu.idle = ticks.AfterFunc(tapeWait, t.cancel)
	context.AfterFunc(t.ctx, t.end)
	return t
}

// end lets go of everything.
func (t *tape) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.ended, t.mu.kept = true, nil
	t.mu.idle.Stop()
	if t.mu.taker != nil {
		t.mu.taker.Close()
	}
	t.mu.changed.Broadcast()
}

// Write implements io.Writer. It waits while too much is kept.
func (t *tape) Write(b []byte) (n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n < len(b) {
		for len(t.mu.kept) >= tapeKept && !t.mu.ended {
			t.mu.changed.Wait()
		}
		if t.mu.ended {
			return n, errTapeEnded
		}
		piece := b[n:min(n+tapeKept-len(t.mu.kept), len(b))]
		t.mu.kept = append(t.mu.kept, piece...)
		_, _ = t.mu.sum.Write(piece) // to memory
		n += len(piece)
		t.mu.changed.Broadcast()
	}
	return n, nil
}

// finish says that all is written.
func (t *tape) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.whole = true
	t.mu.changed.Broadcast()
}

// begin makes it go over a connection from a byte on; one that it went over before is closed.
func (t *tape) begin(c net.Conn, at uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := t.mu.from + uint64(len(t.mu.kept))
	switch {
	case t.mu.ended || t.ctx.Err() != nil:
		return errTapeEnded
	case at < t.mu.from || at > end:
		return fmt.Errorf("replication: of that copy bytes %d to %d are there, and not byte %d", t.mu.from, end, at)
	}
	if t.mu.taker != nil {
		t.mu.taker.Close()
	}
	t.mu.taker = c
	t.mu.idle.Stop()
	t.mu.changed.Broadcast()
	return nil
}

// play sends from a byte on, after begin, until the other node has all or the connection breaks, and closes that. It writes by way
// of to.
func (t *tape) play(c net.Conn, to io.Writer, at uint64) error {
	heard := make(chan error, 1)
	go func() {
		err := t.hear(c)
		t.leave(c)
		if err != nil {
			c.Close() // a write may wait for who takes nothing
		}
		heard <- err
	}()
	err := t.send(c, to, at)
	if err != nil {
		c.Close()
	}
	return errors.Join(err, <-heard)
}

func (t *tape) send(c net.Conn, to io.Writer, at uint64) error {
	for {
		piece, err := t.next(c, at)
		if err != nil {
			return err
		}
		head := binary.LittleEndian.AppendUint32(nil, uint32(len(piece)))
		if len(piece) == 0 {
			sum := t.mu.sum.Sum128().Bytes() // nothing is written any more
			head = append(head, sum[:]...)
		}
		if _, err := to.Write(head); err != nil {
			return err
		}
		if len(piece) == 0 {
			return nil
		}
		if _, err := to.Write(piece); err != nil {
			return err
		}
		at += uint64(len(piece))
	}
}

// next waits for what comes behind a byte; nothing at the end.
func (t *tape) next(c net.Conn, at uint64) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		switch {
		case t.mu.ended || t.mu.taker != c:
			return nil, errTapeEnded
		case at < t.mu.from: // another connection took it further
			return nil, errTapeEnded
		case at < t.mu.from+uint64(len(t.mu.kept)):
			piece := t.mu.kept[at-t.mu.from:]
			piece = piece[:min(len(piece), tapePiece)]
			t.mu.sent = max(t.mu.sent, at+uint64(len(piece)))
			return piece, nil
		case t.mu.whole:
			return nil, nil
		}
		t.mu.changed.Wait()
	}
}

// hear takes what the other node confirms; nil when it has all.
func (t *tape) hear(c net.Conn) error {
	r := &steadyConn{c, pullSilence}
	for {
		n, err := readNumber(r)
		if err != nil {
			return err
		}
		if err := t.confirm(n); err != nil {
			return err
		}
		// Who confirms the same again is busy, and takes later what is being written.
		_ = c.SetWriteDeadline(time.Now().Add(pullSilence))
		if n == tapeTaken {
			t.cancel()
			return nil
		}
	}
}

// confirm lets go of what came. More than was sent can not have come.
func (t *tape) confirm(n uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case n == tapeTaken:
		t.mu.taken = true
	case t.mu.ended: // nothing is kept any more
	case n > t.mu.sent:
		return fmt.Errorf("replication: of a copy byte %d was confirmed, and %d were sent", n, t.mu.sent)
	case n > t.mu.from:
		t.mu.kept = t.mu.kept[n-t.mu.from:]
		t.mu.from = n
		t.mu.changed.Broadcast()
	}
	return nil
}

// leave notes that a connection has broken.
func (t *tape) leave(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.taker != c {
		return
	}
	t.mu.taker = nil
	if !t.mu.ended {
		t.mu.idle.Reset(tapeWait)
	}
	t.mu.changed.Broadcast()
}

// tapeLong is for how long a tape may be under way before that is told.
const tapeLong = 10 * time.Minute

// isWritten reports that nothing waits for it any more: neither log nor segments.
func (t *tape) isWritten() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.whole || t.mu.ended
}

// errTapeFull refuses a copy of the state, or ends one, for which log and segments would be kept that a full disk has no room for.
var errTapeFull = errors.New("replication: a disk of a node that votes is full: no copy of the state is given, since log and segments are kept for it")

// watchTapes tells once of a copy of this node's state that takes long, and ends all once a disk is full: while one is being written no node of the
// group gives up log, and this one no segment.
func (s *Sequencer) watchTapes() {
	s.mu.Lock()
	tapes := maps.Clone(s.mu.tapes)
	s.mu.Unlock()
	if len(tapes) == 0 {
		return
	}
	full := s.isFull()
	for node, t := range tapes {
		took := time.Duration(s.o.Clock.Mono()-t.began) * time.Microsecond
		switch {
		case t.isWritten():
		case full:
			t.cancel()
			s.peer.Alarm(fmt.Sprintf("the copy of this node's state that node %d takes was ended", node), errTapeFull)
		case took >= tapeLong && !t.told:
			t.told = true
			s.peer.Alarm(fmt.Sprintf("node %d has been taking a copy of this node's state for %v: log and segments are kept for it", node,
				took.Round(time.Second)), nil)
		}
	}
}

// isFull reports that the disk gate is closed here, or at another node that votes.
func (s *Sequencer) isFull() bool { return s.peer.Standing().Full || s.VoterFull() }
