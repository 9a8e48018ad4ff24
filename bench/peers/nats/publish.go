package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"queen/bench/internal/load"
)

// batch are the messages of one push. The client keeps some of what it is given until it has the ack, so each batch has memory of
// its own.
type batch struct {
	nc      *nats.Conn
	timeout time.Duration
	msgs    []*nats.Msg
	ids     []string
}

func (b *batch) Begin() { b.msgs, b.ids = b.msgs[:0], b.ids[:0] }

func (b *batch) Item(partition, id, payload []byte) {
	b.msgs = append(b.msgs, &nats.Msg{Subject: subjects + string(partition), Data: bytes.Clone(payload), Header: nats.Header{}})
	b.ids = append(b.ids, string(id))
}

func (b *batch) Close() { b.nc.Close() }

// asyncProducer has all messages of a batch under way at the same time.
type asyncProducer struct {
	batch
	js jetstream.JetStream
}

func (p *asyncProducer) Send() (r load.Reply, err error) {
	acks := make([]jetstream.PubAckFuture, len(p.msgs))
	for i, m := range p.msgs {
		m.Header[jetstream.MsgIDHeader] = []string{p.ids[i]}
		if acks[i], err = p.js.PublishMsgAsync(m); err != nil {
			return r, err
		}
	}
	late := time.NewTimer(p.timeout)
	defer late.Stop()
	for _, f := range acks {
		select {
		case ack := <-f.Ok():
			if ack.Duplicate {
				r.Duplicates++
			} else {
				r.Queued++
			}
		case err := <-f.Err():
			return load.Reply{}, err
		case <-late.C:
			return load.Reply{}, errors.New("an ack is missing")
		}
	}
	return r, nil
}

// atomicProducer sends a batch as one that the server takes as a whole. The first one that is sent again after a lost answer may
// be stored twice: the server compares no ids in such batches.
type atomicProducer struct{ batch }

// Headers of the server's protocol for atomic batches.
const (
	batchID     = "Nats-Batch-Id"
	batchNumber = "Nats-Batch-Sequence"
	batchCommit = "Nats-Batch-Commit"
)

// batchAck is how the server answers the last message of a batch.
type batchAck struct {
	Error *jetstream.APIError `json:"error"`
	Batch string              `json:"batch"`
	Count int                 `json:"count"`
}

func (p *atomicProducer) Send() (r load.Reply, err error) {
	id := nuid.Next()
	last := len(p.msgs) - 1
	for i, m := range p.msgs {
		m.Header[batchID], m.Header[batchNumber] = []string{id}, []string{strconv.Itoa(i + 1)}
		if i < last {
			if err := p.nc.PublishMsg(m); err != nil {
				return r, err
			}
		}
	}
	p.msgs[last].Header[batchCommit] = []string{"1"}
	answer, err := p.nc.RequestMsg(p.msgs[last], p.timeout)
	if err != nil {
		return r, err
	}
	var ack batchAck
	r.Text = answer.Data
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return r, fmt.Errorf("answer to a batch: %w: %.300s", err, answer.Data)
	}
	if ack.Error != nil {
		return r, ack.Error
	}
	if ack.Batch != id {
		return r, fmt.Errorf("answer to another batch: %.300s", answer.Data)
	}
	r.Queued = ack.Count
	return r, nil
}
