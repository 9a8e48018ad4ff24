package main

import "time"

// patience is how long the judges have waited in vain for each node, over all that they asked it: a node that does not answer, or lacks
// what others have, is waited for once, and not for everything that it is asked. It is theirs alone, who ask one after the other.
type patience struct {
	most   time.Duration // for one node
	waited map[int]time.Duration
}

// behindMost is how long a node may take to answer, and to have what another one has, over all that it is asked; failedBehind is the same in a
// run in which something was found already, which may be what it waits for.
const (
	behindMost   = time.Minute
	failedBehind = behindMost / 4
)

func newPatience() patience { return patience{behindMost, map[int]time.Duration{}} }

// over reports that a node was waited for long enough: it is asked no more.
func (p *patience) over(node int) bool { return p.waited[node] >= p.most }

// lost reports that some node is.
func (p *patience) lost() bool {
	for node := range p.waited {
		if p.over(node) {
			return true
		}
	}
	return false
}

// again notes that a question which was asked at a time was not answered as it has to be, and rests; false says not to ask again.
func (p *patience) again(node int, asked time.Time) bool {
	time.Sleep(50 * time.Millisecond)
	p.waited[node] += time.Since(asked)
	return !p.over(node)
}
