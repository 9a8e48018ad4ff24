package main

import (
	"encoding/json"
	"fmt"
	"time"

	"queen/bench/internal/report"
)

// judge holds what is there at the end, on every node, against what clients were told, and tells what was found before.
func judge(c servers, h *history, r *report.Report) {
	if h.isBroken() {
		h.patience.most = min(h.patience.most, failedBehind)
	}
	if !h.short {
		h.judgeTaken() // before the nodes are read: what they have beyond what was told is nobody's
	}
	h.judgeKeys()
	for node := range c.Len() {
		if c.Up(node) { // else it ended by itself, which is told elsewhere
			newClient(c, h, 1, node).judgeNode()
		}
	}
	if h.kafka != nil {
		h.judgeKafka(c)
	}
	for node := range c.Len() {
		if h.patience.over(node) {
			h.violate("node %d did not answer the judges as it has to for %v: it was not judged to its end", node+1, h.patience.most)
		}
	}
	h.judgeGroups(r)
	h.tell(r)
	h.count(r)
}

// judgeNode reads what the client's node holds of every tenant, for as long as it is waited for.
func (k *client) judgeNode() {
	var all []func()
	for t := range k.h.tenants {
		all = append(all, func() { k.tenant = t })
		for _, l := range k.h.order {
			if l.tenant == t && len(l.sent) > 0 {
				all = append(all, func() { k.judgeLane(l) })
			}
		}
		if !k.h.short {
			all = append(all, k.judgeCounters, k.judgeLetters)
		}
		all = append(all, k.judgeTimers)
	}
	for _, judge := range all {
		if k.h.patience.over(k.at) {
			return
		}
		judge()
	}
}

// judgeTaken wants all that is in a lane with consumers to have been acked.
func (h *history) judgeTaken() {
	for _, l := range h.order {
		if n := l.left(); n > 0 && consumed(l.queue) {
			h.violate("%v: message at offset %d was never acked, nor are %d behind it", l, l.taking.settled(), n-1)
		}
	}
}

// consumed tells whether a native consumer group reads a queue to its end.
func consumed(queue string) bool {
	switch queue {
	case plainQueue, sourceQueue, poisonQueue, kafTopic:
		return true
	}
	return false
}

// judgeGroups tells how many tenants each raft group holds: none must be without, if there are enough.
func (h *history) judgeGroups(r *report.Report) {
	of := map[int]map[int]bool{}
	for _, l := range h.order {
		if l.group > 0 {
			if of[l.group] == nil {
				of[l.group] = map[int]bool{}
			}
			of[l.group][l.tenant] = true
		}
	}
	for g := 1; g <= h.groups; g++ {
		n := len(of[g])
		r.Add(fmt.Sprint("tenants in raft group ", g), float64(n), "")
		if n == 0 && len(h.tenants) >= h.groups {
			h.violate("no tenant is in raft group %d, so that nothing was asked of it", g)
		}
	}
}

// count tells how much there was of what is judged.
func (h *history) count(r *report.Report) {
	filed, shots, early, late := 0, 0, 0, time.Duration(0)
	for t := range h.tenants {
		filed += h.letters[t].filed
		shots += len(h.timers[t].shots)
		early += h.timers[t].early
		late = max(late, h.timers[t].late)
	}
	messages := map[string]int64{}
	for _, l := range h.order {
		messages[l.queue] += l.top()
	}
	r.Add("deliveries", float64(h.delivered.Load()), "")
	for _, q := range []string{plainQueue, sourceQueue, poisonQueue, natTopic, kafTopic} {
		r.Add("messages of "+q, float64(messages[q]), "")
	}
	r.Add("pushes repeated", float64(h.repeated.Load()), "")
	r.Add("dead letters", float64(filed), "")
	r.Add("timers", float64(shots), "")
	r.Add("timers early, clocks jumping", float64(early), "")
	r.Add("timer that came latest", late.Seconds(), "s")
	r.Add("key operations", float64(h.keys.done), "")
	if h.kafka != nil {
		r.Add("transactions over Kafka", float64(h.kafka.committed.Load()), "")
		r.Add("of those aborted", float64(h.kafka.aborted.Load()), "")
		r.Add("assignments of Kafka's group", float64(h.kafka.assigned.Load()), "")
	}
}

// judgeLane reads a lane from the client's node.
func (k *client) judgeLane(l *lane) {
	reading := l.read(k.at)
	err := k.fetch(l.queue, l.partition, func(r *record) error {
		w, n, err := l.parse(r.Offset, r.Payload)
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("%d-%d", w, n); !l.kafka && l.queue != indexQueue && r.TransactionID != want {
			return fmt.Errorf("%v: offset %d has id %q, and was pushed as %q", l, r.Offset, r.TransactionID, want)
		}
		return reading.take(w, n, r.Offset, r.TS)
	})
	if err == nil {
		if l.queue == sourceQueue && !k.h.short { // what the index has to hold
			k.h.lanes[place{l.tenant, indexQueue, l.partition}].owes(int(reading.at))
		}
		err = reading.end()
	}
	if err != nil {
		k.h.violate("read from node %d: %v", k.at+1, err)
	}
}

// owes notes that the first n messages of its only writer have to be there.
func (l *lane) owes(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[0] = max(l.acked[0], n)
}

// record is a message as a read by offset gives it.
type record struct {
	Offset        int64
	TransactionID string
	Payload       json.RawMessage
	TS            time.Time
}

type fetched struct {
	Error         string
	Records       []record
	HighWatermark int64
}

// fetch reads a partition from the client's node, up to where any node says that it ends. It stops at the first error.
func (k *client) fetch(queue, partition string, visit func(*record) error) error {
	end := k.end(queue, partition)
	if k.h.patience.over(k.at) { // it may be the only one who knows where it ends
		return fmt.Errorf("%s/%s can not be read: the node does not answer", queue, partition)
	}
	for at := int64(0); at < end; {
		asked := time.Now()
		f, ok := k.fetchFrom(k.at, queue, partition, at, 8<<20, 200)
		if (!ok || len(f.Records) == 0) && !k.h.patience.again(k.at, asked) {
			return fmt.Errorf("%s/%s can not be read from offset %d on, another node has %d messages (%s)", queue, partition, at, end, f.Error)
		}
		for i := range f.Records {
			if r := &f.Records[i]; r.Offset < end {
				if err := visit(r); err != nil {
					return err
				}
				at = r.Offset + 1
			} else {
				at = end
			}
		}
	}
	return nil
}

// end is the highest end of a partition that a node tells.
func (k *client) end(queue, partition string) (end int64) {
	for node := range k.c.Len() {
		for k.c.Up(node) && !k.h.patience.over(node) {
			asked := time.Now()
			f, ok := k.fetchFrom(node, queue, partition, 0, 1, 0)
			if ok {
				end = max(end, f.HighWatermark)
				break
			}
			k.h.patience.again(node, asked)
		}
	}
	return end
}

// fetchFrom asks a node once. A queue or partition that it does not know is empty.
func (k *client) fetchFrom(node int, queue, partition string, offset int64, bytes, wait int) (fetched, bool) {
	was := k.at
	k.at = node
	defer func() { k.at = was }()
	var out struct{ Entries []fetched }
	status := k.call("POST", "/api/v1/fetch", map[string]any{"maxWaitMs": wait, "entries": []any{
		map[string]any{"queue": queue, "partition": partition, "offset": offset, "maxBytes": bytes}}}, &out)
	if status != 200 || len(out.Entries) != 1 {
		return fetched{Error: fmt.Sprint("status ", status)}, false
	}
	f := out.Entries[0]
	return f, f.Error == "" || f.Error == "UNKNOWN_TOPIC_OR_PARTITION"
}

// patient calls the client's node until its answer has a status; false when the node is waited for no more.
func (k *client) patient(status int, method, path string, body, out any) bool {
	for asked := time.Now(); k.call(method, path, body, out) != status; asked = time.Now() {
		if !k.h.patience.again(k.at, asked) {
			return false
		}
	}
	return true
}
