package replication

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// links are the connections over which nodes hand commands to the leader: one from each follower, for as long as an
// epoch lasts, and made again when it breaks. A stream of handovers has numbers 1, 2, ...; the leader remembers how far it has
// taken each, so that what is sent again after a break is taken once.
type links struct {
	s *Sequencer
	// incarnation tells the streams of this life of the process from those of an earlier one: how often the disk was opened, which
	// grows from start to start whatever the clock does.
	incarnation uint64
	// takenWithin is how long the leader may take none of what was handed over before it is connected to anew.
	takenWithin time.Duration
	conns       conns          // in both directions
	done        sync.WaitGroup // of streams

	mu struct {
		sync.Mutex
		stream  *stream // to the leader; nil while this node follows nobody
		taken   map[format.Replica]*taken
		stopped bool
	}
}

// taken is how far the stream of one node has been taken.
type taken struct {
	incarnation uint64
	epoch       format.Term

	mu     sync.Mutex // held while a handover is taken
	number uint64
	// refused are the requests of handovers that could not be read, the newest maxRefused: their node is told on each connection.
	refused []uint64
}

// maxRefused bounds them: a node sends none unless its code and the leader's differ.
const maxRefused = 64

// Bounds of a link. A question (census.go) comes over a connection of its own, to the same port.
const (
	// unacked bounds the bytes that wait for the leader to take them.
	unacked = 16 << 20
	// maxHandover is the largest handover, a little above the largest command.
	maxHandover = 100 << 20
	// dialWithin and helloWithin bound how long a peer may take to answer, writeWithin a write to one that takes nothing, and
	// takenWithin how long one may take none of what it is sent, the write included: so it is when a connection died unnoticed.
	dialWithin  = 2 * time.Second
	helloWithin = 2 * time.Second
	writeWithin = 10 * time.Second
	takenWithin = 2 * writeWithin
	// notYet is how often a leader that was elected and has not begun is asked again.
	notYetTries = 100
)

func newLinks(s *Sequencer) *links {
	l := &links{s: s, takenWithin: takenWithin}
	_, l.incarnation = s.log.Disk()
	l.mu.taken = map[format.Replica]*taken{}
	return l
}

// follow ends the stream of an earlier epoch and begins one to whoever leads now. A leader that was not heard for a while
// is the same one, and has the same stream, as long as its epoch lasts: what it did not take is sent to nobody else.
func (l *links) follow(leader format.Replica, epoch format.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.mu.stream; old != nil {
		if old.epoch == epoch {
			return
		}
		old.end()
		l.mu.stream = nil
	}
	if leader == 0 || leader == l.s.o.Node || l.mu.stopped {
		return
	}
	l.mu.stream = newStream(l, leader, epoch)
	l.done.Add(1)
	go l.mu.stream.run()
}

// forward queues a handover on the stream of its epoch; one of another epoch is let go of.
func (l *links) forward(h *engine.Handover) {
	l.mu.Lock()
	st := l.mu.stream
	l.mu.Unlock()
	if st != nil && st.epoch == h.Epoch && st.leader == h.Leader {
		st.put(h)
	}
}

// Stuck implements engine.Replicated.
func (s *Sequencer) Stuck() time.Duration {
	l := s.links
	if l == nil { // it takes no part yet
		return 0
	}
	l.mu.Lock()
	st := l.mu.stream
	l.mu.Unlock()
	if st == nil {
		return 0
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.stuckLocked()
}

// leave stops handing over.
func (l *links) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.stopped = true
	if l.mu.stream != nil {
		l.mu.stream.end()
		l.mu.stream = nil
	}
}

// close ends all connections of an ended sequencer, and waits for those that serve them.
func (l *links) close() {
	l.leave()
	l.conns.close()
	l.done.Wait()
}

// protocolOf is the second word of what opens a connection: the protocol and, in the high half, the raft group that is meant. That is 0 for
// the first one, so its nodes speak as if there were no others.
func protocolOf(g format.RaftGroup) uint32 { return protocol | uint32(g-firstGroup)<<16 }

// groupIn is the raft group of such a word; false for another protocol, or a group that can not be.
func groupIn(word uint32) (g format.RaftGroup, ok bool) {
	n := word>>16 + uint32(firstGroup)
	return format.RaftGroup(n), word&0xffff == protocol && n <= maxGroup
}

// hello opens a stream: who sends it, and for which epoch. Its first bytes name the protocol, its version and the raft group.
type hello struct {
	group       format.RaftGroup
	node        format.Replica
	incarnation uint64
	epoch       format.Term
	deployment  uint64
}

const (
	helloMagic = "qnfw"
	helloSize  = 4 + 4 + 4*8
	// requestSize is that of a request; what opens a connection is at least as long, and says after that what it is.
	requestSize = 4*4 + 2*8
	protocol    = 4
	// maxGroup is the highest raft group that ids have room for.
	maxGroup = 63
)

func (h *hello) append(b []byte) []byte {
	b = append(b, helloMagic...)
	b = binary.LittleEndian.AppendUint32(b, protocolOf(h.group))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.node))
	b = binary.LittleEndian.AppendUint64(b, h.incarnation)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.epoch))
	return binary.LittleEndian.AppendUint64(b, h.deployment)
}

func parseHello(b []byte) (h hello, err error) {
	le := binary.LittleEndian
	g, ok := groupIn(le.Uint32(b[4:]))
	if string(b[:4]) != helloMagic || !ok {
		return h, fmt.Errorf("replication: a stream of another protocol: %x", b[:8])
	}
	return hello{g, format.Replica(le.Uint64(b[8:])), le.Uint64(b[16:]), format.Term(le.Uint64(b[24:])), le.Uint64(b[32:])}, nil
}

// serve answers a question, or takes what one node hands over until the connection breaks. head is what opened it.
func (l *links) serve(c net.Conn, head []byte) {
	if !l.conns.keep(c) {
		return
	}
	defer l.conns.drop(c)
	if string(head[:4]) == requestMagic {
		l.answer(c, head)
		return
	}
	h, err := parseHello(head)
	if err != nil || h.deployment != l.s.deployment.Load() || !l.isAnotherNode(h.node) {
		l.s.o.Log.Warn("a connection of no node of this cluster was refused", "from", c.RemoteAddr(), "err", err)
		return
	}
	t := l.takenOf(h)
	if t == nil {
		l.s.o.Log.Warn("a stream of commands was refused, since a newer one of its node is there", "node", h.node, "from", c.RemoteAddr(),
			"incarnation", h.incarnation, "epoch", h.epoch)
		return
	}
	t.mu.Lock()
	number, refused := t.number, slices.Clone(t.refused)
	t.mu.Unlock()
	if writeNumber(c, number) != nil || writeRefused(c, refused) != nil {
		return
	}
	_ = c.SetDeadline(time.Time{})
	if err := l.take(c, h, t); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		l.s.o.Log.Debug("a stream of commands ended", "node", h.node, "err", err)
	}
}

// isAnotherNode reports that another node of this cluster has a number: what is remembered of streams is bounded by that.
func (l *links) isAnotherNode(node format.Replica) bool {
	ctx, cancel := context.WithTimeout(context.Background(), helloWithin/2)
	defer cancel()
	return l.s.knows(ctx, node) // of others only
}

// takenOf finds how far a stream was taken, nil for one that is over.
func (l *links) takenOf(h hello) *taken {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.mu.taken[h.node]
	if t != nil && (h.epoch < t.epoch || h.epoch == t.epoch && h.incarnation < t.incarnation) {
		return nil
	}
	if t == nil || t.epoch != h.epoch || t.incarnation != h.incarnation {
		t = &taken{incarnation: h.incarnation, epoch: h.epoch}
		l.mu.taken[h.node] = t
	}
	return t
}

// take reads handovers and takes each that was not.
func (l *links) take(c net.Conn, h hello, t *taken) error {
	r := bufio.NewReaderSize(c, 64<<10)
	for {
		number, v, err := readHandover(r)
		if err != nil {
			return err
		}
		v.Epoch, v.Leader = h.epoch, l.s.o.Node
		refused, err := l.takeOne(h.node, t, number, v)
		if err != nil {
			return err
		}
		if refused {
			_ = c.SetWriteDeadline(time.Now().Add(writeWithin))
			if err := writeRefused(c, []uint64{v.Request}); err != nil {
				return err
			}
		}
		if r.Buffered() == 0 {
			_ = c.SetWriteDeadline(time.Now().Add(writeWithin))
			if err := writeNumber(c, number); err != nil {
				return err
			}
		}
	}
}

// takeOne takes a handover, in its turn. One that can not be read counts as taken: it would be the same when it is sent again,
// and would hold up what comes behind it. It is refused: its node is told, which tells its caller.
func (l *links) takeOne(from format.Replica, t *taken, number uint64, v engine.Handover) (refused bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case number <= t.number:
		return false, nil // an earlier connection took it
	case number != t.number+1:
		return false, fmt.Errorf("replication: handover %d comes after %d", number, t.number)
	}
	for range notYetTries {
		err := l.s.peer.Accept(from, v)
		if !errors.Is(err, engine.ErrNotLeader) {
			if err != nil {
				l.s.o.Log.Error("commands of another node were refused", "node", from, "handover", number, "err", err)
				t.refused = append(t.refused[max(0, len(t.refused)-maxRefused+1):], v.Request)
			}
			t.number = number
			return err != nil, nil
		}
		if !l.s.restFor(pause) {
			return false, errEnded
		}
	}
	return false, engine.ErrNotLeader
}

// refusedMark stands in front of the request of a handover that was refused, where else the number stands up to which handovers
// are taken.
const refusedMark = ^uint64(0)

func writeRefused(w io.Writer, requests []uint64) error {
	for _, request := range requests {
		if err := errors.Join(writeNumber(w, refusedMark), writeNumber(w, request)); err != nil {
			return err
		}
	}
	return nil
}

func writeNumber(w io.Writer, n uint64) error {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	_, err := w.Write(b[:])
	return err
}

// handoverHead is {length of the commands u32, writing u8, 3 zero, number u64, request u64}.
const handoverHead = 24

func appendHandoverHead(b []byte, number uint64, h *engine.Handover) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(h.Commands)))
	writing := uint32(0)
	if h.Writing {
		writing = 1
	}
	b = binary.LittleEndian.AppendUint32(b, writing)
	b = binary.LittleEndian.AppendUint64(b, number)
	return binary.LittleEndian.AppendUint64(b, h.Request)
}

func readHandover(r io.Reader) (number uint64, h engine.Handover, err error) {
	var b [handoverHead]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, h, err
	}
	le := binary.LittleEndian
	n := le.Uint32(b[:])
	if n > maxHandover || le.Uint32(b[4:]) > 1 {
		return 0, h, fmt.Errorf("replication: a handover of %d bytes, flags %#x", n, le.Uint32(b[4:]))
	}
	h.Writing, number, h.Request = le.Uint32(b[4:]) == 1, le.Uint64(b[8:]), le.Uint64(b[16:])
	h.Commands = make([]byte, n)
	_, err = io.ReadFull(r, h.Commands)
	return number, h, err
}
