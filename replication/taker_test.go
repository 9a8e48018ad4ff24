package replication

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"queen/engine/clock"
	"queen/engine/format"
)

// TestTakerWaits: a tape whose node does not answer is asked for again for nearly as long as it is kept there, and goes on when that
// node answers by then.
func TestTakerWaits(t *testing.T) {
	for _, away := range []time.Duration{90 * time.Second, tapeWait} {
		now := clock.NewFake(0)
		tp := newTape(context.Background(), clock.Real(), 7)
		want := record(tp, rand.New(rand.NewPCG(7, 8)), 5*tapePiece)
		left := 2*tapePiece + 100
		r := takerOf(context.Background(), tp, func(c net.Conn) *cutter {
			defer func() { left = 1 << 30 }()
			return &cutter{c: c, left: left}
		})
		r.clock, r.rest = now, func(tries int) bool { now.Advance(takerPause(tries)); return true }
		dial, down := r.dial, errors.New("it is down")
		r.dial = func(where string) (net.Conn, error) {
			if where != "" && now.Mono() < away.Microseconds() {
				return nil, down
			}
			return dial(where)
		}
		if err := r.open(""); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		switch {
		case away < tapeWait && (err != nil || !bytes.Equal(got, want)):
			t.Errorf("down for %v: %d of %d bytes: %v", away, len(got), len(want), err)
		case away >= tapeWait && !errors.Is(err, down):
			t.Errorf("down for %v: %d bytes: %v", away, len(got), err)
		}
		r.close()
		tp.cancel()
	}
}

// TestTakerOfNobody: where nobody listens a tape is not asked for for long, so that another node is.
func TestTakerOfNobody(t *testing.T) {
	now := clock.NewFake(0)
	dials := 0
	r := takerOf(context.Background(), nil, nil)
	r.clock, r.rest = now, func(tries int) bool { now.Advance(takerPause(tries)); return true }
	r.dial = func(string) (net.Conn, error) { dials++; return nil, syscall.ECONNREFUSED }
	if err := r.goOn(); !errors.Is(err, syscall.ECONNREFUSED) || dials != takerTries {
		t.Errorf("%d connections: %v", dials, err)
	}
}

// TestTakerConfirmsAgain: who is busy with what came shows that it is there, until it lets go.
func TestTakerConfirmsAgain(t *testing.T) {
	now := clock.NewFake(0)
	near, far := net.Pipe()
	defer far.Close()
	r := takerOf(context.Background(), nil, nil)
	r.clock, r.dial = now, func(string) (net.Conn, error) { return near, nil }
	sent := make(chan error, 1)
	go func() {
		_, err := far.Write([]byte{1, 0, 0, 0, 'x'})
		sent <- err
	}()
	r.conn = near
	confirmed := make(chan uint64)
	go func() {
		defer close(confirmed)
		for {
			n, err := readNumber(far)
			if err != nil {
				return
			}
			confirmed <- n
		}
	}()
	go func() {
		if _, err := r.piece(nil); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.mu.repeat = now.AfterFunc(takerRepeat, r.confirmAgain)
		r.mu.Unlock()
	}()
	if n := <-confirmed; n != 1 {
		t.Errorf("%d bytes are confirmed", n)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	for range 3 {
		now.WaitArmed(1)
		go now.Advance(takerRepeat)
		if n := <-confirmed; n != 1 {
			t.Errorf("%d bytes are confirmed again", n)
		}
	}
	now.WaitArmed(1)
	r.close()
	if n := now.Armed(); n != 0 {
		t.Errorf("%d timers are armed", n)
	}
}

// TestOtherCopy: another node, one of another cluster, and another copy are told from what was asked for, and not asked again.
func TestOtherCopy(t *testing.T) {
	for what, answers := range map[string]struct {
		report Report
		number uint64
	}{
		"another node":    {Report{Node: 2, Deployment: 9}, 7},
		"another cluster": {Report{Node: 3, Deployment: 8}, 7},
		"another copy":    {Report{Node: 3, Deployment: 9}, 6},
	} {
		dials := 0
		r := takerOf(context.Background(), nil, nil)
		r.of, r.deployment = format.Replica(3), 9
		r.dial = func(string) (net.Conn, error) {
			report, number := Report{Node: 3, Deployment: 9}, uint64(7)
			if dials++; dials > 1 {
				report, number = answers.report, answers.number
			}
			near, far := net.Pipe()
			go func() {
				_ = errors.Join(writeAnswer(far, report, nil), writeNumber(far, number)) // what fails is missed at the other end
				far.Close()
			}()
			return near, nil
		}
		if err := r.open(""); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, errOther) || dials != 2 {
			t.Errorf("%s: %v after %d connections", what, err, dials)
		}
		r.close()
	}
}
