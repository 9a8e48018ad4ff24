package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"queen/bench/internal/nodes"
	"queen/bench/internal/report"
)

// loadOptions say who the clients are.
type loadOptions struct {
	partitions, consumers, keyers int
	kafka                         bool
}

func loadFlags(o *options) {
	flag.IntVar(&o.partitions, "partitions", 8, "partitions, each with its producer")
	flag.IntVar(&o.consumers, "consumers", 6, "consumers of the group")
	flag.IntVar(&o.keyers, "keyers", 4, "clients of the keys")
}

func newHistory(o options) *history {
	return &history{begin: time.Now(), pushed: make([][]pushRecord, o.partitions)}
}

// leaseSeconds is short, so that leases end during faults.
const leaseSeconds = 4

// history is what clients saw. Times are since the start of the run, by one clock.
type history struct {
	begin time.Time
	mu    sync.Mutex
	// pushed is, by partition, what the log has to hold: ids in order, and the offset that was told, -1 for none.
	pushed     [][]pushRecord
	deliveries []delivery
	acks       []ackRecord
	keys       []porcupine.Operation
	acked      atomic.Int64 // operations acknowledged, of any kind
	odd        []string     // answers that no client should get
}

type pushRecord struct {
	id     string
	offset int64
}

type delivery struct {
	partition, id string
	lease         string
	asked, came   time.Duration
}

type ackRecord struct {
	partition, id, lease string
	sent, answered       time.Duration
	ok                   bool
	unknown              bool // no verdict came: it may have counted
}

func (h *history) now() time.Duration { return time.Since(h.begin) }

func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.odd) < 100 {
		h.odd = append(h.odd, fmt.Sprintf(format, args...))
	}
}

// client speaks to one node at a time, and to the next one after a failure.
type client struct {
	c    *nodes.Cluster
	h    *history
	at   int
	http *http.Client
	r    *rand.Rand
}

func newClient(c *nodes.Cluster, h *history, seed uint64, number int) *client {
	return &client{c: c, h: h, at: number % c.Len(), r: rand.New(rand.NewPCG(seed, uint64(number))),
		http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
}

// load runs the clients while faults are done, and then until everything is consumed.
func (o *options) load(c *nodes.Cluster, h *history, r *report.Report, harm func() error) error {
	var stop, drained atomic.Bool
	var makers, takers sync.WaitGroup
	number := 0
	start := func(wg *sync.WaitGroup, f func(*client)) {
		k := newClient(c, h, o.seed, number)
		number++
		wg.Add(1)
		go func() {
			defer wg.Done()
			f(k)
		}()
	}
	for p := range o.partitions {
		start(&makers, func(k *client) { k.produce(p, &stop) })
	}
	for i := range o.keyers {
		start(&makers, func(k *client) { k.key(i, &stop) })
	}
	for range o.consumers {
		start(&takers, func(k *client) { k.consume(&drained) })
	}
	err := harm()
	c.Heal()
	stop.Store(true)
	makers.Wait()
	drained.Store(true)
	done := make(chan struct{})
	go func() { takers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		r.Violate("not everything was consumed within two minutes")
	}
	return err
}

// call returns status 0 for an answer that did not come.
func (k *client) call(method, path string, body any, out any) int {
	var b []byte
	if body != nil {
		b, _ = json.Marshal(body) // our own structs
	}
	req, err := http.NewRequest(method, k.c.URL(k.at)+path, bytes.NewReader(b))
	if err != nil {
		panic(err)
	}
	res, err := k.http.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0
	}
	switch res.StatusCode {
	case 200, 201:
		if out != nil && json.Unmarshal(text, out) != nil {
			k.h.note("%s %s: %s", method, path, text)
			return 0
		}
	case 204, 409, 429, 502, 503, 504, 507:
	default:
		k.h.note("%s %s: %d %s", method, path, res.StatusCode, text)
	}
	return res.StatusCode
}

// elsewhere turns to another node, after a moment.
func (k *client) elsewhere() {
	k.at = (k.at + 1) % k.c.Len()
	time.Sleep(time.Duration(20+k.r.IntN(30)) * time.Millisecond)
}

// produce pushes the messages of one partition, each until it is acknowledged, under one id.
func (k *client) produce(partition int, stop *atomic.Bool) {
	for n := 0; !stop.Load(); n++ {
		id := fmt.Sprintf("%d-%d", partition, n)
		record := pushRecord{id: id, offset: -1}
		for {
			var out []struct {
				Offset json.Number
				Status string
			}
			status := k.call("POST", "/api/v1/push", map[string]any{"items": []any{map[string]any{"queue": "q",
				"partition": fmt.Sprint("p", partition), "transactionId": id, "payload": map[string]any{"n": n}}}}, &out)
			if status == 201 && len(out) == 1 {
				if v, err := out[0].Offset.Int64(); err == nil && out[0].Status == "queued" {
					record.offset = v
				}
				k.h.acked.Add(1)
				break
			}
			if stop.Load() {
				k.h.add(partition, pushRecord{id: id + "?"}) // it may be there
				return
			}
			k.elsewhere()
		}
		k.h.add(partition, record)
	}
}

func (h *history) add(partition int, r pushRecord) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pushed[partition] = append(h.pushed[partition], r)
}

type popAnswer struct {
	Messages []struct {
		TransactionID, PartitionID, LeaseID, Partition string
		Offset                                         json.Number
	}
}

// consume pops and acks for the group until nothing is left and stop is set.
func (k *client) consume(stop *atomic.Bool) {
	for {
		ended := stop.Load()
		asked := k.h.now()
		var got popAnswer
		status := k.call("GET", fmt.Sprintf("/api/v1/pop/queue/q?consumerGroup=g&subscriptionMode=all&batch=10&partitions=4&leaseSeconds=%d&wait=true&timeout=1000",
			leaseSeconds), nil, &got)
		came := k.h.now()
		if status != 200 && status != 204 {
			k.elsewhere()
		}
		if ended && k.h.allAcked() {
			return
		}
		for _, m := range got.Messages {
			k.h.mu.Lock()
			k.h.deliveries = append(k.h.deliveries, delivery{m.Partition, m.TransactionID, m.LeaseID, asked, came})
			k.h.mu.Unlock()
		}
		for _, m := range got.Messages {
			k.ack(m.Partition, m.PartitionID, m.TransactionID, m.LeaseID)
		}
	}
}

func (k *client) ack(partition, pid, id, lease string) {
	r := ackRecord{partition: partition, id: id, lease: lease, sent: k.h.now()}
	var out []struct{ Success bool }
	status := k.call("POST", "/api/v1/ack", map[string]any{"transactionId": id, "partitionId": pid, "leaseId": lease,
		"consumerGroup": "g", "status": "completed"}, &out)
	r.answered, r.ok = k.h.now(), status == 200 && len(out) == 1 && out[0].Success
	if r.ok {
		k.h.acked.Add(1)
	} else if r.unknown = status == 0 || status >= 500; r.unknown {
		k.elsewhere()
	}
	k.h.mu.Lock()
	defer k.h.mu.Unlock()
	k.h.acks = append(k.h.acks, r)
}

// allAcked reports that every acknowledged push was acked.
func (h *history) allAcked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	done := map[string]bool{}
	for i := range h.acks {
		if h.acks[i].ok || h.acks[i].unknown {
			done[h.acks[i].id] = true
		}
	}
	for _, p := range h.pushed {
		for i := range p {
			if id := p[i].id; id[len(id)-1] != '?' && !done[id] {
				return false
			}
		}
	}
	return true
}

// keyInput and keyOutput are one operation on one key; values are unique.
type keyInput struct {
	key   string
	put   bool
	value int
}

type keyOutput struct {
	found   bool
	value   int
	version uint64
	applied bool
	unknown bool
}

// key reads and writes a few keys.
func (k *client) key(number int, stop *atomic.Bool) {
	for n := 0; !stop.Load(); n++ {
		in := keyInput{key: fmt.Sprint("k", k.r.IntN(4)), put: k.r.IntN(2) == 0, value: number*1_000_000 + n}
		call := k.h.now()
		out, sent := k.keyOp(in)
		if !sent {
			k.elsewhere()
			continue
		}
		end := int64(k.h.now())
		if out.unknown {
			end = int64(24 * time.Hour) // it may take effect at any time
			k.elsewhere()
		} else {
			k.h.acked.Add(1)
		}
		k.h.mu.Lock()
		k.h.keys = append(k.h.keys, porcupine.Operation{ClientId: number, Input: in, Call: int64(call), Output: out, Return: end})
		k.h.mu.Unlock()
	}
}

// keyOp does one operation; false when it can not have had an effect, or read nothing.
func (k *client) keyOp(in keyInput) (out keyOutput, counts bool) {
	if !in.put {
		var a struct {
			Found   bool
			Value   int
			Version uint64
		}
		if k.call("GET", "/api/v1/kv/bench/"+in.key, nil, &a) != 200 {
			return out, false
		}
		return keyOutput{found: a.Found, value: a.Value, version: a.Version}, true
	}
	var a struct {
		Applied bool
		Version uint64
	}
	status := k.call("PUT", "/api/v1/kv/bench/"+in.key, map[string]any{"value": in.value, "forever": true}, &a)
	if status != 200 {
		return keyOutput{unknown: true}, true
	}
	return keyOutput{applied: a.Applied, version: a.Version}, true
}
