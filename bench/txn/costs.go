package main

import (
	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

// costs reads what node and loader spend over the time that is counted.
type costs struct{ node, loader cost }

type cost struct {
	process         procfs.Process
	meter           *procfs.Meter
	before, spent   procfs.Reading
	switches, since int64
}

func newCosts(n *node.Node) (*costs, error) {
	c := &costs{node: cost{process: n.PID}, loader: cost{process: procfs.Self()}}
	for _, one := range []*cost{&c.node, &c.loader} {
		var err error
		if one.meter, err = procfs.NewMeter(n.Options.Data, one.process); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *costs) begin() {
	for _, one := range []*cost{&c.node, &c.loader} {
		one.before = one.meter.Read()
		one.since, _ = one.process.Switches()
	}
}

func (c *costs) end() {
	for _, one := range []*cost{&c.node, &c.loader} {
		one.spent = one.meter.Read().Sub(one.before)
		now, _ := one.process.Switches()
		one.switches = now - one.since
	}
}

// report notes what a transaction cost, popping its messages included.
func (c *costs) report(out *report.Report, transactions int64) {
	n := float64(max(transactions, 1))
	for _, one := range []struct {
		name string
		*cost
	}{{"node", &c.node}, {"loader", &c.loader}} {
		out.Add(one.name+" cpu per transaction", float64(one.spent.Usage.CPU.Microseconds())/n, "us")
		out.Add(one.name+" cpu", one.spent.Usage.CPU.Seconds()/one.spent.Elapsed.Seconds(), "cores")
		out.Add(one.name+" task switches per transaction", float64(one.switches)/n, "")
	}
	if disk := c.node.spent; disk.HasDisk {
		out.Add("flushes", float64(disk.Disk.Flushes)/disk.Elapsed.Seconds(), "1/s")
		out.Add("flushes per transaction", float64(disk.Disk.Flushes)/n, "")
		out.Add("disk bytes per transaction", float64(disk.Disk.WriteBytes)/n, "B")
	}
}
