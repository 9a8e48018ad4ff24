package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// A step is one transaction: a message of the source is acked, something is added to its partition's counter, a message
// without an id is pushed into the index, and now and then a timer is scheduled. Nothing of it can hide behind the dedup
// window: a step that took place twice shows twice.

const (
	counters   = "steps" // namespace
	timedEvery = 50      // message whose step schedules a timer
)

// added is what the step of message n adds.
func added(n int) int { return 1 + n%7 }

// sum is what the steps of the first n messages added.
func sum(n int) (all int) {
	for i := range n {
		all += added(i)
	}
	return all
}

func timed(n int) bool { return n%timedEvery == timedEvery-1 }

// stepShot names the timer of a step.
func stepShot(l *lane, n int) shotName { return shotName{Key: fmt.Sprintf("%s-%d", l.partition, n)} }

// steps consumes the source, and is at times a worker that dies before or after a step, or is too slow for its lease.
func (k *client) steps(w *crew) {
	lanes := k.h.of(k.tenant, sourceQueue)
	home := rest{w: w}
	for !home.home(func() bool { return nothingLeft(lanes) }) {
		parcels, answered := k.pop(sourceQueue, 8, 2)
		if !answered {
			k.elsewhere()
		}
		if k.r.IntN(200) == 0 {
			k.pause(leaseSeconds*1000, leaseSeconds*1500)
		}
		for i := range parcels {
			p := &parcels[i]
			for j := range p.messages {
				end := k.r.IntN(200)
				if end == 0 || !k.step(p, &p.messages[j]) || end == 1 {
					break
				}
			}
		}
	}
}

// transacted is the answer to a transaction.
type transacted struct {
	Success       bool
	Reason, Error string
	Results       []struct {
		Type   string
		Offset *int64
	}
}

// step takes one; false when it surely did not take place, or nobody knows.
func (k *client) step(p *parcel, m *popped) bool {
	index := k.h.lanes[place{k.tenant, indexQueue, p.l.partition}]
	body := map[string]any{
		"operations": []any{
			map[string]any{"type": "ack", "transactionId": m.TransactionID, "partitionId": m.PartitionID, "leaseId": p.lease, "consumerGroup": "g"},
			map[string]any{"type": "push", "queue": indexQueue, "partition": index.partition, "payload": json.RawMessage(payload(0, m.n))},
		},
		"kv": []any{map[string]any{"op": "incr", "ns": counters, "key": index.partition, "delta": added(m.n), "forever": true}},
	}
	floor := index.send(0, m.n+1)
	p.l.taking.sending(p.lease, m.Offset, false, k.h.now())
	if timed(m.n) {
		name, delay := stepShot(index, m.n), m.n*37%2000
		k.h.timers[k.tenant].plan(name, k.h.now(), time.Duration(delay)*time.Millisecond)
		body["timers"] = []any{map[string]any{"op": "schedule", "queue": timerQueue, "partition": timerPartition, "timerKey": name.Key,
			"delayMs": delay, "payload": base64.StdEncoding.EncodeToString(name.payload())}}
	}
	var out transacted
	status := k.call("POST", "/api/v1/transaction", body, &out)
	switch {
	case status == 200 && out.Success:
		p.l.taking.done(m.Offset, k.h.now())
		k.h.acked.Add(1)
		for _, r := range out.Results {
			if r.Type == "push" && r.Offset != nil {
				k.h.check(index.tell(0, m.n, *r.Offset, floor))
				return true
			}
		}
		k.h.violate("%v: a step that was committed tells no offset of what it pushed", index)
		return true
	case status == 200 && out.Reason == "rejected_ack":
		k.h.check(p.l.taking.refused(p.l, p.lease, m.Offset, out.Error, k.h.now()))
	case status == 200 && (out.Reason == "unavailable" || out.Reason == "reserved"), status == 429:
	case status == 200:
		k.h.violate("%v: a step was rolled back: %s: %s", p.l, out.Reason, out.Error)
	default:
		p.l.taking.lost(m.Offset)
		k.elsewhere()
	}
	return false
}

// judgeCounters reads the counters by way of the client's node. Every message of a source counts once.
func (k *client) judgeCounters() {
	for _, l := range k.h.of(k.tenant, sourceQueue) {
		var a struct {
			Found bool
			Value int
		}
		if !k.patient(200, "GET", "/api/v1/kv/"+counters+"/"+l.partition, nil, &a) {
			k.h.violate("node %d: a counter can not be read", k.at+1)
			return
		}
		if want := sum(int(l.top())); a.Value != want {
			k.h.violate("node %d: tenant %d: the counter of %s is %d (there: %v), its %d steps added %d", k.at+1, k.tenant, l.partition,
				a.Value, a.Found, l.top(), want)
		}
	}
}
