package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// unread are lines about what the consumers of Kafka have not done.
func (h *kafkaHistory) unread(of *history) (lines []string) {
	for at, f := range h.follows {
		if top := of.lanes[at].top(); f.end() < top {
			lines = append(lines, fmt.Sprintf("%s/%s: Kafka's group %s has read %d of %d messages; %s", at.queue, at.partition, followGroup, f.end(), top, f))
		}
	}
	for p, l := range of.of(0, kafTopic) {
		if moved := h.moved[p].Load(); moved < l.top() {
			lines = append(lines, fmt.Sprintf("%s/%d: transactions of Kafka's group %s have taken %d of %d messages", kafTopic, p, eosGroup, moved, l.top()))
		}
	}
	slices.Sort(lines)
	return lines
}

// String says who has the partition, as the members know.
func (f *following) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.at) == 0 {
		return "no member has it"
	}
	return fmt.Sprintf("it is with members, whose next offset is (-1: none came yet) %v, and was committed up to %d", f.at, f.committed)
}

// askKafka is what the nodes say of Kafka's groups, positions and transactions.
func (w *crew) askKafka() string {
	cl, err := kgo.NewClient(w.kafkaOpts("why", kgo.RequestRetries(2))...)
	if err != nil {
		return err.Error()
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var b strings.Builder
	ask := func(what string, question func(context.Context) (any, error)) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		answer, err := question(ctx)
		fmt.Fprintf(&b, "%s (error: %v):\n%+v\n\n", what, err, answer)
	}
	topics := []string{natTopic, kafTopic, outTopic}
	for _, group := range []string{followGroup, eosGroup} {
		ask("group "+group, func(ctx context.Context) (any, error) {
			all, err := adm.DescribeGroups(ctx, group)
			return described(all[group]), err
		})
		ask("positions of "+group, func(ctx context.Context) (any, error) { return adm.FetchOffsets(ctx, group) })
	}
	ask("ends", func(ctx context.Context) (any, error) { return adm.ListEndOffsets(ctx, topics...) })
	ask("ends of what is decided", func(ctx context.Context) (any, error) { return adm.ListCommittedOffsets(ctx, topics...) })
	ask("transactions", func(ctx context.Context) (any, error) {
		return adm.DescribeTransactions(ctx, "transform-0", "transform-1")
	})
	return b.String()
}

// described is a group with who has what.
func described(g kadm.DescribedGroup) string {
	var b strings.Builder
	fmt.Fprintf(&b, "state %s, coordinator %d, protocol %s, error %v", g.State, g.Coordinator.NodeID, g.Protocol, g.Err)
	for i := range g.Members {
		m := &g.Members[i]
		fmt.Fprintf(&b, "\nmember %s of client %s:", m.MemberID, m.ClientID)
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				fmt.Fprintf(&b, " %s %v", t.Topic, t.Partitions)
			}
		}
	}
	return b.String()
}
