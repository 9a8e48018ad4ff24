package client

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestExchange sends over a real socket: requests arrive as HTTP, answers come back, and the connection is kept.
func TestExchange(t *testing.T) {
	remotes := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		remotes[r.RemoteAddr]++
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/api/v1/push":
			w.WriteHeader(201)
			_, _ = w.Write(body)
		case "/none":
			w.WriteHeader(204)
		case "/busy":
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(429)
		}
	}))
	defer srv.Close()
	c := New(strings.TrimPrefix(srv.URL, "http://"), 10*time.Second)
	defer c.Close()
	c.PushBegin()
	c.PushItem([]byte("q"), []byte(`a"b`), []byte("id"), []byte(`{"x":1}`))
	c.PushItem([]byte("q"), []byte("p"), []byte("id2"), []byte("null"))
	for range 2 {
		a, err := c.PushSend()
		want := `{"items":[{"queue":"q","partition":"a\"b","transactionId":"id","payload":{"x":1}},` +
			`{"queue":"q","partition":"p","transactionId":"id2","payload":null}]}`
		if err != nil || a.Status != 201 || string(a.Body) != want {
			t.Fatalf("%v %d %s", err, a.Status, a.Body)
		}
	}
	if a, err := c.Do("GET", "/none", nil); err != nil || a.Status != 204 || len(a.Body) != 0 {
		t.Errorf("%v %+v", err, a)
	}
	if a, err := c.Do("GET", "/busy", nil); err != nil || a.RetryAfter != 3*time.Second || a.Err() == nil {
		t.Errorf("%v %+v", err, a)
	}
	if len(remotes) != 1 {
		t.Errorf("%d connections were opened, want 1: %v", len(remotes), remotes)
	}
}

// TestUnanswered hangs up on a request: the error says so, and the next call dials again.
func TestUnanswered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for i := 0; ; i++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(nc)); err == nil && i > 0 {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
			}
			nc.Close()
		}
	}()
	c := New(l.Addr().String(), 10*time.Second)
	defer c.Close()
	if _, err := c.Do("POST", "/x", []byte("body")); !errors.Is(err, ErrUnanswered) {
		t.Errorf("%v", err)
	}
	if a, err := c.Do("POST", "/x", []byte("body")); err != nil || string(a.Body) != "ok" {
		t.Errorf("%v %s", err, a.Body)
	}
}

// TestTurn goes round nodes of which one is gone. Each turn is another node, and each call after one a new connection.
func TestTurn(t *testing.T) {
	addrs := make([]string, 3)
	for i := range addrs {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strconv.Itoa(i)+r.Header.Get("x-queen-tenant"))
		}))
		addrs[i] = strings.TrimPrefix(srv.URL, "http://")
		if i == 1 {
			srv.Close()
		} else {
			defer srv.Close()
		}
	}
	c := Among(addrs, 5, 10*time.Second)
	defer c.Close()
	var got []string
	for range 4 {
		for range 2 {
			a, err := c.Do("GET", "/", nil)
			if err != nil {
				a.Body = []byte("-")
			}
			got = append(got, string(a.Body))
		}
		if !c.Turn() {
			t.Fatal("there are others")
		}
	}
	if s := strings.Join(got, ""); s != "2200--22" || c.Dialled != 3 {
		t.Errorf("%s, %d connections; want 2200--22 over 3", s, c.Dialled)
	}
	alone := New(addrs[0], 10*time.Second)
	defer alone.Close()
	if _, err := alone.Do("GET", "/", nil); err != nil || alone.Turn() {
		t.Errorf("%v; or a single node had another", err)
	}
	alone.Tenant = "me"
	if a, err := alone.Do("GET", "/", nil); err != nil || string(a.Body) != "0me" || alone.Dialled != 1 {
		t.Errorf("%v: %s, %d connections, want the first kept", err, a.Body, alone.Dialled)
	}
}

func TestParsePop(t *testing.T) {
	body := `{"success":true,"queue":"q","partition":"a","partitionId":"7","leaseId":"L","consumerGroup":"g","messages":[
	 {"id":"i","transactionId":"t\"\\","traceId":null,"data":{"a":[1,"}]\\",{}],"b":"\""},"producerSub":null,
	  "createdAt":"2026-11-29T10:00:00.123456Z","partitionId":"7","partition":"a","offset":12,"leaseId":"L",
	  "consumerGroup":"g","deliveryAttempt":2},
	 {"transactionId":"u","data":null,"partitionId":"7","partition":"a","offset":13,"deliveryAttempt":2}],"partitionsClaimed":1}`
	var d Delivery
	for range 2 {
		if err := ParsePop([]byte(body), &d); err != nil {
			t.Fatal(err)
		}
	}
	if string(d.Lease) != "L" || len(d.Messages) != 2 {
		t.Fatalf("%+v", d)
	}
	m := d.Messages[0]
	if string(m.ID) != `t"\` || string(m.Data) != `{"a":[1,"}]\\",{}],"b":"\""}` || m.Offset != 12 || m.Attempt != 2 ||
		string(m.PartitionID) != "7" || string(m.Partition) != "a" || string(d.Messages[1].Data) != "null" {
		t.Errorf("%s", m.ID)
	}
	for _, broken := range []string{"", "{", `{"messages":[{]}`, `{"messages":[{"offset":"x"}]}`, `{"leaseId":"`, `{"leaseId":7}`} {
		if ParsePop([]byte(broken), &d) == nil {
			t.Errorf("%q is no answer of a pop", broken)
		}
	}
}

func TestParsePushAndAck(t *testing.T) {
	var got []string
	err := ParsePush([]byte(`[{"index":0,"message_id":"m","status":"queued","offset":5},
		{"index":1,"status":"error","error":"too long"}]`), func(i int, p Pushed) {
		got = append(got, string(p.Status)+string(p.Error))
		if i == 0 && p.Offset != 5 {
			t.Errorf("%+v", p)
		}
	})
	if err != nil || strings.Join(got, " ") != `queued error"too long"` {
		t.Errorf("%v %q", err, got)
	}
	acks := 0
	err = ParseAck([]byte(`[{"index":0,"success":true,"error":null,"noop":true},{"index":1,"success":false,"error":"no"}]`),
		func(i int, a Acked) {
			if a.Success != (i == 0) || a.Noop != (i == 0) {
				t.Errorf("%d: %+v", i, a)
			}
			acks++
		})
	if err != nil || acks != 2 {
		t.Errorf("%v %d", err, acks)
	}
	if q, d := CountQueued([]byte(`[{"status":"queued"},{"status":"duplicate"},{"status":"queued"}]`)); q != 2 || d != 1 {
		t.Errorf("%d %d", q, d)
	}
}

// TestTransaction sends what a transaction is built of, and a body that does not fit behind its header.
func TestTransaction(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	c := New(strings.TrimPrefix(srv.URL, "http://"), 10*time.Second)
	defer c.Close()
	for _, payload := range []string{`{"x":1}`, `"` + strings.Repeat("y", 2*joinedBody) + `"`} {
		c.TxnBegin()
		c.TxnAck([]byte(`i"`), []byte("7"), []byte("L"), []byte("g"))
		c.TxnPush([]byte("q"), []byte("p"), []byte("t-1"), []byte(payload))
		a, err := c.TxnSend([]byte("ns"), []byte("p"))
		want := `{"operations":[{"type":"ack","transactionId":"i\"","partitionId":"7","leaseId":"L","consumerGroup":"g"},` +
			`{"type":"push","items":[{"queue":"q","partition":"p","transactionId":"t-1","payload":` + payload + `}]}],` +
			`"kv":[{"op":"incr","ns":"ns","key":"p","delta":1,"forever":true}]}`
		if err != nil || string(a.Body) != want {
			t.Fatalf("%v %s", err, a.Body)
		}
	}
}

func TestParseTransaction(t *testing.T) {
	took, err := ParseTransaction([]byte(`{"transactionId":"t","success":true,"results":[{"index":0,"success":false,"error":null}]}`))
	if err != nil || !took.Success || took.Reason != nil || took.Error != nil {
		t.Errorf("%+v %v", took, err)
	}
	lost, err := ParseTransaction([]byte(`{"success":false,"reason":"rejected_ack","error":"no \"lease\"","results":[]}`))
	if err != nil || lost.Success || string(lost.Reason) != "rejected_ack" || string(lost.Error) != `no "lease"` {
		t.Errorf("%+v %v", lost, err)
	}
	for _, broken := range []string{"", "[]", `{"success":true`, `{"reason":7}`} {
		if _, err := ParseTransaction([]byte(broken)); err == nil {
			t.Errorf("%q is no answer of a transaction", broken)
		}
	}
}

func TestPopPath(t *testing.T) {
	r := PopRequest{Queue: "orders", Group: "g", Batch: 1000, Partitions: 64, Wait: 2 * time.Second, LeaseSeconds: 5, All: true}
	want := "/api/v1/pop/queue/orders?wait=true&timeout=2000&batch=1000&partitions=64&leaseSeconds=5&consumerGroup=g&subscriptionMode=all"
	if got := r.Path(); got != want {
		t.Errorf("%s", got)
	}
}
