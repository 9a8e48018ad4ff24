package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	http, kafka string
	rounds      int
	within      time.Duration
	group       bool
}

func main() {
	var o options
	flag.StringVar(&o.http, "http", "127.0.0.1:6632", "address of the node's HTTP port")
	flag.StringVar(&o.kafka, "kafka", "127.0.0.1:9092", "address of the node's Kafka port")
	flag.IntVar(&o.rounds, "rounds", 200, "queues that come into being")
	flag.DurationVar(&o.within, "within", time.Second, "time from the push to the record")
	flag.BoolVar(&o.group, "group", false, "subscribe as a consumer group; start the node with --kafka-group-join-delay 0s")
	flag.Parse()
	var took []time.Duration
	run := time.Now().UnixNano()
	for i := range o.rounds {
		d, err := o.round(fmt.Sprintf("instant-%d-%d", run, i))
		if err != nil {
			fmt.Fprintf(os.Stderr, "round %d: %v\n", i, err)
			os.Exit(1)
		}
		took = append(took, d)
	}
	slices.Sort(took)
	late := len(took) - len(slices.DeleteFunc(slices.Clone(took), func(d time.Duration) bool { return d > o.within }))
	fmt.Printf("%d rounds: p50 %v, p99 %v, slowest %v; %d later than %v\n", len(took), took[len(took)/2].Round(time.Millisecond),
		took[len(took)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), late, o.within)
	if late > 0 {
		os.Exit(1)
	}
}

// round pushes and subscribes at once, and tells how long after the later of both the record was seen.
func (o *options) round(queue string) (time.Duration, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(o.kafka), kgo.ConsumeTopics(queue), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(20 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond)}
	if o.group {
		opts = append(opts, kgo.ConsumerGroup(queue))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var pushed error
	var both sync.WaitGroup
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
		return 0, pushed
	case got.Err() != nil:
		return 0, got.Err()
	case got.NumRecords() != 1:
		return 0, fmt.Errorf("%d records", got.NumRecords())
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
