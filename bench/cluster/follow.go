package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// following is what the members of a Kafka group did with one partition. A member that is given it goes on no earlier than
// what was committed before, and no later than what anybody tried to commit.
type following struct {
	mu        sync.Mutex
	at        map[int]int64   // by member that has it: the next offset; -1 before the first record
	floor     map[int]int64   // by member: what was committed when it was given the partition
	committed int64           // the highest offset whose commit was answered
	asked     int64           // the highest whose commit was sent
	doubts    []doubtedCommit // commits without an answer: they may yet take effect
	read      int64           // all below was delivered to some member
}

type doubtedCommit struct {
	offset int64
	sent   time.Duration
}

// doubtFor is how long a commit without an answer may take effect.
const doubtFor = time.Minute

func newFollowing() *following { return &following{at: map[int]int64{}, floor: map[int]int64{}} }

func (f *following) assign(member int, now time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	floor := f.committed
	for _, d := range f.doubts {
		if now-d.sent < doubtFor {
			floor = min(floor, d.offset)
		}
	}
	f.at[member], f.floor[member] = -1, floor
}

func (f *following) revoke(member int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.at, member)
}

// record judges the offset of a record that a member got.
func (f *following) record(member int, offset int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, has := f.at[member]
	switch {
	case !has:
		return errors.New("its member has lost the partition")
	case at >= 0 && offset != at:
		return fmt.Errorf("offset %d comes where %d belongs", offset, at)
	case at < 0 && offset < f.floor[member]:
		return fmt.Errorf("a member begins at offset %d, %d had been committed", offset, f.floor[member])
	case at < 0 && offset > f.asked:
		return fmt.Errorf("a member begins at offset %d, nobody committed more than %d", offset, f.asked)
	}
	f.at[member] = offset + 1
	f.read = max(f.read, offset+1)
	return nil
}

func (f *following) committing(offset int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = max(f.asked, offset)
}

// answered notes what became of a commit.
func (f *following) answered(offset int64, ok bool, sent time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ok {
		f.committed = max(f.committed, offset)
	} else {
		f.doubts = append(f.doubts, doubtedCommit{offset, sent})
	}
}

func (f *following) end() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read
}

// follow is one member of the group.
func (w *crew) follow(me int) {
	each := func(parts map[string][]int32, fn func(*following)) {
		for topic, list := range parts {
			for _, p := range list {
				if f := w.h.kafka.follows[place{0, topic, fmt.Sprint(p)}]; f != nil {
					fn(f)
				}
			}
		}
	}
	gone := func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
		each(parts, func(f *following) { f.revoke(me) })
	}
	cl, err := kgo.NewClient(w.kafkaOpts(fmt.Sprint("member-", me), kgo.ConsumerGroup(followGroup), kgo.ConsumeTopics(natTopic, kafTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(8*time.Second),
		kgo.HeartbeatInterval(time.Second), kgo.RebalanceTimeout(10*time.Second), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			w.h.kafka.assigned.Add(1)
			each(parts, func(f *following) { f.assign(me, w.h.now()) })
		}), kgo.OnPartitionsRevoked(gone), kgo.OnPartitionsLost(gone))...)
	if err != nil {
		w.h.violate("a consumer over Kafka: %v", err)
		return
	}
	defer cl.CloseAllowingRebalance()
	rng := rand.New(rand.NewPCG(w.o.seed, uint64(2000+me)))
	home := rest{w: w}
	for !home.home(w.allFollowed) {
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		fetches := cl.PollRecords(ctx, 200)
		cancel()
		fetches.EachError(func(topic string, p int32, err error) {
			var lost *kgo.ErrDataLoss
			if errors.As(err, &lost) || errors.Is(err, kerr.OffsetOutOfRange) {
				w.h.violate("member %d reads %s/%d: %v", me, topic, p, err)
			}
		})
		offsets := map[string]map[int32]kgo.EpochOffset{}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) == 0 {
				return
			}
			w.followed(me, p.Topic, p.Partition, p.Records)
			last := p.Records[len(p.Records)-1]
			if offsets[p.Topic] == nil {
				offsets[p.Topic] = map[int32]kgo.EpochOffset{}
			}
			offsets[p.Topic][p.Partition] = kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
		})
		if len(offsets) > 0 && rng.IntN(8) > 0 { // at times a member goes on without
			w.commit(cl, offsets)
		}
		cl.AllowRebalance()
	}
}

// followed judges records that a member got.
func (w *crew) followed(me int, topic string, partition int32, records []*kgo.Record) {
	at := place{0, topic, fmt.Sprint(partition)}
	f, l := w.h.kafka.follows[at], w.h.lanes[at]
	if f == nil {
		w.h.violate("member %d got records of %s/%d, which nobody wrote", me, topic, partition)
		return
	}
	for _, r := range records {
		w.h.delivered.Add(1)
		if err := f.record(me, r.Offset); err != nil {
			w.h.violate("member %d: %v: %v", me, l, err)
			return
		}
		writer, n, ok := parsePayload(r.Value)
		if !ok {
			w.h.check(badPayload(l, r.Offset, r.Value))
			return
		}
		w.h.check(l.see(writer, n, r.Offset))
	}
}

// commit commits and notes what was answered.
func (w *crew) commit(cl *kgo.Client, offsets map[string]map[int32]kgo.EpochOffset) {
	sent := w.h.now()
	each := func(fn func(f *following, topic string, p int32, offset int64)) {
		for topic, parts := range offsets {
			for p, at := range parts {
				if f := w.h.kafka.follows[place{0, topic, fmt.Sprint(p)}]; f != nil {
					fn(f, topic, p, at.Offset)
				}
			}
		}
	}
	each(func(f *following, _ string, _ int32, offset int64) { f.committing(offset) })
	taken := map[string]map[int32]bool{}
	ctx, cancel := context.WithTimeout(w.ctx, 8*time.Second)
	defer cancel()
	cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil || resp == nil {
			return
		}
		names := map[[16]byte]string{} // newer answers name topics by id
		for _, t := range req.Topics {
			names[t.TopicID] = t.Topic
		}
		for _, t := range resp.Topics {
			if t.Topic == "" {
				t.Topic = names[t.TopicID]
			}
			taken[t.Topic] = map[int32]bool{}
			for _, p := range t.Partitions {
				taken[t.Topic][p.Partition] = p.ErrorCode == 0
			}
		}
	})
	each(func(f *following, topic string, p int32, offset int64) {
		f.answered(offset, taken[topic][p], sent)
		if taken[topic][p] {
			w.h.acked.Add(1)
		}
	})
}

// allFollowed tells whether the group has read all that is known of its topics.
func (w *crew) allFollowed() bool {
	for at, f := range w.h.kafka.follows {
		if f.end() < w.h.lanes[at].top() {
			return false
		}
	}
	return true
}
