package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"queen/bench/internal/report"
)

// failover kills the leader some times, and measures how long it takes until every other node has taken a push and has
// given a message to a pop.
func failover(c *cluster, times int, r *report.Report) error {
	h := &history{begin: time.Now(), pushed: make([][]pushRecord, 1)}
	var all []time.Duration
	for i := range times {
		leader := c.leader()
		if leader < 0 {
			return fmt.Errorf("nobody leads before kill %d", i+1)
		}
		n := c.nodes[leader].Swap(nil)
		from := time.Now()
		n.Kill()
		var wg sync.WaitGroup
		took := make([]time.Duration, len(c.nodes))
		for at := range c.nodes {
			if at == leader {
				continue
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				k := newClient(c, h, uint64(i), at)
				k.firstOf(i)
				took[at] = time.Since(from)
			}()
		}
		wg.Wait()
		all = append(all, slices.Max(took))
		if err := c.start(leader); err != nil {
			return err
		}
	}
	slices.Sort(all)
	r.Add("kills of the leader", float64(times), "")
	r.Add("failover, median", all[len(all)/2].Seconds(), "s")
	r.Add("failover, worst", all[len(all)-1].Seconds(), "s")
	return nil
}

// firstOf pushes until it is taken, then pops until there is something, on the same node.
func (k *client) firstOf(round int) {
	queue := fmt.Sprintf("failover-%d-%d", round, k.at)
	item := map[string]any{"items": []any{map[string]any{"queue": queue, "partition": "p", "transactionId": queue, "payload": 1}}}
	for k.call("POST", "/api/v1/push", item, nil) != 201 {
		time.Sleep(5 * time.Millisecond)
	}
	for k.call("GET", "/api/v1/pop/queue/"+queue+"?consumerGroup=g&subscriptionMode=all", nil, nil) != 200 {
		time.Sleep(5 * time.Millisecond)
	}
}
