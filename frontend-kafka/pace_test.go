package frontendkafka

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// simulated is a node whose processors are all taken: what producers write takes work, what consumers read another kind of
// it, twice as much once they are too far behind for memory, and producers come first.
type simulated struct {
	p         *pace // nil leaves producers alone
	now       int64
	offered   float64 // bytes a second
	producers [4]simProducer
	consumers [2]simConsumer
	log       []float64 // bytes written so far, by tick
	oldest    time.Duration
}

type simProducer struct {
	written
	ready int64
}

type simConsumer struct {
	lag
	read float64
}

const (
	simTick  = 10 * time.Millisecond
	simFetch = 100 * time.Millisecond
	simWork  = 200e6 // bytes a second, written and read
	simMost  = 150e6 // that producers get at most
	simTail  = 850 * time.Millisecond
)

// age is how old what a consumer reads next is.
func (s *simulated) age(c *simConsumer) time.Duration {
	for i, n := range s.log {
		if n/float64(len(s.consumers)) > c.read {
			return time.Duration(len(s.log)-i) * simTick
		}
	}
	return 0
}

// tick is a hundredth of a second; it returns what was written and read.
func (s *simulated) tick() (wrote, read float64) {
	s.now += simTick.Microseconds()
	per := min(s.offered, simMost) / float64(len(s.producers)) * simTick.Seconds()
	for i := range s.producers {
		w := &s.producers[i]
		if w.ready > s.now {
			continue
		}
		wrote += per
		if s.p != nil {
			w.ready = s.now + s.p.charge(s.now, &w.written, int(per)).Microseconds()
		}
	}
	end := wrote
	if len(s.log) > 0 {
		end += s.log[len(s.log)-1]
	}
	s.log = append(s.log, end)
	for i := range s.consumers {
		c := &s.consumers[i]
		age := s.age(c)
		s.oldest = max(s.oldest, age)
		room := (simWork*simTick.Seconds() - wrote) / float64(len(s.consumers))
		if age > simTail {
			room /= 2
		}
		got := min(end/float64(len(s.consumers))-c.read, room)
		c.read, read = c.read+got, read+got
		if s.p != nil && s.now%simFetch.Microseconds() == 0 {
			s.fetched(c)
		}
	}
	return wrote, read
}

// fetched is the end of a fetch.
func (s *simulated) fetched(c *simConsumer) {
	const most = 500 * time.Millisecond
	age, from := s.age(c), c.from
	k := look{now: s.now, served: 80_000, rest: age > 0, late: age < lagLost, behind: age}
	if age > most/2 {
		end := s.log[len(s.log)-1] / float64(len(s.consumers))
		k.written, k.given = c.progress(lagPart{}, lagSeen{int64(end), int64(c.read)})
	}
	switch v, lacks := c.judge(k, most); v {
	case lagNone:
		s.p.leave(&c.lag)
	case lagLate:
		s.p.late(&c.lag, from, s.now, lacks)
	}
}

// run goes on for some seconds.
func (s *simulated) run(seconds int) (wrote, read float64) {
	for range time.Duration(seconds) * time.Second / simTick {
		w, r := s.tick()
		wrote, read = wrote+w, read+r
	}
	return wrote, read
}

// Goal: of a node that is offered more than it can do consumers get what is accepted, in every 10 s, and as much as it can
// do, out of memory; without it they get next to nothing. When less is offered producers are let go of.
func TestPaceInTwofoldOverload(t *testing.T) {
	alone := simulated{offered: 200e6}
	wrote, read := alone.run(30)
	require.Less(t, read/wrote, 0.4)

	s := simulated{offered: 200e6, p: newPace(0)}
	for i := range 6 {
		wrote, read := s.run(10)
		t.Logf("%.1f MB/s written, %.1f read, age %v, share %.1f", wrote/10e6, read/10e6, s.age(&s.consumers[0]), s.p.share/1e6)
		require.Greater(t, read/wrote, 0.9)
		require.Greater(t, read/10, 0.9*simWork/2)
		require.Less(t, s.oldest, simTail, "memory has what is read")
		if i > 0 {
			require.LessOrEqual(t, s.oldest, 500*time.Millisecond)
		}
		s.oldest = 0
	}
	s.offered = 50e6
	s.run(10)
	require.True(t, math.IsInf(s.p.share, 1), "%v", s.p.share)
	wrote, read = s.run(1)
	require.InDelta(t, 50e6, wrote, 1e6)
	require.InDelta(t, wrote, read, 2e6)
}

// behindFor says that a consumer falls behind, once every 300 ms for so long or until it is given up, while connections write as much
// as they may of what they would; it returns what they wrote in a second at the end.
func behindFor(p *pace, now *int64, d time.Duration, l *lag, conns []written, would ...float64) (wrote []float64, lost bool) {
	ready := make([]int64, len(conns))
	wrote = make([]float64, len(conns))
	end := *now + d.Microseconds()
	for from := *now; *now < end; *now += 10_000 {
		for i := range conns {
			if n := would[i] / 100; ready[i] <= *now {
				ready[i] = *now + p.charge(*now, &conns[i], int(n)).Microseconds()
				if end-*now <= 10*time.Second.Microseconds() {
					wrote[i] += n / 10
				}
			}
		}
		if l != nil && !lost && *now-from >= 300_000 {
			lost = p.late(l, from, *now, 0.5)
			from = *now
		}
	}
	return wrote, lost
}

// Goal: those that write most make way first; one that writes less than is left to each notices nothing.
func TestPaceIsFair(t *testing.T) {
	p, now, conns := newPace(0), int64(0), make([]written, 3)
	behindFor(p, &now, 3*time.Second, nil, conns, 50e6, 10e6, 1e6)
	require.True(t, math.IsInf(p.share, 1))
	var l lag
	got, _ := behindFor(p, &now, 20*time.Second, &l, conns, 50e6, 10e6, 1e6)
	require.InDelta(t, 1e6, got[2], 0.05e6)
	require.InDelta(t, got[0], got[1], 0.1*got[0], "both are above their share")
	require.Less(t, got[0], 10e6)
}

// Goal: producers are never held below a quarter of what they wrote, no wait is long, and nobody waits for ever: not for a consumer
// that does not come closer, nor for one that says nothing more.
func TestPaceEnds(t *testing.T) {
	p, now, conns := newPace(0), int64(0), make([]written, 2)
	behindFor(p, &now, time.Second, nil, conns, 40e6, 40e6)
	var l lag
	got, lost := behindFor(p, &now, 30*time.Second, &l, conns, 40e6, 40e6)
	require.False(t, lost)
	require.Greater(t, got[0]+got[1], 80e6/4*0.85, "as exact as a window measures")
	require.Less(t, got[0]+got[1], 0.4*80e6)
	require.LessOrEqual(t, p.charge(now, &conns[0], 1<<40), 2*time.Second)
	require.Equal(t, 1, p.lateNow(now))

	_, lost = behindFor(p, &now, time.Minute, &l, conns, 40e6, 40e6)
	require.True(t, lost)
	behindFor(p, &now, 15*time.Second, nil, conns, 40e6, 40e6)
	require.True(t, math.IsInf(p.share, 1))

	behindFor(p, &now, 2*time.Second, &l, conns, 40e6, 40e6)
	require.False(t, math.IsInf(p.share, 1))
	require.Equal(t, 1, p.lateNow(now))
	now += paceKept.Microseconds()
	require.Zero(t, p.lateNow(now))
	now += 15 * time.Second.Microseconds()
	require.Zero(t, p.charge(now, &conns[0], 1<<30))
}

// Goal: what nobody measured does not become a bound, one step follows another only after what the first one changed was seen,
// and a step is as large as the lag grows.
func TestPaceSteps(t *testing.T) {
	p, l, w := newPace(0), lag{}, written{}
	const ms = 1000
	write := func(from, to int64) {
		for at := from; at <= to; at += 10 * ms {
			p.charge(at, &w, 1e6)
		}
	}
	p.late(&l, 0, 300*ms, 1) // nobody writes
	require.True(t, math.IsInf(p.share, 1))
	write(10_000*ms, 10_500*ms)
	p.late(&l, 10_200*ms, 10_510*ms, 2*paceGain)
	require.True(t, math.IsInf(p.share, 1), "it comes closer")
	p.late(&l, 10_200*ms, 10_510*ms, 0.4)
	first := p.share
	require.InDelta(t, paceBelow*0.8*100e6, first, 5e6)
	write(10_520*ms, 11_000*ms)
	p.late(&l, 10_400*ms, 11_000*ms, 0.4)
	require.Equal(t, first, p.share, "that watch began before the step")
	p.late(&l, 10_520*ms, 11_000*ms, 0)
	require.InDelta(t, paceBelow*first, p.share, 1)
}
