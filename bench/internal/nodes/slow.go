package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// slow holds the flushes of who leads up.
func slow(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
	i := c.someLeader(r)
	if i < 0 {
		return spared(lasts)
	}
	d := c.slots[i].seat.Load().disk
	if d == nil {
		return hit{}, errors.New("the directory's flushes can not be held up: name the kind at the start")
	}
	d.Delay(lasts)
	time.Sleep(lasts)
	held, longest := d.Delay(0)
	h := hit{what: fmt.Sprintf("the flushes of node %d stalled", i+1), struck: []int{i}}
	if held > 0 {
		h.bits = append(h.bits, fmt.Sprintf("%d flushes of node %d stalled, for %.1f s at most", held, i+1, longest.Seconds()))
	}
	return h, nil
}

// The wall clock jumps by something between these, in either direction.
const (
	minJump = time.Second
	maxJump = time.Hour
)

// clockJump moves the wall clock of who leads, and back. What counts is what the node tells the time to be.
func clockJump(c *Cluster, r *rand.Rand, lasts time.Duration) (hit, error) {
	i := c.someLeader(r)
	if i < 0 {
		return spared(lasts)
	}
	s := c.slots[i]
	if s.clock == "" {
		return hit{}, errors.New("the clock can not be moved: name the kind at the start")
	}
	span := math.Log(float64(maxJump) / float64(minJump))
	jump := time.Duration(float64(minJump) * math.Exp(r.Float64()*span)).Round(time.Millisecond)
	if r.IntN(2) == 0 {
		jump = -jump
	}
	h := hit{what: fmt.Sprintf("the wall clock of node %d jumped by %v", i+1, jump), struck: []int{i}}
	if err := writeOffset(s.clock, jump); err != nil {
		return h, err
	}
	end := time.Now().Add(lasts)
	for h.bits == nil && time.Now().Before(end) {
		time.Sleep(lookEvery)
		if off, ok := c.wallOf(i); ok && (off-jump).Abs() < jump.Abs()/2 {
			h.bits = append(h.bits, fmt.Sprintf("node %d told a time that is off by %v", i+1, off.Round(100*time.Millisecond)))
		}
	}
	time.Sleep(time.Until(end))
	return h, writeOffset(s.clock, 0)
}

// writeOffset says by how much a node's wall clock is off. It is replaced as a whole: the node reads it at any time.
func writeOffset(file string, d time.Duration) error {
	if err := os.WriteFile(file+".new", []byte(strconv.FormatInt(d.Milliseconds(), 10)), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// wallOf is by how much a node's wall clock is ahead, as it says itself.
func (c *Cluster) wallOf(i int) (time.Duration, bool) {
	asked := time.Now()
	text, err := c.get(i, "/api/v1/diagnose", askWithin)
	var a struct{ AsOf time.Time }
	if err != nil || json.Unmarshal(text, &a) != nil || a.AsOf.IsZero() {
		return 0, false
	}
	return a.AsOf.Sub(asked), true
}
