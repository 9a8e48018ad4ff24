package frontendkafka

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// Goal: a node that is gone leaves the answers after its time, comes back when it does, and leaves no row once it is no member.
func TestNodesComeAndGo(t *testing.T) {
	var mu sync.Mutex
	members := map[int32]bool{1: true, 2: true, 3: false}
	fakeClock := clock.NewFake(1_700_000_000_000_000)
	n, fake := startFake(t, func(o *Options) {
		o.Clustered, o.NodeID, o.Clock = true, 1, fakeClock
		o.Nodes = func() map[int32]bool {
			mu.Lock()
			defer mu.Unlock()
			return map[int32]bool{1: members[1], 2: members[2], 3: members[3]}
		}
	})
	fake.mu.Lock()
	fake.leads = 1
	fake.mu.Unlock()
	ctx := context.Background()
	for id := 2; id <= 4; id++ {
		_, err := n.engine.SetAdmin(ctx, format.SystemTenant, engine.AdminChange{Kind: format.AdminKafkaBroker, Name: strconv.Itoa(id),
			Value: []byte(`{"v":1,"listeners":{"PLAINTEXT":"k` + strconv.Itoa(id) + `.example:9092"}}`)})
		require.NoError(t, err)
	}
	c := n.dial()
	told := func() (ids []int32) {
		for _, b := range c.ask(kmsg.NewPtrDescribeClusterRequest()).(*kmsg.DescribeClusterResponse).Brokers {
			ids = append(ids, b.NodeID)
		}
		return ids
	}
	until := func(ids ...int32) {
		t.Helper()
		require.Eventually(t, func() bool {
			fakeClock.Advance(watchEvery)
			return slicesEqual(ids, told())
		}, patience, pollEvery)
	}
	require.Eventually(t, func() bool { return slicesEqual([]int32{1, 2, 3}, told()) }, patience, pollEvery, "what never answered has its time")
	until(1, 2)
	p := topicsOf(c, 12, true, "t")[0].Partitions[0]
	require.Equal(t, []int32{1, 2, 3}, p.Replicas)
	require.Equal(t, []int32{1, 2}, p.ISR)
	require.Eventually(t, func() bool {
		fakeClock.Advance(watchEvery)
		_, there := n.engine.AdminRow(format.SystemTenant, format.AdminKafkaBroker, "4")
		return !there
	}, patience, pollEvery)
	mu.Lock()
	members[3] = true
	mu.Unlock()
	until(1, 2, 3)
	_, there := n.engine.AdminRow(format.SystemTenant, format.AdminKafkaBroker, "3")
	require.True(t, there, "members keep their rows")
}

func slicesEqual(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Goal: a client that did not meet the leader is told who and where it is (KIP-951), and nothing while nobody leads.
func TestGuide(t *testing.T) {
	var leader atomic.Int32
	rack := "east"
	n, fake := startFake(t, func(o *Options) {
		o.NodeID = 2
		o.Brokers = func() ([]Broker, int32) {
			return []Broker{{ID: 2}, {ID: 3, Rack: rack, Addresses: map[string]string{"PLAINTEXT": "k3.example:9093"}}}, leader.Load()
		}
	})
	leader.Store(2)
	n.topic("t", 2)
	fake.mu.Lock()
	fake.fail = func(string) *engine.Error { return &engine.Error{Code: engine.CodeNoLeader} }
	fake.mu.Unlock()
	c := n.dial()
	batch := records(t, nil, "x")
	for _, leads := range []int32{3, -1} {
		leader.Store(leads)
		for _, v := range []int16{3, 9, 10, 12} {
			resp := c.ask(produceRequest(v, 1, "t", 1, batch)).(*kmsg.ProduceResponse)
			p := resp.Topics[0].Partitions[0]
			require.Equal(t, kerr.NotLeaderForPartition.Code, p.ErrorCode)
			if v < 10 || leads < 0 {
				require.EqualValues(t, -1, p.CurrentLeader.LeaderID)
				require.Empty(t, resp.Brokers)
				continue
			}
			require.Equal(t, kmsg.ProduceResponseTopicPartitionCurrentLeader{LeaderID: 3, LeaderEpoch: 1}, p.CurrentLeader)
			require.Equal(t, []kmsg.ProduceResponseBroker{{NodeID: 3, Host: "k3.example", Port: 9093, Rack: &rack}}, resp.Brokers)
		}
		for _, v := range []int16{4, 11, 12} {
			p, resp := c.fetchOne(fetchRequest(v, "t", 1))
			require.Equal(t, kerr.NotLeaderForPartition.Code, p.ErrorCode)
			if v < 12 || leads < 0 {
				require.EqualValues(t, -1, p.CurrentLeader.LeaderID)
			} else {
				require.EqualValues(t, 3, p.CurrentLeader.LeaderID)
				require.EqualValues(t, 1, p.CurrentLeader.LeaderEpoch)
			}
			require.Empty(t, resp.Brokers)
		}
		req := fetchRequest(16, "t", 1)
		req.Topics[0].TopicID = topicsOf(c, 12, false, "t")[0].TopicID
		p, resp := c.fetchOne(req)
		require.Equal(t, kerr.NotLeaderForPartition.Code, p.ErrorCode)
		if leads < 0 {
			require.Empty(t, resp.Brokers)
			continue
		}
		require.EqualValues(t, 3, p.CurrentLeader.LeaderID)
		require.Equal(t, []kmsg.FetchResponseBroker{{NodeID: 3, Host: "k3.example", Port: 9093, Rack: &rack}}, resp.Brokers)
	}
}

func (r *raw) fetchOne(req *kmsg.FetchRequest) (kmsg.FetchResponseTopicPartition, *kmsg.FetchResponse) {
	r.t.Helper()
	resp := r.fetch(req)
	return resp.Topics[0].Partitions[0], resp
}

// silentEngine refuses to say how it is.
type silentEngine struct{ engine.Engine }

func (silentEngine) Status(context.Context) (engine.Status, error) {
	return engine.Status{}, &engine.Error{Code: engine.CodeTimeout}
}

// Goal: what every request needs to know of the leader asks no other node, as Status does.
func TestLeaderWithoutStatus(t *testing.T) {
	n := start(t, func(o *Options) { o.Engine = silentEngine{o.Engine} })
	n.topic("t", 1)
	c := n.dial()
	require.Zero(t, c.produced(9, 1, "t", 0, records(t, nil, "x")).ErrorCode)
	_, term := n.engine.Records().Leader(n.caller())
	require.NotZero(t, term)
	require.EqualValues(t, term, topicsOf(c, 12, false, "t")[0].Partitions[0].LeaderEpoch)
	req := fetchRequest(12, "t", 0)
	req.Topics[0].Partitions[0].CurrentLeaderEpoch = int32(term)
	p, _ := c.fetchOne(req)
	require.Zero(t, p.ErrorCode)
	require.NotEmpty(t, p.RecordBatches)
}
