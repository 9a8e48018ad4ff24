package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"queen/bench/internal/load"
)

// target is the cluster as the loader sees it. It implements load.Target.
type target struct {
	urls   []string
	atomic bool
}

// subjects are those of the stream; the partition follows.
const subjects = "bench."

// formWithin is how long the servers may take to become a cluster that makes streams.
const formWithin = 60 * time.Second

// connect connects to the server whose place i leaves when divided by their number.
func (t *target) connect(o *load.Options, i int) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(t.urls[i%len(t.urls)], nats.IgnoreDiscoveredServers(), nats.Timeout(o.Timeout))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4*o.Batch), jetstream.WithDefaultTimeout(o.Timeout))
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, js, nil
}

// Prepare makes stream and consumer once the servers have formed a cluster.
func (t *target) Prepare(o *load.Options) error {
	deadline := time.Now().Add(formWithin)
	for {
		err := t.prepare(o)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (t *target) prepare(o *load.Options) error {
	nc, js, err := t.connect(o, 0)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// Creating what is there already, with the same settings, changes nothing: a try may have gone half-way.
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: o.Queue, Subjects: []string{subjects + "*"}, Storage: jetstream.FileStorage,
		Replicas: replicas, AllowAtomicPublish: true})
	if err != nil {
		return fmt.Errorf("create the stream: %w", err)
	}
	if o.Consumers == 0 {
		return nil
	}
	_, err = s.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: o.Group, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute,
		MaxAckPending: max(int(o.Backlog), o.Consumers*o.PopBatch) * 2})
	if err != nil {
		return fmt.Errorf("create the consumer: %w", err)
	}
	return nil
}

// Producer implements load.Target.
func (t *target) Producer(o *load.Options, i int) (load.Producer, error) {
	nc, js, err := t.connect(o, i)
	if err != nil {
		return nil, err
	}
	b := batch{nc: nc, timeout: o.Timeout}
	if t.atomic {
		return &atomicProducer{batch: b}, nil
	}
	return &asyncProducer{batch: b, js: js}, nil
}

// Consumer implements load.Target.
func (t *target) Consumer(o *load.Options, i int) (load.Consumer, error) {
	nc, js, err := t.connect(o, i)
	if err != nil {
		return nil, err
	}
	c, err := newConsumer(nc, js, o)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}
