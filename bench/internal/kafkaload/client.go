package kafkaload

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	keyProduce = 0
	keyFetch   = 1
)

// wire counts what the clients of a load send and read; kgo calls it.
type wire struct {
	produces, batches, fetches             atomic.Uint64
	produceBytes, fetchBytes, fetchedBytes atomic.Uint64
	fetchNanos                             atomic.Int64
}

// OnBrokerWrite counts a request.
func (w *wire) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, n int, _, _ time.Duration, _ error) {
	switch key {
	case keyProduce:
		w.produces.Add(1)
		w.produceBytes.Add(uint64(n))
	case keyFetch:
		w.fetches.Add(1)
		w.fetchBytes.Add(uint64(n))
	}
}

// OnBrokerRead counts a response, and how long it took from its request on until all of it was here.
func (w *wire) OnBrokerRead(_ kgo.BrokerMetadata, key int16, n int, wait, took time.Duration, _ error) {
	if key == keyFetch {
		w.fetchedBytes.Add(uint64(n))
		w.fetchNanos.Add(int64(wait + took))
	}
}

// OnProduceBatchWritten counts a record batch.
func (w *wire) OnProduceBatchWritten(kgo.BrokerMetadata, string, int32, kgo.ProduceBatchMetrics) {
	w.batches.Add(1)
}

func (r *run) client(name string, opts ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.o.Addr), kgo.ClientID(name), kgo.WithHooks(&r.wire),
		kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("kafkaload: %w", err)
	}
	return cl, nil
}

// prepare creates the topic and returns when every partition has a leader.
func (r *run) prepare() error {
	cl, err := r.client("setup")
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(r.ctx, r.o.Setup)
	defer cancel()
	if !r.o.Existing {
		if err := r.create(ctx, cl); err != nil {
			return err
		}
	}
	for {
		led, err := r.led(ctx, cl)
		switch {
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("kafkaload: metadata: %w", err)
		case ctx.Err() != nil:
			return fmt.Errorf("kafkaload: %d of %d partitions have a leader after %v: %w", led, r.o.Partitions, r.o.Setup, ctx.Err())
		case led == r.o.Partitions:
			return nil
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// create makes the topic, in as many steps as the broker needs.
func (r *run) create(ctx context.Context, cl *kgo.Client) error {
	step := r.o.CreateStep
	if step == 0 {
		step = r.o.Partitions
	}
	have := min(step, r.o.Partitions)
	if err := r.createTopic(ctx, cl, have); err != nil {
		return fmt.Errorf("kafkaload: create the topic with %d partitions: %w", have, err)
	}
	for have < r.o.Partitions {
		have = min(have+step, r.o.Partitions)
		if err := r.widen(ctx, cl, have); err != nil {
			return fmt.Errorf("kafkaload: widen the topic to %d partitions: %w", have, err)
		}
	}
	return nil
}

func (r *run) createTopic(ctx context.Context, cl *kgo.Client, partitions int) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(r.o.Setup.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = r.o.Topic, int32(partitions), 1
	if r.o.Retention > 0 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = "retention.ms", kmsg.StringPtr(strconv.FormatInt(r.o.Retention.Milliseconds(), 10))
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("the answer is about %d topics", len(resp.Topics))
	}
	return said(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage)
}

func (r *run) widen(ctx context.Context, cl *kgo.Client, partitions int) error {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = int32(r.o.Setup.Milliseconds())
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = r.o.Topic, int32(partitions)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("the answer is about %d topics", len(resp.Topics))
	}
	return said(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage)
}

func said(code int16, text *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && text != nil {
		return fmt.Errorf("%w (%s)", err, *text)
	}
	return err
}

// led is how many partitions of the topic have a leader.
func (r *run) led(ctx context.Context, cl *kgo.Client) (int, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(r.o.Topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return 0, err
	}
	led := 0
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 && p.Leader >= 0 {
				led++
			}
		}
	}
	return led, nil
}
