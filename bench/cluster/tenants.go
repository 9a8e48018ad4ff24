package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// settle names the tenants and makes what has to be there before the load.
func (w *crew) settle() error {
	deadline := time.AfterFunc(time.Minute, func() { w.over.Store(true) })
	defer deadline.Stop()
	k := w.client(0)
	if err := w.place(k); err != nil {
		return err
	}
	for t := range w.h.tenants {
		k.tenant = t
		if !k.insist(200, "POST", "/api/v1/configure", map[string]any{"queue": poisonQueue, "options": map[string]any{"retryLimit": poisonRetries}}, nil) {
			return errors.New("a queue could not be made within a minute")
		}
	}
	if w.h.kafka != nil {
		k.tenant = 0
		if !k.insist(200, "POST", "/api/v1/configure", map[string]any{"queue": natTopic, "options": map[string]any{"kafkaPartitions": topicLanes}}, nil) {
			return errors.New("a queue could not be made within a minute")
		}
		return w.createTopics()
	}
	return nil
}

// place names tenants so that each raft group holds one in turn, the first of which is the default tenant in group 1. A
// cluster puts a new tenant where the fewest are, so names are tried until one falls into the group that is next.
func (w *crew) place(k *client) error {
	rng := rand.New(rand.NewPCG(w.o.seed, 7))
	for t := 1; t < len(w.h.tenants); t++ {
		want := t%max(w.o.groups, 1) + 1
		for tries := 0; w.h.tenants[t] == ""; tries++ {
			if tries == 100 {
				return fmt.Errorf("no tenant of 100 came into raft group %d", want)
			}
			name := fmt.Sprintf("%08x-0000-4000-8000-%012x", rng.Uint32(), rng.Uint64()>>16)
			group, err := w.groupOf(k, name)
			if err != nil {
				return err
			}
			if group == want {
				w.h.tenants[t] = name
			}
		}
	}
	return nil
}

// groupOf is the raft group that a tenant is in, by the number of a partition of its.
func (w *crew) groupOf(k *client, tenant string) (int, error) {
	item := map[string]any{"items": []any{map[string]any{"queue": "placed", "partition": "p", "transactionId": "1", "payload": 1}}}
	for k.as(tenant, "POST", "/api/v1/push", item, nil) != 201 {
		if w.over.Load() {
			return 0, errors.New("a tenant could not push within a minute")
		}
		k.elsewhere()
	}
	for {
		var got struct{ PartitionID string }
		// A group of its own each time: a message that was committed on delivery is not given again.
		path := fmt.Sprintf("/api/v1/pop/queue/placed?consumerGroup=placed%d&subscriptionMode=all&autoAck=true&wait=true&timeout=1000", k.r.Uint32())
		if k.as(tenant, "GET", path, nil, &got) == 200 {
			id, err := strconv.ParseUint(got.PartitionID, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("the id of a partition is %q", got.PartitionID)
			}
			return int(id & 63), nil
		}
		if w.over.Load() {
			return 0, errors.New("a tenant could not pop within a minute")
		}
		k.elsewhere()
	}
}
