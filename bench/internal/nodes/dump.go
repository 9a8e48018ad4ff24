package nodes

import (
	"sync"
	"syscall"
	"time"

	"queen/bench/internal/node"
)

// wordy has a node that falls, or is told to by SIGQUIT, say what all its goroutines are doing, also those that run at that moment, which
// are the ones of interest where one does not come to an end.
const wordy = "GOTRACEBACK=crash"

// withoutCores has nodes leave no image of their memory, which falling the wordy way would.
func withoutCores() {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_CORE, &l) == nil {
		l.Cur = 0
		_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &l) // lowering it is always allowed
	}
}

// dumpWithin is how long a node may take to say what it does.
const dumpWithin = 20 * time.Second

// Dump ends the nodes that run by SIGQUIT, on which each writes to its log what its goroutines are doing. It is for a run that has failed:
// that they were ended so is no error, whether they would have drained is not known, and it waits for nobody who is at a node. What is to be
// asked of the nodes has been asked before.
func (c *Cluster) Dump() {
	var all sync.WaitGroup
	for _, s := range c.slots {
		n := s.running.Swap(nil)
		if n == nil {
			continue
		}
		all.Go(func() {
			n.Signal(syscall.SIGCONT)
			n.Signal(syscall.SIGQUIT)
			if d := s.seat.Load().disk; d != nil {
				d.Release() // a flush that stalls would hold the process
			}
			if !gone(n) {
				n.Signal(syscall.SIGKILL)
				gone(n)
			}
		})
	}
	all.Wait()
}

// gone waits for the end of a node; false when that takes too long.
func gone(n *node.Node) bool {
	select {
	case <-n.Ended():
		return true
	case <-time.After(dumpWithin):
		return false
	}
}
