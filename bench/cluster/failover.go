package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"queen/bench/internal/nodes"
	"queen/bench/internal/report"
)

// door is one node, asked for one thing after the other.
type door struct {
	c    *nodes.Cluster
	at   int
	http *http.Client
}

func newDoor(c *nodes.Cluster, at int) *door {
	return &door{c: c, at: at, http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}}
}

// call returns the status, 0 for an answer that did not come.
func (d *door) call(method, path string, body any) int {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // our own maps
	}
	req, err := http.NewRequest(method, d.c.URL(d.at)+path, bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	res, err := d.http.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// push pushes a message under an id that it may have been pushed under before.
func (d *door) push(queue, id string) bool {
	item := map[string]any{"queue": queue, "partition": "p", "transactionId": id, "payload": 1}
	return d.call("POST", "/api/v1/push", map[string]any{"items": []any{item}}) == 201
}

// firstOf pushes until it is taken, then pops until there is something.
func (d *door) firstOf(queue string) {
	for !d.push(queue, queue) {
		time.Sleep(5 * time.Millisecond)
	}
	for d.call("GET", "/api/v1/pop/queue/"+queue+"?consumerGroup=g&subscriptionMode=all", nil) != 200 {
		time.Sleep(5 * time.Millisecond)
	}
}

// failover kills the leader some times, and measures how long it takes until every other node has taken a push and has
// given a message to a pop.
func failover(c *nodes.Cluster, times int, r *report.Report) error {
	var all []time.Duration
	rng := rand.New(rand.NewPCG(1, uint64(times)))
	for i := range times {
		done := make(chan error, 1)
		go func() {
			_, err := c.Harm("kill", rng, 3*time.Second)
			done <- err
		}()
		dead, err := killed(c, done)
		if err != nil {
			return fmt.Errorf("kill %d: %w", i+1, err)
		}
		from := time.Now()
		var wg sync.WaitGroup
		took := make([]time.Duration, c.Len())
		for at := range c.Len() {
			if at == dead {
				continue
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				newDoor(c, at).firstOf(fmt.Sprintf("failover-%d-%d", i, at))
				took[at] = time.Since(from)
			}()
		}
		wg.Wait()
		all = append(all, slices.Max(took))
		if err := <-done; err != nil {
			return fmt.Errorf("kill %d: %w", i+1, err)
		}
	}
	slices.Sort(all)
	r.Add("kills of the leader", float64(times), "")
	r.Add("failover, median", all[len(all)/2].Seconds(), "s")
	r.Add("failover, worst", all[len(all)-1].Seconds(), "s")
	return nil
}

// killed waits until a node is gone, and says which.
func killed(c *nodes.Cluster, done <-chan error) (int, error) {
	for {
		for i := range c.Len() {
			if !c.Up(i) {
				return i, nil
			}
		}
		select {
		case err := <-done:
			return 0, errors.Join(err, errors.New("no node was struck"))
		case <-time.After(time.Millisecond):
		}
	}
}

// transfers makes other nodes lead some times, and measures for how long no push was taken meanwhile, on the node where that was longest.
func transfers(c *nodes.Cluster, times int, r *report.Report) error {
	var all []time.Duration
	rng := rand.New(rand.NewPCG(2, uint64(times)))
	for i := range times {
		if c.Leader(1) < 0 {
			return fmt.Errorf("nobody leads before transfer %d", i+1)
		}
		stop := make(chan struct{})
		gaps := make([]time.Duration, c.Len())
		var wg sync.WaitGroup
		for at := range c.Len() {
			wg.Add(1)
			go func() {
				defer wg.Done()
				gaps[at] = newDoor(c, at).pushAll(fmt.Sprintf("transfer-%d-%d", i, at), stop)
			}()
		}
		d, err := c.Harm("transfer", rng, time.Second)
		close(stop)
		wg.Wait()
		switch {
		case err != nil:
			return err
		case d.Bit == "":
			return fmt.Errorf("transfer %d: %s", i+1, d.What)
		}
		all = append(all, slices.Max(gaps))
	}
	slices.Sort(all)
	r.Add("transfers of the lead", float64(times), "")
	r.Add("longest pause of pushes, median", float64(all[len(all)/2].Milliseconds()), "ms")
	r.Add("longest pause of pushes, worst", float64(all[len(all)-1].Milliseconds()), "ms")
	return nil
}

// pushAll pushes until it is stopped and returns the longest time between two pushes that were taken.
func (d *door) pushAll(queue string, stop <-chan struct{}) (longest time.Duration) {
	last := time.Now()
	for n := 0; ; n++ {
		for !d.push(queue, fmt.Sprint(n)) {
			time.Sleep(time.Millisecond)
		}
		longest = max(longest, time.Since(last))
		last = time.Now()
		select {
		case <-stop:
			return longest
		default:
		}
	}
}
