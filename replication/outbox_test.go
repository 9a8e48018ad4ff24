package replication

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine/clock"
)

// heartbeat is a batch of one message that is told from others by a number.
func heartbeat(n uint64) pb.MessageBatch {
	return pb.MessageBatch{BinVer: raftio.TransportBinVersion, DeploymentId: n, SourceAddress: "h:1",
		Requests: []pb.Message{{Type: pb.Heartbeat, ShardID: 1, From: 1, To: 2, Term: n}}}
}

// transportAt makes a transport that hands over the numbers of what it gets.
func transportAt(o Options, addr string) (*transport, chan uint64) {
	got := make(chan uint64, 16)
	raw := transports{o.withDefaults(), new(atomic.Pointer[transport])}.Create(config.NodeHostConfig{RaftAddress: addr},
		func(b pb.MessageBatch) { got <- b.DeploymentId }, nil)
	return raw.(*transport), got
}

// arrives waits for a message.
func arrives(t *testing.T, got chan uint64, want uint64) {
	t.Helper()
	select {
	case n := <-got:
		if n != want {
			t.Fatalf("message %d came, and not %d", n, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("message %d did not come", want)
	}
}

// TestPeerStartsAgain: a node that was started again between two messages gets the second one, and the library is told of no error, which would
// have it drop what comes next. While the node is away messages are lost without a word.
func TestPeerStartsAgain(t *testing.T) {
	for name, secured := range map[string]*TLS{"in the clear": nil, "with certificates": newAuthority(t).node("node")} {
		t.Run(name, func(t *testing.T) {
			addr, ticks := freePair(t), clock.NewFake(0)
			sender, _ := transportAt(Options{Node: 1, TLS: secured, Clock: ticks}, freePair(t))
			c, err := sender.GetConnection(context.Background(), addr)
			must(t, err)
			defer c.Close()
			must(t, c.SendMessageBatch(heartbeat(1))) // nobody is there
			for n := uint64(2); n < 5; n++ {
				peer, got := transportAt(Options{Node: 2, TLS: secured}, addr)
				must(t, peer.Start())
				ticks.Advance(time.Minute)
				for range 3 {
					must(t, c.SendMessageBatch(heartbeat(n)))
					arrives(t, got, n)
				}
				w := c.(*outbox).wire
				must(t, peer.Close())
				<-w.ended // the end is noticed, though nothing is sent
				if n == 3 {
					ticks.Advance(time.Minute)
					must(t, c.SendMessageBatch(heartbeat(9)))
				}
			}
			if left := sender.out.list(); len(left) != 0 {
				t.Errorf("%d connections are left", len(left))
			}
		})
	}
}

// TestRedial: a node that refuses is dialled at once, and then ever more seldom; so is one whose connections end as soon as they are made.
// After a long rest it is dialled at once again.
func TestRedial(t *testing.T) {
	const tick = 50 * time.Millisecond
	for name, dial := range map[string]func() (net.Conn, error){
		"refuses": func() (net.Conn, error) { return nil, errors.New("refused") },
		"ends": func() (net.Conn, error) {
			near, far := net.Pipe()
			far.Close()
			return near, nil
		},
	} {
		ticks, dials := clock.NewFake(0), 0
		o := &outbox{log: Options{}.withDefaults().Log, clock: ticks, tick: tick, kept: &conns{}}
		o.dial = func() (net.Conn, error) {
			dials++
			c, err := dial()
			if err == nil {
				o.kept.keep(c)
			}
			return c, err
		}
		var gaps []time.Duration
		for last := int64(0); dials < 6; {
			before := dials
			must(t, o.SendMessageBatch(heartbeat(1)))
			if o.wire != nil {
				<-o.wire.ended
			}
			switch now := ticks.Mono(); {
			case dials > before+1:
				t.Fatalf("%s: one message dialled %d times", name, dials-before)
			case dials > before:
				gaps = append(gaps, time.Duration(now-last)*time.Microsecond/tick)
				last = now
			}
			ticks.Advance(tick)
		}
		want := [...]time.Duration{0, 1, 2, dialTicks, dialTicks, dialTicks}
		if [6]time.Duration(gaps) != want {
			t.Errorf("%s: dialled after %d ticks each, want %d", name, gaps, want)
		}
		ticks.Advance(2 * dialTicks * tick)
		for _, gap := range []time.Duration{0, tick} {
			ticks.Advance(gap)
			before := dials
			if must(t, o.SendMessageBatch(heartbeat(1))); dials != before+1 {
				t.Errorf("%s: after a long rest, and %v, it was dialled %d times", name, gap, dials-before)
			}
		}
		o.Close()
	}
}

// brittle is a connection that breaks when it is written to, once it is broken.
type brittle struct {
	net.Conn
	broken atomic.Bool
}

// Write implements net.Conn.
func (b *brittle) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, io.ErrClosedPipe
	}
	return b.Conn.Write(p)
}

// TestConnectionBreaks: a message that meets a connection which breaks as it is written goes over a new one. One that breaks right away is not
// followed by another.
func TestConnectionBreaks(t *testing.T) {
	ticks := clock.NewFake(0)
	var made []*brittle
	o := &outbox{log: Options{}.withDefaults().Log, clock: ticks, tick: time.Millisecond, kept: &conns{}}
	read := make(chan uint64, 16)
	breaks := false
	o.dial = func() (net.Conn, error) {
		near, far := net.Pipe()
		c := &brittle{Conn: near}
		c.broken.Store(breaks)
		made = append(made, c)
		o.kept.keep(c)
		go func() { // ends with the connection
			var first [1]byte
			for {
				if _, err := io.ReadFull(far, first[:]); err != nil {
					return
				}
				_, body, err := readMessage(far, first[0], nil, false)
				var b pb.MessageBatch
				if err != nil || b.Unmarshal(body) != nil {
					return
				}
				read <- b.DeploymentId
			}
		}()
		return c, nil
	}
	defer o.Close()
	must(t, o.SendMessageBatch(heartbeat(1)))
	arrives(t, read, 1)
	ticks.Advance(time.Minute)
	made[0].broken.Store(true)
	must(t, o.SendMessageBatch(heartbeat(2)))
	arrives(t, read, 2)
	ticks.Advance(time.Minute)
	breaks = true
	made[1].broken.Store(true)
	must(t, o.SendMessageBatch(heartbeat(3)))
	if len(made) != 3 || o.wire != nil {
		t.Errorf("%d connections were made, and the last one is kept: %v", len(made), o.wire != nil)
	}
	if left := o.kept.list(); len(left) != 0 {
		t.Errorf("%d connections are left", len(left))
	}
}

// TestTransportReads: messages that come at once are all handed over, and the question whether all has come is answered behind them.
func TestTransportReads(t *testing.T) {
	for name, secured := range map[string]*TLS{"in the clear": nil, "with certificates": newAuthority(t).node("node")} {
		t.Run(name, func(t *testing.T) {
			addr := freePair(t)
			peer, got := transportAt(Options{Node: 2, TLS: secured}, addr)
			must(t, peer.Start())
			defer peer.Close()
			c, err := peer.dial(context.Background(), addr)
			must(t, err)
			defer peer.out.drop(c)
			var all []byte
			for n := range uint64(5) {
				b := heartbeat(n)
				if n == 3 {
					b.Requests[0].Entries = []pb.Entry{{Cmd: make([]byte, 3*wireAhead)}}
				}
				all = append(all, appendMessage(nil, wireRaft, &b, b.SizeUpperLimit(), secured == nil)...)
			}
			must(t, writeMessage(c, append(all, wireEnd[:]...)))
			for n := range uint64(5) {
				arrives(t, got, n)
			}
			var end [wireMagicSize]byte
			if _, err := io.ReadFull(c, end[:]); err != nil || end != wireEnd {
				t.Errorf("it was answered by %x: %v", end, err)
			}
		})
	}
}

// TestNoImages: the library is told that an image has arrived, at a node that can not even be reached, so that it looks where that node's log ends
// instead of asking for another one.
func TestNoImages(t *testing.T) {
	var s Sequencer
	must(t, (*stateMachine)(&s).SaveSnapshot(nil, nil, nil))
	if s.streams.Load() != 1 {
		t.Error("it is not noted that the library wanted one")
	}
	sender, _ := transportAt(Options{Node: 1}, freePair(t))
	c, err := sender.GetSnapshotConnection(context.Background(), freePair(t))
	must(t, err)
	defer c.Close()
	must(t, c.SendChunk(pb.Chunk{ChunkCount: pb.LastChunkCount}))
}
