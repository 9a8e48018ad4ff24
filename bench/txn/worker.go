package main

import (
	"bytes"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"queen/bench/internal/client"
	"queen/bench/internal/histo"
)

const (
	queue     = "work"
	group     = "workers"
	namespace = "bench"
)

// fill pushes n messages, spread over the partitions.
func fill(addr string, partitions, n int) error {
	conn := client.New(addr, 60*time.Second)
	defer conn.Close()
	for from := 0; from < n; from += 1000 {
		var b bytes.Buffer
		b.WriteString(`{"items":[`)
		for i := from; i < min(from+1000, n); i++ {
			if i > from {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"queue":%q,"partition":"p%d","transactionId":"fill-%d","payload":{"n":%d}}`, queue, i%partitions, i, i)
		}
		b.WriteString(`]}`)
		a, err := conn.Do("POST", "/api/v1/push", b.Bytes())
		if err == nil {
			err = a.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// worker is one connection.
type worker struct {
	o               *options
	conn            *client.Conn
	h               *histo.Histogram
	counting, ended *atomic.Bool
	done, refused   *atomic.Int64
	stream          int
	sent            int
	popped          []byte // the answer that messages are views of
	id              []byte
}

// run pops 100 messages and commits them, a few at a time, until the time is over.
func (w *worker) run() error {
	defer w.conn.Close()
	pop := client.PopRequest{Queue: queue, Group: group, Batch: 100, Partitions: 20, Wait: time.Second, All: true}
	path := pop.Path()
	var d client.Delivery
	for !w.ended.Load() {
		a, err := w.conn.Do("GET", path, nil)
		if err != nil {
			return err
		}
		if a.Status == 204 {
			continue
		}
		if err := a.Err(); err != nil {
			return err
		}
		w.popped = append(w.popped[:0], a.Body...)
		if err := client.ParsePop(w.popped, &d); err != nil {
			return err
		}
		for at := 0; at < len(d.Messages) && !w.ended.Load(); at += w.o.messages {
			if err := w.commit(d.Lease, d.Messages[at:min(at+w.o.messages, len(d.Messages))]); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit is one step: acks, a counter, and each message pushed on into the same queue.
func (w *worker) commit(lease []byte, ms []client.Message) error {
	w.conn.TxnBegin()
	for i := range ms {
		m := &ms[i]
		w.sent++
		w.id = strconv.AppendInt(append(w.id[:0], "t-"...), int64(w.stream), 10)
		w.id = strconv.AppendInt(append(w.id, '-'), int64(w.sent), 10)
		w.conn.TxnAck(m.ID, m.PartitionID, lease, []byte(group))
		w.conn.TxnPush([]byte(queue), m.Partition, w.id, m.Data)
	}
	start := time.Now()
	a, err := w.conn.TxnSend([]byte(namespace), ms[0].Partition)
	took := time.Since(start)
	if err == nil {
		err = a.Err()
	}
	if err != nil {
		return err
	}
	r, err := client.ParseTransaction(a.Body)
	if err != nil {
		return err
	}
	if !r.Success && string(r.Reason) != "rejected_ack" {
		return fmt.Errorf("rolled back: %s: %s", r.Reason, r.Error)
	}
	if !r.Success {
		w.refused.Add(1)
		return nil
	}
	w.done.Add(1)
	if w.counting.Load() {
		w.h.Add(took)
	}
	return nil
}
