package frontendkafka

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"queen/engine/format"
)

// consumers are members of one group that count what they get.
type consumers struct {
	n      *testNode
	mu     sync.Mutex
	seen   map[string]int
	owners map[int32]*kgo.Client
	taken  int // partitions that were taken from a member that went on
	change chan struct{}
}

func (n *testNode) consumers() *consumers {
	return &consumers{n: n, seen: map[string]int{}, owners: map[int32]*kgo.Client{}, change: make(chan struct{}, 1)}
}

func (c *consumers) told() {
	select {
	case c.change <- struct{}{}:
	default:
	}
}

// join starts a member; leave ends it.
func (c *consumers) join(opts ...kgo.Opt) (leave func()) {
	c.n.t.Helper()
	cl := c.n.client(append([]kgo.Opt{
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, m map[string][]int32) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, p := range m["t"] {
				if c.owners[p] != nil && c.owners[p] != cl {
					c.n.t.Errorf("partition %d has two owners", p)
				}
				c.owners[p] = cl
			}
			c.told()
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, m map[string][]int32) {
			if err := cl.CommitMarkedOffsets(ctx); err != nil {
				c.n.t.Errorf("commit: %v", err)
			}
			c.lost(cl, m)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, cl *kgo.Client, m map[string][]int32) { c.lost(cl, m) }),
		kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll()}, opts...)...)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			fs := cl.PollFetches(ctx)
			fs.EachRecord(func(r *kgo.Record) {
				c.mu.Lock()
				c.seen[string(r.Value)]++
				c.mu.Unlock()
				cl.MarkCommitRecords(r)
			})
			cl.AllowRebalance()
			c.told()
		}
	})
	return func() {
		cancel()
		done.Wait()
		cl.CloseAllowingRebalance()
	}
}

func (c *consumers) lost(cl *kgo.Client, m map[string][]int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken += len(m["t"])
	for _, p := range m["t"] {
		if c.owners[p] == cl {
			delete(c.owners, p)
		}
	}
	c.told()
}

// until waits for something to become true.
func (c *consumers) until(what string, ok func() bool) {
	c.n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		c.mu.Lock()
		yes := ok()
		c.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-c.change:
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			c.n.t.Fatalf("%s: %d seen, owners %v", what, len(c.seen), slices.Sorted(maps.Keys(c.owners)))
		}
	}
}

// shares is how many partitions each member has.
func (c *consumers) shares() map[*kgo.Client]int {
	out := map[*kgo.Client]int{}
	for _, cl := range c.owners {
		out[cl]++
	}
	return out
}

// producer makes the topic of the test and a client that writes to it.
func (n *testNode) producer() *kgo.Client {
	n.t.Helper()
	cl := n.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	_, err := kadm.NewClient(cl).CreateTopic(n.t.Context(), 4, 1, nil, "t")
	require.NoError(n.t, err)
	require.NoError(n.t, n.f.record(n.t.Context(), n.caller().Tenant, ofGroup+"g", format.UUID{}, format.Place{},
		map[string]string{"consumer.heartbeat.interval.ms": "200"}))
	return cl
}

func (n *testNode) produce(cl *kgo.Client, from, to int) {
	n.t.Helper()
	var rs []*kgo.Record
	for i := from; i < to; i++ {
		rs = append(rs, &kgo.Record{Topic: "t", Value: fmt.Append(nil, i), Partition: int32(i % 4)})
	}
	require.NoError(n.t, cl.ProduceSync(n.t.Context(), rs...).FirstErr())
}

// nextGen has a client speak the protocol of KIP-848.
func nextGen(b kgo.GroupBalancer) []kgo.Opt {
	//lint:ignore SA1029 the client looks for this key
	ctx := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
	return []kgo.Opt{kgo.Balancers(b), kgo.WithContext(ctx)}
}

// Goal: two members share a topic in every protocol that a client can speak, each record reaches the group once, what was
// committed is where the next member goes on.
func TestGroupOfTwo(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"range":              {kgo.Balancers(kgo.RangeBalancer())},
		"cooperative-sticky": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
		"uniform/848":        nextGen(kgo.CooperativeStickyBalancer()),
		"range/848":          nextGen(kgo.RangeBalancer()),
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, nil)
			cl := n.producer()
			n.produce(cl, 0, 100)
			c := n.consumers()
			leave := c.join(opts...)
			c.until("one member has all", func() bool { return len(c.owners) == 4 && len(c.seen) == 100 })
			leaveToo := c.join(opts...)
			c.until("two members share", func() bool {
				s := c.shares()
				return len(c.owners) == 4 && len(s) == 2
			})
			n.produce(cl, 100, 200)
			c.until("everything arrives", func() bool { return len(c.seen) == 200 })
			leave()
			c.until("the other has all", func() bool { return len(c.owners) == 4 && len(c.shares()) == 1 })
			leaveToo()
			n.produce(cl, 200, 300)
			leave = c.join(opts...)
			c.until("goes on", func() bool { return len(c.seen) == 300 })
			leave()
			for v, times := range c.seen {
				require.Equal(t, 1, times, v)
			}
			lags, err := kadm.NewClient(cl).Lag(t.Context(), "g")
			require.NoError(t, err)
			require.Zero(t, lags["g"].Lag.Total())
			require.Equal(t, "Empty", lags["g"].State)
			_, err = kadm.NewClient(cl).DeleteGroup(t.Context(), "g")
			require.NoError(t, err)
			left, err := kadm.NewClient(cl).FetchOffsets(t.Context(), "g")
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// Goal: a coordinator that starts anew goes on where the last one was: members keep their partitions, and their commits
// count.
func TestGroupOutlivesCoordinator(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"classic": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
		"848":     nextGen(kgo.CooperativeStickyBalancer()),
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, nil)
			cl := n.producer()
			c := n.consumers()
			leave, leaveToo := c.join(opts...), c.join(opts...)
			c.until("two members share", func() bool { return len(c.owners) == 4 && len(c.shares()) == 2 })
			n.produce(cl, 0, 100)
			c.until("everything arrives", func() bool { return len(c.seen) == 100 })
			c.mu.Lock()
			taken := c.taken
			c.mu.Unlock()
			for range 2 {
				n.again()
			}
			n.produce(cl, 100, 200)
			c.until("everything arrives", func() bool { return len(c.seen) == 200 })
			c.mu.Lock()
			require.Equal(t, taken, c.taken, "nobody lost a partition")
			c.mu.Unlock()
			leave()
			leaveToo()
			lags, err := kadm.NewClient(n.client()).Lag(t.Context(), "g")
			require.NoError(t, err)
			require.Zero(t, lags["g"].Lag.Total())
		})
	}
}

// again stops the frontend and starts another one over the same engine, at the same address.
func (n *testNode) again() {
	n.t.Helper()
	n.stop()
	o := n.f.opts
	ln, err := net.Listen("tcp", n.addr)
	require.NoError(n.t, err)
	o.Listeners = []Listener{{Listener: ln}}
	n.f, err = New(o)
	require.NoError(n.t, err)
	n.served = make(chan error, 1)
	go func(f *Frontend, served chan error) { served <- f.Serve() }(n.f, n.served)
}

// Goal: a static member whose process starts anew takes up its partitions again, and nobody else notices.
func TestStaticMemberStartsAnew(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"classic": {kgo.Balancers(kgo.RangeBalancer())},
		"848":     nextGen(kgo.RangeBalancer()),
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, nil)
			cl := n.producer()
			c := n.consumers()
			leave := c.join(append([]kgo.Opt{kgo.InstanceID("one")}, opts...)...)
			leaveToo := c.join(append([]kgo.Opt{kgo.InstanceID("two")}, opts...)...)
			c.until("two members share", func() bool { return len(c.owners) == 4 && len(c.shares()) == 2 })
			n.produce(cl, 0, 100)
			c.until("everything arrives", func() bool { return len(c.seen) == 100 })
			for round := range 3 {
				c.mu.Lock()
				taken := c.taken
				c.mu.Unlock()
				leave()
				n.produce(cl, 100*(round+1), 100*(round+2))
				leave = c.join(append([]kgo.Opt{kgo.InstanceID("one")}, opts...)...)
				c.until("everything arrives", func() bool { return len(c.seen) == 100*(round+2) })
				c.mu.Lock()
				require.Equal(t, taken+2, c.taken, "only what the one that stopped had")
				c.mu.Unlock()
			}
			leave()
			leaveToo()
			left, err := kadm.NewClient(cl).DescribeGroups(t.Context(), "g")
			require.NoError(t, err)
			if name == "classic" {
				require.Equal(t, "Stable", left["g"].State, "static members do not leave by themselves")
				require.Len(t, left["g"].Members, 2)
			}
		})
	}
}

// Goal: a group changes from the classic protocol to that of KIP-848 one process at a time, and reads on meanwhile.
func TestGroupChangesProtocol(t *testing.T) {
	n := start(t, nil)
	cl := n.producer()
	c := n.consumers()
	classic := []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}
	one, two := c.join(classic...), c.join(classic...)
	c.until("two members share", func() bool { return len(c.owners) == 4 && len(c.shares()) == 2 })
	n.produce(cl, 0, 100)
	c.until("everything arrives", func() bool { return len(c.seen) == 100 })
	one()
	three := c.join(nextGen(kgo.CooperativeStickyBalancer())...)
	c.until("old and new share", func() bool { return len(c.owners) == 4 && len(c.shares()) == 2 })
	n.produce(cl, 100, 200)
	c.until("everything arrives", func() bool { return len(c.seen) == 200 })
	two()
	four := c.join(nextGen(kgo.CooperativeStickyBalancer())...)
	c.until("two new ones share", func() bool { return len(c.owners) == 4 && len(c.shares()) == 2 })
	n.produce(cl, 200, 300)
	c.until("everything arrives", func() bool { return len(c.seen) == 300 })
	three()
	four()
	for v, times := range c.seen {
		require.Equal(t, 1, times, v)
	}
}
