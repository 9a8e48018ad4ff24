package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/client"
)

// worker pops at most most messages and acks each of them, until every line is settled.
type worker struct {
	run    *replay
	ledger *ledger
	lane   *lane
	rng    *rand.Rand
	most   int
}

func (w *worker) work(ctx context.Context) error {
	defer w.lane.conn.Close()
	pop := client.PopRequest{Queue: w.run.o.queue, Group: w.ledger.group, Batch: w.most, Partitions: w.most,
		Wait: time.Second, LeaseSeconds: w.run.o.leaseSeconds, All: true}
	path := pop.Path()
	for {
		select {
		case <-w.ledger.all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if _, err := w.once(ctx, path); err != nil {
			return err
		}
	}
}

// once pops and acks; it returns how many messages came.
func (w *worker) once(ctx context.Context, path string) (int, error) {
	var d client.Delivery
	a, err := w.lane.call(popCall, func() (client.Answer, error) { return w.lane.conn.Do("GET", path, nil) })
	switch {
	case err != nil || a.Status == 503 || a.Status == 429:
		pause(ctx, 2*time.Millisecond)
		return 0, nil
	case a.Status == 204:
		return 0, nil
	case a.Status != 200:
		return 0, fmt.Errorf("pop: %w", a.Err())
	}
	if err := client.ParsePop(a.Body, &d); err != nil {
		return 0, err
	}
	if len(d.Messages) == 0 || len(d.Messages) > w.most {
		w.run.v.add("a pop of at most %d messages was answered with %d", w.most, len(d.Messages))
	}
	lines := make([]*changes.Line, 0, len(d.Messages))
	w.lane.conn.AckBegin()
	for i := range d.Messages {
		if l := w.ledger.received(&d.Messages[i]); l != nil {
			w.lane.conn.AckItem(d.Messages[i].ID, d.Messages[i].PartitionID, d.Lease)
			lines = append(lines, l)
		}
	}
	return len(d.Messages), w.ack(ctx, lines)
}

// ack sends the acks. One that gets no answer is sent again or not, as the coin falls: both are what workers do.
func (w *worker) ack(ctx context.Context, lines []*changes.Line) error {
	for ctx.Err() == nil {
		a, err := w.lane.call(ackCall, func() (client.Answer, error) { return w.lane.conn.AckSend(w.ledger.group) })
		switch {
		case errors.Is(err, client.ErrUnanswered), err == nil && a.Status == 503:
			resend := w.rng.IntN(2) == 0
			w.ledger.lost(lines, resend)
			if !resend {
				return nil
			}
		case err != nil || a.Status == 429:
		case a.Status != 200:
			return fmt.Errorf("ack: %w", a.Err())
		default:
			return w.answer(lines, a.Body)
		}
		pause(ctx, 2*time.Millisecond)
	}
	return ctx.Err()
}

func (w *worker) answer(lines []*changes.Line, body []byte) error {
	n := 0
	err := client.ParseAck(body, func(i int, got client.Acked) {
		if n++; i < len(lines) {
			w.ledger.acked(lines[i], got.Success)
		}
	})
	if err == nil && n != len(lines) {
		err = fmt.Errorf("ack: %d results for %d items", n, len(lines))
	}
	return err
}
