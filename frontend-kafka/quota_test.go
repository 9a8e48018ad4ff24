package frontendkafka

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// Goal: quotas are kept by entity and found by what a request asks for.
func TestQuotas(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	a := n.admin()
	entity := func(parts ...string) (e kadm.ClientQuotaEntity) {
		for i := 0; i < len(parts); i += 2 {
			c := kadm.ClientQuotaEntityComponent{Type: parts[i]}
			if parts[i+1] != "" {
				c.Name = &parts[i+1]
			}
			e = append(e, c)
		}
		return e
	}
	alter := func(e kadm.ClientQuotaEntity, key string, v float64, remove bool) error {
		rs, err := a.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: e, Ops: []kadm.AlterClientQuotaOp{{Key: key, Value: v, Remove: remove}}}})
		require.NoError(t, err)
		return rs[0].Err
	}
	require.NoError(t, alter(entity("user", "ann"), producerRate, 1000, false))
	require.NoError(t, alter(entity("user", "ann", "client-id", "a,b=c"), consumerRate, 2000, false))
	require.NoError(t, alter(entity("client-id", ""), producerRate, 3000, false))
	// A row that an older version kept is told, and can be removed.
	kept, err := n.f.rows.SetAdmin(ctx, n.caller().Tenant, engine.AdminChange{Kind: format.AdminKafkaQuota, Name: "ip=10.0.0.1",
		Value: []byte(`{"v":1,"set":{"connection_creation_rate":5}}`)})
	require.NoError(t, err)
	require.True(t, kept)
	for key, e := range map[string]kadm.ClientQuotaEntity{"connection_creation_rate": entity("ip", "10.0.0.1"),
		"request_percentage": entity("user", "ann"), "controller_mutation_rate": entity("user", "ann")} {
		err := alter(e, key, 5, false)
		require.ErrorIs(t, err, kerr.InvalidRequest, key)
	}
	for _, bad := range []struct {
		e   kadm.ClientQuotaEntity
		key string
		v   float64
	}{
		{entity("user", "a"), "nonsense", 1}, {entity("user", "a"), producerRate, 0}, {entity("user", "a"), producerRate, 1.5},
		{entity("tenant", "a"), producerRate, 1}, {entity("ip", "1.1.1.1", "user", "a"), producerRate, 1}, {nil, producerRate, 1},
		{entity("ip", "1.1.1.1"), producerRate, 1}, {entity("user", "a"), "connection_creation_rate", 1},
		{entity("user", "a", "user", "b"), producerRate, 1},
	} {
		require.Error(t, alter(bad.e, bad.key, bad.v, false), "%+v", bad)
	}
	find := func(strict bool, cs ...kadm.DescribeClientQuotaComponent) int {
		got, err := a.DescribeClientQuotas(ctx, strict, cs)
		require.NoError(t, err)
		return len(got)
	}
	ann, odd := "ann", "a,b=c"
	require.Equal(t, 4, find(false))
	require.Equal(t, 2, find(false, kadm.DescribeClientQuotaComponent{Type: "user", MatchName: &ann}))
	require.Equal(t, 1, find(true, kadm.DescribeClientQuotaComponent{Type: "user", MatchName: &ann}))
	require.Equal(t, 1, find(false, kadm.DescribeClientQuotaComponent{Type: "client-id", MatchName: &odd}))
	require.Equal(t, 1, find(false, kadm.DescribeClientQuotaComponent{Type: "client-id", MatchType: 1}))
	require.Equal(t, 2, find(false, kadm.DescribeClientQuotaComponent{Type: "client-id", MatchType: 2}))
	require.NoError(t, alter(entity("ip", "10.0.0.1"), "connection_creation_rate", 0, true))
	require.Equal(t, 3, find(false))
}

// Goal: the most exact quota counts, a debt is waited for, and clients of one entity share what it has.
func TestCharge(t *testing.T) {
	c := &shifted{Clock: clock.Real()}
	n := start(t, func(o *Options) { o.Clock = still{c} })
	ctx := context.Background()
	a := n.admin()
	set := func(e kadm.ClientQuotaEntity, v float64) {
		rs, err := a.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: e, Ops: []kadm.AlterClientQuotaOp{{Key: producerRate, Value: v}}}})
		require.NoError(t, err)
		require.NoError(t, rs[0].Err)
	}
	user, client := "u", "c"
	charge := func(user, client string, n2 int) time.Duration {
		return n.f.quotas.charge(n.f, format.DefaultTenant, producerRate, user, client, n2)
	}
	require.Zero(t, charge("u", "c", 1<<40))
	set(kadm.ClientQuotaEntity{{Type: "user", Name: &user}}, 1000)
	require.Zero(t, charge("u", "c", 1000))
	require.Equal(t, time.Second, charge("u", "d", 1000))
	c.by.Add(time.Second.Microseconds())
	require.Equal(t, 500*time.Millisecond, charge("u", "c", 500))
	require.Zero(t, charge("v", "c", 1000))
	set(kadm.ClientQuotaEntity{{Type: "user", Name: &user}, {Type: "client-id", Name: &client}}, 10)
	require.Equal(t, time.Second, charge("u", "c", 20))
	require.Equal(t, throttleMax, charge("u", "c", 1<<30))
	set(kadm.ClientQuotaEntity{{Type: "user"}}, 100)
	require.Equal(t, time.Second, charge("v", "c", 200))
	require.Zero(t, charge("w", "c", 100))
}

// still is a clock that only a test moves.
type still struct{ *shifted }

func (s still) Mono() int64 { return s.by.Load() }

// Goal: a producer over its quota is told so.
func TestThrottled(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	a := n.admin()
	id := "slow"
	rs, err := a.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &id}},
		Ops: []kadm.AlterClientQuotaOp{{Key: producerRate, Value: 10_000}}}})
	require.NoError(t, err)
	require.NoError(t, rs[0].Err)
	throttles := &throttleHook{seen: make(chan time.Duration, 100)}
	cl := n.client(kgo.ClientID(id), kgo.WithHooks(throttles), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: make([]byte, 12_000)}).FirstErr())
	select {
	case d := <-throttles.seen:
		require.Positive(t, d)
	case <-time.After(patience):
		t.Fatal("nothing was told")
	}
}

type throttleHook struct{ seen chan time.Duration }

func (h *throttleHook) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	select {
	case h.seen <- d:
	default:
	}
}

// Goal: the bytes of a row are those of the format page, and names come back from names of rows.
func TestQuotaRow(t *testing.T) {
	b, err := json.Marshal(quotaRow{V: 1, Set: map[string]float64{producerRate: 5}})
	require.NoError(t, err)
	require.Equal(t, `{"v":1,"set":{"producer_byte_rate":5}}`, string(b))
	_, err = decodeQuota([]byte(`{"v":2}`))
	require.ErrorContains(t, err, "version 2")
	e := entity{{kind: quotaUser, name: quotaDefault}, {kind: quotaClient, rest: true}}
	require.Equal(t, "user=%3Cdefault%3E,client-id=<default>", e.row())
	back, err := parseEntity(e.row())
	require.NoError(t, err)
	require.Equal(t, e, back)
}

func FuzzQuotaRow(f *testing.F) {
	f.Add("user=a,client-id=<default>", []byte(`{"v":1,"set":{"producer_byte_rate":5}}`))
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		if e, err := parseEntity(name); err == nil {
			if again, err := parseEntity(e.row()); err != nil || again.row() != e.row() {
				t.Errorf("%q: %v", name, err)
			}
		}
		if r, err := decodeQuota(b); err == nil && r.V != quotaVersion {
			t.Error(r.V)
		}
	})
}
