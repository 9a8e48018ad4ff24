package nodes

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// kinds by name. Who leads is who leads a random raft group.
var kinds = map[string]kind{
	"none": {"nothing, to see what the load does by itself", func(_ *Cluster, _ *rand.Rand, lasts time.Duration) (hit, error) {
		time.Sleep(lasts)
		return hit{what: "nothing", spared: true}, nil
	}},
	"kill": {"kill -9 of who leads", func(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
		return c.killed(lasts, c.someLeader(r))
	}},
	"killany": {"kill -9 of any node", func(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
		return c.killed(lasts, c.some(r))
	}},
	"killall": {"kill -9 of all nodes", func(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
		return c.killed(lasts/4, r.Perm(len(c.slots))...)
	}},
	"power": {"kill -9 of who leads, and what it had not flushed is lost", func(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
		return c.powerless(lasts, c.someLeader(r))
	}},
	"powerall": {"the same of all nodes at once", func(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
		return c.powerless(lasts/4, r.Perm(len(c.slots))...)
	}},
	"pause": {"SIGSTOP of who leads", func(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
		return c.paused(c.someLeader(r), lasts)
	}},
	"pauseany": {"SIGSTOP of any node", func(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
		return c.paused(c.some(r), lasts)
	}},
	"restart": {"SIGTERM and start of all nodes, one after the other", func(c *Cluster, r *rand.Rand, _ time.Duration) (hit, error) {
		h := hit{what: "the nodes were restarted"}
		err := c.roll(r, c.o.Binary, &h)
		return h, err
	}},
	"upgrade":   {"a rolling restart onto the other binary, and back", upgrade},
	"partition": {"who leads is alone", partition},
	"minority":  {"any node is alone", minority},
	"majority":  {"everybody is alone", majority},
	"deaf":      {"who leads hears nobody", deaf},
	"mute":      {"nobody hears who leads", mute},
	"oneway":    {"one link in one direction", oneway},
	"ring":      {"each hears only its two neighbours; of three nodes, two do not hear each other", ring},
	"flap":      {"who leads is alone, and is not, a second each", flap},
	"slow":      {"flushes of who leads stall", slow},
	"clock":     {"the wall clock of who leads jumps, and back", clockJump},
	"transfer":  {"another node is made to lead", transfer},
	"drain":     {"who leads drains, and does not any more", drain},
	"member":    {"a node loses its disk, and comes back under another number", member},
}

// killed ends nodes as a crash does, and starts them again after a while.
func (c *Cluster) killed(away time.Duration, which ...int) (hit, error) {
	return c.ended("kill -9 of", away, func(*slot, *hit) error { return nil }, which)
}

// powerless is the same with the loss of what was not flushed.
func (c *Cluster) powerless(away time.Duration, which ...int) (hit, error) {
	return c.ended("no more power for", away, func(s *slot, h *hit) error {
		d := s.seat.Load().disk
		if d == nil {
			return errors.New("the directory is not one that loses anything: name the kind at the start")
		}
		_, before := d.Counts()
		err := d.Crash()
		if _, lost := d.Counts(); lost > before {
			h.bits = append(h.bits, fmt.Sprintf("node %d lost %d unflushed bytes", s.index+1, lost-before))
		}
		return err
	}, which)
}

// ended kills nodes at once, does to each what is to be done while it is away, and starts them.
func (c *Cluster) ended(words string, away time.Duration, do func(*slot, *hit) error, which []int) (h hit, err error) {
	var taken []*slot
	for _, i := range which {
		if s := c.take(i); s != nil {
			defer s.busy.Unlock()
			taken = append(taken, s)
		}
	}
	if len(taken) == 0 {
		return spared(away)
	}
	var wg sync.WaitGroup
	for _, s := range taken {
		h.struck = append(h.struck, s.index)
		wg.Add(1)
		go func() {
			defer wg.Done()
			s.kill()
		}()
	}
	wg.Wait()
	h.what = words + " " + named(h.struck)
	for _, s := range taken {
		err = errors.Join(err, do(s, &h))
	}
	if err != nil {
		return h, err
	}
	time.Sleep(away)
	return h, c.startAll(taken)
}

// named are nodes in words.
func named(which []int) string {
	var all []string
	for _, i := range which {
		all = append(all, fmt.Sprint(i+1))
	}
	if len(all) == 1 {
		return "node " + all[0]
	}
	return "nodes " + strings.Join(all, ", ")
}

func (c *Cluster) paused(i int, lasts time.Duration) (hit, error) {
	s := c.take(i)
	if s == nil {
		return spared(lasts)
	}
	defer s.busy.Unlock()
	n := s.running.Load()
	if n == nil {
		return spared(lasts)
	}
	n.Signal(syscall.SIGSTOP)
	time.Sleep(lasts)
	n.Signal(syscall.SIGCONT)
	return hit{what: fmt.Sprintf("node %d stood still", i+1), struck: []int{i}}, nil
}

// roll drains the nodes one after the other and starts each on a binary. One that somebody else is at is waited for.
func (c *Cluster) roll(r *rand.Rand, binary string, h *hit) error {
	h.struck = r.Perm(len(c.slots))
	for _, i := range h.struck {
		if err := c.restart(c.slots[i], binary); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) restart(s *slot, binary string) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	if n := s.running.Swap(nil); n != nil {
		if err := n.Stop(); err != nil {
			return fmt.Errorf("node %d: %w", s.index+1, err)
		}
	}
	return c.start(s, binary)
}

// upgrade runs all nodes on the other binary for a while. That they did is read from the system.
func upgrade(c *Cluster, r *rand.Rand, lasts time.Duration) (h hit, err error) {
	h.what = "the nodes were restarted onto the other binary, and back"
	if c.o.Other == "" {
		return h, errors.New("there is no other binary: name the kind at the start")
	}
	if err := c.roll(r, c.o.Other, &h); err != nil {
		return h, err
	}
	on := 0
	for _, s := range c.slots {
		if s.runs(c.o.Other) {
			on++
		}
	}
	if on > 0 {
		h.bits = append(h.bits, fmt.Sprintf("%d nodes ran the other binary", on))
	}
	time.Sleep(lasts)
	err = c.roll(r, c.o.Binary, &h)
	return h, err
}

// runs reports that the process of a node is of that file.
func (s *slot) runs(binary string) bool {
	a, err := os.Stat(fmt.Sprintf("/proc/%d/exe", s.process.Load()))
	b, other := os.Stat(binary)
	return err == nil && other == nil && os.SameFile(a, b)
}
