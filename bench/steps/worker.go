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
	"queen/bench/internal/place"
)

// produce pushes lines in order, each again until it is answered: the id of a line makes that harmless.
func (s *steps) produce(ctx context.Context, own []*changes.Line, number int) error {
	conn := place.Conn(s.place, number)
	defer conn.Close()
	rng := rand.New(rand.NewPCG(s.o.seed, uint64(number)))
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
			items[i] = item{s.source, l.File.Name, string(l.ID), l.Raw}
		}
		body, err := json.Marshal(map[string]any{"items": items})
		if err != nil {
			return err
		}
		a, err := place.Ask(ctx, conn, "POST", "/api/v1/push", body)
		if err != nil {
			return err
		}
		if a.Status != 201 {
			return fmt.Errorf("push: status %d: %w", a.Status, a.Err())
		}
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

func (s *steps) newWorker(number int) *worker {
	return &worker{s: s, conn: place.Conn(s.place, number), rng: rand.New(rand.NewPCG(s.o.seed, uint64(number)))}
}

func (w *worker) run(ctx context.Context) error {
	defer w.conn.Close()
	path := w.path(time.Second)
	for {
		select {
		case <-w.s.all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if _, _, err := w.once(ctx, path); err != nil {
			return err
		}
	}
}

// path is that of a pop that waits for so long.
func (w *worker) path(wait time.Duration) string {
	pop := client.PopRequest{Queue: w.s.source, Group: group, Batch: w.s.o.popMost, Partitions: w.s.o.popMost,
		Wait: wait, LeaseSeconds: w.s.o.leaseSeconds, All: true}
	return pop.Path()
}

// once pops and takes the steps of what came. It returns how many messages that were, and whether there was an answer.
func (w *worker) once(ctx context.Context, path string) (n int, answered bool, err error) {
	until := time.Now().Add(w.s.o.lease()) // the claim is made after now
	a, err := w.conn.Do("GET", path, nil)
	switch {
	case err != nil || place.Again(a.Status):
		return 0, false, place.Elsewhere(ctx, w.conn)
	case a.Status == 204:
		return 0, true, nil
	case a.Status != 200:
		return 0, true, fmt.Errorf("pop: %w", a.Err())
	}
	n, err = w.delivery(a.Body, until)
	return n, true, err
}

// delivery takes the steps of what a pop delivered, in order, and gives a partition up at the first refusal.
func (w *worker) delivery(body []byte, until time.Time) (int, error) {
	var d client.Delivery
	body = append([]byte(nil), body...) // the next answer comes into the same memory
	if err := client.ParsePop(body, &d); err != nil {
		return 0, err
	}
	lost := map[string]bool{}
	for i := range d.Messages {
		m := &d.Messages[i]
		l := w.s.in.Find(m.Partition, m.Data)
		if l == nil {
			return 0, fmt.Errorf("partition %q delivered what nobody pushed: %.200s", m.Partition, m.Data)
		}
		if lost[string(m.PartitionID)] {
			continue
		}
		if !w.s.may(l, until) {
			break // what is left of it comes again
		}
		switch verdict, err := w.step(m, d.Lease, l); {
		case err != nil:
			return 0, err
		case verdict == crashed:
			w.conn.Close()
			return len(d.Messages), nil // everything it held comes back when the lease is over
		case verdict == refused:
			lost[string(m.PartitionID)] = true
		}
	}
	return len(d.Messages), nil
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
		w.s.tally.before.Add(1)
		return crashed, nil
	}
	a, err := post(w.conn, "/api/v1/transaction", w.transaction(m, lease, l))
	if err != nil || a.Status == 503 {
		w.s.tally.unknown.Add(1)
		w.s.settle(l, false)
		w.conn.Turn()
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
		w.s.tally.after.Add(1)
		return crashed, nil
	case t.Success:
		w.s.tally.committed.Add(1)
		w.s.settle(l, true)
		return done, nil
	case t.Reason == "rejected_ack" || t.Reason == "unavailable" || t.Reason == "reserved":
		w.s.tally.refused.Add(1)
		return refused, nil
	}
	return 0, fmt.Errorf("transaction of %s: rolled back: %s: %s", l.ID, t.Reason, t.Error)
}

func (w *worker) transaction(m *client.Message, lease []byte, l *changes.Line) map[string]any {
	body := map[string]any{
		"operations": []any{
			map[string]any{"type": "ack", "transactionId": string(m.ID), "partitionId": string(m.PartitionID),
				"leaseId": string(lease), "consumerGroup": group},
			map[string]any{"type": "push", "queue": w.s.index, "partition": l.File.Name,
				"payload": map[string]any{"version": l.Version()}},
		},
		"kv": []any{map[string]any{"op": "incr", "ns": w.s.namespace, "key": l.File.Name, "delta": l.Added, "forever": true}},
	}
	if w.s.timed(l) {
		body["timers"] = []any{map[string]any{"op": "schedule", "queue": w.s.timers, "timerKey": string(l.ID),
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
