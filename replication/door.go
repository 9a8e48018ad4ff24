package replication

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"queen/engine/format"
)

// door is the port above raft's. Other nodes, and tools, connect to it and say first which raft group they mean, whose links do the rest.
type door struct {
	o          Options
	find       func(format.RaftGroup) *links // nil for a group that is not open here
	listener   net.Listener
	handshakes handshakes
	conns      conns // while they say who they are, and while a group has them
	closed     chan struct{}
	done       sync.WaitGroup
}

func openDoor(o Options, find func(format.RaftGroup) *links) (*door, error) {
	addr, err := sideAddress(o.Listen)
	if err != nil {
		return nil, err
	}
	d := &door{o: o, find: find, closed: make(chan struct{})}
	d.handshakes.port, d.handshakes.log, d.handshakes.clock = addr, o.Log, o.Clock
	if d.listener, err = net.Listen("tcp", addr); err != nil {
		return nil, fmt.Errorf("replication: %w", err)
	}
	if o.TLS != nil {
		d.listener = tls.NewListener(d.listener, o.TLS.Listener)
	}
	d.done.Add(1)
	go d.accept()
	return d, nil
}

// close is called once.
func (d *door) close() {
	close(d.closed)
	d.listener.Close()
	d.conns.close()
	d.done.Wait()
}

// accept serves the other nodes.
func (d *door) accept() {
	defer d.done.Done()
	for {
		c, err := d.listener.Accept()
		switch {
		case err == nil:
			d.done.Add(1)
			go d.serve(c)
		case errors.Is(err, net.ErrClosed) || d.isClosed():
			return
		default:
			d.o.Log.Warn("connections of other nodes", "err", err)
			d.rest() // out of descriptors: they come back
		}
	}
}

func (d *door) isClosed() bool {
	select {
	case <-d.closed:
		return true
	default:
		return false
	}
}

func (d *door) rest() {
	t := d.o.Clock.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C():
	case <-d.closed:
	}
}

// serve finds out what one connection is, and hands it to the group that it is for.
func (d *door) serve(c net.Conn) {
	defer d.done.Done()
	if !d.conns.keep(c) {
		c.Close()
		return
	}
	defer d.conns.drop(c)
	_ = c.SetDeadline(time.Now().Add(helloWithin))
	if secured, ok := c.(*tls.Conn); ok && d.handshakes.shake(secured, helloWithin) != nil {
		return
	}
	var b [helloSize]byte
	if _, err := io.ReadFull(c, b[:requestSize]); err != nil {
		return
	}
	head, asks := b[:requestSize], string(b[:4]) == requestMagic
	if !asks {
		if _, err := io.ReadFull(c, b[requestSize:]); err != nil {
			return
		}
		head = b[:]
	}
	g, ok := groupIn(binary.LittleEndian.Uint32(b[4:]))
	if !ok {
		if !asks {
			d.o.Log.Warn("a connection of another protocol was refused", "from", c.RemoteAddr(), "begins", fmt.Sprintf("%x", b[:8]))
		}
		return
	}
	switch l := d.find(g); {
	case l != nil:
		l.serve(c, head)
	case asks:
		if _, _, err := readRequest(c, head); err == nil { // what is left unread may cut the answer off
			_ = writeAnswer(c, Report{}, errNotOpen(g)) // who asks again gets another answer
		}
	default:
		level := slog.LevelWarn
		if int(g) <= d.o.groups() {
			level = slog.LevelDebug // it opens, or is closing: who sends comes again
		}
		d.o.Log.Log(context.Background(), level, "a stream of commands was refused", "from", c.RemoteAddr(), "err", errNotOpen(g))
	}
}
