package load

import (
	"fmt"

	"queen/bench/internal/client"
)

// HTTP is a node, or several of one cluster, over keep-alive connections. It implements Target.
type HTTP struct {
	// Addrs are addresses of nodes; connection i goes to the one whose place i leaves when divided by their number.
	Addrs []string
	// Tenant, when set, is who calls.
	Tenant string
}

func (t *HTTP) conn(o *Options, i int) *client.Conn {
	c := client.New(t.Addrs[i%len(t.Addrs)], o.Timeout)
	c.Tenant = t.Tenant
	return c
}

// Prepare implements Target.
func (t *HTTP) Prepare(o *Options) error {
	c := t.conn(o, 0)
	defer c.Close()
	options := o.Configure
	if options == "" {
		options = "{}"
	}
	a, err := c.Do("POST", "/api/v1/configure", fmt.Appendf(nil, `{"queue":%q,"options":%s}`, o.Queue, options))
	if err == nil {
		err = a.Err()
	}
	if err != nil {
		return fmt.Errorf("load: configure: %w", err)
	}
	if o.Consumers == 0 {
		return nil
	}
	pop := client.PopRequest{Queue: o.Queue, Group: o.Group, Batch: 1, All: true}
	if a, err = c.Do("GET", pop.Path(), nil); err == nil {
		err = a.Err()
	}
	if err == nil && a.Status != 204 {
		err = fmt.Errorf("the queue %q is not fresh: %.200s", o.Queue, a.Body)
	}
	if err != nil {
		return fmt.Errorf("load: register: %w", err)
	}
	return nil
}

// Producer implements Target.
func (t *HTTP) Producer(o *Options, i int) (Producer, error) {
	return &httpProducer{Conn: t.conn(o, i), queue: []byte(o.Queue)}, nil
}

// Consumer implements Target.
func (t *HTTP) Consumer(o *Options, i int) (Consumer, error) {
	pop := client.PopRequest{Queue: o.Queue, Group: o.Group, Batch: o.PopBatch, Partitions: o.PopPartitions, Wait: PopWait, All: true}
	return &httpConsumer{Conn: t.conn(o, i), path: pop.Path(), group: o.Group}, nil
}

type httpProducer struct {
	*client.Conn
	queue []byte
}

func (p *httpProducer) Begin() { p.PushBegin() }

func (p *httpProducer) Item(partition, id, payload []byte) {
	p.PushItem(p.queue, partition, id, payload)
}

func (p *httpProducer) Send() (Reply, error) {
	a, err := p.PushSend()
	if err != nil {
		return Reply{}, err
	}
	r := replyOf(&a, 201)
	if r.Refused == nil && !r.Later {
		r.Queued, r.Duplicates = client.CountQueued(a.Body)
	}
	return r, nil
}

// replyOf judges an answer that should have a status.
func replyOf(a *client.Answer, want int) Reply {
	r := Reply{Text: a.Body}
	switch a.Status {
	case want:
	case 429, 507:
		r.Later, r.Wait = true, a.RetryAfter
	case 503: // it may have been carried out
		r.Later, r.Unsure, r.Wait = true, true, a.RetryAfter
	default:
		if r.Refused = a.Err(); r.Refused == nil {
			r.Refused = fmt.Errorf("status %d: %.300s", a.Status, a.Body)
		}
	}
	return r
}

type httpConsumer struct {
	*client.Conn
	path, group string
}

// Pop builds the acks of what comes at once, since the answer that d shows is overwritten by the next one.
func (c *httpConsumer) Pop(d *client.Delivery) (Reply, error) {
	d.Messages = d.Messages[:0]
	a, err := c.Do("GET", c.path, nil)
	if err != nil || a.Status == 204 {
		return Reply{}, err
	}
	r := replyOf(&a, 200)
	if r.Refused != nil || r.Later {
		return r, nil
	}
	if r.Refused = client.ParsePop(a.Body, d); r.Refused != nil {
		return r, nil
	}
	c.AckBegin()
	for i := range d.Messages {
		m := &d.Messages[i]
		c.AckItem(m.ID, m.PartitionID, d.Lease)
	}
	return r, nil
}

func (c *httpConsumer) Ack() (Reply, error) {
	a, err := c.AckSend(c.group)
	if err != nil {
		return Reply{}, err
	}
	r := replyOf(&a, 200)
	if r.Refused == nil && !r.Later {
		r.Acked = client.CountAcked(a.Body)
	}
	return r, nil
}
