package main

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions from which on Produce and TxnOffsetCommit take part in a transaction without being announced, and EndTxn gives a new epoch.
const (
	produceImplicit = 12
	commitImplicit  = 5
	endBumps        = 5
)

// identity asks for a producer's identity, with the transactional id of the play or without.
func identity(withID bool) func(*actor, int16) kmsg.Request {
	return func(a *actor, _ int16) kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis = 60_000
		if withID {
			req.TransactionalID = kmsg.StringPtr(a.name)
		}
		return req
	}
}

func identified(a *actor, resp kmsg.Response) {
	r := resp.(*kmsg.InitProducerIDResponse)
	a.producer, a.epoch, a.sequence = r.ProducerID, r.ProducerEpoch, 0
}

// transaction is one that commits a record and a position, one that aborts a record, and a producer that another takes the place
// of. Where it is announced, partitions and groups are added before they are used, as clients do that do not know better; where it is
// not, nothing is, which only the greatest versions can.
func transaction(announced bool) []step {
	add := func(name string) []step {
		if !announced {
			return nil
		}
		return []step{{name: name + "-partitions", key: kmsg.AddPartitionsToTxn, ask: addPartitions}}
	}
	produces, commits, ends := int16(0), int16(0), int16(0)
	if !announced {
		produces, commits, ends = produceImplicit, commitImplicit, endBumps
	}
	steps := []step{{name: "identity", key: kmsg.InitProducerID, ask: identity(true), take: identified}}
	steps = append(steps, add("commit")...)
	steps = append(steps, step{name: "commit-write", key: kmsg.Produce, ask: writes(transactional, "kept"), take: written, from: produces})
	if announced {
		steps = append(steps, step{name: "commit-group", key: kmsg.AddOffsetsToTxn, ask: addGroup})
	}
	steps = append(steps,
		step{name: "commit-position", key: kmsg.TxnOffsetCommit, ask: commitInTxn, from: commits},
		step{name: "describe-open", key: kmsg.DescribeTransactions, ask: describeTxn},
		step{name: "producers-open", key: kmsg.DescribeProducers, ask: describeProducers},
		step{name: "commit", key: kmsg.EndTxn, ask: end(true), take: ended, from: ends})
	steps = append(steps, add("abort")...)
	steps = append(steps,
		step{name: "abort-write", key: kmsg.Produce, ask: writes(transactional, "dropped"), take: written, from: produces},
		step{name: "abort", key: kmsg.EndTxn, ask: end(false), take: ended, from: ends})
	steps = append(steps, readAll()...)
	return append(steps,
		step{name: "position", key: kmsg.OffsetFetch, ask: position},
		step{name: "describe-ended", key: kmsg.DescribeTransactions, ask: describeTxn, until: func(_ *actor, resp kmsg.Response) bool {
			for _, s := range resp.(*kmsg.DescribeTransactionsResponse).TransactionStates {
				if s.State == "CompleteAbort" {
					return true
				}
			}
			return false
		}},
		step{name: "producers-ended", key: kmsg.DescribeProducers, ask: describeProducers},
		// The next producer of the same name fences this one.
		step{name: "next-identity", key: kmsg.InitProducerID, ask: identity(true)},
		step{name: "fenced-end", key: kmsg.EndTxn, ask: end(true), refused: true, from: ends},
		step{name: "fenced-write", key: kmsg.Produce, ask: writes(transactional, "late"), refused: true, from: produces})
}

func addPartitions(a *actor, _ int16) kmsg.Request {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = a.name, a.producer, a.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: a.name, Partitions: []int32{0}}}
	req.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{TransactionalID: a.name, ProducerID: a.producer, ProducerEpoch: a.epoch,
		Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: a.name, Partitions: []int32{0}}}}}
	return req
}

func addGroup(a *actor, _ int16) kmsg.Request {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = a.name, a.producer, a.epoch, a.name
	return req
}

func commitInTxn(a *actor, _ int16) kmsg.Request {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group, req.Generation = a.name, a.producer, a.epoch, a.name, -1
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset, p.Metadata = 1, kmsg.StringPtr("said")
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.Partitions = a.name, []kmsg.TxnOffsetCommitRequestTopicPartition{p}
	req.Topics = append(req.Topics, t)
	return req
}

func describeTxn(a *actor, _ int16) kmsg.Request {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{a.name}
	return req
}

func end(commit bool) func(*actor, int16) kmsg.Request {
	return func(a *actor, _ int16) kmsg.Request {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = a.name, a.producer, a.epoch, commit
		return req
	}
}

// ended takes the identity that the newer versions give with the end of a transaction.
func ended(a *actor, resp kmsg.Response) {
	r := resp.(*kmsg.EndTxnResponse)
	if r.Version >= endBumps && kerr.ErrorForCode(r.ErrorCode) == nil {
		if a.producer != r.ProducerID || a.epoch != r.ProducerEpoch {
			a.sequence = 0
		}
		a.producer, a.epoch = r.ProducerID, r.ProducerEpoch
	}
}

// position asks for the position of the play's group.
func position(a *actor, _ int16) kmsg.Request {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.Topics = a.name, []kmsg.OffsetFetchRequestTopic{{Topic: a.name, Partitions: []int32{0}}}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = a.name
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.TopicID, t.Partitions = a.name, a.topic, []int32{0}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	return req
}
