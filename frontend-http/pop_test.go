package frontendhttp

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
	"queen/frontend-http/wire"
)

// TestPopParameters checks what each query becomes, the recorded ones of the JavaScript client first.
func TestPopParameters(t *testing.T) {
	e := newSink()
	n := startWith(t, Options{Engine: e})
	queue := engine.Scope{Queue: "q"}
	at := format.Wall(time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC).UnixMicro())
	for _, c := range []struct {
		query string
		want  engine.PopRequest
	}{
		{"autopilot=true&wait=true&timeout=30000&consumerGroup=g",
			engine.PopRequest{Group: "g", Autopilot: true, Wait: 30 * time.Second}},
		{"autopilot=true&batch=50&wait=false&timeout=30000", engine.PopRequest{Batch: 50, Autopilot: true}},
		{"batch=50&wait=true&timeout=30000&consumerGroup=g&partitions=4",
			engine.PopRequest{Batch: 50, Partitions: 4, Group: "g", Wait: 30 * time.Second}},
		{"batch=1&wait=false&timeout=30000", engine.PopRequest{Batch: 1}},
		{"", engine.PopRequest{}},
		{"wait=true", engine.PopRequest{Wait: 30 * time.Second}},
		{"wait=true&timeout=3600000", engine.PopRequest{Wait: time.Minute}},
		{"timeout=5", engine.PopRequest{}},
		{"partitions=0", engine.PopRequest{Partitions: 1}},
		{"partitions=-3", engine.PopRequest{Partitions: 1}},
		{"partitions=1000", engine.PopRequest{Partitions: 64}},
		{"autoAck=true", engine.PopRequest{CommitOnDelivery: true}},
		{"commitOnDelivery=true&autoAck=false", engine.PopRequest{CommitOnDelivery: true}},
		{"leaseSeconds=7", engine.PopRequest{Lease: 7 * time.Second}},
		{"leaseSeconds=0", engine.PopRequest{}},
		{"leaseSeconds=-1", engine.PopRequest{}},
		{"consumerGroup=__QUEUE_MODE__", engine.PopRequest{}},
		{"consumerGroup=a+b%2Fc", engine.PopRequest{Group: "a b/c"}},
		{"subscriptionMode=new", engine.PopRequest{Start: engine.Start{Kind: format.StartNew}}},
		{"subscriptionMode=new-only", engine.PopRequest{Start: engine.Start{Kind: format.StartNew}}},
		{"subscriptionMode=all", engine.PopRequest{Start: engine.Start{Kind: format.StartAll}}},
		{"subscriptionMode=from_beginning", engine.PopRequest{Start: engine.Start{Kind: format.StartAll}}},
		{"subscriptionFrom=now", engine.PopRequest{Start: engine.Start{Kind: format.StartNew}}},
		{"subscriptionFrom=2026-11-29T10:00:00Z", engine.PopRequest{Start: engine.Start{Kind: format.StartFrom, From: at}}},
		{"subscriptionFrom=2026-11-29T12:00:00.000%2B02:00&subscriptionMode=all",
			engine.PopRequest{Start: engine.Start{Kind: format.StartFrom, From: at}}},
		{"namespace=ignored&task=ignored&unknown=1", engine.PopRequest{}},
	} {
		n.get("/api/v1/pop/queue/q?" + c.query).is(204)
		got := *e.last.Load()
		if got.Alive == nil {
			t.Errorf("%s: nobody asks whether the client is there", c.query)
		}
		got.Alive = nil
		c.want.Scope = queue
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.query, got, c.want)
		}
	}
	n.get("/api/v1/pop?namespace=a&task=b&wait=true").is(204)
	if got := e.last.Load(); !got.Scope.Discovery || got.Scope.Namespace != "a" || got.Scope.Task != "b" || got.Wait != 0 {
		t.Errorf("discovery: %+v", got)
	}
	n.get("/api/v1/pop/queue/q/partition/").is(204)
	if got := e.last.Load(); !got.Scope.Pinned || got.Scope.Partition != "Default" {
		t.Errorf("pinned: %+v", got)
	}
}

func TestPopRefusals(t *testing.T) {
	n := start(t)
	for _, q := range []string{"batch=abc", "batch=0", "batch=-1", "batch=1.5", "batch=99999999999999999999",
		"batch=9999999999", "partitions=x", "wait=yes", "wait=1", "timeout=-1", "timeout=x", "autoAck=TRUE",
		"leaseSeconds=x", "leaseSeconds=31536001", "subscriptionFrom=yesterday", "conflation=true",
		"conflation=true&consumerGroup=g&autoAck=true", "consumerGroup=%ff", "autopilot=2"} {
		n.get("/api/v1/pop/queue/q?"+q).is(400).equal(`false`, "success").equal(`[]`, "messages")
	}
	n.get("/api/v1/pop").is(400).equal(`"namespace or task is required"`, "error").equal(`[]`, "messages")
	n.get("/api/v1/pop/queue/"+strings.Repeat("q", 450)).is(413).equal(`"name_too_long"`, "code")
	n.get("/api/v1/pop/queue/q?consumerGroup="+strings.Repeat("g", 450)).is(413).equal(`"name_too_long"`, "code")
}

// TestPopAcrossPartitions: one lease, a hard batch over all partitions, every message with its own place.
func TestPopAcrossPartitions(t *testing.T) {
	n := start(t)
	for p := range 3 {
		for i := range 4 {
			n.push1("q", fmt.Sprint("p", p), fmt.Sprintf("t%d%d", p, i), fmt.Sprint(i))
		}
	}
	a := n.get("/api/v1/pop/queue/q?batch=10&partitions=3&consumerGroup=g&subscriptionMode=all").is(200)
	a.equal(`3`, "partitionsClaimed")
	if a.len("messages") != 10 {
		t.Fatalf("%d messages", a.len("messages"))
	}
	next := map[string]int{}
	for i := range 10 {
		p := a.str("messages", i, "partition")
		a.equal(fmt.Sprint(next[p]), "messages", i, "offset").equal(`"g"`, "messages", i, "consumerGroup").
			equal(`"`+a.str("leaseId")+`"`, "messages", i, "leaseId").
			equal(`"`+fmt.Sprintf("t%s%d", p[1:], next[p])+`"`, "messages", i, "transactionId")
		next[p]++
	}
	one := n.get("/api/v1/pop/queue/q?batch=1&wait=false&timeout=30000").is(200)
	one.equal(`1`, "partitionsClaimed").equal(`"__QUEUE_MODE__"`, "consumerGroup")
	all := n.get("/api/v1/pop/queue/q?autopilot=true&consumerGroup=auto&subscriptionMode=all").is(200)
	all.equal(`3`, "partitionsClaimed")
	if !strings.Contains(all.body, `"autopilot":{"partitions":`) {
		t.Error("autopilot chose and does not say so")
	}
	gone := n.get("/api/v1/pop/queue/q?autoAck=true&consumerGroup=amo&subscriptionMode=all&partitions=3").is(200)
	gone.equal(`""`, "leaseId").equal(`""`, "messages", 0, "leaseId").equal(`1`, "messages", 0, "deliveryAttempt")
	n.get("/api/v1/pop/queue/q?consumerGroup=amo&partitions=3").is(204)
}

// park sends a long poll and returns once it waits inside the engine.
func (n *node) park(target string) *client {
	n.t.Helper()
	before := n.f.parked.Load()
	c := n.dial()
	c.send(request("GET", target, ""))
	waitFor(n.t, "the poll to park", func() bool { return n.f.parked.Load() > before })
	return c
}

func TestLongPollWakesOnPush(t *testing.T) {
	n := start(t)
	c := n.park("/api/v1/pop/queue/q?wait=true&timeout=30000&consumerGroup=g")
	n.push1("q", "p", "t", `"woken"`)
	c.receive().is(200).equal(`"woken"`, "messages", 0, "data")
}

func TestLongPollEndsEmpty(t *testing.T) {
	n := start(t)
	began := time.Now()
	n.get("/api/v1/pop/queue/q?wait=true&timeout=300&consumerGroup=g").is(204)
	if took := time.Since(began); took < 250*time.Millisecond {
		t.Errorf("ended after %v of 300 ms", took)
	}
}

// TestHangUpInALongPoll: a client that leaves takes nothing with it; the next one gets the message as a first attempt.
func TestHangUpInALongPoll(t *testing.T) {
	for name, leave := range map[string]func(net.Conn){
		"close": func(c net.Conn) { _ = c.Close() },
		"reset": func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() },
		"half":  func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			c := n.park("/api/v1/pop/queue/q?wait=true&timeout=60000&consumerGroup=g")
			leave(c.Conn)
			waitFor(t, "the park to end", func() bool { return n.f.parked.Load() == 0 })
			n.push1("q", "p", "t", `1`)
			n.get("/api/v1/pop/queue/q?consumerGroup=g").is(200).equal(`1`, "messages", 0, "deliveryAttempt")
		})
	}
}

// deliveryOf is a delivery of one message whose end is told to a channel.
func deliveryOf(payload string, end chan<- bool) *engine.Delivery {
	messages := func(yield func(engine.Delivered, error) bool) {
		yield(engine.Delivered{Record: engine.Record{Payload: []byte(payload), ID: format.UUID{1}, TransactionID: "t", CreatedAt: 1}}, nil)
	}
	return engine.NewDelivery(engine.Delivery{Lease: "l", Claims: []engine.Claimed{{PartitionID: 1, Attempt: 1}}},
		iter.Seq2[engine.Delivered, error](messages), func(ok bool) { end <- ok })
}

// TestAnswerNobodyReads: a claim whose client left between the claim and the answer, or that never reads, is handed
// back; one that is read is delivered.
func TestAnswerNobodyReads(t *testing.T) {
	e := newSink()
	n := startWith(t, Options{Engine: e, Server: wire.ServerOptions{WriteTimeout: 300 * time.Millisecond}})
	claimed, answer, end := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
	payload := `1`
	e.pop = func(_ context.Context, r engine.PopRequest) (*engine.Delivery, error) {
		claimed <- struct{}{}
		<-answer
		return deliveryOf(payload, end), nil
	}
	verdict := func(want bool) {
		t.Helper()
		select {
		case got := <-end:
			if got != want {
				t.Errorf("delivered is %v want %v", got, want)
			}
		case <-time.After(patience):
			t.Fatal("no verdict")
		}
	}
	c := n.dial()
	c.send(request("GET", "/api/v1/pop/queue/q", ""))
	<-claimed
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	answer <- struct{}{}
	verdict(false)

	payload = `"` + strings.Repeat("x", 32<<20) + `"` // beyond what the kernel takes from a writer
	slow := n.dial()
	slow.send(request("GET", "/api/v1/pop/queue/q", ""))
	<-claimed
	answer <- struct{}{}
	verdict(false)

	payload = `1`
	good := n.dial()
	good.send(request("GET", "/api/v1/pop/queue/q", ""))
	<-claimed
	answer <- struct{}{}
	good.receive().is(200)
	good.send(request("GET", "/livez", ""))
	good.receive().is(200)
	verdict(true)
}

// TestBrokenDelivery: an error while messages are read hands the claim back and is told.
func TestBrokenDelivery(t *testing.T) {
	e := newSink()
	n := startWith(t, Options{Engine: e})
	end := make(chan bool, 1)
	e.pop = func(context.Context, engine.PopRequest) (*engine.Delivery, error) {
		return engine.NewDelivery(engine.Delivery{Claims: make([]engine.Claimed, 1)},
			func(yield func(engine.Delivered, error) bool) {
				if yield(engine.Delivered{Record: engine.Record{ID: format.UUID{1}, CreatedAt: 1}}, nil) {
					yield(engine.Delivered{}, &engine.Error{Code: engine.CodeCorrupt, Message: "torn"})
				}
			}, func(ok bool) { end <- ok }), nil
	}
	n.get("/api/v1/pop/queue/q").is(500).equal(`"corrupt"`, "code").equal(`"torn"`, "error")
	if <-end {
		t.Error("called delivered")
	}
}

// TestConflatingAnswers: an empty answer of a conflating group has a body.
func TestConflatingAnswers(t *testing.T) {
	e := newSink()
	n := startWith(t, Options{Engine: e})
	none := func(func(engine.Delivered, error) bool) {}
	e.pop = func(context.Context, engine.PopRequest) (*engine.Delivery, error) {
		return engine.NewDelivery(engine.Delivery{Group: "g", Conflate: true, Conflict: true}, none, func(bool) {}), nil
	}
	n.get("/api/v1/pop/queue/q?consumerGroup=g").is(200).equal(`{"success":true,"queue":"q","partition":"",` +
		`"partitionId":"","leaseId":"","consumerGroup":"g","messages":[],"partitionsClaimed":0,"conflation":true,` +
		`"conflationConflict":true}`)
}

// TestManyParkedPolls parks thousands, wakes one, and answers the rest at shutdown with 204.
func TestManyParkedPolls(t *testing.T) {
	polls := 2500
	if testing.Short() {
		polls = 200
	}
	n := start(t)
	clients := make([]*client, polls)
	for i := range clients {
		clients[i] = n.dial()
		clients[i].send(request("GET", fmt.Sprintf("/api/v1/pop/queue/q%d?wait=true&timeout=60000&consumerGroup=g", i), ""))
	}
	waitFor(t, "all polls to park", func() bool { return n.f.parked.Load() == int64(polls) })
	n.push1("q7", "p", "t", `7`)
	clients[7].receive().is(200).equal(`7`, "messages", 0, "data")
	if got := n.f.parked.Load(); got != int64(polls-1) {
		t.Errorf("%d parked after one push", got)
	}
	n.stop()
	for i, c := range clients {
		if i == 7 {
			continue
		}
		res, err := http.ReadResponse(c.r, nil)
		if err != nil || res.StatusCode != 204 {
			t.Fatalf("poll %d: %v, %v", i, res, err)
		}
	}
}
