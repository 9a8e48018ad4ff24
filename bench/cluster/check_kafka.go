package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// judgeKafka reads the topics over Kafka from each node itself, as a reader of committed records.
func (h *history) judgeKafka(c servers) {
	var brokers []*broker
	for node := range c.Len() {
		if !c.Up(node) || h.patience.over(node) {
			continue
		}
		// The newest version in which topics are fetched by name.
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Kafka(node)), kgo.DisableClientMetrics(), kgo.MaxVersions(kversion.V2_8_0()))
		if err != nil {
			h.violate("a reader over Kafka: %v", err)
			return
		}
		defer cl.Close()
		brokers = append(brokers, &broker{node, cl.SeedBrokers()[0], &h.patience})
	}
	for _, topic := range []string{natTopic, kafTopic, outTopic} {
		for p := range topicLanes {
			end := int64(0)
			for _, b := range brokers {
				end = max(end, b.end(topic, p))
			}
			for _, b := range brokers {
				if h.patience.over(b.node) {
					continue
				}
				if err := b.judge(h, topic, p, end); err != nil {
					h.violate("read over Kafka from node %d: %v", b.node+1, err)
				}
			}
		}
	}
}

// judge reads a partition, which ends no earlier than some node says.
func (b *broker) judge(h *history, topic string, partition int, end int64) error {
	if topic == outTopic {
		out := copying{from: h.lanes[place{0, kafTopic, fmt.Sprint(partition)}]}
		if err := b.read(topic, partition, end, func(r *kgo.Record) error { return out.take(r.Offset, r.Value) }); err != nil {
			return fmt.Errorf("%s/%d: %w", topic, partition, err)
		}
		if h.short {
			return nil
		}
		return out.end()
	}
	l := h.lanes[place{0, topic, fmt.Sprint(partition)}]
	reading := l.read(b.node)
	err := b.read(topic, partition, end, func(r *kgo.Record) error {
		w, n, ok := parsePayload(r.Value)
		if !ok {
			return badPayload(l, r.Offset, r.Value)
		}
		return reading.take(w, n, r.Offset, time.Time{})
	})
	if err != nil {
		return err
	}
	return reading.end()
}

// broker is one node as a Kafka client reads it.
type broker struct {
	node     int
	conn     *kgo.Broker
	patience *patience
}

// end is where the node says that a partition ends, 0 when it does not.
func (b *broker) end(topic string, partition int) int64 {
	if b.patience.over(b.node) {
		return 0
	}
	asked := time.Now()
	resp, err := b.fetch(topic, partition, 0)
	if err != nil {
		b.patience.again(b.node, asked) // who does not answer is found when it is read
		return 0
	}
	return resp.LastStableOffset
}

// copying judges a partition that transactions made of a lane.
type copying struct {
	from *lane
	at   int // of the lane: the next that has to come
}

func (c *copying) take(offset int64, value []byte) error {
	w, n, ok := parsePayload(value)
	if !ok {
		return fmt.Errorf("offset %d holds %.100q", offset, value)
	}
	c.from.mu.Lock()
	defer c.from.mu.Unlock()
	if c.at >= len(c.from.told) {
		return fmt.Errorf("offset %d holds message %d of writer %d, and all %d were there before", offset, n, w, c.at)
	}
	if want := c.from.told[c.at]; want != key(w, n) {
		return fmt.Errorf("offset %d holds message %d of writer %d where what is at offset %d belongs, message %d of writer %d", offset, n, w, c.at,
			want&(1<<40-1), int64(want>>40)-1)
	}
	c.at++
	return nil
}

func (c *copying) end() error {
	if top := c.from.top(); int64(c.at) < top {
		return fmt.Errorf("%s/%s holds %d messages of %d", outTopic, c.from.partition, c.at, top)
	}
	return nil
}

// read gives the records of a partition from the node, up to its end, which is no lower than least. It stops at the first
// error.
func (b *broker) read(topic string, partition int, least int64, visit func(*kgo.Record) error) error {
	for at := int64(0); ; {
		asked := time.Now()
		resp, err := b.fetch(topic, partition, at)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil || at < least && len(resp.RecordBatches) == 0 {
			if !b.patience.again(b.node, asked) {
				return fmt.Errorf("%s/%d can not be read from offset %d on: %v", topic, partition, at, err)
			}
			continue
		}
		part, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: at, IsolationLevel: kgo.ReadCommitted(), Topic: topic,
			Partition: int32(partition)}, resp, kgo.DefaultDecompressor(), nil)
		if part.Err != nil {
			return fmt.Errorf("%s/%d at offset %d: %w", topic, partition, at, part.Err)
		}
		for _, r := range part.Records {
			if err := visit(r); err != nil {
				return err
			}
		}
		switch {
		case next > at:
			at = next
		case at >= resp.LastStableOffset:
			return nil
		case !b.patience.again(b.node, asked):
			return fmt.Errorf("%s/%d gives nothing at offset %d, and says that it ends at %d", topic, partition, at, resp.LastStableOffset)
		}
	}
}

func (b *broker) fetch(topic string, partition int, at int64) (*kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 100, 1, 16<<20, 1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(partition), at, 4<<20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, b.conn)
	switch {
	case err != nil:
		return nil, err
	case len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1:
		return nil, fmt.Errorf("an answer about %d topics, code %d", len(resp.Topics), resp.ErrorCode)
	}
	return &resp.Topics[0].Partitions[0], nil
}
