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
)

// stamp is the time of the first record, milliseconds; each next is a second later. It is of today: Apache Kafka begins a new segment,
// which a fetch does not read into, where the times of records are a week apart, as those of an old record and of a marker would be.
var stamp = time.Now().Add(-time.Hour).UnixMilli()

// prepare puts a side into the state that requests are about.
func (s *side) prepare(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer cl.Close()
	if s.id, err = s.create(topicThere, 2); err != nil {
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
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topicThere, TopicID: s.id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	if err := s.commit(ctx, cl, commit); err != nil {
		return fmt.Errorf("%s: commit: %w", s.addr, err)
	}
	return s.coordinate(ctx, cl)
}

// commit returns when a position is taken: the coordinator of a group may be new to the topic, or the topic to it.
func (s *side) commit(ctx context.Context, cl *kgo.Client, req *kmsg.OffsetCommitRequest) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(askAgain) {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return fmt.Errorf("the answer is about %d topics", len(resp.Topics))
		}
		if err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// coordinate returns when transactions have a coordinator: one that is new makes a topic for them first.
func (s *side) coordinate(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr(nowhere+"-else"), 60_000
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// create makes a topic, waits until its partitions have leaders and returns its id.
func (s *side) create(name string, partitions int32) (id [16]byte, err error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = min(5, s.served[int16(kmsg.CreateTopics)][1]), 5000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, t)
	resp, err := s.ask(req)
	if err != nil {
		return id, fmt.Errorf("%s: create %s: %w", s.addr, name, err)
	}
	if made := resp.(*kmsg.CreateTopicsResponse).Topics; len(made) != 1 || made[0].ErrorCode != 0 {
		return id, fmt.Errorf("%s: create %s: %+v", s.addr, name, made)
	}
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = min(12, s.served[int16(kmsg.Metadata)][1])
	meta.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(name)}}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(askAgain) {
		resp, err := s.ask(meta)
		if err != nil {
			return id, fmt.Errorf("%s: metadata of %s: %w", s.addr, name, err)
		}
		if all := resp.(*kmsg.MetadataResponse).Topics; len(all) == 1 && led(&all[0], partitions) {
			return all[0].TopicID, nil
		}
	}
	return id, fmt.Errorf("%s: %s has no leader after %v", s.addr, name, patience)
}

// led tells whether as many partitions of a topic have a leader.
func led(t *kmsg.MetadataResponseTopic, partitions int32) bool {
	n := int32(0)
	for _, p := range t.Partitions {
		if p.ErrorCode == 0 && p.Leader >= 0 {
			n++
		}
	}
	return t.ErrorCode == 0 && n == partitions
}
