package nodes

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// parted cuts the links that are meant, and mends them after a while.
func (c *Cluster) parted(what string, lasts time.Duration, struck []int, cut func(from, to int) bool) (hit, error) {
	before := map[*link]int64{}
	for from := range c.links {
		for to := range c.links[from] {
			if l := &c.links[from][to]; from != to && cut(from, to) {
				before[l] = l.lost.Load()
				l.cut()
			}
		}
	}
	time.Sleep(lasts)
	h := hit{what: what, struck: struck}
	links, lost := 0, int64(0)
	for l, was := range before {
		l.mend(false)
		if n := l.lost.Load() - was; n > 0 {
			links, lost = links+1, lost+n
		}
	}
	if links > 0 {
		h.bits = append(h.bits, fmt.Sprintf("%d bytes did not pass %d links", lost, links))
	}
	return h, nil
}

// alone cuts a node off.
func (c *Cluster) alone(i int, lasts time.Duration) (hit, error) {
	if i < 0 {
		return spared(lasts)
	}
	return c.parted(fmt.Sprintf("node %d was alone", i+1), lasts, []int{i}, func(from, to int) bool { return from == i || to == i })
}

func partition(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
	return c.alone(c.someLeader(r), lasts)
}

func minority(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
	return c.alone(c.some(r), lasts)
}

func majority(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
	return c.parted("everybody was alone", lasts, r.Perm(len(c.slots)), func(_, _ int) bool { return true })
}

func deaf(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
	i := c.someLeader(r)
	if i < 0 {
		return spared(lasts)
	}
	return c.parted(fmt.Sprintf("node %d, which led, heard nobody", i+1), lasts, []int{i}, func(_, to int) bool { return to == i })
}

func mute(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
	i := c.someLeader(r)
	if i < 0 {
		return spared(lasts)
	}
	return c.parted(fmt.Sprintf("nobody heard node %d, which led", i+1), lasts, []int{i}, func(from, _ int) bool { return from == i })
}

func oneway(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
	two := r.Perm(len(c.slots))
	if len(two) < 2 {
		return spared(lasts)
	}
	what := fmt.Sprintf("node %d was not heard by node %d", two[0]+1, two[1]+1)
	return c.parted(what, lasts, two[:2], func(from, to int) bool { return from == two[0] && to == two[1] })
}

// ring leaves of all links those to two neighbours.
func ring(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
	order := r.Perm(len(c.slots))
	return c.parted(fmt.Sprintf("in a ring of %s only neighbours heard each other", named(order)), lasts, order, apart(order))
}

// apart tells which nodes are no neighbours when they stand in a ring in this order. In one of three all are: there, the last two of the
// order are none.
func apart(order []int) func(from, to int) bool {
	n := len(order)
	place := make([]int, n)
	for at, i := range order {
		place[i] = at
	}
	return func(from, to int) bool {
		if n == 3 {
			return place[from] > 0 && place[to] > 0
		}
		d := (place[from] - place[to] + n) % n
		return d != 1 && d != n-1
	}
}

// flap cuts the leader off and on again, a second each.
func flap(c *Cluster, r *rand.Rand, lasts time.Duration) (h hit, err error) {
	h.what = "who led came and went"
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Second) {
		one, err := c.alone(c.someLeader(r), time.Second)
		if err != nil {
			return h, err
		}
		h.struck, h.bits = append(h.struck, one.struck...), append(h.bits, one.bits...)
	}
	h.spared = len(h.struck) == 0
	return h, nil
}
