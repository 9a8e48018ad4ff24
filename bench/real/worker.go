package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/client"
	"queen/bench/internal/place"
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
	path := w.path(time.Second)
	for {
		select {
		case <-w.ledger.all:
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
	pop := client.PopRequest{Queue: w.run.queue, Group: w.ledger.group, Batch: w.most, Partitions: w.most,
		Wait: wait, LeaseSeconds: w.run.o.leaseSeconds, All: true}
	return pop.Path()
}

// once pops and acks; it returns how many messages came, and whether there was an answer.
func (w *worker) once(ctx context.Context, path string) (n int, answered bool, err error) {
	var d client.Delivery
	until := time.Now().Add(w.run.o.lease()) // the claim is made after now
	a, err := w.lane.call(popCall, func() (client.Answer, error) { return w.lane.conn.Do("GET", path, nil) })
	switch {
	case err != nil || place.Again(a.Status):
		_ = place.Elsewhere(ctx, w.lane.conn)
		return 0, false, nil
	case a.Status == 204:
		return 0, true, nil
	case a.Status != 200:
		return 0, true, fmt.Errorf("pop: %w", a.Err())
	}
	if err := client.ParsePop(a.Body, &d); err != nil {
		return 0, true, err
	}
	if len(d.Messages) == 0 || len(d.Messages) > w.most {
		w.run.v.Add("a pop of at most %d messages was answered with %d", w.most, len(d.Messages))
	}
	lines := make([]*changes.Line, 0, len(d.Messages))
	w.lane.conn.AckBegin()
	for i := range d.Messages {
		if l := w.ledger.received(&d.Messages[i], until); l != nil {
			w.lane.conn.AckItem(d.Messages[i].ID, d.Messages[i].PartitionID, d.Lease)
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return len(d.Messages), true, nil
	}
	return len(d.Messages), true, w.ack(ctx, lines)
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
				return place.Elsewhere(ctx, w.lane.conn)
			}
		case err != nil || a.Status == 429:
		case a.Status != 200:
			return fmt.Errorf("ack: %w", a.Err())
		default:
			return w.answer(lines, a.Body)
		}
		_ = place.Elsewhere(ctx, w.lane.conn)
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
