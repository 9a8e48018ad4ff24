package main

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// pipelined sends each step in one round trip, as one implicit transaction: the least that the protocol allows.
func pipelined(ctx context.Context, s *server, connections int, warm, length time.Duration) (*result, error) {
	var counting, ended atomic.Bool
	var done atomic.Int64
	took := make([][]time.Duration, connections)
	errs := make([]error, connections)
	var running sync.WaitGroup
	for i := range connections {
		c, err := s.connect(ctx)
		if err != nil {
			return nil, err
		}
		running.Add(1)
		go func() {
			defer running.Done()
			defer c.Close(ctx)
			errs[i] = step(ctx, c, i, connections, &counting, &ended, &done, &took[i])
		}()
	}
	time.Sleep(warm)
	counting.Store(true)
	from, start := done.Load(), time.Now()
	time.Sleep(length)
	n, spent := done.Load()-from, time.Since(start)
	ended.Store(true)
	running.Wait()
	var all []time.Duration
	for i := range errs {
		if errs[i] != nil {
			return nil, errs[i]
		}
		all = append(all, took[i]...)
	}
	return resultOf(float64(n)/spent.Seconds(), all), nil
}

func step(ctx context.Context, c *pgx.Conn, i, connections int, counting, ended *atomic.Bool, done *atomic.Int64,
	took *[]time.Duration,
) error {
	for _, s := range []struct{ name, sql string }{
		{"ack", "update messages set done = true where id = $1"},
		{"count", "insert into counters (partition, seen) values ($1, $2)"},
		{"push", "insert into outbox (partition, payload) values ($1, $2)"},
	} {
		if _, err := c.Prepare(ctx, s.name, s.sql); err != nil {
			return err
		}
	}
	for id := i + 1; !ended.Load(); id += connections {
		n := int64(id%200000 + 1)
		partition := "p" + strconv.FormatInt(n%1000, 10)
		var b pgx.Batch // one implicit transaction
		b.Queue("ack", n)
		b.Queue("count", partition, int64(1))
		b.Queue("push", partition, `{"n":1}`)
		start := time.Now()
		if err := c.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		done.Add(1)
		if counting.Load() {
			*took = append(*took, time.Since(start))
		}
	}
	return nil
}
