package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"
)

// commandWithin is for how long a change of the cluster is tried: others may do harm at the same time.
const commandWithin = 90 * time.Second

// queen runs a command of "queen cluster" until it is done, as an operator would: who leads moves, and an answer may be lost. A refusal
// with one of these words means that it was done before.
func (c *Cluster) queen(done []string, args ...string) error {
	for end := time.Now().Add(commandWithin); ; time.Sleep(100 * time.Millisecond) {
		err := c.queenOnce(args...)
		if err == nil {
			return nil
		}
		for _, words := range done {
			if strings.Contains(err.Error()+"\n", words) {
				return nil
			}
		}
		if time.Now().After(end) {
			return err
		}
	}
}

func (c *Cluster) queenOnce(args ...string) error {
	var asked []string
	for i, s := range c.slots {
		if m := s.seat.Load(); c.Up(i) {
			asked = append(asked, fmt.Sprintf("%d=%s", m.number, m.addr))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.o.Binary, append(append([]string{"cluster"}, args...), "--peers", strings.Join(asked, ","), "--timeout", "5s")...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("queen cluster %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// transfer makes a node lead that does not lead a group.
func transfer(c *Cluster, r *rand.Rand, lasts time.Duration) (h hit, err error) {
	i := c.someLeader(r)
	if i < 0 || len(c.slots) < 2 {
		return spared(lasts)
	}
	to := (i + 1 + r.IntN(len(c.slots)-1)) % len(c.slots)
	h = hit{what: fmt.Sprintf("node %d was to lead instead of node %d", to+1, i+1)}
	if err := c.queenOnce("transfer-leader", fmt.Sprint(c.slots[to].seat.Load().number)); err != nil {
		h.what += ", and does not: " + err.Error() // a node that is behind or away can not, and who leads then may be anybody
	}
	return h, nil
}

// drain has who leads drain for a while.
func drain(c *Cluster, r *rand.Rand, lasts time.Duration) (h hit, err error) {
	i := c.someLeader(r)
	if i < 0 {
		return spared(lasts)
	}
	number := fmt.Sprint(c.slots[i].seat.Load().number)
	h = hit{what: fmt.Sprintf("node %d drained", i+1), struck: []int{i}}
	if err := c.queen([]string{"drains and leads on"}, "drain", number); err != nil {
		return h, err
	}
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(lookEvery) {
		text, err := c.get(i, "/readyz", askWithin)
		var ready struct{ Draining bool }
		if h.bits == nil && err == nil && json.Unmarshal(text, &ready) == nil && ready.Draining {
			h.bits = append(h.bits, fmt.Sprintf("node %d said that it drains", i+1))
		}
	}
	return h, c.queen([]string{"is no member"}, "drain", number, "--undo")
}

// member takes a node's disk away, and brings it back under another number with an empty one, as the commands of "queen cluster" want it.
func member(c *Cluster, r *rand.Rand, lasts time.Duration) (h hit, err error) {
	s := c.take(c.some(r))
	if s == nil {
		return spared(lasts)
	}
	defer s.busy.Unlock()
	c.mu.Lock()
	number := c.mu.next
	c.mu.next++
	c.mu.Unlock()
	old := s.seat.Load()
	h = hit{what: fmt.Sprintf("node %d lost its disk and came back under the number %d", s.index+1, number), struck: []int{s.index}}
	s.kill()
	old.leave()
	if err := errors.Join(os.RemoveAll(old.data), os.RemoveAll(old.backing())); err != nil {
		return h, err
	}
	seat, err := c.newSeat(s.index, number)
	if err != nil {
		return h, err
	}
	seat.joins = true
	if err := c.queen([]string{"was removed", "is no member"}, "remove", fmt.Sprint(old.number), "--yes"); err != nil {
		seat.leave()
		return h, err
	}
	if err := c.queen([]string{"is a member"}, "add", fmt.Sprint(number), seat.known); err != nil {
		seat.leave()
		return h, err
	}
	s.seat.Store(seat)
	if err := c.start(s, c.o.Binary); err != nil {
		return h, err
	}
	if err := c.queen([]string{"is not one that follows\n"}, "promote", fmt.Sprint(number)); err != nil {
		return h, err
	}
	for end := time.Now().Add(knownWithin); h.bits == nil && time.Now().Before(end); time.Sleep(lookEvery) {
		if c.votes(number) && !c.votes(old.number) {
			h.bits = append(h.bits, fmt.Sprintf("member %d is gone, member %d votes", old.number, number))
		}
	}
	return h, nil
}

// knownWithin is for how long a change of the members is looked for: nodes learn of one within a second or two.
const knownWithin = 5 * time.Second

// votes reports that a node knows a member with this number that votes.
func (c *Cluster) votes(number int) bool {
	for i := range c.slots {
		text, err := c.get(i, "/api/v1/raft/members", askWithin)
		var all struct {
			Members []struct {
				Node  int
				Votes bool
			}
		}
		if err != nil || json.Unmarshal(text, &all) != nil || len(all.Members) == 0 {
			continue
		}
		for _, m := range all.Members {
			if m.Node == number {
				return m.Votes
			}
		}
		return false
	}
	return false
}
