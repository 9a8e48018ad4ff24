package main

import "github.com/twmb/franz-go/pkg/kmsg"

// plays are everything that is performed.
func plays() []play {
	return []play{
		{"write", append([]step{
			{name: "first", key: kmsg.Produce, ask: writes(0, "a")},
			{name: "second", key: kmsg.Produce, ask: writes(0, "b")},
		}, readAll()...)},
		{"idempotent", append([]step{
			{name: "identity", key: kmsg.InitProducerID, ask: identity(false), take: identified},
			{name: "first", key: kmsg.Produce, ask: writes(0, "a"), take: written},
			{name: "second", key: kmsg.Produce, ask: writes(0, "b")},
			{name: "repeated", key: kmsg.Produce, ask: writes(0, "b"), take: written},
			{name: "gap", key: kmsg.Produce, ask: func(a *actor, v int16) kmsg.Request {
				ahead := *a
				ahead.sequence += 5
				return writes(0, "c")(&ahead, v)
			}, refused: true},
			{name: "no-epoch", key: kmsg.Produce, ask: func(a *actor, v int16) kmsg.Request {
				without := *a
				without.epoch = -1
				return writes(0, "c")(&without, v)
			}, refused: true},
			{name: "describe", key: kmsg.DescribeProducers, ask: describeProducers},
		}, readAll()...)},
		{"classic", classic()},
		{"static", static()},
		{"consumer", consumer()},
		{"transaction", transaction(true)},
		{"implicit", transaction(false)},
	}
}

// writes produces a record to the topic of the play.
func writes(attributes int16, value string) func(*actor, int16) kmsg.Request {
	return func(a *actor, version int16) kmsg.Request {
		req := produceOf(a.s, version, a.name, 0, -1, a.batch(attributes, value)).(*kmsg.ProduceRequest)
		req.Topics[0].TopicID = a.topic
		if attributes&transactional != 0 {
			req.TransactionID = kmsg.StringPtr(a.name)
		}
		return req
	}
}

// written is after a record that was taken.
func written(a *actor, _ kmsg.Response) { a.sequence++ }

// readAll reads the topic of a play, both ways, and asks for its ends.
func readAll() []step {
	fetch := func(isolation int8) func(*actor, int16) kmsg.Request {
		return func(a *actor, version int16) kmsg.Request {
			req := fetchOf(a.s, version, a.name, 0, 0).(*kmsg.FetchRequest)
			req.IsolationLevel, req.Topics[0].TopicID = isolation, a.topic
			return req
		}
	}
	list := func(isolation int8, when int64) func(*actor, int16) kmsg.Request {
		return func(a *actor, _ int16) kmsg.Request {
			req := listOf(a.name, 0, when).(*kmsg.ListOffsetsRequest)
			req.IsolationLevel = isolation
			return req
		}
	}
	return []step{
		// Markers are written behind the end of a transaction.
		{name: "read-committed", key: kmsg.Fetch, ask: fetch(1), until: func(_ *actor, resp kmsg.Response) bool {
			for _, t := range resp.(*kmsg.FetchResponse).Topics {
				for _, p := range t.Partitions {
					if p.HighWatermark != p.LastStableOffset {
						return false
					}
				}
			}
			return true
		}},
		{name: "read-uncommitted", key: kmsg.Fetch, ask: fetch(0)},
		{name: "end", key: kmsg.ListOffsets, ask: list(0, -1)},
		{name: "stable-end", key: kmsg.ListOffsets, ask: list(1, -1)},
		{name: "start", key: kmsg.ListOffsets, ask: list(0, -2)},
		{name: "greatest", key: kmsg.ListOffsets, ask: list(0, -3), from: 7},
	}
}

// describeProducers asks who writes to the topic.
func describeProducers(a *actor, _ int16) kmsg.Request {
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: a.name, Partitions: []int32{0}}}
	return req
}
