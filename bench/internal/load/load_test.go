package load

import (
	"context"
	"strings"
	"testing"
	"time"

	"queen/bench/internal/client"
	"queen/bench/internal/message"
	"queen/engine"
	"queen/engine/clock"
	"queen/engine/vfs"
	frontendhttp "queen/frontend-http"
	"queen/frontend-http/wire"
)

// serve runs a node on a memory file system behind a real socket.
func serve(t *testing.T) string {
	t.Helper()
	ctx, ticks := context.Background(), clock.Real()
	ln, err := wire.Listen(wire.Options{Addr: "127.0.0.1:0", LingerTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.OpenLocal(engine.Config{FS: vfs.NewMem(), Clock: ticks, Rand: clock.NewFakeRand(1), Dir: "data",
		SegmentBytes: 8 << 20, PoolReady: 1})
	if err != nil {
		t.Fatal(err)
	}
	f, err := frontendhttp.New(frontendhttp.Options{Listener: ln, Clock: ticks, Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.Serve() }()
	t.Cleanup(func() {
		if _, err := f.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// TestRun drives a real frontend and engine, closed and open loop: everything pushed is acked, in order, and counted.
func TestRun(t *testing.T) {
	addr := serve(t)
	for name, rate := range map[string]float64{"closed": 0, "open": 4000} {
		o := Defaults()
		o.Addr, o.Queue, o.Rate = addr, name, rate
		o.Partitions, o.Producers, o.Consumers, o.Batch = 40, 3, 2, 20
		o.Warmup, o.Duration, o.Window = 100*time.Millisecond, 200*time.Millisecond, 60*time.Millisecond
		if rate > 0 { // as over the nodes of a cluster
			o.Addr, o.Target = "", &HTTP{Addrs: []string{addr, addr}}
		}
		windows := 0
		o.OnWindow = func(Window) { windows++ }
		res, err := Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Violations) > 0 || res.Left != 0 {
			t.Errorf("%s: %d left, %q", name, res.Left, res.Violations)
		}
		if c := res.Counts; c.Pushes < 2 || c.Pops == 0 || c.Acks == 0 || windows != 6 || len(res.Windows) != 4 {
			t.Errorf("%s: %+v, %d windows, %d of them counted", name, c, windows, len(res.Windows))
		}
	}
	o := Defaults()
	o.Addr, o.Queue, o.Partitions, o.Producers = addr, "open", 1, 1
	o.Group = "late"
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "not fresh") {
		t.Errorf("a queue that holds messages was taken: %v", err)
	}
	s, err := RunSingle(context.Background(), SingleOptions{Addr: addr, Queue: "single", Partitions: 4, Size: 100, Duration: 50 * time.Millisecond, Group: "g"})
	if err != nil || s.Push.Count() != s.Pop.Count() || s.Push.Count() != s.Ack.Count() {
		t.Errorf("single calls: %v", err)
	}
}

// TestJudge shows each kind of broken promise to the judge.
func TestJudge(t *testing.T) {
	msg := func(n uint32, offset, attempt uint64) client.Message {
		return client.Message{Partition: message.AppendPartition(nil, 3), PartitionID: []byte("9"), Offset: offset,
			Attempt: attempt, Data: message.AppendPayload(nil, 100, n, 1, 1)}
	}
	foreign := msg(2, 2, 1)
	foreign.Partition = []byte("somewhere else")
	for name, c := range map[string]struct {
		then client.Message
		want string
	}{
		"the next":             {msg(2, 2, 1), ""},
		"again, second time":   {msg(1, 1, 2), ""},
		"again, as the first":  {msg(1, 1, 1), "came again"},
		"a gap":                {msg(3, 3, 1), "a gap"},
		"another offset":       {msg(7, 2, 1), "has offset 2"},
		"another partition":    {foreign, "not ours"},
		"somebody else's data": {client.Message{Partition: message.AppendPartition(nil, 3), Data: []byte("null"), Offset: 2}, "not ours"},
	} {
		r := newRun(Options{Partitions: 4})
		r.judge.delivery(&client.Delivery{Messages: []client.Message{msg(0, 0, 1), msg(1, 1, 1)}}, nil)
		r.judge.delivery(&client.Delivery{Messages: []client.Message{c.then}}, nil)
		got := strings.Join(r.violations.list(), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	r := newRun(Options{Partitions: 4, Unordered: true})
	late := r.judge.delivery(&client.Delivery{Messages: []client.Message{msg(1, 0, 1), msg(0, 0, 2)}}, nil)
	if got := r.violations.list(); len(got) > 0 || len(late) != 2 || r.redelivered.Load() != 1 {
		t.Errorf("without order: %q, %d arrivals, %d again", got, len(late), r.redelivered.Load())
	}
	r.judge.delivery(&client.Delivery{Messages: []client.Message{foreign}}, nil)
	if got := r.violations.list(); len(got) != 1 {
		t.Errorf("somebody else's message without order: %q", got)
	}
}
