package place

import (
	"sync"
	"time"

	"queen/bench/internal/node"
)

// Node is a single node in its current life.
type Node struct {
	addr string
	mu   struct {
		sync.Mutex
		life *node.Node
	}
}

// Start runs a node on an address that stays its own.
func Start(o node.Options) (*Node, error) {
	addr, err := node.FreeAddr()
	if err != nil {
		return nil, err
	}
	o.HTTP = addr
	life, err := node.Start(o)
	if err != nil {
		return nil, err
	}
	n := &Node{addr: addr}
	n.mu.life = life
	return n, nil
}

func (n *Node) life() *node.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.life
}

// Addrs implements Place.
func (n *Node) Addrs() []string { return []string{n.addr} }

// Tenant implements Place.
func (n *Node) Tenant() string { return "" }

// Patience implements Place: a node that is killed hangs up, so that nobody has to wait for so long.
func (n *Node) Patience() time.Duration { return 30 * time.Second }

// Stop implements Place.
func (n *Node) Stop() error { return n.life().Stop() }

// LogTail implements Place.
func (n *Node) LogTail() string { return n.life().LogTail() }

// Kill ends the process with SIGKILL.
func (n *Node) Kill() { n.life().Kill() }

// Started is how long the last start took.
func (n *Node) Started() time.Duration { return n.life().Started }

// Restart starts a node that was killed again.
func (n *Node) Restart() error {
	life, err := n.life().Restart()
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.life = life
	return nil
}
