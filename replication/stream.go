package replication

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// stream hands commands to the leader of one epoch, in order, over one connection after another. What the leader has
// not said to have taken is kept, and sent again on the next connection.
type stream struct {
	l      *links
	leader format.Replica
	epoch  format.Term
	quit   chan struct{} // closed by end

	mu struct {
		sync.Mutex
		changed sync.Cond
		queue   []queued // not taken yet
		first   uint64   // number of queue[0]
		sent    int      // how many of them went over the connection
		bytes   int
		ended   bool
		conn    net.Conn
		broken  bool  // the connection, by its reader
		since   int64 // monotonic time since which the leader takes nothing; 0: it does
		told    bool  // that it takes nothing
	}
}

type queued struct {
	head     [handoverHead]byte
	commands []byte
}

func newStream(l *links, leader format.Replica, epoch format.Term) *stream {
	st := &stream{l: l, leader: leader, epoch: epoch, quit: make(chan struct{})}
	st.mu.changed.L = &st.mu.Mutex
	st.mu.first = 1
	return st
}

// put queues a handover. It waits while too much is on its way, and drops it when the stream ends: the next epoch brings it
// under way again.
func (st *stream) put(h *engine.Handover) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.mu.bytes > unacked && !st.mu.ended {
		st.mu.changed.Wait()
	}
	if st.mu.ended {
		return
	}
	q := queued{commands: h.Commands}
	appendHandoverHead(q.head[:0], st.mu.first+uint64(len(st.mu.queue)), h)
	st.mu.queue = append(st.mu.queue, q)
	st.mu.bytes += len(h.Commands) + handoverHead
	st.mu.changed.Broadcast()
}

// end lets go of everything.
func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.mu.ended {
		return
	}
	st.mu.ended = true
	close(st.quit)
	st.mu.queue = nil
	if st.mu.conn != nil {
		st.mu.conn.Close()
	}
	st.mu.changed.Broadcast()
}

// run keeps a connection to the leader until the stream ends.
func (st *stream) run() {
	defer st.l.done.Done()
	for tries := 0; !st.isEnded(); tries++ {
		c, err := st.dial()
		st.reached(err)
		if err == nil {
			tries = 0
			_ = st.send(c) // the next connection tells whether the leader is there
			st.l.conns.drop(c)
		}
		if st.isEnded() {
			return
		}
		if !st.l.s.restFor(min(pause<<min(tries, 6), 200*time.Millisecond)) {
			return
		}
	}
}

// tellStuckAfter is for how long the leader takes nothing before it is told.
const tellStuckAfter = 2 * time.Second

// reached notes whether the leader could be reached. That it can not is told once, and that it can again.
func (st *stream) reached(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	log := st.l.s.o.Log
	switch {
	case st.mu.ended:
	case err == nil && st.mu.told:
		log.Info("the leader takes commands again", "leader", st.leader, "epoch", st.epoch)
		st.mu.since, st.mu.told = 0, false
	case err == nil:
		st.mu.since = 0
	case st.mu.since == 0:
		st.mu.since = max(st.l.s.o.Clock.Mono(), 1)
	case !st.mu.told && st.stuckLocked() >= tellStuckAfter:
		log.Warn("the leader takes no commands: its port above raft's does not answer", "leader", st.leader, "epoch", st.epoch, "err", err)
		st.mu.told = true
	}
}

// stuckLocked is for how long the leader has taken nothing.
func (st *stream) stuckLocked() time.Duration {
	if st.mu.since == 0 {
		return 0
	}
	return time.Duration(st.l.s.o.Clock.Mono()-st.mu.since) * time.Microsecond
}

func (st *stream) isEnded() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.mu.ended
}

// dial connects and learns how far the leader has taken the stream.
func (st *stream) dial() (net.Conn, error) {
	s := st.l.s
	addr, err := sideAddress(s.addressOf(st.leader))
	if err != nil {
		return nil, err
	}
	c, err := net.DialTimeout("tcp", addr, dialWithin)
	if err != nil {
		return nil, err
	}
	if s.o.TLS != nil {
		c = tls.Client(c, s.o.TLS.clientConfig(addr))
	}
	if !st.l.conns.keep(c) {
		c.Close()
		return nil, errEnded
	}
	if err := st.greet(c); err != nil {
		st.l.conns.drop(c)
		return nil, err
	}
	return c, nil
}

func (st *stream) greet(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(helloWithin))
	s := st.l.s
	h := hello{s.group, s.o.Node, st.l.incarnation, st.epoch, s.deployment.Load()}
	if _, err := c.Write(h.append(nil)); err != nil {
		return err
	}
	number, err := readNumber(c)
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Time{})
	st.mu.Lock()
	defer st.mu.Unlock()
	st.takenLocked(number)
	st.mu.conn, st.mu.sent, st.mu.broken = c, 0, false
	if st.mu.ended {
		return errEnded
	}
	return nil
}

// takenLocked forgets what the leader has taken.
func (st *stream) takenLocked(number uint64) {
	n := 0
	for n < len(st.mu.queue) && st.mu.first+uint64(n) <= number {
		st.mu.bytes -= len(st.mu.queue[n].commands) + handoverHead
		n++
	}
	clear(st.mu.queue[:n])
	st.mu.queue = st.mu.queue[n:]
	st.mu.first += uint64(n)
	st.mu.sent = max(st.mu.sent-n, 0)
	st.mu.changed.Broadcast()
}

// send writes what is queued until the connection breaks or the stream ends.
func (st *stream) send(c net.Conn) error {
	st.l.done.Add(1)
	go st.acks(c)
	for {
		batch, ok := st.next()
		if !ok {
			return io.ErrClosedPipe
		}
		_ = c.SetWriteDeadline(time.Now().Add(writeWithin))
		var out net.Buffers
		for i := range batch {
			out = append(out, batch[i].head[:], batch[i].commands)
		}
		if _, err := out.WriteTo(c); err != nil {
			return err
		}
	}
}

func readNumber(r io.Reader) (uint64, error) {
	var b [8]byte
	_, err := io.ReadFull(r, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// next waits for what was not sent yet; false when the connection broke or the stream ended.
func (st *stream) next() ([]queued, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for len(st.mu.queue) == st.mu.sent && !st.mu.ended && !st.mu.broken {
		st.mu.changed.Wait()
	}
	if st.mu.ended || st.mu.broken {
		return nil, false
	}
	if st.mu.sent == 0 {
		_ = st.mu.conn.SetReadDeadline(time.Now().Add(st.l.takenWithin))
	}
	batch := append([]queued(nil), st.mu.queue[st.mu.sent:]...)
	st.mu.sent = len(st.mu.queue)
	return batch, true
}

// acks reads how far the leader has taken the stream, and what it refused.
func (st *stream) acks(c net.Conn) {
	defer st.l.done.Done()
	for {
		number, err := readNumber(c)
		if err == nil && number == refusedMark {
			if number, err = readNumber(c); err == nil {
				st.l.s.peer.Refused(number)
				continue
			}
		}
		st.mu.Lock()
		current := st.mu.conn == c
		if current && err == nil {
			st.takenLocked(number)
			within := time.Time{} // nothing is waited for
			if st.mu.sent > 0 {
				within = time.Now().Add(st.l.takenWithin)
			}
			_ = c.SetReadDeadline(within)
		} else if current {
			st.mu.broken = true
			st.mu.changed.Broadcast()
		}
		st.mu.Unlock()
		if err != nil || !current {
			c.Close()
			return
		}
	}
}
