package replication

import (
	"log/slog"
	"net"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine/clock"
)

// outbox takes raft's messages for one node, for as long as the library has any, over one connection after the other. It never fails.
//
// The library gives an address up at the first error of any connection to it: for a quarter to three quarters of a second it drops whatever any
// raft group has for that address, and until a second and a half have passed it lets single messages through, though a new connection is there.
// A node that was restarted is met by that twice: while it was away, and again when a group speaks to it that had nothing to say meanwhile, over
// a connection that ended unnoticed. It misses heartbeats then, and the word to take the lead. So a message that can not be sent is lost here,
// without a word: raft repairs that, and hears from its own timers who is away.
//
// Nothing ever comes back over such a connection, so whatever is read is its end: it is noticed at once, and the next message dials. That
// holds the library's queue for this node up, which is bounded, and no other.
//
// The library calls it from one goroutine.
type outbox struct {
	to    string
	log   *slog.Logger
	clock clock.Clock
	tick  time.Duration
	sums  bool                     // of bodies
	dial  func() (net.Conn, error) // its connections are in kept
	kept  *conns

	dials gaps
	wire  *wire // nil without a connection
	buf   []byte
}

// dialTicks is the largest gap between two dials, in ticks: less than half of the time in which a follower has to hear the leader. The first is
// a tick.
const dialTicks = 4

// Close implements raftio.IConnection.
func (o *outbox) Close() { o.hangUp() }

// SendMessageBatch implements raftio.IConnection. It dials once at most.
func (o *outbox) SendMessageBatch(b pb.MessageBatch) error {
	var message []byte
	for range 2 { // the connection may have ended
		w := o.connection()
		if w == nil {
			return nil
		}
		if message == nil {
			message = appendMessage(o.buf, wireRaft, &b, b.SizeUpperLimit(), o.sums)
			if cap(message) <= keptMessage {
				o.buf = message
			}
		}
		err := writeMessage(w.c, message)
		if err == nil {
			return nil
		}
		o.log.Debug("a connection for raft's messages broke", "to", o.to, "err", err)
		o.hangUp()
	}
	return nil
}

// connection is the one that is there, which may have ended, or a new one; nil where none is to be had at the moment.
func (o *outbox) connection() *wire {
	if o.wire != nil {
		return o.wire
	}
	if !o.dials.due(o.clock.Mono()) {
		return nil
	}
	c, err := o.dial()
	o.dials.tried(o.clock.Mono(), o.tick, dialTicks*o.tick) // the gap is behind it, however long it took
	if err != nil {
		o.log.Debug("raft's messages do not reach a node", "to", o.to, "err", err)
		return nil
	}
	o.wire = newWire(c, o.kept)
	return o.wire
}

// hangUp lets go of the connection, if there is one.
func (o *outbox) hangUp() {
	if o.wire != nil {
		o.wire.close()
		o.wire = nil
	}
}

// wire is a connection to another node over which messages go one way. It is closed when the other end has gone, so that the next write fails:
// one into a connection that only the other end has closed would not, and be lost.
type wire struct {
	c     net.Conn
	kept  *conns        // that drops it
	ended chan struct{} // closed once it is dropped
}

func newWire(c net.Conn, kept *conns) *wire {
	w := &wire{c: c, kept: kept, ended: make(chan struct{})}
	go w.watch()
	return w
}

// watch closes it at the end.
func (w *wire) watch() {
	defer close(w.ended)
	var b [1]byte
	_, _ = w.c.Read(b[:]) // there is nothing to be read
	w.kept.drop(w.c)
}

func (w *wire) close() {
	w.kept.drop(w.c)
	<-w.ended
}
