package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// servers are the nodes as clients see them: a nodes.Cluster.
type servers interface {
	Len() int
	// Up reports that a node runs.
	Up(i int) bool
	// URL is where it serves HTTP, Kafka the address where it serves Kafka's clients.
	URL(i int) string
	Kafka(i int) string
}

// client speaks for one tenant to one node at a time, and to the next one after a failure.
type client struct {
	c           servers
	h           *history
	at          int
	tenant      int
	number      int    // of the client
	idempotency string // of the next calls; "" for none
	http        *http.Client
	r           *rand.Rand
	over        *atomic.Bool // set when the run is given up; nil where nobody gives it up
}

func newClient(c servers, h *history, seed uint64, number int) *client {
	return &client{c: c, h: h, at: number % c.Len(), number: number, r: rand.New(rand.NewPCG(seed, uint64(number))),
		http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
}

// call returns status 0 for an answer that did not come.
func (k *client) call(method, path string, body any, out any) int {
	return k.as(k.h.tenants[k.tenant], method, path, body, out)
}

// as calls for a tenant by name.
func (k *client) as(tenant, method, path string, body any, out any) int {
	var b []byte
	if body != nil {
		b, _ = json.Marshal(body) // our own structs
	}
	req, err := http.NewRequest(method, k.c.URL(k.at)+path, bytes.NewReader(b))
	if err != nil {
		panic(err)
	}
	if tenant != "" {
		req.Header.Set("x-queen-tenant", tenant)
	}
	if k.idempotency != "" {
		req.Header.Set("Idempotency-Key", k.idempotency)
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
		if out != nil {
			if err := json.Unmarshal(text, out); err != nil {
				k.h.violate("unexpected answer: %s %s: %v: %.300s", method, path, err, text)
				return 0
			}
		}
	case 204, 409, 429, 502, 503, 504, 507:
	default:
		k.h.violate("unexpected answer: %s %s: %d %.300s", method, path, res.StatusCode, text)
	}
	return res.StatusCode
}

// elsewhere turns to another node, after a moment.
func (k *client) elsewhere() {
	k.at = (k.at + 1) % k.c.Len()
	k.pause(20, 50)
}

// pause waits for so many milliseconds.
func (k *client) pause(from, to int) {
	time.Sleep(time.Duration(from)*time.Millisecond + time.Duration(k.r.Int64N(int64(to-from)*int64(time.Millisecond))))
}

// insist calls until the answer has a status, anywhere; false when the run is over before.
func (k *client) insist(status int, method, path string, body, out any) bool {
	for {
		if k.call(method, path, body, out) == status {
			return true
		}
		if k.over != nil && k.over.Load() {
			return false
		}
		k.elsewhere()
	}
}

// popped is a message as a pop gives it; w and n are what its payload says.
type popped struct {
	ID, TransactionID, PartitionID, Partition, LeaseID string
	Offset                                             int64
	CreatedAt                                          time.Time
	Data                                               json.RawMessage

	w, n int
}

// parcel is what a pop gave of one lane, in order.
type parcel struct {
	l        *lane
	lease    string
	messages []popped
}

// pop takes what a queue has for the group, and judges it; false says that the node did not answer.
func (k *client) pop(queue string, batch, partitions int) (parcels []parcel, answered bool) {
	asked := k.h.now()
	var got struct{ Messages []popped }
	status := k.call("GET", "/api/v1/pop/queue/"+queue+"?consumerGroup=g&subscriptionMode=all&wait=true&timeout=1000&batch="+
		strconv.Itoa(batch)+"&partitions="+strconv.Itoa(partitions)+"&leaseSeconds="+strconv.Itoa(leaseSeconds), nil, &got)
	came := k.h.now()
	if status != 200 {
		return nil, status == 204
	}
	k.h.delivered.Add(int64(len(got.Messages)))
	for _, m := range got.Messages {
		l := k.h.lanes[place{k.tenant, queue, m.Partition}]
		if l == nil {
			k.h.violate("tenant %d: a pop of %s gave a message of partition %s, into which nobody wrote", k.tenant, queue, m.Partition)
			continue
		}
		if n := len(parcels); n == 0 || parcels[n-1].l != l {
			parcels = append(parcels, parcel{l: l, lease: m.LeaseID})
		}
		p := &parcels[len(parcels)-1]
		k.h.check(k.look(l, &m))
		if n := len(p.messages); n > 0 && (p.messages[n-1].Offset+1 != m.Offset || p.lease != m.LeaseID) {
			k.h.violate("%v: a pop gave offset %d under lease %s behind %d under lease %s", l, m.Offset, m.LeaseID, p.messages[n-1].Offset, p.lease)
		}
		p.messages = append(p.messages, m)
	}
	for i := range parcels {
		p := &parcels[i]
		k.h.check(p.l.taking.deliver(p.l, p.lease, p.messages[0].Offset, p.messages[len(p.messages)-1].Offset, asked, came)...)
	}
	return parcels, true
}

// look judges one message by itself.
func (k *client) look(l *lane, m *popped) error {
	if id, err := strconv.ParseUint(m.PartitionID, 10, 64); err != nil {
		k.h.violate("%v: the id of its partition is %q", l, m.PartitionID)
	} else {
		k.h.check(l.inGroup(int(id & 63))) // the lowest bits of the id of a partition are its raft group
	}
	k.h.check(k.h.sane(l, m.CreatedAt, time.Now()))
	if len(l.sent) == 0 {
		return nil // its messages are not numbered
	}
	var err error
	m.w, m.n, err = l.parse(m.Offset, m.Data)
	if err != nil {
		return err
	}
	return l.see(m.w, m.n, m.Offset)
}

// parse reads a payload as native readers get it.
func (l *lane) parse(offset int64, data []byte) (w, n int, err error) {
	body := data
	if l.kafka {
		body = fromRecord(data)
	}
	w, n, ok := parsePayload(body)
	if !ok {
		return 0, 0, badPayload(l, offset, data)
	}
	return w, n, nil
}

// outcome is what became of an ack.
type outcome int

const (
	lost    outcome = iota // nobody knows
	refused                // nothing
	done                   // what it says
	filed                  // the message is a dead letter
)

// ack tells the server what became of a message.
func (k *client) ack(p *parcel, m *popped, status, reason string) outcome {
	p.l.taking.sending(p.lease, m.Offset, status != "completed", k.h.now())
	o := k.tellAck(p, m, status, reason)
	switch {
	case o == done && status == "completed", o == filed:
		p.l.taking.done(m.Offset, k.h.now())
	case o == lost:
		p.l.taking.lost(m.Offset)
	}
	return o
}

// tellAck sends an ack, again elsewhere if no answer comes, as workers do: a repeat is answered as the first was. A refusal
// of the message is not repeated.
func (k *client) tellAck(p *parcel, m *popped, status, reason string) outcome {
	body := map[string]any{"transactionId": m.TransactionID, "partitionId": m.PartitionID, "leaseId": p.lease, "consumerGroup": "g", "status": status}
	if reason != "" {
		body["error"] = reason
	}
	for tries := 0; ; tries++ {
		var out []acked
		code := k.call("POST", "/api/v1/ack", body, &out)
		switch {
		case code == 200 && len(out) == 1 && out[0].Success && out[0].DLQ:
			k.h.acked.Add(1)
			return filed
		case code == 200 && len(out) == 1 && out[0].Success:
			k.h.acked.Add(1)
			return done
		case code == 200 && len(out) == 1 && tries == 0:
			k.h.check(p.l.taking.refused(p.l, p.lease, m.Offset, out[0].Error, k.h.now()))
			return refused
		case code == 200:
			return lost // that a repeat is refused says nothing of the first
		}
		k.elsewhere()
		if tries == 2 || status != "completed" || k.r.IntN(2) == 0 {
			return lost
		}
	}
}

// acked is the answer to one ack.
type acked struct {
	Success, DLQ bool
	Error        string
}
