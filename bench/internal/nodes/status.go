package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// health is what a node says of itself; of one raft group, or of each.
type health struct {
	Raft struct {
		Role   string
		Term   uint64
		Apply  struct{ Failure string } // why it can not commit
		Groups []groupHealth
	}
}

// groupHealth is what it says of one of several raft groups.
type groupHealth struct {
	Group int
	Role  string
	Term  uint64
}

// groups are those that it speaks of.
func (h *health) groups() []groupHealth {
	if len(h.Raft.Groups) > 0 {
		return h.Raft.Groups
	}
	return []groupHealth{{1, h.Raft.Role, h.Raft.Term}}
}

var asker = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}

// askWithin bounds a question: a node that is cut off takes half a second to find that out.
const askWithin = 900 * time.Millisecond

// get asks a node over HTTP and returns what it says, whatever the status.
func (c *Cluster) get(i int, path string, within time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL(i)+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := asker.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// ask asks a node how it is and remembers the terms; false when it does not answer.
func (c *Cluster) ask(i int) (h health, ok bool) {
	text, err := c.get(i, "/health", askWithin)
	if err != nil || json.Unmarshal(text, &h) != nil || h.Raft.Role == "" {
		return h, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range h.groups() {
		c.mu.terms[g.Group] = max(c.mu.terms[g.Group], g.Term)
	}
	return h, true
}

// Terms are the newest terms that were seen, by raft group.
func (c *Cluster) Terms() map[int]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.mu.terms)
}

// leaderWithin is for how long somebody is looked for who leads.
const leaderWithin = 6 * time.Second

// Leader is the node that says with the newest term that it leads a raft group; -1 when none does within a while.
func (c *Cluster) Leader(group int) int {
	for end := time.Now().Add(leaderWithin); ; time.Sleep(20 * time.Millisecond) {
		if i := c.leads(group); i >= 0 || time.Now().After(end) {
			return i
		}
	}
}

// leads asks all nodes at once.
func (c *Cluster) leads(group int) int {
	all := make([]groupHealth, len(c.slots))
	var wg sync.WaitGroup
	for i := range c.slots {
		if !c.Up(i) {
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			h, _ := c.ask(i)
			for _, g := range h.groups() {
				if g.Group == group {
					all[i] = g
				}
			}
		}()
	}
	wg.Wait()
	best := -1
	for i, g := range all {
		if g.Role == "leader" && (best < 0 || g.Term > all[best].Term) {
			best = i
		}
	}
	if best >= 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.mu.led == nil {
			c.mu.led = map[int]int{}
		}
		c.mu.led[group] = best
	}
	return best
}

// ledLast is the node that was seen to lead a raft group last, -1 for none.
func (c *Cluster) ledLast(group int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, seen := c.mu.led[group]; seen {
		return i
	}
	return -1
}

// sight is what is seen of the nodes, from outside, while harm is done.
type sight struct {
	c     *Cluster
	terms map[int]uint64 // before
	now   map[int]uint64 // and at its end
	done  chan struct{}
	wg    sync.WaitGroup
	nodes []seen
}

// seen is what was seen of one node.
type seen struct {
	away  time.Duration // the longest time without an answer
	why   string        // why it could not commit, as it said last
	alone bool          // it found nobody who leads a group
}

// lookEvery is the pause between two looks; silences shorter than leastAway are not told.
const (
	lookEvery = 100 * time.Millisecond
	leastAway = 300 * time.Millisecond
)

// watch begins to look.
func (c *Cluster) watch() *sight {
	s := &sight{c: c, done: make(chan struct{}), nodes: make([]seen, len(c.slots))}
	for g := range c.o.Groups {
		c.leads(g + 1) // the terms as they are now
	}
	s.terms = c.Terms()
	for i := range c.slots {
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			s.look(i)
		}()
	}
	return s
}

// look asks one node until it is over.
func (s *sight) look(i int) {
	n := &s.nodes[i]
	heard := time.Now()
	for {
		asked := time.Now()
		if h, ok := s.c.ask(i); ok {
			n.away = max(n.away, asked.Sub(heard))
			heard = time.Now()
			if h.Raft.Apply.Failure != "" {
				n.why = h.Raft.Apply.Failure
			}
			for _, g := range h.groups() {
				n.alone = n.alone || g.Role == "candidate"
			}
		}
		select {
		case <-s.done:
			n.away = max(n.away, time.Since(heard))
			return
		case <-time.After(lookEvery):
		}
	}
}

// end stops looking.
func (s *sight) end() {
	close(s.done)
	s.wg.Wait()
	s.now = s.c.Terms()
}

// newTerms are the terms that changed, which is nobody's in particular.
func (s *sight) newTerms() (bits []string) {
	for g := range s.c.o.Groups {
		if was, is := s.terms[g+1], s.now[g+1]; is > was {
			bits = append(bits, fmt.Sprintf("group %d: term %d -> %d", g+1, was, is))
		}
	}
	return bits
}

// of says what shows that nodes, by index, were harmed.
func (s *sight) of(struck []int) (bits []string) {
	for _, i := range slices.Compact(slices.Sorted(slices.Values(struck))) {
		n := &s.nodes[i]
		if n.away >= leastAway {
			bits = append(bits, fmt.Sprintf("node %d did not answer for %.1f s", i+1, n.away.Seconds()))
		}
		if n.why != "" {
			bits = append(bits, fmt.Sprintf("node %d: %s", i+1, n.why))
		} else if n.alone {
			bits = append(bits, fmt.Sprintf("node %d found no leader", i+1))
		}
	}
	return bits
}
