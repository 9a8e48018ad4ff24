package frontendkafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
)

// Goal: topics are made, widened and deleted, and everybody sees it at once.
func TestTopics(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	a := n.admin()
	for _, c := range []struct {
		name   string
		width  int32
		rf     int16
		config string
		want   *kerr.Error
	}{
		{"a", 3, 1, "", nil}, {"a", 3, 1, "", kerr.TopicAlreadyExists}, {"b", -1, -1, "", nil}, {"c", 0, 1, "", kerr.InvalidPartitions},
		{"c", -2, 1, "", kerr.InvalidPartitions}, {"c", 1_000_001, 1, "", kerr.InvalidPartitions}, {"c", 1, 2, "", kerr.InvalidReplicationFactor},
		{"c", 1, 0, "", kerr.InvalidReplicationFactor}, {"__c", 1, 1, "", kerr.InvalidTopicException}, {"a/b", 1, 1, "", kerr.InvalidTopicException},
		{"c", 1, 1, "nonsense", kerr.InvalidConfig},
	} {
		configs := map[string]*string{}
		if c.config != "" {
			configs[c.config] = kmsg.StringPtr("x")
		}
		rs, err := a.CreateTopics(ctx, c.width, c.rf, configs, c.name)
		require.NoError(t, err)
		if c.want == nil {
			require.NoError(t, rs[c.name].Err)
		} else {
			require.ErrorIs(t, rs[c.name].Err, c.want, "%+v: %s", c, rs[c.name].ErrMessage)
		}
	}
	width := func(name string) int {
		found, err := a.ListTopics(ctx, name)
		require.NoError(t, err)
		return len(found[name].Partitions)
	}
	require.Equal(t, 3, width("a"))
	require.Equal(t, 4, width("b"))
	v, err := a.ValidateCreateTopics(ctx, 2, 1, nil, "valid")
	require.NoError(t, err)
	require.NoError(t, v["valid"].Err)
	_, err = n.engine.Catalog().Topic(ctx, n.caller(), "valid")
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeUnknownQueue})

	for count, want := range map[int]error{3: kerr.InvalidPartitions, 2: kerr.InvalidPartitions, 1_000_001: kerr.InvalidPartitions} {
		rs, err := a.UpdatePartitions(ctx, count, "a")
		require.NoError(t, err)
		require.ErrorIs(t, rs["a"].Err, want)
	}
	rs, err := a.UpdatePartitions(ctx, 9, "a", "none")
	require.NoError(t, err)
	require.NoError(t, rs["a"].Err)
	require.ErrorIs(t, rs["none"].Err, kerr.UnknownTopicOrPartition)
	require.Equal(t, 9, width("a"))

	ds, err := a.DeleteTopics(ctx, "a", "none", "__x")
	require.NoError(t, err)
	require.NoError(t, ds["a"].Err)
	require.ErrorIs(t, ds["none"].Err, kerr.UnknownTopicOrPartition)
	require.ErrorIs(t, ds["__x"].Err, kerr.UnknownTopicOrPartition)
	_, err = n.engine.Catalog().Topic(ctx, n.caller(), "a")
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeUnknownQueue})
}

// Goal: the width is what is declared, or the default, and what decimal partitions need; other names count for nothing.
func TestWidth(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	push := func(queue, partition string) {
		_, err := n.engine.Do(ctx, n.caller(), engine.Batch{Ops: []engine.Op{&engine.Append{Queue: queue, Partition: partition,
			Messages: []engine.Message{{Payload: []byte("1")}}}}})
		require.NoError(t, err)
	}
	width := func(name string) int32 {
		found, err := n.f.topic(ctx, n.caller(), name)
		require.NoError(t, err)
		return found.width
	}
	for i := range 9 {
		push("q", fmt.Sprintf("customer-%d", i))
	}
	push("q", "007")
	require.EqualValues(t, 4, width("q"))
	push("q", "11")
	require.EqualValues(t, 12, width("q"))
	_, err := n.admin().CreateTopic(ctx, 2, 1, nil, "t")
	require.NoError(t, err)
	require.EqualValues(t, 2, width("t"))
	push("t", "5")
	require.EqualValues(t, 6, width("t"))
}

// Goal: replicas can be assigned as long as they are brokers; partitions are everywhere anyway.
func TestAssignments(t *testing.T) {
	n := start(t, nil)
	c := n.dial()
	ask := func(width int32, replicas ...[]int32) int16 {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version = 5
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = "t", width, -1
		for i, r := range replicas {
			t.ReplicaAssignment = append(t.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: r})
		}
		req.Topics = append(req.Topics, t)
		return c.ask(req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
	}
	require.Equal(t, kerr.InvalidRequest.Code, ask(2, []int32{1}, []int32{1}))
	require.Equal(t, kerr.InvalidReplicaAssignment.Code, ask(-1, []int32{1}, []int32{2}))
	require.Equal(t, kerr.InvalidReplicaAssignment.Code, ask(-1, []int32{1}, nil))
	require.Equal(t, kerr.InvalidReplicaAssignment.Code, ask(-1, []int32{1, 1}))
	require.Zero(t, ask(-1, []int32{1}, []int32{1}, []int32{1}))
	require.Len(t, topicsOf(c, 9, false, "t")[0].Partitions, 3)
}

// Goal: whoever makes a topic first makes it; nobody's width is overwritten.
func TestConcurrentCreation(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	_, err := n.f.createTopic(ctx, n.caller(), "u", 3)
	require.NoError(t, err)
	_, err = n.f.createTopic(ctx, n.caller(), "u", 2)
	require.ErrorIs(t, err, kerr.TopicAlreadyExists)
	u, err := n.f.topic(ctx, n.caller(), "u")
	require.NoError(t, err)
	require.EqualValues(t, 3, u.width)

	var wg sync.WaitGroup
	won := make([]int, 8)
	for i := range won {
		wg.Go(func() {
			rs, err := n.admin().CreateTopics(ctx, int32(i+1), 1, nil, "t")
			if err == nil && rs["t"].Err == nil {
				won[i] = i + 1
			} else if !errors.Is(rs["t"].Err, kerr.TopicAlreadyExists) {
				t.Error(err, rs["t"].Err)
			}
		})
		wg.Go(func() { topicsOf(n.dial(), 9, true, "t") })
	}
	wg.Wait()
	winners := 0
	for _, w := range won {
		if w > 0 {
			winners++
			found, err := n.f.topic(ctx, n.caller(), "t")
			require.NoError(t, err)
			require.EqualValues(t, w, found.width)
		}
	}
	require.LessOrEqual(t, winners, 1)
}

// Goal: a topic can be deleted by its id, and only while it has it.
func TestDeleteByID(t *testing.T) {
	n, ctx := start(t, nil), context.Background()
	cl := n.client()
	a := kadm.NewClient(cl)
	made, err := a.CreateTopic(ctx, 1, 1, nil, "t")
	require.NoError(t, err)
	del := func(topic kmsg.DeleteTopicsRequestTopic) int16 {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.Topics = 6, []kmsg.DeleteTopicsRequestTopic{topic}
		return n.dial().ask(req).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode
	}
	require.Equal(t, kerr.InvalidRequest.Code, del(kmsg.DeleteTopicsRequestTopic{Topic: kmsg.StringPtr("t"), TopicID: made.ID}))
	require.Zero(t, del(kmsg.DeleteTopicsRequestTopic{TopicID: made.ID}))
	require.Equal(t, kerr.UnknownTopicID.Code, del(kmsg.DeleteTopicsRequestTopic{TopicID: made.ID}))
}
