package frontendkafka

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// slowNode takes a while for every read.
type slowNode struct {
	engine.Engine
	clock *clock.Fake
	takes time.Duration
}

func (n slowNode) Records() engine.Records { return slowRecords{n.Engine.Records(), n} }

type slowRecords struct {
	engine.Records
	n slowNode
}

func (r slowRecords) Fetch(ctx context.Context, c engine.Caller, at []engine.FetchAt, most int) ([]engine.Fetched, error) {
	r.n.clock.Advance(r.n.takes)
	return r.Records.Fetch(ctx, c, at, most)
}

// startSlow serves a real node whose reads take 300 ms of a clock that a test moves.
func startSlow(t *testing.T, tune func(*Options)) (*testNode, *clock.Fake) {
	t.Helper()
	fake := clock.NewFake(clock.Real().Now())
	n := start(t, func(o *Options) {
		o.Clock, o.Engine = fake, slowNode{o.Engine, fake, 300 * time.Millisecond}
		if tune != nil {
			tune(o)
		}
	})
	n.topic("t", 1)
	return n, fake
}

// writes sends one batch of 100 kB as a client does that does not wait when it is told to, and returns for how long it was.
func (r *raw) writes(b []byte) time.Duration {
	r.t.Helper()
	resp := r.ask(produceRequest(9, 1, "t", 0, b)).(*kmsg.ProduceResponse)
	require.Zero(r.t, resp.Topics[0].Partitions[0].ErrorCode)
	return time.Duration(resp.ThrottleMillis) * time.Millisecond
}

// reads fetches one batch; more says that there are more.
func (r *raw) reads(offset int64) (more bool) {
	r.t.Helper()
	req := fetchRequest(11, "t", 0)
	req.MaxBytes, req.Topics[0].Partitions[0].FetchOffset = 1, offset
	p := r.fetch(req).Topics[0].Partitions[0]
	require.Zero(r.t, p.ErrorCode)
	require.NotEmpty(r.t, p.RecordBatches)
	return offset+1 < p.HighWatermark
}

// paused tells how many connections are not read from.
func (n *testNode) paused() (count int) {
	n.f.conns.mu.Lock()
	defer n.f.conns.mu.Unlock()
	for c := range n.f.conns.open {
		c.in.mu.Lock()
		if c.in.paused {
			count++
		}
		c.in.mu.Unlock()
	}
	return count
}

// Goal: a producer is told to wait, and not read from, while a consumer that was at the end falls behind though the node
// reads for it all the time; once the consumer has caught up the producer goes on.
func TestProducersMakeWay(t *testing.T) {
	n, fake := startSlow(t, nil)
	p, c := n.dial(), n.dial()
	b := records(t, nil, string(make([]byte, 100_000)))
	require.Zero(t, p.writes(b))
	require.False(t, c.reads(0))
	at := int64(0)
	for range 12 {
		require.Zero(t, p.writes(b))
	}
	fake.Advance(time.Second)
	idle, held := fake.Armed(), time.Duration(0)
	for range 5 {
		at++
		require.True(t, c.reads(at))
		if held = p.writes(b); held > 0 {
			break
		}
	}
	require.Positive(t, held)
	require.LessOrEqual(t, held, 2*time.Second)
	require.InDelta(t, held.Seconds(), value(t, n.f.metrics.heldBack), 0.001)
	require.Equal(t, 1.0, value(t, n.f.metrics.lateConsumers))
	fake.WaitArmed(idle + 1) // others may arm one as well
	require.Eventually(t, func() bool { return n.paused() == 1 }, patience, pollEvery)
	require.Eventually(t, func() bool {
		fake.Advance(held + time.Millisecond) // its timer may be armed a moment later
		return n.paused() == 0
	}, patience, pollEvery)

	for more := true; more; {
		at++
		more = c.reads(at)
	}
	require.Zero(t, n.f.paces.late())
	fake.Advance(15 * time.Second)
	require.Zero(t, p.writes(b))
	require.Zero(t, p.writes(b))
}

// Goal: nobody makes way for a consumer that is gone.
func TestLateConsumerGoes(t *testing.T) {
	n, fake := startSlow(t, nil)
	p, c := n.dial(), n.dial()
	b := records(t, nil, string(make([]byte, 100_000)))
	for range 8 {
		p.writes(b)
	}
	fake.Advance(time.Second)
	for at := range int64(3) {
		c.reads(at)
	}
	require.Equal(t, 1, n.f.paces.late())
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return n.f.paces.late() == 0 }, patience, pollEvery)
}

// Goal: what does not hold producers back: a consumer that reads history, one that waits for records, a late one of another tenant, and
// any where that is switched off.
func TestProducersDoNotMakeWay(t *testing.T) {
	b := records(t, nil, string(make([]byte, 100_000)))
	fallsBehind := func(t *testing.T, p, c *raw, from int64) {
		t.Helper()
		for at := from; at < from+8; at++ {
			require.True(t, c.reads(at))
			require.Zero(t, p.writes(b))
		}
	}
	fill := func(p *raw) {
		for range 12 {
			p.writes(b)
		}
	}
	t.Run("history", func(t *testing.T) {
		n, fake := startSlow(t, nil)
		p, c := n.dial(), n.dial()
		fill(p)
		fake.Advance(31 * time.Second)
		fallsBehind(t, p, c, 0)
		require.Zero(t, n.f.paces.late())
	})
	t.Run("switched off", func(t *testing.T) {
		n, fake := startSlow(t, func(o *Options) { o.LagMax = -1 })
		p, c := n.dial(), n.dial()
		fill(p)
		fake.Advance(time.Second)
		fallsBehind(t, p, c, 0)
	})
	t.Run("waits", func(t *testing.T) {
		n, fake := startSlow(t, nil)
		p, c := n.dial(), n.dial()
		fill(p)
		fake.Advance(time.Second)
		for at := int64(0); at < 8; at++ {
			req := fetchRequest(11, "t", 0)
			req.MaxBytes, req.Topics[0].Partitions[0].FetchOffset = 200_000, at
			req.MinBytes, req.MaxWaitMillis = 1<<20, 1
			c.fetch(req)
			require.Zero(t, p.writes(b))
		}
		require.Zero(t, n.f.paces.late())
	})
	t.Run("another tenant", func(t *testing.T) {
		n, fake := startSlow(t, nil)
		p := n.dial()
		fill(p)
		other, l := n.f.paces.of(format.Tenant(tenantB)), lag{}
		for range 4 {
			var w written
			from := fake.Mono()
			for range 4 {
				fake.Advance(100 * time.Millisecond)
				other.charge(fake.Mono(), &w, 1e6)
			}
			other.late(&l, from, fake.Mono(), 1)
			require.Zero(t, p.writes(b))
		}
		require.False(t, math.IsInf(other.share, 1))
	})
}

// value reads a metric that has no labels.
func value(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	m := families[0].GetMetric()[0]
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}
