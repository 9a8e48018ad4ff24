package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/invariants"
)

// cutter lets a number of bytes pass, changed by spoil, and then breaks the connection.
type cutter struct {
	c     net.Conn
	left  int
	spoil func([]byte)
}

// Write implements io.Writer.
func (w *cutter) Write(b []byte) (int, error) {
	b = bytes.Clone(b)
	if w.spoil != nil {
		w.spoil(b)
	}
	n, err := w.c.Write(b[:min(len(b), w.left)])
	w.left -= n
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}

// takerOf reads a tape over connections that a cutter of link is on.
func takerOf(ctx context.Context, tp *tape, link func(c net.Conn) *cutter) *taker {
	return &taker{ctx: ctx, log: slog.New(slog.DiscardHandler), clock: clock.Real(), sum: xxh3.New(), rest: func(int) bool { return true },
		dial: func(where string) (net.Conn, error) {
			number, at := tp.number, uint64(0)
			if where != "" {
				if _, err := fmt.Sscanf(where, "%d %d", &number, &at); err != nil || number != tp.number {
					return nil, fmt.Errorf("asked for %q: %w", where, err)
				}
			}
			near, far := net.Pipe()
			go func() {
				if err := tp.begin(far, at); err != nil {
					_ = writeAnswer(far, Report{}, err)
					return
				}
				if errors.Join(writeAnswer(far, Report{}, nil), writeNumber(far, tp.number)) == nil {
					_ = tp.play(far, link(far), at)
				}
			}()
			return near, nil
		}}
}

// record writes a tape of some bytes, in pieces of any length.
func record(tp *tape, rng *rand.Rand, length int) []byte {
	b := make([]byte, length)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	go func() {
		for rest := b; len(rest) > 0; {
			n := min(len(rest), rng.IntN(3*tapePiece)+1)
			if _, err := tp.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		tp.finish()
	}()
	return b
}

// TestTapeGoesOn: a copy comes whole and in its order although connections break at any byte, and each goes on where the one before
// broke off; nothing is asked for twice in vain.
func TestTapeGoesOn(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	cuts := rand.New(rand.NewPCG(5, 6))
	tp := newTape(context.Background(), clock.Real(), 7)
	want := record(tp, rng, 2*tapeKept+4321)
	links := 0
	r := takerOf(context.Background(), tp, func(c net.Conn) *cutter {
		links++
		return &cutter{c: c, left: cuts.IntN(12 * tapePiece)}
	})
	defer r.close()
	if err := r.open(""); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d of %d bytes over %d connections: %v", len(got), len(want), links, err)
	}
	if links < 10 {
		t.Errorf("%d connections: none broke", links)
	}
	<-tp.ctx.Done()
	if !tp.mu.taken {
		t.Error("it was not confirmed")
	}
	if _, err := takerOf(context.Background(), tp, nil).dialed("7 0"); err == nil {
		t.Error("a copy that was taken is there again")
	}
}

// dialed asks and reads the answer.
func (r *taker) dialed(where string) (number uint64, err error) {
	defer r.close()
	err = r.open(where)
	return r.number, err
}

// TestTapeOfOtherBytes: a byte that changed on its way is found by the sum of all, before the last of them are given out.
func TestTapeOfOtherBytes(t *testing.T) {
	tp := newTape(context.Background(), clock.Real(), 7)
	defer tp.cancel()
	want := record(tp, rand.New(rand.NewPCG(7, 8)), 5*tapePiece)
	r := takerOf(context.Background(), tp, func(c net.Conn) *cutter {
		return &cutter{c: c, left: 1 << 30, spoil: func(b []byte) {
			if len(b) > 100 {
				b[99] ^= 4
			}
		}}
	})
	defer r.close()
	if err := r.open(""); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); !errors.Is(err, errSum) || len(got) >= len(want) {
		t.Errorf("%d of %d bytes were given out: %v", len(got), len(want), err)
	}
}

// TestTapeConfirmedBeyond: what was not sent is not confirmed, and a connection that is behind one that took the tape further ends.
func TestTapeConfirmedBeyond(t *testing.T) {
	tp := newTape(context.Background(), clock.Real(), 7)
	defer tp.cancel()
	near, far := net.Pipe()
	defer near.Close()
	if err := tp.begin(far, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := tp.Write(make([]byte, 3*tapePiece)); err != nil {
		t.Fatal(err)
	}
	if _, err := tp.next(far, 0); err != nil {
		t.Fatal(err)
	}
	if err := tp.confirm(tapePiece + 1); err == nil {
		t.Error("a byte that was not sent was confirmed")
	}
	if tp.mu.from != 0 || len(tp.mu.kept) != 3*tapePiece {
		t.Errorf("%d bytes from %d are kept", len(tp.mu.kept), tp.mu.from)
	}
	if err := tp.confirm(tapePiece); err != nil {
		t.Error(err)
	}
	if piece, err := tp.next(far, tapePiece-1); !errors.Is(err, errTapeEnded) {
		t.Errorf("%d bytes came of what was let go of: %v", len(piece), err)
	}
	if piece, err := tp.next(far, tapePiece); err != nil || len(piece) != tapePiece {
		t.Errorf("%d bytes came of what is kept: %v", len(piece), err)
	}
	heard := make(chan error)
	go func() { heard <- tp.hear(far) }()
	if err := writeNumber(near, 5*tapePiece); err != nil {
		t.Fatal(err)
	}
	if err := <-heard; err == nil {
		t.Error("a connection goes on that confirmed what was not sent")
	}
}

// TestTapeWithoutTaker: a tape that nobody takes for a while ends, and with it what writes it.
func TestTapeWithoutTaker(t *testing.T) {
	now := clock.NewFake(0)
	tp := newTape(context.Background(), now, 7)
	if err := tp.begin(nil, 1); err == nil {
		t.Error("it went on at a byte that was not written")
	}
	now.Advance(tapeWait - 1000)
	if tp.ctx.Err() != nil {
		t.Fatal("it ended early")
	}
	now.Advance(1000)
	if _, err := tp.Write(make([]byte, tapeKept+1)); !errors.Is(err, errTapeEnded) {
		t.Errorf("a write came to %v", err)
	}
	if err := tp.begin(nil, 0); !errors.Is(err, errTapeEnded) {
		t.Errorf("it began again: %v", err)
	}
}

// TestPullGoesOn: a pull whose connection breaks half-way goes on with the same copy of the state.
func TestPullGoesOn(t *testing.T) {
	c := newTestCluster(t, 3, smallLogs)
	const kept = 10
	c.keep(kept)
	c.configure("flow")
	c.flow("a floor", func() bool { return c.floor(1) > 0 })
	c.hold, c.rate = 2*time.Second, MinPullRate // more than a node that runs lags; so slow that a break finds most of it unsent
	end, _ := c.sequencer(3).log.Replica(firstGroup, 3)
	c.stop(3)
	for _, node := range []format.Replica{1, 2} {
		c.stop(node)
		c.start(node)
	}
	c.past(end.Last)
	var broken *tape
	disarm := invariants.ArmFunc("engine.pull.block-taken", 1, func() {
		for _, node := range []format.Replica{1, 2} {
			s := c.sequencer(node)
			s.mu.Lock()
			tp := s.mu.tapes[3]
			s.mu.Unlock()
			if tp == nil {
				continue
			}
			broken = tp
			tp.mu.Lock()
			if tp.mu.taker != nil {
				tp.mu.taker.Close()
			}
			tp.mu.Unlock()
			s.pulls.mu.Lock()
			s.pulls.perSecond = 1 << 30
			s.pulls.mu.Unlock()
		}
	})
	defer disarm()
	c.start(3)
	if broken == nil {
		t.Fatal("it did not pull")
	}
	<-broken.ctx.Done()
	if !broken.mu.taken {
		t.Error("the copy that broke off was not taken to its end")
	}
	c.compare(kept)
}
