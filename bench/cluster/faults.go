package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// fault does harm for a while and mends it. It says what it did.
type fault func(c *cluster, r *rand.Rand, lasts time.Duration) (string, error)

// faults by name.
var faults = map[string]fault{
	"none": func(_ *cluster, _ *rand.Rand, lasts time.Duration) (string, error) {
		time.Sleep(lasts)
		return "nothing", nil
	},
	"kill": func(c *cluster, _ *rand.Rand, lasts time.Duration) (string, error) {
		return c.killed(c.leader(), lasts)
	},
	"killany": func(c *cluster, r *rand.Rand, lasts time.Duration) (string, error) {
		return c.killed(r.IntN(len(c.nodes)), lasts)
	},
	"pause": func(c *cluster, _ *rand.Rand, lasts time.Duration) (string, error) {
		return c.paused(c.leader(), lasts)
	},
	"pauseany": func(c *cluster, r *rand.Rand, lasts time.Duration) (string, error) {
		return c.paused(r.IntN(len(c.nodes)), lasts)
	},
	"killall": killAll,
	"partition": func(c *cluster, _ *rand.Rand, lasts time.Duration) (string, error) {
		return c.parted("the leader alone", lasts, func(leader, from, to int) bool { return from == leader || to == leader })
	},
	"minority": func(c *cluster, r *rand.Rand, lasts time.Duration) (string, error) {
		alone := r.IntN(len(c.nodes))
		return c.parted(fmt.Sprintf("node %d alone", alone+1), lasts, func(_, from, to int) bool { return from == alone || to == alone })
	},
	"majority": func(c *cluster, _ *rand.Rand, lasts time.Duration) (string, error) {
		return c.parted("everybody alone", lasts, func(_, _, _ int) bool { return true })
	},
	"deaf": func(c *cluster, _ *rand.Rand, lasts time.Duration) (string, error) {
		return c.parted("the leader hears nobody", lasts, func(leader, _, to int) bool { return to == leader })
	},
	"mute": func(c *cluster, _ *rand.Rand, lasts time.Duration) (string, error) {
		return c.parted("nobody hears the leader", lasts, func(leader, from, _ int) bool { return from == leader })
	},
	"oneway": func(c *cluster, r *rand.Rand, lasts time.Duration) (string, error) {
		a := r.IntN(len(c.nodes))
		b := (a + 1 + r.IntN(len(c.nodes)-1)) % len(c.nodes)
		return c.parted(fmt.Sprintf("node %d to %d", a+1, b+1), lasts, func(_, from, to int) bool { return from == a && to == b })
	},
	"flap":    flap,
	"restart": restart,
}

func (c *cluster) killed(i int, lasts time.Duration) (string, error) {
	if i < 0 {
		time.Sleep(lasts)
		return "nobody led", nil
	}
	n := c.nodes[i].Swap(nil)
	n.Kill()
	time.Sleep(lasts)
	return fmt.Sprintf("kill -9 of node %d", i+1), c.start(i)
}

func killAll(c *cluster, _ *rand.Rand, lasts time.Duration) (string, error) {
	for i := range c.nodes {
		c.nodes[i].Swap(nil).Kill()
	}
	time.Sleep(lasts / 4)
	return "kill -9 of all nodes", c.startAll()
}

func (c *cluster) paused(i int, lasts time.Duration) (string, error) {
	if i < 0 {
		time.Sleep(lasts)
		return "nobody led", nil
	}
	n := c.nodes[i].Load()
	n.Signal(syscall.SIGSTOP)
	time.Sleep(lasts)
	n.Signal(syscall.SIGCONT)
	return fmt.Sprintf("node %d stood still", i+1), nil
}

// parted cuts the links that are meant and mends them.
func (c *cluster) parted(what string, lasts time.Duration, cut func(leader, from, to int) bool) (string, error) {
	leader := c.leader()
	for from := range c.nodes {
		for to := range c.nodes {
			if from != to && cut(leader, from, to) {
				c.cuts[from][to].Store(true)
			}
		}
	}
	time.Sleep(lasts)
	c.heal()
	return what, nil
}

// flap cuts the leader off and on again, a second each.
func flap(c *cluster, _ *rand.Rand, lasts time.Duration) (string, error) {
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Second) {
		if _, err := c.parted("", time.Second, func(leader, from, to int) bool { return from == leader || to == leader }); err != nil {
			return "", err
		}
	}
	return "the leader came and went", nil
}

// restart drains the nodes one after the other.
func restart(c *cluster, r *rand.Rand, _ time.Duration) (string, error) {
	order := r.Perm(len(c.nodes))
	for _, i := range order {
		n := c.nodes[i].Swap(nil)
		if err := n.Stop(); err != nil {
			return "", err
		}
		if err := c.start(i); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("restarted %v", order), nil
}

// names lists the faults.
func names() (all []string) {
	for name := range faults {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
