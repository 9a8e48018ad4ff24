package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is there before the requests: a topic of two partitions, three records in the first of them, a position of a group.
const (
	topicThere = "compared"
	groupThere = "comparers"
	nowhere    = "nowhere"
	// stamp is the time of the first record, milliseconds; each next is a second later.
	stamp = 1_700_000_000_000
)

// prepare puts a side into the state that requests are about.
func (s *side) prepare(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer cl.Close()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 5000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topicThere, 2, 1
	create.Topics = append(create.Topics, t)
	made, err := create.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(made.Topics[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("the topic is not made (both sides must be new): %w", err)
	}
	for i := range 3 {
		r := &kgo.Record{Topic: topicThere, Key: []byte("k"), Value: fmt.Appendf(nil, "value %d", i),
			Timestamp: time.UnixMilli(stamp + int64(i)*1000)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			return err
		}
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation = groupThere, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.Metadata = 2, kmsg.StringPtr("said")
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topicThere, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	if _, err := commit.RequestWith(ctx, cl); err != nil {
		return err
	}
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(topicThere)}}
	got, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	s.id = got.Topics[0].TopicID
	return nil
}
