package kafkaload

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consumer polls what one client reads.
type consumer struct {
	r     *run
	cl    *kgo.Client
	times []time.Duration // of one poll
}

// newConsumer assigns the partitions whose number leaves i when divided by the number of consumers, or joins the group.
func (r *run) newConsumer(i int) (*consumer, error) {
	var opts []kgo.Opt
	if r.o.Group != "" {
		opts = []kgo.Opt{kgo.ConsumerGroup(r.o.Group), kgo.ConsumeTopics(r.o.Topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) { r.assigned.Add(int64(len(m[r.o.Topic]))) }),
			kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
				r.assigned.Add(-int64(len(m[r.o.Topic])))
			}),
			kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
				r.assigned.Add(-int64(len(m[r.o.Topic])))
			})}
	} else {
		own := map[int32]kgo.Offset{}
		for p := i; p < r.o.Partitions; p += r.o.Consumers {
			own[int32(p)] = kgo.NewOffset().At(0)
		}
		// An offset that is not there is lost: a client that goes on elsewhere would hide it.
		opts = []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.o.Topic: own}), kgo.ConsumeResetOffset(kgo.NoResetOffset())}
	}
	cl, err := r.client(fmt.Sprintf("consumer-%d", i), opts...)
	return &consumer{r: r, cl: cl}, err
}

// consume reads until the run is over.
func (c *consumer) consume() {
	for {
		fetches := c.cl.PollFetches(c.r.ctx)
		if c.r.ctx.Err() != nil {
			return
		}
		now := time.Now()
		fetches.EachError(func(_ string, partition int32, err error) {
			c.r.fail(fmt.Errorf("kafkaload: fetch of partition %d: %w", partition, err))
		})
		c.times = c.times[:0]
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, rec := range p.Records {
				if s, fresh := c.r.judge.take(rec); fresh {
					c.times = append(c.times, now.Sub(time.Unix(0, s.at)))
				}
			}
		})
		c.r.arrivals.AddAll(c.times)
		c.r.consumed.Add(uint64(len(c.times)))
	}
}
