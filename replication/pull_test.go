package replication

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// unready is a node of which no image can be taken.
type unready struct {
	engine.Peer
	asked, bounded bool
}

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
