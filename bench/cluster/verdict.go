package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"queen/bench/internal/nodes"
	"queen/bench/internal/report"
)

// endWithin bounds what comes before and behind the load: to start the nodes, to end the last fault, to let everything be consumed, to judge.
const endWithin = 15 * time.Minute

// limit is how long the whole run may take.
func (o *options) limit() time.Duration {
	limit := o.seconds + endWithin + time.Duration(o.failovers+o.transfers)*30*time.Second
	if o.each {
		limit += time.Duration(len(o.kinds())) * 2 * time.Minute
	}
	return limit
}

// running is a run that goes on.
type running struct {
	nodes *nodes.Cluster
	crew  *crew
}

// verdict is a run that ends with one, whatever it is that does not come to an end.
func verdict(ctx context.Context, o *options) (*report.Report, error) {
	type ending struct {
		r   *report.Report
		err error
	}
	var at atomic.Pointer[running]
	ended := make(chan ending, 1)
	go func() {
		r, err := run(ctx, o, &at)
		ended <- ending{r, err}
	}()
	select {
	case e := <-ended:
		return e.r, e.err
	case <-time.After(o.limit()):
		return o.hangs(at.Load()), nil
	}
}

// hangs is the verdict about a run that does not come to an end: what was found until then, and what tells where it stands. Its nodes end with it.
func (o *options) hangs(at *running) *report.Report {
	r := &report.Report{Program: "cluster", Conditions: o.conditions()}
	why := fmt.Errorf("the run did not end within %v", o.limit())
	r.Violate("%v", why)
	if at == nil {
		r.Violate("its nodes did not start; their logs are below %s", o.dir)
		return r
	}
	h := at.crew.h
	for _, line := range at.crew.explain(why) {
		r.Violate("%s", line)
	}
	before := len(r.Violations)
	h.tell(r)
	o.found = r.Violations[before:]
	at.nodes.Dump()
	if o.broken != "" {
		o.turn(r, h.acked.Load())
	}
	return r
}

// conditions are what a run was made under.
func (o *options) conditions() string {
	return fmt.Sprintf("%s, %d nodes, %d raft groups, %d tenants, seed %d", o.faults, o.nodes, o.groups, o.tenants, o.seed)
}
