package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/client"
)

// produce pushes lines in order, each again until it is answered: the id of a line makes that harmless.
func (s *steps) produce(ctx context.Context, own []*changes.Line, stream uint64) error {
	conn := client.New(s.addr, 30*time.Second)
	defer conn.Close()
	rng := rand.New(rand.NewPCG(s.o.seed, stream))
	type item struct {
		Queue         string          `json:"queue"`
		Partition     string          `json:"partition"`
		TransactionID string          `json:"transactionId"`
		Payload       json.RawMessage `json:"payload"`
	}
	for len(own) > 0 {
		n := min(1+rng.IntN(10), len(own))
		items := make([]item, n)
		for i, l := range own[:n] {
			items[i] = item{sourceQueue, l.File.Name, string(l.ID), l.Raw}
		}
		for {
			a, err := post(conn, "/api/v1/push", map[string]any{"items": items})
			if err == nil && a.Status == 201 {
				break
			}
			if err == nil && a.Status != 503 && a.Status != 429 {
				return fmt.Errorf("push: %w", a.Err())
			}
			if err := pause(ctx, 2*time.Millisecond); err != nil {
				return err
			}
		}
		s.pushed.Add(int64(n))
		own = own[n:]
	}
	return nil
}

func post(conn *client.Conn, path string, body any) (client.Answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return client.Answer{}, err
	}
	return conn.Do("POST", path, b)
}

// worker is one consumer. A crash of it is a new connection that knows nothing.
type worker struct {
	s    *steps
	conn *client.Conn
	rng  *rand.Rand
}

func (s *steps) newWorker(stream uint64) *worker {
	return &worker{s: s, conn: client.New(s.addr, 30*time.Second), rng: rand.New(rand.NewPCG(s.o.seed, stream))}
}

func (w *worker) run(ctx context.Context) error {
	defer func() { w.conn.Close() }()
	pop := client.PopRequest{Queue: sourceQueue, Group: group, Batch: w.s.o.popMost, Partitions: w.s.o.popMost,
		Wait: time.Second, LeaseSeconds: w.s.o.leaseSeconds, All: true}
	path := pop.Path()
	for {
		select {
		case <-w.s.all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		a, err := w.conn.Do("GET", path, nil)
		switch {
		case err != nil || a.Status == 503 || a.Status == 429:
			if err := pause(ctx, 2*time.Millisecond); err != nil {
				return err
			}
			continue
		case a.Status == 204:
			continue
		case a.Status != 200:
			return fmt.Errorf("pop: %w", a.Err())
		}
		if err := w.delivery(a.Body); err != nil {
			return err
		}
	}
}

// delivery takes the steps of what a pop delivered, in order, and gives a partition up at the first refusal.
func (w *worker) delivery(body []byte) error {
	var d client.Delivery
	body = append([]byte(nil), body...) // the next answer comes into the same memory
	if err := client.ParsePop(body, &d); err != nil {
		return err
	}
	lost := map[string]bool{}
	for i := range d.Messages {
		m := &d.Messages[i]
		l := w.s.in.Find(m.Partition, m.Data)
		if l == nil {
			return fmt.Errorf("partition %q delivered what nobody pushed: %.200s", m.Partition, m.Data)
		}
		if lost[string(m.PartitionID)] {
			continue
		}
		if !w.s.open(l) {
			w.s.violate("%s came again after its step was answered", l.ID)
		}
		switch verdict, err := w.step(m, d.Lease, l); {
		case err != nil:
			return err
		case verdict == crashed:
			w.conn.Close()
			return nil // everything it held comes back when the lease is over
		case verdict == refused:
			lost[string(m.PartitionID)] = true
		}
	}
	return nil
}

// How a step ended for its worker.
const (
	done = iota
	refused
	crashed
)

type transacted struct {
	Success       bool
	Reason, Error string
}

// step is one transaction: ack, counter, index, and now and then a timer.
func (w *worker) step(m *client.Message, lease []byte, l *changes.Line) (int, error) {
	crash := w.rng.Float64() < w.s.o.crashes
	if crash && w.rng.IntN(2) == 0 {
		w.s.before.Add(1)
		return crashed, nil
	}
	a, err := post(w.conn, "/api/v1/transaction", w.transaction(m, lease, l))
	if err != nil || a.Status == 503 {
		w.s.unknown.Add(1)
		w.s.settle(l, false)
		return crashed, nil
	}
	if a.Status == 429 {
		return refused, nil
	}
	var t transacted
	if err := json.Unmarshal(a.Body, &t); err != nil || a.Status != 200 {
		return 0, fmt.Errorf("transaction: %w: %v", a.Err(), err)
	}
	switch {
	case t.Success && crash:
		w.s.settle(l, true)
		w.s.after.Add(1)
		return crashed, nil
	case t.Success:
		w.s.committed.Add(1)
		w.s.settle(l, true)
		return done, nil
	case t.Reason == "rejected_ack" || t.Reason == "unavailable" || t.Reason == "reserved":
		w.s.refused.Add(1)
		return refused, nil
	}
	return 0, fmt.Errorf("transaction of %s: rolled back: %s: %s", l.ID, t.Reason, t.Error)
}

func (w *worker) transaction(m *client.Message, lease []byte, l *changes.Line) map[string]any {
	body := map[string]any{
		"operations": []any{
			map[string]any{"type": "ack", "transactionId": string(m.ID), "partitionId": string(m.PartitionID),
				"leaseId": string(lease), "consumerGroup": group},
			map[string]any{"type": "push", "queue": indexQueue, "partition": l.File.Name,
				"payload": map[string]any{"version": l.Version()}},
		},
		"kv": []any{map[string]any{"op": "incr", "ns": namespace, "key": l.File.Name, "delta": l.Added, "forever": true}},
	}
	if w.s.timed(l) {
		body["timers"] = []any{map[string]any{"op": "schedule", "queue": timerQueue, "timerKey": string(l.ID),
			"delayMs": w.rng.IntN(2000), "payload": base64.StdEncoding.EncodeToString(quote(string(l.ID)))}}
	}
	return body
}

// timed tells whether a line's step schedules a timer.
func (s *steps) timed(l *changes.Line) bool {
	return l.At%s.o.timerEvery == s.o.timerEvery-1 || l.At == 0 && len(l.File.Lines) > 5
}

func quote(s string) []byte {
	b, _ := json.Marshal(s)
	return b
}
