package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	kafkaProducers = 2
	followGroup    = "follow" // consumes natTopic and kafTopic
	eosGroup       = "eos"    // makes outTopic of kafTopic
)

// kafkaHistory is what clients of Kafka saw beside what is in the lanes.
type kafkaHistory struct {
	follows map[place]*following // by partition of the topics that followGroup consumes
	// moved is, by partition of kafTopic, up to where outTopic was made of it, as the group's committed offsets say.
	moved                        [topicLanes]atomic.Int64
	committed, aborted, assigned atomic.Int64
}

func newKafkaHistory() *kafkaHistory {
	h := &kafkaHistory{follows: map[place]*following{}}
	for p := range topicLanes {
		for _, topic := range []string{natTopic, kafTopic} {
			h.follows[place{0, topic, fmt.Sprint(p)}] = newFollowing()
		}
	}
	return h
}

// kafkaOpts are those of every client: they give a node that does not answer up soon, and never the call.
func (w *crew) kafkaOpts(name string, more ...kgo.Opt) []kgo.Opt {
	var seeds []string
	for i := range w.c.Len() {
		seeds = append(seeds, w.c.Kafka(i))
	}
	return append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID(name), kgo.DisableClientMetrics(), kgo.DialTimeout(2 * time.Second),
		kgo.RequestTimeoutOverhead(4 * time.Second), kgo.MetadataMinAge(200 * time.Millisecond), kgo.MetadataMaxAge(5 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }), kgo.RequestRetries(100),
		kgo.RecordPartitioner(kgo.ManualPartitioner())}, more...)
}

// createTopics makes the topics that no native client makes.
func (w *crew) createTopics() error {
	cl, err := kgo.NewClient(w.kafkaOpts("setup")...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for _, topic := range []string{kafTopic, outTopic} {
		for {
			ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
			_, err := kadm.NewClient(cl).CreateTopic(ctx, topicLanes, -1, nil, topic)
			cancel()
			if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
				break
			}
			if w.over.Load() {
				return fmt.Errorf("topic %s could not be made within a minute: %w", topic, err)
			}
		}
	}
	return nil
}

// hireKafka starts the clients of Kafka, and the native ones that share topics with them.
func (w *crew) hireKafka() {
	for _, l := range w.h.of(0, natTopic) {
		w.maker(0, func(k *client) { k.produce(w, l, 0, 8) })
	}
	for i := range kafkaProducers {
		w.makers.Go(func() { w.kafkaProduce(i) })
	}
	for i := range 2 {
		w.taker(0, func(k *client) { k.consume(w, kafTopic) })
		w.takers.Go(func() { w.follow(i) })
		w.takers.Go(func() { w.transform(i) })
	}
	w.takers.Go(w.watchTransforms)
}

// kafkaProduce writes records to every partition as one of its writers, idempotently, several at a time under way.
func (w *crew) kafkaProduce(me int) {
	cl, err := kgo.NewClient(w.kafkaOpts(fmt.Sprint("producer-", me), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(2*time.Millisecond),
		kgo.ProduceRequestTimeout(3*time.Second), kgo.UnknownTopicRetries(-1), kgo.StopProducerOnDataLossDetected(), kgo.MaxBufferedRecords(500))...)
	if err != nil {
		w.h.violate("a producer over Kafka: %v", err)
		return
	}
	defer cl.Close()
	rng := rand.New(rand.NewPCG(w.o.seed, uint64(1000+me)))
	lanes := w.h.of(0, kafTopic)
	next := make([]int, len(lanes))
	for ; !w.stop.Load(); time.Sleep(time.Duration(10+rng.IntN(15)) * time.Millisecond) {
		p := rng.IntN(len(lanes))
		l := lanes[p]
		if l.left() > backlogMost {
			continue
		}
		count := 1 + rng.IntN(8)
		floor := l.send(me, next[p]+count)
		for range count {
			n := next[p]
			next[p]++
			cl.Produce(w.ctx, &kgo.Record{Topic: kafTopic, Partition: int32(p), Value: payload(me, n)}, func(r *kgo.Record, err error) {
				switch {
				case err != nil && w.over.Load():
					return // it is given up, as everything is
				case err != nil:
					w.h.violate("%v: record %d of producer %d: %v", l, n, me, err)
					return
				}
				w.h.check(l.tell(me, n, r.Offset, floor))
				w.h.acked.Add(1)
			})
		}
	}
	ctx, cancel := context.WithTimeout(w.ctx, 90*time.Second)
	defer cancel()
	if err := cl.Flush(ctx); err != nil && !w.over.Load() {
		w.h.violate("producer %d over Kafka has records without an answer 90 s after the last fault: %v", me, err)
	}
}
