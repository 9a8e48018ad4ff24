package wire

import (
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadlineIsToldWhenItIsEarlier: a connection is told of a deadline that comes before the one it has, and of another
// one when that one has fired too early.
func TestDeadlineIsToldWhenItIsEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var told []time.Duration
		d := deadline{tell: func(at time.Time) error {
			if at.IsZero() {
				at = start.Add(-1)
			}
			told = append(told, at.Sub(start))
			return nil
		}}
		expect := func(want ...time.Duration) {
			t.Helper()
			if !slices.Equal(told, want) {
				t.Fatalf("told %v, want %v", told, want)
			}
		}
		set := func(after time.Duration) { _ = d.set(start.Add(after)) }
		_ = d.set(time.Time{})
		expect()
		set(30)
		set(75)
		set(31)
		expect(30)
		set(20)
		set(40)
		expect(30, 20)
		time.Sleep(20 * time.Nanosecond)
		if d.early(nil) || d.early(io.EOF) || !d.early(os.ErrDeadlineExceeded) {
			t.Error("a deadline at 20 that fired at 20, when 40 is meant, is early, and nothing else is")
		}
		expect(30, 20, 40)
		time.Sleep(20 * time.Nanosecond)
		if d.early(os.ErrDeadlineExceeded) {
			t.Error("a deadline that fired in its time is early")
		}
		_ = d.set(time.Time{})
		if !d.early(os.ErrDeadlineExceeded) {
			t.Error("a deadline fired where none is meant, and is not early")
		}
		expect(30, 20, 40, -1)
		set(50)
		expect(30, 20, 40, -1, 50)
	})
}

// TestDeadlineThatIsMoved: reads and writes of a connection go on past a deadline that was moved before it fired.
func TestDeadlineThatIsMoved(t *testing.T) {
	ln, err := Listen(Options{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Drain(t.Context())
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	_ = peer.SetDeadline(time.Now().Add(patience))
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	past, later := time.Unix(1, 0), time.Now().Add(patience)
	var b [4]byte
	_ = c.SetDeadline(past)
	if _, err := c.Read(b[:]); !os.IsTimeout(err) {
		t.Errorf("a read after its deadline: %v", err)
	}
	if _, err := c.Write([]byte("late")); !os.IsTimeout(err) {
		t.Errorf("a write after its deadline: %v", err)
	}
	_ = c.SetDeadline(later)
	if n, err := c.Write([]byte("ping")); n != 4 || err != nil {
		t.Errorf("a write whose deadline was moved: %d, %v", n, err)
	}
	if _, err := io.ReadFull(peer, b[:]); err != nil || string(b[:]) != "ping" {
		t.Errorf("the peer read %q, %v", b, err)
	}
	if _, err := peer.Write([]byte("pong")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b[:]); err != nil || string(b[:]) != "pong" {
		t.Errorf("a read whose deadline was moved: %q, %v", b, err)
	}
}
