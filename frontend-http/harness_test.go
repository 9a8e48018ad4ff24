package frontendhttp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/enginetest"
	"queen/frontend-http/wire"
)

// patience is how long a test waits for something that must happen; it fails the test and never makes one pass.
const patience = 20 * time.Second

// node is a frontend on a real socket over some engine.
type node struct {
	t      testing.TB
	f      *Frontend
	addr   string
	served chan error
}

// start serves an in-memory model engine.
func start(t testing.TB) *node { return startWith(t, Options{}) }

// startWith fills in what o lacks and shuts down at the test's end.
func startWith(t testing.TB, o Options) *node {
	t.Helper()
	if o.Engine == nil && o.Starting == nil {
		o.Engine = enginetest.NewModel(enginetest.ModelOptions{Clock: o.Clock})
	}
	if o.Docs == nil {
		o.Docs = func(path, query string) (string, string, []byte, bool) {
			return "text/plain; charset=utf-8", `"1"`, []byte("page " + path + query), path != "none"
		}
	}
	ln, err := wire.Listen(wire.Options{Addr: "127.0.0.1:0", LingerTime: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	o.Listener = ln
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := f.server.App.Server()
	server.Handler = documented(t, server.Handler)
	n := &node{t: t, f: f, addr: ln.Addr().String(), served: make(chan error, 1)}
	go func() { n.served <- f.Serve() }()
	t.Cleanup(n.stop)
	return n
}

func (n *node) stop() {
	if n.served == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := n.f.Shutdown(ctx); err != nil {
		n.t.Errorf("shutdown: %v", err)
	}
	select {
	case err := <-n.served:
		if err != nil {
			n.t.Errorf("serve: %v", err)
		}
	case <-ctx.Done():
		n.t.Error("Serve did not return")
	}
	n.served = nil
}

// answer is one HTTP answer as it came.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	// length is the announced Content-Length, -1 when there was none.
	length int64
	body   string
	parsed *any
}

// client speaks raw HTTP on one connection, so that a test decides every byte and every close.
type client struct {
	net.Conn
	n *node
	r *bufio.Reader
}

func (n *node) dial() *client {
	n.t.Helper()
	c, err := net.Dial("tcp", n.addr)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &client{Conn: c, n: n, r: bufio.NewReader(c)}
}

func (c *client) send(s string) {
	c.n.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.n.t.Fatal(err)
	}
}

func (c *client) receive() answer {
	c.n.t.Helper()
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.n.t.Fatalf("read answer: %v", err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.n.t.Fatalf("read body: %v", err)
	}
	return answer{t: c.n.t, status: res.StatusCode, header: res.Header, length: res.ContentLength, body: string(body),
		parsed: new(any)}
}

// request builds the bytes that the JavaScript client puts on the wire: Content-Type on every request, a length only
// with a body.
func request(method, target, body string, headers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: broker.internal:80\r\nContent-Type: application/json\r\n", method, target)
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.String()
}

// do sends one request on its own connection.
func (n *node) do(method, target, body string, headers ...string) answer {
	n.t.Helper()
	c := n.dial()
	defer func() { _ = c.Close() }()
	c.send(request(method, target, body, headers...))
	return c.receive()
}

func (n *node) get(target string, headers ...string) answer {
	n.t.Helper()
	return n.do("GET", target, "", headers...)
}

func (n *node) post(target, body string, headers ...string) answer {
	n.t.Helper()
	return n.do("POST", target, body, headers...)
}

// is checks status and content type.
func (a answer) is(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d want %d, body %s", a.status, status, cut(a.body))
	}
	if status != 204 && a.header.Get("Content-Type") != "application/json" {
		a.t.Fatalf("Content-Type %q", a.header.Get("Content-Type"))
	}
	return a
}

func cut(s string) string {
	if len(s) > 400 {
		return s[:400] + "..."
	}
	return s
}

// json decodes the body; numbers stay as they are written.
func (a answer) json() any {
	a.t.Helper()
	if *a.parsed == nil {
		d := json.NewDecoder(strings.NewReader(a.body))
		d.UseNumber()
		if err := d.Decode(a.parsed); err != nil {
			a.t.Fatalf("body is not JSON: %v: %s", err, cut(a.body))
		}
	}
	return *a.parsed
}

// at walks keys and indices: at("messages", 0, "data").
func (a answer) at(path ...any) any {
	a.t.Helper()
	v := a.json()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				a.t.Fatalf("no object at %v of %v: %s", p, path, cut(a.body))
			}
			if v, ok = m[p]; !ok {
				a.t.Fatalf("no %v of %v: %s", p, path, cut(a.body))
			}
		case int:
			l, ok := v.([]any)
			if !ok || p >= len(l) {
				a.t.Fatalf("no element %v of %v: %s", p, path, cut(a.body))
			}
			v = l[p]
		}
	}
	return v
}

func (a answer) str(path ...any) string {
	a.t.Helper()
	s, ok := a.at(path...).(string)
	if !ok {
		a.t.Fatalf("%v is no string: %s", path, cut(a.body))
	}
	return s
}

// num is a whole number.
func (a answer) num(path ...any) int64 {
	a.t.Helper()
	number, _ := a.at(path...).(json.Number)
	v, err := number.Int64()
	if err != nil {
		a.t.Fatalf("%v is no whole number: %s", path, cut(a.body))
	}
	return v
}

// equal compares a member with its JSON.
func (a answer) equal(want string, path ...any) answer {
	a.t.Helper()
	got, err := json.Marshal(a.at(path...))
	if err != nil {
		a.t.Fatal(err)
	}
	if !sameJSON(string(got), want) {
		a.t.Fatalf("%v is %s want %s", path, got, want)
	}
	return a
}

// sameJSON compares values, not spelling.
func sameJSON(a, b string) bool {
	var x, y any
	dx, dy := json.NewDecoder(strings.NewReader(a)), json.NewDecoder(strings.NewReader(b))
	dx.UseNumber()
	dy.UseNumber()
	if dx.Decode(&x) != nil || dy.Decode(&y) != nil {
		return false
	}
	bx, _ := json.Marshal(x)
	by, _ := json.Marshal(y)
	return bytes.Equal(bx, by)
}

// length of a list.
func (a answer) len(path ...any) int {
	a.t.Helper()
	l, ok := a.at(path...).([]any)
	if !ok {
		a.t.Fatalf("%v is no list: %s", path, cut(a.body))
	}
	return len(l)
}

// lacks wants the last step of a path to lead nowhere.
func (a answer) lacks(path ...any) answer {
	a.t.Helper()
	last := path[len(path)-1]
	switch v := a.at(path[:len(path)-1]...).(type) {
	case map[string]any:
		if got, ok := v[last.(string)]; ok {
			a.t.Fatalf("%v is %v: %s", path, got, cut(a.body))
		}
	case []any:
		if last.(int) < len(v) {
			a.t.Fatalf("%v is %v: %s", path, v[last.(int)], cut(a.body))
		}
	}
	return a
}

// push1 pushes one message.
func (n *node) push1(queue, partition, id, payload string) answer {
	n.t.Helper()
	return n.post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"partition":%q,"transactionId":%q,"payload":%s}]}`,
		queue, partition, id, payload)).is(201)
}

// waitFor polls a condition that another goroutine brings about.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never happened: %s", what)
		}
	}
}

var _ engine.Engine = (*enginetest.Model)(nil)
