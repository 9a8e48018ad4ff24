package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"queen/bench/internal/ceiling"
	"queen/bench/internal/kafkaload"
	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

type options struct {
	load       kafkaload.Options
	out, data  string
	partitions []int
	targets    []string
	addr       string
	topic      string
	pid        int
	lib, heap  string
	binary     func() (string, error) // of the node, built when it is first asked for
	nodeArgs   []string
	overload   bool
	factor     float64
	soak       time.Duration
	p99        time.Duration
	growth     float64
	asJSON     bool
	quiet      bool
}

// collectorPercent lets the loader, and the process that only answers, collect seldom: they are not what is measured.
const collectorPercent = 400

func main() {
	o := options{load: kafkaload.Defaults()}
	l := &o.load
	partitions := flag.String("partitions", "200,1000,10000", "numbers of partitions")
	targets := flag.String("targets", "queen,ceiling,kafka,kafka-flush", "what is measured, of "+strings.Join(targetNames, ", "))
	flag.StringVar(&o.out, "out", "bench/out", "directory for programs and jars")
	flag.StringVar(&o.data, "data", "", "directory for data, on the disk to be measured; default is --out")
	flag.StringVar(&o.addr, "addr", "", "address of the broker of the target running")
	flag.IntVar(&o.pid, "pid", 0, "process of the target running, on this machine; 0 leaves out what it cost")
	flag.StringVar(&o.topic, "topic", "", "topic of the target running that exists, has the partitions and no record")
	flag.StringVar(&o.lib, "kafka-lib", "", "directory with the jars of Apache Kafka; default is kafka-java/lib in --out, filled by Maven")
	flag.StringVar(&o.heap, "kafka-heap", "1g", "heap of Apache Kafka, as its own start script gives it")
	nodeArgs := flag.String("node-args", "", "further arguments of queen serve, separated by spaces")
	flag.StringVar(&l.Group, "group", "", "consume as a consumer group of this name")
	flag.IntVar(&l.Size, "size", l.Size, "bytes of a value")
	flag.IntVar(&l.Batch, "batch", l.Batch, "records written to one partition at a time")
	flag.BoolVar(&l.Merge, "merge", false, "let clients merge what waits for one partition into larger record batches")
	flag.DurationVar(&l.Linger, "linger", l.Linger, "how long a client waits for more records")
	flag.IntVar(&l.Producers, "producers", l.Producers, "clients that produce")
	flag.IntVar(&l.Consumers, "consumers", l.Consumers, "clients that consume")
	flag.IntVar(&l.InFlight, "in-flight", l.InFlight, "unanswered records of all producers")
	flag.Float64Var(&l.Rate, "rate", 0, "records a second, open loop; 0 is as fast as it goes")
	flag.Int64Var(&l.Backlog, "backlog", l.Backlog, "unconsumed records at which producers wait when there is no rate")
	flag.BoolVar(&l.Fill, "fill", l.Fill, "write a record to every partition before time counts")
	flag.DurationVar(&l.Warmup, "warmup", l.Warmup, "time before counting")
	flag.DurationVar(&l.Duration, "duration", l.Duration, "time counted")
	flag.DurationVar(&l.Window, "window", l.Window, "width of a window")
	flag.DurationVar(&l.Retention, "retention", 0, "retention of the topic; 0 keeps everything, and with --soak a minute")
	flag.DurationVar(&l.Drain, "drain", l.Drain, "time for the rest at the end")
	flag.DurationVar(&l.Setup, "setup", l.Setup, "time for the creation of the topic, for the group and for filling, each")
	flag.BoolVar(&o.overload, "overload", false, "offer more than the capacity")
	flag.Float64Var(&o.factor, "factor", 2, "multiple of the capacity offered by --overload")
	flag.DurationVar(&o.soak, "soak", 0, "run that long and judge memory and windows; only queen and 1,000 partitions unless named")
	flag.DurationVar(&o.p99, "soak-p99", 500*time.Millisecond, "largest p99 of a produce in any window of --soak")
	flag.Float64Var(&o.growth, "soak-growth", 0.01, "growth of memory a minute in --soak has to be below this share")
	flag.BoolVar(&o.asJSON, "json", false, "print one JSON object per cell instead of tables")
	flag.BoolVar(&o.quiet, "quiet", false, "no windows on standard error")
	answer := flag.String("answer-at", "", "be the target ceiling: listen at an address until the process is ended")
	flag.Parse()
	debug.SetGCPercent(collectorPercent)
	o.nodeArgs = strings.Fields(*nodeArgs)
	if err := o.settle(*partitions, *targets); err != nil {
		report.Fail("kafka", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if *answer != "" {
		if err := answerAt(ctx, *answer); err != nil {
			report.Fail("kafka", err)
		}
		return
	}
	code, err := run(ctx, &o)
	if err != nil {
		report.Fail("kafka", err)
	}
	os.Exit(code)
}

// settle makes options of flags that depend on each other.
func (o *options) settle(partitions, targets string) error {
	named := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { named[f.Name] = true })
	if o.soak > 0 {
		if o.overload {
			return fmt.Errorf("--soak and --overload are runs of their own")
		}
		o.load.Duration = o.soak
		if width := o.load.Window; o.soak < 2*width {
			return fmt.Errorf("--soak %v: growth needs two windows of %v", o.soak, width)
		}
		if !named["warmup"] {
			o.load.Warmup = time.Minute
		}
		if !named["retention"] {
			o.load.Retention = time.Minute // at full speed a disk is full otherwise
		}
		if !named["targets"] {
			targets = "queen"
		}
		if !named["partitions"] {
			partitions = "1000"
		}
	}
	for _, text := range strings.Split(partitions, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return fmt.Errorf("--partitions %q: want positive numbers, separated by commas", text)
		}
		o.partitions = append(o.partitions, n)
	}
	for _, name := range strings.Split(targets, ",") {
		name = strings.TrimSpace(name)
		if targetByName(name) == nil {
			return fmt.Errorf("--targets %q: there are %s", name, strings.Join(targetNames, ", "))
		}
		if name == "running" && o.soak > 0 && o.pid == 0 {
			return fmt.Errorf("--soak judges the memory of the target running: it needs --pid")
		}
		o.targets = append(o.targets, name)
	}
	var err error
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if o.data == "" {
		o.data = o.out
	}
	if o.data, err = filepath.Abs(o.data); err != nil {
		return err
	}
	if o.lib == "" {
		o.lib = filepath.Join(o.out, "kafka-java", "lib")
	}
	o.binary = sync.OnceValues(func() (string, error) { return node.Build(filepath.Join(o.out, "queen")) })
	return nil
}

// run measures every cell and prints; the code is that of the process.
func run(ctx context.Context, o *options) (code int, err error) {
	t := &table{o: o}
	if !o.asJSON {
		fmt.Printf("%s, load %.1f, commit %s\n\n", time.Now().UTC().Format(time.RFC3339), procfs.Load(), commit())
	}
	for _, n := range o.partitions {
		for _, name := range o.targets {
			c := measure(ctx, o, name, n)
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			t.cells = append(t.cells, c)
			if c.err != nil {
				fmt.Fprintf(os.Stderr, "%s, %d partitions: %v\n", name, n, c.err)
			}
		}
	}
	t.print(os.Stdout)
	return t.code(), nil
}

// answerAt is the process of the target ceiling.
func answerAt(ctx context.Context, addr string) error {
	s, err := ceiling.Listen(addr, ceiling.Options{})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return s.Close()
}

// commit is what was measured, with a mark when the tree differs from it.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
