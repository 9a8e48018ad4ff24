package replication

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// unready is a node of which no image can be taken.
type unready struct {
	engine.Peer
	asked, bounded bool
}

func (*unready) Standing() engine.Standing { return engine.Standing{} }

func (u *unready) Image(ctx context.Context) (*engine.Image, error) {
	u.asked = true
	_, u.bounded = ctx.Deadline()
	return nil, errors.New("no image now")
}

// TestPullOfStranger: a copy of the state is for members only, and its beginning is waited for no longer than who asks waits.
func TestPullOfStranger(t *testing.T) {
	for node, want := range map[format.Replica]string{1: "no member", 2: "no image now", 3: "no member", 0: "no member"} {
		u := &unready{}
		s := &Sequencer{o: Options{Node: 1, Peers: map[format.Replica]string{1: "h:1", 2: "h:3"}}.withDefaults(), peer: u, ended: make(chan struct{})}
		s.mu.asked = map[format.Replica]int64{}
		q := request{Protocol: protocol, Ask: askPull, Node: uint64(node), Of: uint64(node)}
		var head bytes.Buffer
		must(t, binary.Write(&head, binary.LittleEndian, &q))
		near, far := net.Pipe()
		go (&links{s: s}).answer(far, head.Bytes())
		if _, err := readAnswer(near); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("node %d is told %v", node, err)
		}
		if u.asked != (node == 2) || u.asked && !u.bounded {
			t.Errorf("node %d: an image was asked for: %v, within a time: %v", node, u.asked, u.bounded)
		}
		if s.mu.images != 0 {
			t.Errorf("node %d: the floor is held", node)
		}
		near.Close()
		far.Close()
	}
}

// patient is a connection that counts the deadlines of its writes.
type patient struct {
	net.Conn
	deadlines int
}

// SetWriteDeadline implements net.Conn.
func (p *patient) SetWriteDeadline(at time.Time) error {
	p.deadlines++
	return p.Conn.SetWriteDeadline(at)
}

// TestBusyTaker: each confirmation gives who takes a copy more time for what is being written, also one that was there before.
func TestBusyTaker(t *testing.T) {
	tp := newTape(context.Background(), clock.Real(), 7)
	defer tp.cancel()
	near, far := net.Pipe()
	c := &patient{Conn: far}
	heard := make(chan error)
	go func() { heard <- tp.hear(c) }()
	for range 3 {
		must(t, writeNumber(near, 0))
	}
	near.Close()
	if err := <-heard; err == nil || c.deadlines != 3 {
		t.Errorf("%d deadlines: %v", c.deadlines, err)
	}
}

// answers answers every question to the port above a raft address, until the test or what it returns ends it.
func answers(t *testing.T, raft string, say func() (Report, error)) (end func()) {
	side, err := sideAddress(raft)
	must(t, err)
	l, err := net.Listen("tcp", side)
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			head := make([]byte, requestSize)
			if _, err := io.ReadFull(c, head); err == nil {
				if _, _, err := readRequest(c, head); err == nil {
					r, refused := say()
					_ = writeAnswer(c, r, refused) // who asked sees it
				}
			}
			c.Close()
		}
	}()
	end = func() {
		l.Close()
		<-ended
	}
	t.Cleanup(end)
	return end
}

// TestJoinerWaitsForWhoLeads: a node that joins while nobody leads does not go by the log of one that follows, which has its start still:
// it pulls once it knows that the log of who leads has none. A leader that is not among its peers it can not ask.
func TestJoinerWaitsForWhoLeads(t *testing.T) {
	const born = ReportBorn | ReportPart
	for _, leader := range []uint64{2, 9} {
		o := Options{Node: 3, Peers: map[format.Replica]string{1: freePair(t), 2: freePair(t), 3: freePair(t)}, Joining: true, Dir: t.TempDir(), group: 2}
		asked := make(chan struct{}, 100)
		answers(t, o.Peers[1], func() (Report, error) { return Report{Node: 1, Flags: born}, nil })
		answers(t, o.Peers[2], func() (Report, error) {
			r := Report{Node: 2, Floor: 20, Last: 30, Flags: born}
			if asked <- struct{}{}; len(asked) > 2 {
				if r.Leader = leader; leader == r.Node {
					r.Flags |= ReportLeads
				}
			}
			return r, nil
		})
		log := mustOpen(t, testOptions(vfs.NewMem()))
		defer log.Close()
		s, err := NewSequencer(log, func(err error) { t.Error(err) }, o)
		must(t, err)
		err = s.behind()
		var behind *behindError
		pulls := errors.As(err, &behind) && slices.Equal(behind.from, []format.Replica{2})
		if pulls != (leader == 2) || !pulls && err != nil || len(asked) != 3 {
			t.Errorf("node %d leads: it comes to %v after %d rounds", leader, err, len(asked))
		}
	}
}
