package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"queen/bench/internal/node"
	"queen/bench/internal/report"
	"queen/bench/kafka/internal/broker"
)

type options struct {
	ours, other, name string
	against           string
	out, lib          string
	all               bool
}

func main() {
	var o options
	flag.StringVar(&o.ours, "ours", "", "HOST:PORT of a new node; empty starts one")
	flag.StringVar(&o.other, "other", "", "HOST:PORT of a new broker of another implementation; empty starts what --against names")
	flag.StringVar(&o.name, "name", "kafka", "the implementation at --other, as judged.txt names it")
	flag.StringVar(&o.against, "against", "kafka,kfake", "implementations that are started, of kafka, kfake")
	flag.StringVar(&o.out, "out", "bench/out", "directory for programs, jars and data")
	flag.StringVar(&o.lib, "kafka-lib", "", "directory with the jars of Apache Kafka; default is kafka-java/lib in --out, filled by Maven")
	flag.BoolVar(&o.all, "all", false, "list judged differences, too, with their reasons")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	bad, err := run(&o)
	if err != nil {
		report.Fail("compare", err)
	}
	if bad > 0 {
		os.Exit(1)
	}
}

// run compares with one implementation after another.
func run(o *options) (bad int, err error) {
	if o.out, err = filepath.Abs(o.out); err != nil {
		return 0, err
	}
	if o.lib == "" {
		o.lib = filepath.Join(o.out, "kafka-java", "lib")
	}
	if o.other != "" {
		return o.compareWith(o.name)
	}
	names := strings.Split(o.against, ",")
	if o.ours != "" && len(names) > 1 {
		return 0, errors.New("--ours is new only once: name one implementation with --against")
	}
	for _, name := range names {
		fmt.Printf("== %s\n", name)
		n, err := o.compareWith(name)
		if err != nil {
			return 0, err
		}
		bad += n
	}
	return bad, nil
}

// compareWith compares new sides, and tells how much is not as it should be.
func (o *options) compareWith(name string) (bad int, err error) {
	dir, err := report.TempDir(o.out)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ours, other := o.ours, o.other
	if ours == "" {
		binary, err := node.Build(filepath.Join(o.out, "queen"))
		if err != nil {
			return 0, err
		}
		n, err := startNode(binary, dir)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, n.Stop()) }()
		ours = n.Kafka
	}
	if other == "" {
		addr, stop, err := o.start(name, dir)
		if err != nil {
			return 0, err
		}
		defer stop()
		other = addr
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	c, err := compare(ctx, ours, other)
	if err != nil {
		return 0, err
	}
	return tell(os.Stdout, c, name, o.all, o.other == "")
}

// startNode runs a node of this tree as it is compared: groups do not wait for further members, and topics are made with two partitions
// where none are said.
func startNode(binary, dir string) (*node.Node, error) {
	return node.Start(node.Options{Binary: binary, Data: filepath.Join(dir, "node"), Kafka: "127.0.0.1:0",
		Args: []string{"--kafka-group-join-delay", "0s", "--kafka-default-partitions", "2"}})
}

// start runs another implementation on loopback.
func (o *options) start(name, dir string) (addr string, stop func(), err error) {
	switch name {
	case "kfake":
		cl, addr, err := startFake()
		if err != nil {
			return "", nil, err
		}
		return addr, cl.Close, nil
	case "kafka":
		b, err := broker.Apache(broker.ApacheOptions{Lib: o.lib, Heap: "512m", Dir: dir, Settings: []string{"num.partitions=2", "log.retention.ms=-1"}})
		if err != nil {
			return "", nil, err
		}
		return b.Addr, b.Kill, nil
	}
	return "", nil, fmt.Errorf("--against %q: there are kafka and kfake", name)
}

// startFake runs kfake on loopback.
func startFake() (*kfake.Cluster, string, error) {
	cl, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(2))
	if err != nil {
		return nil, "", err
	}
	return cl, cl.ListenAddrs()[0], nil
}

// tell writes differences and failures and returns how many count: what nobody judged, what our side got wrong in plays, and, when strict,
// judgements about nothing.
func tell(out io.Writer, c *comparison, implementation string, all, strict bool) (bad int, err error) {
	table, err := judgements(judgedText, implementation)
	if err != nil {
		return 0, err
	}
	judged, unjudged, unused := 0, 0, 0
	for _, id := range c.order {
		d := c.found[id]
		if j := judge(table, d); j != nil {
			if judged++; all {
				fmt.Fprintf(out, "judged: %v\n        %s\n", d, j.reason)
			}
			continue
		}
		unjudged++
		fmt.Fprintf(out, "NOT JUDGED: %v\n", d)
	}
	for _, what := range c.failures {
		fmt.Fprintf(out, "FAILED: %s\n", what)
	}
	for _, j := range table {
		if !j.used && !j.sometimes {
			unused++
			fmt.Fprintf(out, "MATCHES NOTHING: %s %s %s\n", j.key, j.name, j.path)
		}
	}
	fmt.Fprintf(out, "%d requests in every version that both serve; %d differences judged, %d not; %d steps of plays failed; %d judgements about "+
		"nothing; only we serve %s\n", c.asked, judged, unjudged, len(c.failures), unused, strings.Join(c.unshared, ", "))
	bad = unjudged + len(c.failures)
	if strict {
		bad += unused
	}
	return bad, nil
}
