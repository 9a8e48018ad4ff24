package replication

import (
	"net"
	"sync"
)

// conns are the connections that a port, a raft group or a transport has. They are kept until they are dropped, so that close reaches them,
// and so that those can be ended which nobody would make any more (withdrawn.go). The zero value has none.
type conns struct {
	served sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
		all    map[net.Conn]struct{}
	}
}

// keep remembers a connection until it is dropped; false once they are closed.
func (k *conns) keep(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.closed {
		return false
	}
	if k.mu.all == nil {
		k.mu.all = map[net.Conn]struct{}{}
	}
	k.mu.all[c] = struct{}{}
	k.served.Add(1)
	return true
}

// drop closes a connection and forgets it.
func (k *conns) drop(c net.Conn) {
	c.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, kept := k.mu.all[c]; kept {
		delete(k.mu.all, c)
		k.served.Done()
	}
}

// close ends all connections, keeps none from then on, and waits until those are dropped.
func (k *conns) close() {
	k.mu.Lock()
	k.mu.closed = true
	for c := range k.mu.all {
		c.Close()
	}
	k.mu.Unlock()
	k.served.Wait()
}

// list are the connections that are kept.
func (k *conns) list() []net.Conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]net.Conn, 0, len(k.mu.all))
	for c := range k.mu.all {
		all = append(all, c)
	}
	return all
}
