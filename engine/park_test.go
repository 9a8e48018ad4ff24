package engine_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

var parkAll = flag.Bool("park.all", false, "all interleavings of TestOneWaiterTwoPushes")

// gate lets through one passer at a time once it is shut.
type gate struct {
	shut    atomic.Bool
	waiting atomic.Int32
	pass    chan struct{}
}

func (g *gate) enter() {
	if !g.shut.Load() {
		return
	}
	g.waiting.Add(1)
	<-g.pass
	g.waiting.Add(-1)
}

// gated is the built-in sequencer whose proposals and applies wait until the test lets them go on.
type gated struct {
	engine.Sequencer
	propose, apply gate
}

func (g *gated) Propose(p *engine.Proposal) error {
	g.propose.enter()
	return g.Sequencer.Propose(p)
}

// Prompt is false: what stands at a gate is never a call of the test itself, and entries are applied one behind another's
// proposal.
func (g *gated) Prompt() bool { return false }

func (g *gated) Start(a engine.Applier, applied format.Index) (format.Term, error) {
	return g.Sequencer.Start(gatedApplier{a, g}, applied)
}

type gatedApplier struct {
	engine.Applier
	g *gated
}

func (a gatedApplier) Apply(c engine.Committed) (engine.Applied, error) {
	a.g.apply.enter()
	return a.Applier.Apply(c)
}

// stage is a node in a bubble of its own, with the gates of its sequencer. Every step of the test ends
// when nothing moves any more.
type stage struct {
	t     *testing.T
	node  *engine.Node
	clock *clock.Fake
	fs    *vfs.Mem
	seq   *gated
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, clock: clock.NewFake(1_700_000_000_000_000), fs: vfs.NewMem()}
	s.seq = &gated{propose: gate{pass: make(chan struct{})}, apply: gate{pass: make(chan struct{})}}
	var err error
	s.node, err = engine.OpenOver(testConfig(s.fs, s.clock, 1), func(q engine.Sequencer) engine.Sequencer {
		s.seq.Sequencer = q
		return s.seq
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) close() {
	if err := s.node.Close(context.Background()); err != nil {
		s.t.Error(err)
	}
}

// shut closes the gates; open lets everything through again.
func (s *stage) shut() {
	s.seq.propose.shut.Store(true)
	s.seq.apply.shut.Store(true)
}

func (s *stage) open() {
	s.seq.propose.shut.Store(false)
	s.seq.apply.shut.Store(false)
	for synctest.Wait(); s.step(&s.seq.propose) || s.step(&s.seq.apply); {
	}
}

// step lets one passer through a gate; false when nobody stands there.
func (s *stage) step(g *gate) bool {
	if g.waiting.Load() == 0 {
		return false
	}
	g.pass <- struct{}{}
	synctest.Wait()
	return true
}

// poll is a pop under way.
type poll struct {
	done     bool
	err      error
	ids      []string
	attempts []uint32
	lease    string
}

func (s *stage) pop(ctx context.Context, req engine.PopRequest) *poll {
	p := &poll{}
	go func() {
		d, err := s.node.Pop(ctx, someone, req)
		if p.err = err; d != nil {
			for m, err := range d.Messages() {
				if err != nil {
					p.err = err
				}
				p.ids = append(p.ids, strings.Clone(m.TransactionID))
			}
			for _, c := range d.Claims {
				p.attempts = append(p.attempts, c.Attempt)
			}
			p.lease = d.Lease
			d.Delivered()
		}
		p.done = true
	}()
	synctest.Wait()
	return p
}

func (s *stage) push(partition, id string) {
	go func() {
		res, err := s.node.Do(context.Background(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "q", Partition: partition,
			Messages: []engine.Message{{TransactionID: id, Payload: []byte("1")}}}}})
		if err != nil || res[0].Messages[0].Status != engine.Queued {
			s.t.Errorf("push of %s: %+v, %v", id, res, err)
		}
	}()
	synctest.Wait()
}

// waiting is a pop of group g that waits as long as it may.
func waiting(group string) engine.PopRequest {
	return engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: group, Start: engine.Start{Kind: format.StartAll}, Wait: time.Minute}
}

// TestOneWaiterTwoPushes plays every interleaving of a pop that waits and two pushes with the proposing
// and the applying of their entries: no edge is lost, so that the pop is answered before any time has
// passed, and every message is delivered once.
func TestOneWaiterTwoPushes(t *testing.T) {
	for _, same := range []bool{true, false} {
		for _, registered := range []bool{true, false} {
			if same == registered && !*parkAll || testing.Short() && same {
				continue // half of them by default
			}
			runs := 0
			everySchedule(func(choose func(int) int) {
				runs++
				synctest.Test(t, func(t *testing.T) { oneWaiterTwoPushes(t, choose, same, registered) })
			})
			t.Logf("same partition %v, group registered %v: %d interleavings", same, registered, runs)
			if runs < 20 {
				t.Errorf("only %d interleavings", runs)
			}
		}
	}
}

// everySchedule calls f once for every sequence of choices it can make.
func everySchedule(f func(choose func(int) int)) {
	var path, width []int
	for {
		at := 0
		f(func(n int) int {
			if at == len(path) {
				path, width = append(path, 0), append(width, n)
			}
			at++
			return path[at-1]
		})
		path, width = path[:at], width[:at]
		for at > 0 && path[at-1]+1 == width[at-1] {
			at--
		}
		if at == 0 {
			return
		}
		path, width = path[:at], width[:at]
		path[at-1]++
	}
}

func oneWaiterTwoPushes(t *testing.T, choose func(int) int, same, registered bool) {
	s := newStage(t)
	defer s.close()
	if registered {
		req := waiting("g")
		req.Wait = 0
		s.pop(context.Background(), req)
	}
	s.shut()
	second := "b"
	if same {
		second = "a"
	}
	var w *poll
	acts := []func(){
		func() { w = s.pop(context.Background(), waiting("g")) },
		func() { s.push("a", "1") },
		func() { s.push(second, "2") },
	}
	for len(acts) > 0 {
		var can []func()
		for i := range acts {
			can = append(can, func() {
				act := acts[i]
				acts = append(acts[:i:i], acts[i+1:]...)
				act()
			})
		}
		if s.seq.propose.waiting.Load() > 0 {
			can = append(can, func() { s.step(&s.seq.propose) })
		}
		if s.seq.apply.waiting.Load() > 0 {
			can = append(can, func() { s.step(&s.seq.apply) })
		}
		can[choose(len(can))]()
	}
	for { // all are under way: what is left is the order of proposing and applying
		p, a := s.seq.propose.waiting.Load() > 0, s.seq.apply.waiting.Load() > 0
		if !p && !a {
			break
		}
		if g := &s.seq.propose; p && (!a || choose(2) == 0) {
			s.step(g)
		} else {
			s.step(&s.seq.apply)
		}
	}
	s.open()
	if !w.done || w.err != nil || len(w.ids) == 0 {
		t.Fatalf("the waiter: done %v with %q, %v; %d parked", w.done, w.ids, w.err, s.node.Parked())
	}
	got := w.ids
	for {
		req := waiting("g")
		req.Wait = 0
		p := s.pop(context.Background(), req)
		if !p.done || p.err != nil {
			t.Fatalf("a pop afterwards: done %v, %v", p.done, p.err)
		}
		if len(p.ids) == 0 {
			break
		}
		got = append(got, p.ids...)
	}
	if same && len(got) == 1 { // the second message came behind the first one's lease
		s.clock.Advance(time.Hour)
		s.node.Settle()
		got = append(got[:0], s.pop(context.Background(), waiting("g")).ids...)
	}
	if text := fmt.Sprint(got); text != "[1 2]" && text != "[2 1]" {
		t.Fatalf("delivered %v, want 1 and 2 once", got)
	}
}

// TestParkedPollsWriteNothing: ten thousand polls wait a virtual minute and nothing is written.
func TestParkedPollsWriteNothing(t *testing.T) {
	polls := 10_000
	if testing.Short() {
		polls = 1000
	}
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.close()
		s.push("a", "1")
		s.clock.Advance(time.Second)
		var all []*poll
		for i := range 20 { // the groups are registered and have looked around
			req := waiting(fmt.Sprint("g", i%10))
			req.Wait, req.Start.Kind = 0, format.StartNew
			s.pop(context.Background(), req)
		}
		for range 20 { // the last chunk of traffic ends, and its checkpoint is written
			s.clock.Advance(5 * time.Second)
			s.node.Settle()
			synctest.Wait()
		}
		for i := range polls {
			req := waiting(fmt.Sprint("g", i%10))
			if i%3 == 0 {
				req.Scope.Partition, req.Scope.Pinned = "a", true
			}
			p := &poll{}
			all = append(all, p)
			go func() {
				d, err := s.node.Pop(context.Background(), someone, req)
				p.err, p.done = err, true
				if d != nil {
					t.Errorf("poll %d got %d claims", i, len(d.Claims))
				}
			}()
		}
		synctest.Wait()
		if n := s.node.Parked(); n != polls {
			t.Fatalf("%d polls are parked, want %d", n, polls)
		}
		before, _ := s.node.Status(context.Background())
		ops := s.fs.Ops()
		for range 59 {
			s.clock.Advance(time.Second)
			synctest.Wait()
		}
		after, _ := s.node.Status(context.Background())
		if s.fs.Ops() != ops || after.Durable != before.Durable {
			t.Fatalf("%d operations on the disk, entries up to %d, then %d", s.fs.Ops()-ops, before.Durable, after.Durable)
		}
		if n := s.node.Parked(); n != polls {
			t.Fatalf("%d polls are parked after 59 s, want %d", n, polls)
		}
		s.clock.Advance(time.Second)
		synctest.Wait()
		for i, p := range all {
			if !p.done || p.err != nil {
				t.Fatalf("poll %d after a minute: done %v, %v", i, p.done, p.err)
			}
		}
		if s.fs.Ops() != ops {
			t.Fatalf("%d operations on the disk when they ended", s.fs.Ops()-ops)
		}
	})
}

// TestHangUpHandsBack: a caller that goes away at any moment of its claim leaves the message to the next
// one, as if it had not asked (S-pop-12).
func TestHangUpHandsBack(t *testing.T) {
	runs := 0
	everySchedule(func(choose func(int) int) {
		runs++
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			defer s.close()
			req := waiting("g")
			req.Wait = 0
			s.pop(context.Background(), req)
			s.shut()
			ctx, hangUp := context.WithCancel(context.Background())
			w := s.pop(ctx, waiting("g"))
			s.push("a", "1")
			for choose(2) == 1 {
				if !s.step(&s.seq.propose) && !s.step(&s.seq.apply) {
					break
				}
			}
			hangUp()
			synctest.Wait()
			s.open()
			if !w.done || len(w.ids) == 0 && w.err == nil {
				t.Fatalf("the one that hung up: done %v with %q and no error", w.done, w.ids)
			}
			next := s.pop(context.Background(), waiting("g"))
			want := "[1] [1]"
			if len(w.ids) > 0 {
				want = "[] []" // it was answered first
			}
			if got := fmt.Sprint(next.ids, " ", next.attempts); got != want {
				t.Fatalf("hung up after %d steps with %q (%v): the next one got %s, want %s", runs-1, w.ids, w.err, got, want)
			}
			if !next.done {
				s.clock.Advance(time.Minute)
				synctest.Wait()
			}
		})
	})
	if runs < 3 {
		t.Errorf("only %d moments", runs)
	}
}

// TestFirstPopsTogether: of pops that come before the group is registered none is told that there is
// nothing while another one's claim leaves something.
func TestFirstPopsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.close()
		for i := range 4 {
			s.push(fmt.Sprint("p", i), fmt.Sprint(i))
		}
		s.shut()
		var all []*poll
		for range 6 {
			req := waiting("g")
			req.Wait = 0
			all = append(all, s.pop(context.Background(), req))
		}
		s.open()
		got := 0
		for _, p := range all {
			got += len(p.ids)
		}
		if got != 4 {
			t.Fatalf("%d messages delivered, want 4", got)
		}
	})
}

// TestWaitersAreServedInOrder: each push goes to the one that has waited longest, also when it had been
// woken for nothing before.
func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.close()
		var all []*poll
		for range 5 {
			all = append(all, s.pop(context.Background(), waiting("g")))
		}
		for i := range all {
			s.push(fmt.Sprint("p", i), fmt.Sprint(i))
			for k, p := range all {
				if p.done != (k <= i) {
					t.Fatalf("after push %d waiter %d is answered: %v", i, k, p.done)
				}
			}
			if fmt.Sprint(all[i].ids) != fmt.Sprintf("[%d]", i) {
				t.Fatalf("waiter %d got %q", i, all[i].ids)
			}
		}
	})
}

// TestMarksFromSeveralSides: whoever asks for a Mark, its chain hash is the one of the Mark before, and
// none is lost.
func TestMarksFromSeveralSides(t *testing.T) {
	s := openNode(t, clock.NewFake(1_700_000_000_000_000))
	done := make(chan struct{})
	for range 4 {
		go func() {
			for range 25 {
				s.MarkState()
			}
			done <- struct{}{}
		}()
	}
	for range 4 {
		<-done
	}
	if m := s.MarkState(); m.Number != 101 {
		t.Fatalf("%d marks", m.Number)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestPinnedWaiterIsWoken: a pop that waits for one partition gets what is pushed there, at once, and nothing that is pushed
// elsewhere.
func TestPinnedWaiterIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		defer s.close()
		req := waiting("g")
		req.Scope.Partition, req.Scope.Pinned = "a", true
		s.push("a", "first")
		if p := s.pop(t.Context(), req); !p.done || len(p.ids) != 1 {
			t.Fatalf("%+v", p)
		}
		req.Scope.Partition = "b"
		s.push("b", "second")
		if p := s.pop(t.Context(), req); !p.done || len(p.ids) != 1 {
			t.Fatalf("%+v", p)
		}
		w := s.pop(t.Context(), req) // leased: it waits, and b is registered
		s.push("a", "third")
		if w.done {
			t.Fatalf("woken by another partition: %+v", w)
		}
		req.Scope.Partition = "c"
		v := s.pop(t.Context(), req) // nobody has written there yet
		s.push("c", "fourth")
		if !v.done || len(v.ids) != 1 || v.ids[0] != "fourth" {
			t.Fatalf("not woken: %+v", v)
		}
	})
}
