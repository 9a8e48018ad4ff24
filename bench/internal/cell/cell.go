package cell

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"queen/bench/internal/histo"
	"queen/bench/internal/load"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

// Options say what is measured.
type Options struct {
	Name string
	// Loads run at the same time, with one Warmup, which is above 0, and one Duration; their windows are set here.
	Loads []load.Options
	// Processes are those of the broker, Replicas how many of them store each message. Dir is a directory on their disk.
	Processes []procfs.Process
	Replicas  int
	Dir       string
	// Reserved, when set, is how many bytes of files were written before there was anything to put there.
	Reserved func() (int64, error)
}

// moment is a reading of what the broker spent.
type moment struct {
	procfs.Reading
	reserved int64
	err      error
}

// Measure carries the loads out.
func Measure(ctx context.Context, o Options) (*report.Report, error) {
	meter, err := procfs.NewMeter(o.Dir, o.Processes...)
	if err != nil {
		return nil, err
	}
	var moments []moment
	read := func(load.Window) {
		m := moment{Reading: meter.Read()}
		if o.Reserved != nil {
			m.reserved, m.err = o.Reserved()
		}
		moments = append(moments, m)
	}
	results, errs := make([]*load.Result, len(o.Loads)), make([]error, len(o.Loads))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	for i, l := range o.Loads {
		if l.Warmup <= 0 || l.Duration <= 0 {
			return nil, fmt.Errorf("cell: %v after %v, both have to be above 0", l.Duration, l.Warmup)
		}
		// One window is the warm-up, one what counts: the broker is read at the end of each.
		l.Window = max(l.Warmup, l.Duration)
		if i == 0 {
			l.OnWindow = read
		}
		running.Go(func() {
			if results[i], errs[i] = load.Run(ctx, l); errs[i] != nil {
				cancel() // the others alone would be another load
			}
		})
	}
	running.Wait()
	if err := first(errs); err != nil {
		return nil, err
	}
	if len(moments) != 2 {
		return nil, fmt.Errorf("cell: the broker was read %d times", len(moments))
	}
	if err := errors.Join(moments[0].err, moments[1].err); err != nil {
		return nil, err
	}
	r := &report.Report{Program: o.Name, Conditions: o.conditions()}
	o.fill(r, results, moments[0], moments[1])
	return r, nil
}

// first is the error that the others come of: one that is not of a load that was given up.
func first(errs []error) (err error) {
	for _, e := range errs {
		if e != nil && (err == nil || errors.Is(err, context.Canceled)) {
			err = e
		}
	}
	return err
}

func (o *Options) conditions() string {
	l := &o.Loads[0]
	loads := ""
	if n := len(o.Loads); n > 1 {
		loads = fmt.Sprintf("%d loads, each of ", n)
	}
	return fmt.Sprintf("%s%d partitions, %d producers of %d x %d B, %d consumers, at most %d unconsumed, %v after %v, load %.1f", loads, l.Partitions,
		l.Producers, l.Batch, l.Size, l.Consumers, l.Backlog, l.Duration, l.Warmup, procfs.Load())
}

// Names of the numbers that tables are made of. Bytes are those that processes had written, the disk's those of the whole machine.
const (
	Rate, In, Out = "rate", "push rate", "pop rate"
	PushP50       = "push p50"
	PushP99       = "push p99"
	ArrivalP50    = "arrival p50"
	ArrivalP99    = "arrival p99"
	Flushes       = "flushes per message"
	Written       = "written per payload byte"
	WrittenEach   = "written per payload byte and replica"
	Useful        = "written per payload byte and replica, reserved space left out"
	DiskWritten   = "disk bytes per payload byte"
	CPU           = "cpu per message"
	LoaderCPU     = "loader cpu per message"
)

// fill notes what was measured between two moments.
func (o *Options) fill(r *report.Report, results []*load.Result, from, to moment) {
	pushed := uint64(0)
	var rates [3]float64
	var push, arrival histo.Histogram
	payload := 0.0
	for i, res := range results {
		seconds := res.Elapsed.Seconds()
		for k, n := range []uint64{res.Pushed, res.Popped, res.Acked} {
			rates[k] += float64(n) / seconds
		}
		pushed += res.Pushed
		payload += float64(res.Pushed) * float64(o.Loads[i].Size)
		push.Merge(&res.Push)
		arrival.Merge(&res.Arrival)
		r.Violations = append(r.Violations, res.Violations...)
	}
	r.Add(Rate, min(rates[0], rates[1], rates[2]), "msg/s")
	r.Add(In, rates[0], "msg/s")
	r.Add(Out, rates[1], "msg/s")
	r.Add("ack rate", rates[2], "msg/s")
	r.Latency("push", &push)
	r.Latency("arrival", &arrival)
	spent := to.Sub(from.Reading)
	payload = max(payload, 1)
	written, reserved := float64(spent.Usage.Written), float64(to.reserved-from.reserved)
	r.Spent(spent, pushed)
	r.Add(Written, written/payload, "")
	r.Add(WrittenEach, written/payload/float64(o.Replicas), "")
	if o.Reserved != nil {
		r.Add("reserved", reserved/spent.Elapsed.Seconds()/1e6, "MB/s")
	}
	r.Add(Useful, (written-reserved)/payload/float64(o.Replicas), "")
	if spent.HasDisk {
		r.Add(DiskWritten, float64(spent.Disk.WriteBytes)/payload, "")
	}
	loader := results[0].Loader // all loads are in this process
	r.Add(LoaderCPU, float64(loader.Usage.CPU.Microseconds())/float64(max(pushed, 1)), "us")
	r.Add("loader cpu", loader.Usage.CPU.Seconds()/loader.Elapsed.Seconds(), "cores")
	var c load.Counts
	left := int64(0)
	for _, res := range results {
		c.Refused += res.Counts.Refused
		c.Unanswered += res.Counts.Unanswered
		c.Redelivered += res.Counts.Redelivered
		left += res.Left
	}
	r.Add("refused", float64(c.Refused), "calls")
	r.Add("unanswered", float64(c.Unanswered), "calls")
	r.Add("redelivered", float64(c.Redelivered), "msg")
	r.Add("left", float64(left), "msg")
}
