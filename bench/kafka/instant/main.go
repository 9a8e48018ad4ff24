package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"queen/bench/internal/node"
	"queen/bench/internal/report"
)

type options struct {
	http, kafka  string
	rounds       int
	within       time.Duration
	alone, group bool
	out          string
}

func main() {
	var o options
	flag.StringVar(&o.http, "http", "", "address of a node's HTTP port; empty starts a node")
	flag.StringVar(&o.kafka, "kafka", "", "address of a node's Kafka port; empty starts a node")
	flag.IntVar(&o.rounds, "rounds", 200, "queues that come into being, of each kind")
	flag.DurationVar(&o.within, "within", time.Second, "time from the push to the record")
	flag.BoolVar(&o.alone, "alone", true, "subscribe with a consumer that reads by itself")
	flag.BoolVar(&o.group, "group", true, "subscribe as a consumer group")
	flag.StringVar(&o.out, "out", "bench/out", "directory for the program and the data of a node that is started")
	flag.Parse()
	late, err := run(&o)
	if err != nil {
		report.Fail("instant", err)
	}
	if late > 0 {
		os.Exit(1)
	}
}

// run carries out the rounds and tells how many failed or were late; an error is that there is no node.
func run(o *options) (late int, err error) {
	switch {
	case o.rounds < 1 || !o.alone && !o.group:
		return 0, errors.New("no rounds")
	case (o.http == "") != (o.kafka == ""):
		return 0, errors.New("--http and --kafka go together")
	case o.http == "":
		var stop func() error
		if stop, err = o.start(); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	names := fmt.Sprintf("instant-%d", time.Now().UnixNano())
	for _, group := range []bool{false, true} {
		if group && !o.group || !group && !o.alone {
			continue
		}
		t := &tally{within: o.within}
		for i := range o.rounds {
			took, err := o.round(fmt.Sprintf("%s-%v-%d", names, group, i), group)
			t.add(i, took, err)
		}
		t.print(os.Stdout, map[bool]string{false: "alone", true: "group"}[group])
		late += t.late()
	}
	return late, nil
}

// start runs a node for the rounds.
func (o *options) start() (stop func() error, err error) {
	binary, err := node.Build(filepath.Join(o.out, "queen"))
	if err != nil {
		return nil, err
	}
	dir, err := report.TempDir(o.out)
	if err != nil {
		return nil, err
	}
	n, err := node.Start(node.Options{Binary: binary, Data: filepath.Join(dir, "node"), Kafka: "127.0.0.1:0",
		Args: []string{"--kafka-group-join-delay", "0s"}})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	o.http, o.kafka = n.Addr, n.Kafka
	return func() error { return errors.Join(n.Stop(), os.RemoveAll(dir)) }, nil
}

// round pushes and subscribes at once, and tells how long after both began the record was seen.
func (o *options) round(queue string, group bool) (time.Duration, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(o.kafka), kgo.ConsumeTopics(queue), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(20 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond)}
	if group {
		opts = append(opts, kgo.ConsumerGroup(queue))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var pushed error
	var both sync.WaitGroup
	defer both.Wait()
	start := time.Now()
	both.Go(func() { pushed = o.push(ctx, queue) })
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	got := cl.PollFetches(ctx)
	took := time.Since(start)
	both.Wait()
	switch {
	case pushed != nil:
		return took, pushed
	case got.Err() != nil:
		return took, got.Err()
	case got.NumRecords() != 1:
		return took, fmt.Errorf("%d records", got.NumRecords())
	}
	return took, nil
}

func (o *options) push(ctx context.Context, queue string) error {
	body := `{"items":[{"queue":"` + queue + `","partition":"0","payload":{"n":1}}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+o.http+"/api/v1/push", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("push: %s", resp.Status)
	}
	return nil
}
