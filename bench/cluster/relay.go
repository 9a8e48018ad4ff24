package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

// relay carries what comes to one port of a node. What comes from a node whose link to it is cut does not pass, and
// connections stay open, as behind a network that drops packets.
type relay struct {
	c        *cluster
	listener net.Listener
	node     int // to whom
	to       string

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newRelay(c *cluster, l net.Listener, node int, to string) *relay {
	r := &relay{c: c, listener: l, node: node, to: to, conns: map[net.Conn]struct{}{}}
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
	cut := &r.c.cuts[len(r.c.nodes)][r.node] // nobody's, never cut
	if sender := r.c.owner(from.RemoteAddr()); sender >= 0 {
		cut = &r.c.cuts[sender][r.node]
	}
	if cut.Load() {
		r.hold(from)
		return
	}
	to, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer to.Close()
	r.keep(from, to)
	defer r.drop(from, to)
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			defer func() { done <- struct{}{} }()
			b := make([]byte, 64<<10)
			for {
				n, err := way[0].Read(b)
				if cut.Load() && err == nil {
					r.hold(way[0])
					return
				}
				if _, werr := way[1].Write(b[:n]); err != nil || werr != nil {
					return
				}
			}
		}()
	}
	<-done
}

// hold swallows what comes until the connection ends: it is lost, and its sender is told nothing.
func (r *relay) hold(c net.Conn) {
	r.keep(c)
	defer r.drop(c)
	_, _ = io.Copy(io.Discard, c)
}

func (r *relay) keep(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = struct{}{}
	}
}

func (r *relay) drop(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.conns, c)
	}
}

// end closes all connections: those over which bytes were lost can not go on.
func (r *relay) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
}

// owner finds the node whose process has a connection from this address; -1 for nobody's.
func (c *cluster) owner(addr net.Addr) int {
	inode := inodeOf(addr.(*net.TCPAddr).Port)
	if inode == "" {
		return -1
	}
	for i := range c.nodes {
		n := c.nodes[i].Load()
		if n == nil {
			continue
		}
		dir := fmt.Sprintf("/proc/%d/fd", int(n.PID))
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			if to, err := os.Readlink(dir + "/" + f.Name()); err == nil && to == "socket:["+inode+"]" {
				return i
			}
		}
	}
	return -1
}

// inodeOf finds the socket of this machine that is bound to a port and is no listener.
func inodeOf(port int) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if len(fields) > 9 && fields[3] != "0A" && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				f.Close()
				return fields[9]
			}
		}
		f.Close()
	}
	return ""
}

// pair listens on two neighbouring free ports of loopback below the ephemeral range.
func pair(from int) (a, b net.Listener, port int, err error) {
	for port = from; port < 30000; port += 2 {
		if a, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
			continue
		}
		if b, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1)); err == nil {
			return a, b, port, nil
		}
		a.Close()
	}
	return nil, nil, 0, fmt.Errorf("no two free ports from %d on: %w", from, err)
}
