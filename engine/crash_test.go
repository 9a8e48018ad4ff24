package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

var crashStep = flag.Int64("crash.step", 7, "every how many operations TestCrashEverywhere cuts the power")

// mortal runs a scenario on a node that dies with its file system.
type mortal struct {
	*rig
	ctx   context.Context
	dead  context.CancelFunc
	acked int // messages of partition a that group g acked

	compared int // states that were held against one made from the log alone
}

func newMortal(t *testing.T) *mortal {
	m := &mortal{rig: newRig(t)}
	m.ctx, m.dead = context.WithCancel(context.Background())
	m.config = func(c *engine.Config) {
		c.Fatal = func(error) { m.dead(); runtime.Goexit() }
	}
	return m
}

// run plays the scenario and reports whether it came to its end.
func (m *mortal) run() (ended bool) { return m.runThis(m.scenario) }

// runThis plays something and reports whether it came to its end.
func (m *mortal) runThis(scenario func() error) (ended bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended = scenario() == nil
	}()
	select {
	case <-done:
	case <-m.ctx.Done():
	}
	<-done // it waits on nothing but what ends with the node
	return ended && m.ctx.Err() == nil
}

// scenario: pushes, claims, transactions, marks, checkpoints, closed segments, and a clean stop.
func (m *mortal) scenario() error {
	if err := m.reopen(); err != nil {
		return err
	}
	for life := range 2 {
		for round := range 4 {
			for i := range 5 {
				if err := m.pushTo([]string{"a", "b", "c"}[i%3], fmt.Sprintf("%d/%d/%d %s", life, round, i, strings.Repeat("x", 300))); err != nil {
					return err
				}
			}
			if err := m.consume(); err != nil {
				return err
			}
			m.clock.Advance(1500 * time.Millisecond)
			if err := m.settle(); err != nil {
				return err
			}
		}
		if err := m.stop(); err != nil {
			return err
		}
		if life == 0 {
			if err := m.reopen(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *mortal) pushTo(partition, payload string) error {
	out, err := m.node.Do(m.ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Append{
		Queue: "q", Partition: partition, Messages: []engine.Message{{Payload: []byte(payload)}}}}})
	if err != nil {
		return err
	}
	if err := out[0].Messages[0].Err; err != nil {
		return err
	}
	m.pushed[partition] = append(m.pushed[partition], payload)
	return nil
}

// consume pops partition a and takes a whole step with the first message of what comes.
func (m *mortal) consume() error {
	d, err := m.node.Pop(m.ctx, someone, engine.PopRequest{Scope: engine.Scope{Queue: "q", Partition: "a", Pinned: true},
		Group: "g", Start: engine.Start{Kind: format.StartAll}, Lease: time.Second})
	if err != nil || d == nil || len(d.Claims) == 0 {
		return err
	}
	if _, err := m.node.Do(m.ctx, someone, step(&d.Claims[0], d.Lease)); err != nil {
		return err
	}
	m.acked = int(d.Claims[0].First) + 1
	return nil
}

// reopen opens the node, unless that kills it.
func (m *mortal) reopen() error {
	opened := *m.rig
	if err := m.orDeath(opened.tryOpen); err != nil {
		return err
	}
	m.seed, m.node = opened.seed, opened.node
	return nil
}

// settle and stop wait for the node's own entries, or for its death.
func (m *mortal) settle() error { return m.orDeath(func() error { m.node.Settle(); return nil }) }

func (m *mortal) stop() error { return m.orDeath(func() error { return m.node.Close(m.ctx) }) }

func (m *mortal) orDeath(f func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() { done <- errors.New("the node died") }() // a Fatal of this goroutine's own
		err := f()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
}

// derived reports files that can be made again while the whole log is there.
func derived(name string) bool {
	for _, s := range []string{".pidx", ".run", ".hsc", ".base", ".delta", ".ids"} {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return strings.HasPrefix(name, "manifest-") || strings.HasPrefix(name, "ids-")
}

// reopened opens what a disk holds after a crash, with no marks but those the test asks for.
func (m *mortal) reopened(fs *vfs.Mem) (*rig, error) {
	r := &rig{t: m.t, fs: fs, clock: clock.NewFake(m.clock.Now()), seed: 1000, pushed: map[string][]string{}}
	for p, all := range m.pushed {
		r.pushed[p] = all
	}
	r.config = func(c *engine.Config) { c.MarkBytes, c.MarkEvery = 1<<40, 1000*time.Hour }
	return r, r.tryOpen()
}

// judge checks a disk after a crash: everything acknowledged is there, and the state is the one that
// the log alone leads to.
func (m *mortal) judge(what string, disk func() *vfs.Mem) {
	t := m.t
	t.Helper()
	a, err := m.reopened(disk())
	if err != nil {
		t.Fatalf("%s: open: %v", what, err)
	}
	if err := a.check(1); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	bare := disk()
	names, _ := bare.List("data")
	for _, name := range names {
		if derived(name) {
			if err := bare.Remove("data/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	b, err := m.reopened(bare)
	if err != nil {
		t.Fatalf("%s: open from the log alone: %v", what, err)
	}
	if err := b.check(1); err != nil {
		t.Fatalf("%s: from the log alone: %v", what, err)
	}
	a.node.Settle()
	b.node.Settle()
	x, y := a.node.MarkState(), b.node.MarkState()
	if x.Index == y.Index && x != y {
		t.Fatalf("%s: the state is %+v, from the log alone %+v", what, x, y)
	}
	if x.Index == y.Index { // else one of them had to tick once more, and the states are of two instants
		m.compared++
	}
	m.judgeSteps(what, a, m.judgeAcks(what, a))
	m.judgeSteps(what, b, m.judgeAcks(what, b))
	a.close()
	b.close()
}

// judgeAcks pops what is left for group g: nothing acked comes again. It returns how many messages are settled.
func (m *mortal) judgeAcks(what string, r *rig) int {
	if len(r.pushed["a"]) == 0 {
		return 0
	}
	r.tick(time.Hour)
	d, err := r.node.Pop(context.Background(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q", Partition: "a", Pinned: true},
		Group: "g", Start: engine.Start{Kind: format.StartAll}})
	if err != nil || d == nil {
		m.t.Fatalf("%s: pop: %v, %v", what, d, err)
	}
	if len(d.Claims) == 0 {
		if m.acked < len(m.pushed["a"]) {
			m.t.Fatalf("%s: nothing to pop, %d of %d acked", what, m.acked, len(m.pushed["a"]))
		}
		return len(r.pushed["a"])
	}
	first := int(d.Claims[0].First)
	if first < m.acked || first > m.acked+1 {
		m.t.Fatalf("%s: delivered from %d, acked up to %d", what, first, m.acked)
	}
	return first
}

// TestCrashEverywhere cuts the power at operations all over a scenario and opens what the disk holds:
// everything acknowledged is there, and the state is that of an uninterrupted replay.
func TestCrashEverywhere(t *testing.T) {
	points, compared := 0, 0
	step := *crashStep
	if testing.Short() {
		step *= 3
	}
	for n := int64(1); ; n += step {
		m := newMortal(t)
		m.fs.PowerOffAt(n)
		ended := m.run()
		if ended && !m.fs.PoweredOff() {
			break
		}
		points++
		for i, policy := range []vfs.CrashPolicy{vfs.DropUnsynced(), vfs.RandomSubset(uint64(n))} {
			m.judge(fmt.Sprintf("power off at operation %d, policy %d", n, i), func() *vfs.Mem { return m.fs.Crash(policy) })
		}
		compared += m.compared
		if m.node != nil {
			m.node.Kill()
		}
	}
	if points < 5 || compared < points {
		t.Fatalf("only %d points, %d of %d states compared", points, compared, 2*points)
	}
	t.Logf("%d points, %d of %d states compared", points, compared, 2*points)
}
