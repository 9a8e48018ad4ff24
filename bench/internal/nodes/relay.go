package nodes

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

// relay carries what comes to one port of a node. What is sent over a link that is cut does not pass, and connections stay open, as
// behind a network that drops packets; those over which bytes were lost end when the link is mended.
type relay struct {
	c        *Cluster
	listener net.Listener
	slot     int // to whom
	to       string
}

func newRelay(c *Cluster, l net.Listener, slot int, to string) *relay {
	r := &relay{c: c, listener: l, slot: slot, to: to}
	go r.accept()
	return r
}

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.carry(c)
	}
}

func (r *relay) carry(from net.Conn) {
	defer from.Close()
	there, back := &r.c.outside, &r.c.outside
	if sender := r.c.owner(from); sender >= 0 {
		there, back = &r.c.links[sender][r.slot], &r.c.links[r.slot][sender]
	}
	for _, l := range []*link{there, back} {
		if l.off.Load() { // no connection comes about
			l.swallow(from, 0)
			return
		}
	}
	to, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer to.Close()
	done := make(chan struct{}, 2)
	go func() {
		pass(there, from, to)
		done <- struct{}{}
	}()
	go func() {
		pass(back, to, from)
		done <- struct{}{}
	}()
	<-done
}

// pass carries one direction of a connection until it ends.
func pass(l *link, from, to net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err == nil && l.off.Load() {
			l.swallow(from, n)
			return
		}
		if _, werr := to.Write(b[:n]); err != nil || werr != nil {
			return
		}
	}
}

// link is what one node sends to another.
type link struct {
	off  atomic.Bool  // it is cut
	lost atomic.Int64 // bytes that did not pass

	mu   sync.Mutex
	by   int // how many faults cut it
	held map[net.Conn]struct{}
}

// cut stops what is sent, until mend was called as often.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by++
	l.off.Store(true)
}

// mend takes back one cut, or all.
func (l *link) mend(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by = max(l.by-1, 0); all {
		l.by = 0
	}
	if l.by > 0 {
		return
	}
	l.off.Store(false)
	for c := range l.held {
		c.Close()
	}
	clear(l.held)
}

// swallow takes n bytes that were read, and what comes after them, until the link is mended or the connection ends: they are lost, and their
// sender is told nothing. The connection can not go on after it.
func (l *link) swallow(c net.Conn, n int) {
	l.lost.Add(int64(n))
	l.mu.Lock()
	if !l.off.Load() {
		l.mu.Unlock()
		return
	}
	if l.held == nil {
		l.held = map[net.Conn]struct{}{}
	}
	l.held[c] = struct{}{}
	l.mu.Unlock()
	b := make([]byte, 16<<10)
	for err := error(nil); err == nil; {
		n, err = c.Read(b)
		l.lost.Add(int64(n))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, c)
}

// owner finds the node whose process is at the other end of a connection; -1 for nobody's.
func (c *Cluster) owner(conn net.Conn) int {
	inode, err := inodeOf(conn.RemoteAddr().(*net.TCPAddr), conn.LocalAddr().(*net.TCPAddr))
	if err != nil {
		return -1
	}
	socket := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	for i, s := range c.slots {
		dir := fmt.Sprintf("/proc/%d/fd", s.process.Load()) // of a process that is gone there is none
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			if to, err := os.Readlink(dir + "/" + f.Name()); err == nil && to == socket {
				return i
			}
		}
	}
	return -1
}
