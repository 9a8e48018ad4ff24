package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"queen/bench/internal/client"
	"queen/bench/internal/load"
)

// consumer takes what the client pulls ahead, and acks it.
type consumer struct {
	nc      *nats.Conn
	most    int // messages of a pop
	timeout time.Duration
	pulling jetstream.ConsumeContext
	came    chan jetstream.Msg
	popped  []jetstream.Msg
	inbox   string
	acks    *nats.Subscription // confirmations of acks
}

func newConsumer(nc *nats.Conn, js jetstream.JetStream, o *load.Options) (*consumer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	durable, err := js.Consumer(ctx, o.Queue, o.Group)
	if err != nil {
		return nil, err
	}
	c := &consumer{nc: nc, most: o.PopBatch, timeout: o.Timeout, came: make(chan jetstream.Msg, o.PopBatch), inbox: nats.NewInbox()}
	if c.acks, err = nc.SubscribeSync(c.inbox); err != nil {
		return nil, err
	}
	c.pulling, err = durable.Consume(func(m jetstream.Msg) { c.came <- m }, jetstream.PullMaxMessages(o.PopBatch))
	return c, err
}

// Pop takes what has come, and waits for the first message.
func (c *consumer) Pop(d *client.Delivery) (load.Reply, error) {
	d.Messages, c.popped = d.Messages[:0], c.popped[:0]
	wait := time.NewTimer(load.PopWait)
	defer wait.Stop()
	select {
	case m := <-c.came:
		c.popped = append(c.popped, m)
	case <-wait.C:
		return load.Reply{}, nil
	}
	for len(c.popped) < c.most && len(c.came) > 0 {
		c.popped = append(c.popped, <-c.came)
	}
	for _, m := range c.popped {
		about, err := m.Metadata()
		if err != nil {
			return load.Reply{Refused: err}, nil
		}
		partition := []byte(m.Subject()[len(subjects):])
		d.Messages = append(d.Messages, client.Message{Partition: partition, PartitionID: partition, Data: m.Data(), Attempt: about.NumDelivered})
	}
	return load.Reply{}, nil
}

// Ack acks each message and waits until the server has confirmed all: a confirmed ack is one that a majority has.
func (c *consumer) Ack() (r load.Reply, err error) {
	for _, m := range c.popped {
		if err := c.nc.PublishMsg(&nats.Msg{Subject: m.Reply(), Reply: c.inbox, Data: []byte("+ACK")}); err != nil {
			return r, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	for range c.popped {
		if _, err := c.acks.NextMsgWithContext(ctx); err != nil {
			return load.Reply{Refused: fmt.Errorf("an ack was not confirmed: %w", err)}, nil
		}
		r.Acked++
	}
	return r, nil
}

// Close stops pulling. What was pulled and not acked comes to another consumer later.
func (c *consumer) Close() {
	c.pulling.Stop()
	c.nc.Close()
}
