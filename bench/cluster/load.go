package main

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/report"
)

// loadOptions say who the clients are; all but the Kafka ones are there once for each tenant.
type loadOptions struct {
	partitions, consumers, keyers, workers int
	kafka                                  bool
}

func loadFlags(o *options) {
	flag.IntVar(&o.partitions, "partitions", 4, "partitions of each tenant that are pushed to; every other one has two producers")
	flag.IntVar(&o.consumers, "consumers", 3, "consumers of each tenant that pop them")
	flag.IntVar(&o.keyers, "keyers", 2, "clients of each tenant's keys")
	flag.IntVar(&o.workers, "workers", 2, "workers of each tenant that take steps")
	flag.BoolVar(&o.kafka, "kafka", true, "load the nodes over Kafka as well, as the default tenant")
}

// crew is who loads the nodes. Makers work until they are stopped; takers until all that was made is taken.
type crew struct {
	c              servers
	h              *history
	o              *options
	stop, made     atomic.Bool // makers are to end; have ended
	over           atomic.Bool // the run is given up, and so is ctx
	ctx            context.Context
	cancel         context.CancelFunc
	makers, takers sync.WaitGroup
	number         int
	dir            string // of the run
	stalled        bool   // it does not come to an end, and was given up
}

func (w *crew) client(tenant int) *client {
	k := newClient(w.c, w.h, w.o.seed, w.number)
	k.tenant, k.over = tenant, &w.over
	w.number++
	return k
}

func (w *crew) maker(tenant int, f func(*client)) {
	k := w.client(tenant)
	w.makers.Go(func() { f(k) })
}

func (w *crew) taker(tenant int, f func(*client)) {
	k := w.client(tenant)
	w.takers.Go(func() { f(k) })
}

// rest finds out when a taker can go home.
type rest struct {
	w     *crew
	empty time.Duration // since when there is nothing left; 0 while there is
}

// home is true once nothing is left and has not been for longer than a lease lasts: an ack that was answered and is not
// kept would show by then.
func (r *rest) home(nothingLeft func() bool) bool {
	now := r.w.h.now()
	switch {
	case r.w.over.Load():
		return true
	case !r.w.made.Load() || !nothingLeft():
		r.empty = 0
	case r.empty == 0:
		r.empty = now
	}
	return r.empty > 0 && now > r.empty+lease+2*time.Second
}

// nothingLeft tells whether a group has settled all that is known of lanes.
func nothingLeft(lanes []*lane) bool {
	for _, l := range lanes {
		if l.left() > 0 {
			return false
		}
	}
	return true
}

// newCrew is a crew of nobody yet. dir is the directory of the run.
func newCrew(c servers, h *history, o *options, dir string) *crew {
	w := &crew{c: c, h: h, o: o, dir: dir}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// load runs the clients while harm is done, which nothing is left of then, and until everything is consumed. What keeps it from that goes into the report.
func (w *crew) load(r *report.Report, harm func() error) error {
	defer w.cancel()
	if err := w.settle(); err != nil {
		return err
	}
	for t := range w.h.tenants {
		w.hire(t)
	}
	w.takers.Go(func() { w.h.keys.judgeOnTheWay(w) })
	if w.h.kafka != nil {
		w.hireKafka()
	}
	err := harm()
	w.stop.Store(true)
	limit := answersMost
	if w.h.isBroken() {
		limit = failedMost
	}
	if !finished(&w.makers, limit) {
		w.stalls(r, fmt.Errorf("a client that writes had no answer %v after the last fault", limit))
	}
	w.made.Store(true)
	if why := w.drain(); why != nil {
		w.stalls(r, why)
		if !finished(&w.takers, homeMost) {
			r.Violate("a client that reads does not end %v after it was told to", homeMost)
		}
	}
	return err
}

// stalls gives the run up, since it does not come to an end, and leaves what tells why.
func (w *crew) stalls(r *report.Report, why error) {
	r.Violate("%v", why)
	if w.stalled {
		return // and what was left when it was given up is known
	}
	w.stalled, w.h.short = true, true
	for _, line := range w.explain(why) {
		r.Violate("%s", line)
	}
	w.giveUp()
}

// giveUp has everybody stop what they wait for.
func (w *crew) giveUp() {
	w.over.Store(true)
	w.cancel()
}

// hire starts the clients of a tenant.
func (w *crew) hire(t int) {
	h, o := w.h, w.o
	for _, l := range h.of(t, plainQueue) {
		for writer := range l.sent {
			w.maker(t, func(k *client) { k.produce(w, l, writer, 0) })
		}
	}
	w.maker(t, func(k *client) { k.repeat(w) })
	w.maker(t, func(k *client) { k.once(w) })
	w.taker(t, func(k *client) { k.tail(w) })
	for range o.consumers {
		w.taker(t, func(k *client) { k.consume(w, plainQueue) })
	}
	for range o.keyers {
		w.maker(t, func(k *client) { k.key(w) })
	}
	for _, l := range h.of(t, sourceQueue) {
		w.maker(t, func(k *client) { k.produce(w, l, 0, 10) })
	}
	for range o.workers {
		w.taker(t, func(k *client) { k.steps(w) })
	}
	for _, l := range h.of(t, poisonQueue) {
		w.maker(t, func(k *client) { k.produce(w, l, 0, 20) })
		w.taker(t, func(k *client) { k.poisoned(w) })
	}
	for i := range 2 {
		w.maker(t, func(k *client) { k.schedule(w, i) })
	}
	w.taker(t, func(k *client) { k.fired(w) })
}
