package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"queen/bench/internal/cell"
	"queen/bench/internal/floor"
	"queen/bench/internal/load"
	"queen/bench/internal/report"
)

// measured is one cell: a target with one size of batch.
type measured struct {
	target string // as --targets has it
	name   string // with what else tells it apart
	batch  int
	groups int    // of nodes
	way    string // of publishing to NATS
	report *report.Report
	err    error
}

// cells are what is asked for, in the order of the table.
func (o *options) cells() (all []*measured) {
	for _, batch := range o.batches {
		for _, target := range o.targets {
			switch target {
			case "one":
				all = append(all, &measured{target: target, name: "one node", batch: batch, groups: 1})
			case "three":
				for _, groups := range o.groups {
					name := "three nodes"
					if groups > 1 {
						name = fmt.Sprintf("three nodes, %d raft groups", groups)
					}
					all = append(all, &measured{target: target, name: name, batch: batch, groups: groups})
				}
			case "nats":
				for _, way := range waysOf(batch) {
					all = append(all, &measured{target: target, name: "NATS R3, " + way, batch: batch, way: way})
				}
			}
		}
	}
	return all
}

func (c *measured) measure(ctx context.Context, o *options) (*report.Report, error) {
	dir, err := report.TempDir(o.data)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	switch c.target {
	case "one":
		return c.queen(ctx, o, dir, 1)
	case "three":
		return c.queen(ctx, o, dir, 3)
	}
	return o.peer.measure(ctx, o, c, dir)
}

// queen loads nodes of ours, one tenant for each raft group.
func (c *measured) queen(ctx context.Context, o *options, dir string, count int) (*report.Report, error) {
	n, err := startNodes(o.binary, dir, count, c.groups)
	if err != nil {
		return nil, err
	}
	defer n.kill()
	var loads []load.Options
	for g := range c.groups {
		l := o.load
		l.Batch = c.batch
		l.Partitions, l.Producers, l.Consumers = share(l.Partitions, c.groups), share(l.Producers, c.groups), share(l.Consumers, c.groups)
		l.Backlog /= int64(c.groups)
		target := &load.HTTP{Addrs: n.addrs()}
		if c.groups > 1 {
			target.Tenant = tenants[g]
		}
		l.Target = target
		loads = append(loads, l)
	}
	if c.groups > 1 {
		if err := n.place(c.groups); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, n.logs())
		}
	}
	r, err := cell.Measure(ctx, cell.Options{Name: "replicas " + c.name, Loads: loads, Processes: n.processes(), Replicas: count, Dir: dir,
		Reserved: n.reserved})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, n.logs())
	}
	return r, nil
}

// share is the part of each, rounded up.
func share(n, parts int) int { return (n + parts - 1) / parts }

// measureFloor measures what the disk allows in this minute.
func measureFloor(o *options) ([]*floor.Result, error) {
	if err := os.MkdirAll(o.data, 0o755); err != nil {
		return nil, err
	}
	f, err := floor.Create(o.data)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []*floor.Result
	for _, size := range []int{4 << 10, 100 << 10} {
		r, err := f.Measure(size, time.Second)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
