package frontendkafka

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/format"
)

// admin makes a client of administration.
func (n *testNode) admin() *kadm.Client { return kadm.NewClient(n.client()) }

// configs are those of a topic by name.
func configs(t *testing.T, a *kadm.Client, topic string) map[string]kadm.Config {
	t.Helper()
	all, err := a.DescribeTopicConfigs(context.Background(), topic)
	require.NoError(t, err)
	require.NoError(t, all[0].Err)
	m := map[string]kadm.Config{}
	for _, c := range all[0].Configs {
		m[c.Key] = c
	}
	return m
}

func set(name, value string) kadm.AlterConfig {
	return kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value}
}

// Goal: a topic's configuration is what was set, and a topic that is made again starts clean.
func TestTopicConfigs(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	a := n.admin()
	five := "60000"
	made, err := a.CreateTopic(ctx, 3, 1, map[string]*string{retentionMs: &five, maxMessageBytes: kmsg.StringPtr("50000")}, "c")
	require.NoError(t, err)
	require.EqualValues(t, 3, made.NumPartitions)
	require.NotZero(t, made.ID)

	got := configs(t, a, "c")
	require.Len(t, got, len(topicConfigs))
	require.Equal(t, "60000", *got[retentionMs].Value)
	require.Equal(t, kmsg.ConfigSourceDynamicTopicConfig, got[retentionMs].Source)
	require.Equal(t, "delete", *got[cleanupPolicy].Value)
	require.Equal(t, kmsg.ConfigSourceDefaultConfig, got[cleanupPolicy].Source)
	q, err := n.engine.Catalog().Topic(ctx, n.caller(), "c")
	require.NoError(t, err)
	require.True(t, q.Options.RetentionEnabled)
	require.EqualValues(t, 60, q.Options.RetentionSeconds)
	require.Zero(t, q.Options.DedupWindowSeconds)
	tp, err := n.f.topic(ctx, n.caller(), "c")
	require.NoError(t, err)
	require.Equal(t, &topicSettings{maxMessageBytes: 50000}, n.f.settings(n.caller(), tp))

	// Half seconds are kept and enforced; compaction switches removal off.
	alter(t, a, "c", nil, set(retentionMs, "1500"), set(retentionBytes, "4000"), set(timestampType, "LogAppendTime"))
	require.Equal(t, "1500", *configs(t, a, "c")[retentionMs].Value)
	require.True(t, n.f.settings(n.caller(), tp).appendTime)
	alter(t, a, "c", nil, kadm.AlterConfig{Op: kadm.AppendConfig, Name: cleanupPolicy, Value: kmsg.StringPtr("compact")})
	require.Equal(t, "delete,compact", *configs(t, a, "c")[cleanupPolicy].Value)
	alter(t, a, "c", nil, kadm.AlterConfig{Op: kadm.SubtractConfig, Name: cleanupPolicy, Value: kmsg.StringPtr("delete")})
	require.Equal(t, "1500", *configs(t, a, "c")[retentionMs].Value)
	require.True(t, n.f.settings(n.caller(), tp).compact)
	q, err = n.engine.Catalog().Topic(ctx, n.caller(), "c")
	require.NoError(t, err)
	require.False(t, q.Options.RetentionEnabled)
	require.Zero(t, q.Options.RetentionBytes)
	require.Equal(t, "4000", *configs(t, a, "c")[retentionBytes].Value)
	alter(t, a, "c", nil, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: cleanupPolicy})
	q, err = n.engine.Catalog().Topic(ctx, n.caller(), "c")
	require.NoError(t, err)
	require.EqualValues(t, 2, q.Options.RetentionSeconds)
	require.EqualValues(t, 1500, q.Options.RetentionMs)
	require.EqualValues(t, 4000, q.Options.RetentionBytes)

	// What others configure is told.
	_, err = n.engine.Catalog().Configure(ctx, n.caller(), engine.ConfigureRequest{Queue: "c", Patch: format.QueueOptions{
		Set: format.OptRetentionSeconds | format.OptRetentionBytes, RetentionSeconds: 7}})
	require.NoError(t, err)
	require.Equal(t, "7000", *configs(t, a, "c")[retentionMs].Value)
	require.Equal(t, "-1", *configs(t, a, "c")[retentionBytes].Value)
	alter(t, a, "c", nil, set("segment.ms", "5"))
	require.Equal(t, "7000", *configs(t, a, "c")[retentionMs].Value)
	for _, name := range []string{retentionMs, retentionBytes} {
		alter(t, a, "c", nil, set(name, "0"))
		require.Equal(t, "0", *configs(t, a, "c")[name].Value)
		alter(t, a, "c", nil, set(name, maxLong))
		require.Equal(t, maxLong, *configs(t, a, "c")[name].Value)
		alter(t, a, "c", nil, set(name, "-1"))
		require.Equal(t, "-1", *configs(t, a, "c")[name].Value)
	}

	for name, value := range map[string]string{"nonsense": "1", retentionMs: "x", cleanupPolicy: "burn", "preallocate": "maybe",
		minInsync: "2", "min.cleanable.dirty.ratio": "NaN", "segment.bytes": "13"} {
		alter(t, a, "c", kerr.InvalidConfig, set(name, value))
	}
	alter(t, a, "c", kerr.InvalidConfig, kadm.AlterConfig{Op: kadm.AppendConfig, Name: retentionMs, Value: &five})
	alter(t, a, "none", kerr.UnknownTopicOrPartition, set(retentionMs, "1"))

	_, err = a.DeleteTopics(ctx, "c")
	require.NoError(t, err)
	_, err = a.CreateTopic(ctx, -1, -1, nil, "c")
	require.NoError(t, err)
	for name, c := range configs(t, a, "c") {
		require.Equal(t, kmsg.ConfigSourceDefaultConfig, c.Source, name)
	}
}

func alter(t *testing.T, a *kadm.Client, topic string, want error, ops ...kadm.AlterConfig) {
	t.Helper()
	rs, err := a.AlterTopicConfigs(context.Background(), ops, topic)
	require.NoError(t, err)
	require.Equal(t, want, rs[0].Err, rs[0].ErrMessage)
}

// Goal: a queue that was deleted and made again by others does not inherit configuration either.
func TestConfigOfAnotherLife(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	a := n.admin()
	_, err := a.CreateTopic(ctx, 1, 1, map[string]*string{"segment.ms": kmsg.StringPtr("5")}, "c")
	require.NoError(t, err)
	_, err = n.engine.Catalog().DeleteQueue(ctx, n.caller(), "c")
	require.NoError(t, err)
	_, err = a.CreateTopic(ctx, 1, 1, nil, "c")
	require.NoError(t, err)
	require.Equal(t, kmsg.ConfigSourceDefaultConfig, configs(t, a, "c")["segment.ms"].Source)
	alter(t, a, "c", nil, set("segment.ms", "6"))
	require.Equal(t, "6", *configs(t, a, "c")["segment.ms"].Value)

	_, err = n.engine.Catalog().DeleteQueue(ctx, n.caller(), "c")
	require.NoError(t, err)
	require.True(t, n.f.sweepRecorded(ctx, format.DefaultTenant))
	require.Empty(t, n.engine.AdminRows(format.DefaultTenant, format.AdminKafkaConfig, "", 9))
}

// Goal: a topic holds the bytes it shall and drops the rest, oldest first, whoever wrote them; others keep everything.
func TestRetentionBytes(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	a := n.admin()
	for name, keep := range map[string]string{"bounded": "5000", "free": "-1"} {
		_, err := a.CreateTopic(ctx, 2, 1, map[string]*string{retentionBytes: &keep}, name)
		require.NoError(t, err)
		n.push(name, "1", 10, 2000)
	}
	n.engine.Settle()
	bounds := func(topic string) (start, end format.Offset) {
		p, err := n.engine.Catalog().Partition(ctx, n.caller(), topic, "1")
		require.NoError(t, err)
		return p.Start, p.End
	}
	start, end := bounds("bounded")
	require.EqualValues(t, 7, start)
	require.EqualValues(t, 10, end)
	start, _ = bounds("free")
	require.Zero(t, start)
	n.engine.Settle()
	start, _ = bounds("bounded")
	require.EqualValues(t, 7, start)
	n.push("bounded", "1", 1, 2000)
	n.engine.Settle()
	start, _ = bounds("bounded")
	require.EqualValues(t, 8, start)

	other := engine.Caller{Tenant: format.Tenant{0: 9}}
	made, err := n.f.createTopic(ctx, other, "theirs", 1)
	require.NoError(t, err)
	require.NoError(t, n.f.apply(ctx, other, made, recorded{}, map[string]string{retentionBytes: "1"}))
	_, err = n.engine.Do(ctx, other, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "theirs", Partition: "0",
		Messages: []engine.Message{{Payload: []byte("1")}}}, &engine.Append{Queue: "theirs", Partition: "0",
		Messages: []engine.Message{{Payload: []byte("2")}}}}})
	require.NoError(t, err)
	n.engine.Settle()
	p, err := n.engine.Catalog().Partition(ctx, other, "theirs", "0")
	require.NoError(t, err)
	require.NotZero(t, p.Start)
}

// Goal: everything that is described can be sent back, which is how older tools change one value.
func TestReadModifyWrite(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	a := n.admin()
	_, err := a.CreateTopic(ctx, 1, 1, nil, "c")
	require.NoError(t, err)
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version = 2
	res := kmsg.NewAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = aTopic, "c"
	for name, c := range configs(t, a, "c") {
		kv := kmsg.NewAlterConfigsRequestResourceConfig()
		if kv.Name, kv.Value = name, c.Value; name == retentionMs {
			kv.Value = kmsg.StringPtr("12000")
		}
		res.Configs = append(res.Configs, kv)
	}
	req.Resources = append(req.Resources, res)
	c := n.dial()
	require.Zero(t, c.ask(req).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode)
	require.Equal(t, "12000", *configs(t, a, "c")[retentionMs].Value)
	req.Resources[0].Configs = nil
	require.Zero(t, c.ask(req).(*kmsg.AlterConfigsResponse).Resources[0].ErrorCode)
	require.Equal(t, "-1", *configs(t, a, "c")[retentionMs].Value)
	req.Resources = append(req.Resources, req.Resources[0])
	require.Equal(t, kerr.InvalidRequest.Code, c.ask(req).(*kmsg.AlterConfigsResponse).Resources[1].ErrorCode)
}

// Goal: brokers and groups have configuration, too; what a node was started with stays.
func TestBrokerAndGroupConfigs(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	a := n.admin()
	all, err := a.DescribeBrokerConfigs(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, all[0].Err)
	found := map[string]string{}
	for _, c := range all[0].Configs {
		found[c.Key] = *c.Value
	}
	require.Equal(t, "4", found["num.partitions"])
	require.Equal(t, "PLAINTEXT://"+n.addr, found["advertised.listeners"])
	rs, err := a.AlterBrokerConfigs(ctx, []kadm.AlterConfig{set("num.io.threads", "9")}, 1)
	require.NoError(t, err)
	require.NoError(t, rs[0].Err)
	rs, err = a.AlterBrokerConfigs(ctx, []kadm.AlterConfig{set("num.partitions", "9")}, 1)
	require.NoError(t, err)
	require.ErrorIs(t, rs[0].Err, kerr.InvalidRequest)
	rs, err = a.AlterBrokerConfigs(ctx, []kadm.AlterConfig{set("num.io.threads", "9")}, 7)
	require.True(t, err != nil || rs[0].Err != nil)

	inc := kmsg.NewPtrIncrementalAlterConfigsRequest()
	inc.Version = 1
	inc.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: aGroup, ResourceName: "g",
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "consumer.session.timeout.ms", Value: kmsg.StringPtr("7000")}}}}
	require.Zero(t, n.dial().ask(inc).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
	require.Equal(t, "7000", n.f.groupSettings(n.caller(), "g")["consumer.session.timeout.ms"])
	require.Equal(t, "5000", n.f.groupSettings(n.caller(), "g")["consumer.heartbeat.interval.ms"])

	_, err = a.CreateTopic(ctx, 1, 1, nil, "c")
	require.NoError(t, err)
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.Version = 1
	require.Equal(t, []kmsg.ListConfigResourcesResponseConfigResource{{Name: "c", Type: 2}, {Name: offsetsTopic, Type: 2}, {Name: "1", Type: 4},
		{Name: "1", Type: 8}, {Name: "g", Type: 32}}, n.dial().ask(req).(*kmsg.ListConfigResourcesResponse).ConfigResources)
}

// Goal: every default is a value that is taken.
func TestConfigDefaults(t *testing.T) {
	n := start(t, nil)
	for _, names := range []configNames{topicConfigs, groupConfigs, n.f.brokerConfigs()} {
		seen := map[string]bool{}
		for _, c := range names {
			require.False(t, seen[c.name], c.name)
			seen[c.name] = true
			require.NotEmpty(t, c.doc)
			if c.def != "" || c.kind != tList {
				require.NoError(t, c.valid(c.def), c.name)
			}
		}
	}
}

// Goal: the bytes of a row are those of the format page, and a newer one is refused.
func TestRecordedRow(t *testing.T) {
	b, err := json.Marshal(recorded{V: 1, Topic: lifeName(format.UUID{15: 9}), Set: map[string]string{"a": "b"}})
	require.NoError(t, err)
	require.Equal(t, `{"v":1,"topic":"00000000-0000-0000-0000-000000000009","set":{"a":"b"}}`, string(b))
	_, err = decodeRecorded([]byte(`{"v":2,"set":{}}`))
	require.ErrorContains(t, err, "version 2")
}

func FuzzRecordedRow(f *testing.F) {
	f.Add([]byte(`{"v":1,"set":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeRecorded(b); err == nil && r.V != recordedVersion {
			t.Error(r.V)
		}
	})
}
