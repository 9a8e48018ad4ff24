package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// transform copies kafTopic to outTopic in transactions, each of which commits what it read, partition to partition. At times
// one is aborted after it has written. A session that fails is given up, and the next one goes on where transactions
// that were committed ended.
func (w *crew) transform(me int) {
	home := rest{w: w}
	rng := rand.New(rand.NewPCG(w.o.seed, uint64(3000+me)))
	for !home.home(w.allMoved) {
		s, err := kgo.NewGroupTransactSession(w.kafkaOpts(fmt.Sprint("transform-", me), kgo.TransactionalID(fmt.Sprint("transform-", me)),
			kgo.TransactionTimeout(20*time.Second), kgo.ConsumerGroup(eosGroup), kgo.ConsumeTopics(kafTopic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.SessionTimeout(8*time.Second), kgo.HeartbeatInterval(time.Second), kgo.RebalanceTimeout(10*time.Second),
			kgo.FetchMaxWait(500*time.Millisecond), kgo.ProduceRequestTimeout(3*time.Second), kgo.UnknownTopicRetries(-1))...)
		if err != nil {
			w.h.violate("a transactional client: %v", err)
			return
		}
		for err == nil && !home.home(w.allMoved) {
			err = w.transact(s, rng.IntN(12) == 0)
		}
		s.Close()
	}
}

// transact does one transaction; an error is the end of the session.
func (w *crew) transact(s *kgo.GroupTransactSession, abort bool) error {
	polling, cancel := context.WithTimeout(w.ctx, time.Second)
	fetches := s.PollRecords(polling, 40)
	cancel()
	count := fetches.NumRecords()
	if count == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, 40*time.Second)
	defer cancel()
	if err := s.Begin(); err != nil {
		return err
	}
	e := kgo.AbortingFirstErrPromise(s.Client())
	fetches.EachRecord(func(r *kgo.Record) {
		s.Produce(ctx, &kgo.Record{Topic: outTopic, Partition: r.Partition, Value: r.Value}, e.Promise())
	})
	failed := e.Err() != nil
	committed, err := s.End(ctx, kgo.TransactionEndTry(!failed && !abort))
	if committed {
		w.h.kafka.committed.Add(1)
		w.h.acked.Add(int64(count))
	} else {
		w.h.kafka.aborted.Add(1)
	}
	return err
}

// watchTransforms asks up to where transactions have come, once nothing more is written.
func (w *crew) watchTransforms() {
	cl, err := kgo.NewClient(w.kafkaOpts("watch")...)
	if err != nil {
		w.h.violate("a client of Kafka: %v", err)
		return
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for home := (rest{w: w}); !home.home(w.allMoved); time.Sleep(300 * time.Millisecond) {
		if !w.made.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		offsets, err := adm.FetchOffsets(ctx, eosGroup)
		cancel()
		if err != nil {
			continue
		}
		for p := range topicLanes {
			if o, ok := offsets.Lookup(kafTopic, int32(p)); ok && o.Err == nil {
				w.h.kafka.moved[p].Store(o.At)
			}
		}
	}
}

// allMoved tells whether all of kafTopic is in outTopic.
func (w *crew) allMoved() bool {
	for p, l := range w.h.of(0, kafTopic) {
		if w.h.kafka.moved[p].Load() < l.top() {
			return false
		}
	}
	return true
}
