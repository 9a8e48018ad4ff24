package ephemeral

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Goal: a push wakes as many parked pops as it has work for, the longest waiting first, inside the call.
func TestWake(t *testing.T) {
	r := newRig(t, Options{})
	one := r.park(request("q@g", 1), time.Minute)
	two := r.park(request("q@g", 2), time.Minute)
	three := r.park(request("q@g", 9), time.Minute)
	other := r.park(request("q@h", 9), time.Minute)
	r.push("q", "1", "2")
	require.False(t, one.waits() || two.waits() || other.waits())
	require.True(t, three.waits(), "nobody is woken to find nothing")
	require.Equal(t, "1", one.got())
	require.Equal(t, "2", two.got())
	require.Equal(t, "1 2", other.got())
	r.push("q/elsewhere", "3")
	require.Equal(t, "3", three.got())
}

// Goal: pops on a partition and pops on any compete in the order of arrival.
func TestWakePinned(t *testing.T) {
	r := newRig(t, Options{})
	anyPart := r.park(request("q@g", 1), time.Minute)
	pinned := r.park(request("q/a@g", 1), time.Minute)
	last := r.park(request("q@g", 1), time.Minute)
	r.push("q/b", "b1")
	require.Equal(t, "b1", anyPart.got())
	require.True(t, pinned.waits() && last.waits())
	r.push("q/a", "a1")
	require.Equal(t, "a1", pinned.got())
	require.True(t, last.waits())
	r.push("q/a", "a2")
	require.Equal(t, "a2", last.got())
}

// Goal: a pop ends empty at its deadline, to the microsecond; what its caller left goes to the next one.
func TestDeadlineAndCancel(t *testing.T) {
	r := newRig(t, Options{})
	p := r.park(request("q", 1), time.Second)
	gone := r.park(request("q", 1), time.Minute)
	next := r.park(request("q", 1), time.Minute)
	r.advance(time.Second - time.Microsecond)
	require.True(t, p.waits())
	r.advance(time.Microsecond)
	require.Equal(t, "", p.got())
	require.NoError(t, p.err)
	gone.cancel()
	require.Equal(t, "", gone.got())
	require.ErrorIs(t, gone.err, context.Canceled)
	r.push("q", "1")
	require.Equal(t, "1", next.got())
	require.Nil(t, r.pop("q", 1))

	long := r.park(request("empty", 1), time.Hour)
	r.advance(MaxWait)
	require.Equal(t, "", long.got(), "at most 300 s")
}

// Goal: a message given to a pop at the moment its caller left is not lost and not counted.
func TestCancelRace(t *testing.T) {
	r := newRig(t, Options{})
	for range 200 {
		p := r.park(request("q", 1), time.Minute)
		go p.cancel()
		r.push("q", "x")
		d := <-p.answer
		if d == nil {
			d = r.pop("q", 1)
		}
		require.Equal(t, "x", got(d))
		require.Equal(t, "acked", r.ack("q", d, Completed))
	}
}

// Goal: a pop whose client is known to be gone gets nothing; the next one does.
func TestAlive(t *testing.T) {
	r := newRig(t, Options{})
	q := request("q", 1)
	q.Alive = func() bool { return false }
	dead := r.park(q, time.Minute)
	alive := r.park(request("q", 1), time.Minute)
	r.push("q", "1")
	require.Equal(t, "", dead.got())
	require.Equal(t, "1", alive.got())
}

// Goal: leases that end, and messages given back, wake parked pops, in order.
func TestWakeByReturn(t *testing.T) {
	r := newRig(t, Options{})
	r.push("q", "1", "2", "3")
	d := r.pop("q", 9)
	p := r.park(request("q", 2), time.Minute)
	r.advance(30 * time.Second)
	require.Equal(t, "1!1 2!1", p.got())
	_ = d
	p = r.park(request("q", 9), time.Minute)
	require.False(t, p.waits(), "3 was ready")
	third := <-p.answer
	p = r.park(request("q", 9), time.Minute)
	third.Abandon()
	require.Equal(t, "3!1", p.got())
}

// Goal: a window answers with count messages, or what there is when ms have passed since the first, or at the deadline.
func TestWindow(t *testing.T) {
	r := newRig(t, Options{})
	r.declare("q", Settings{Window: Window{Millis: 100, Count: 3}})
	p := r.park(request("q", 9), time.Minute)
	r.push("q", "1", "2")
	require.True(t, p.waits())
	r.push("q", "3")
	require.Equal(t, "1 2 3", p.got(), "count")

	p = r.park(request("q", 9), time.Minute)
	r.advance(time.Second)
	r.push("q", "4")
	r.advance(60 * time.Millisecond)
	r.push("q", "5")
	r.advance(40*time.Millisecond - time.Microsecond)
	require.True(t, p.waits())
	r.advance(time.Microsecond)
	require.Equal(t, "4 5", p.got(), "ms")

	p = r.park(request("q", 9), 50*time.Millisecond)
	r.push("q", "6")
	r.advance(50 * time.Millisecond)
	require.Equal(t, "6", p.got(), "the pop's own time")

	p = r.park(request("q", 2), time.Minute)
	r.push("q", "7", "8")
	require.Equal(t, "7 8", p.got(), "a full batch")

	r.push("q", "9")
	require.Equal(t, "9", got(r.pop("q", 9)), "a pop that does not wait has no window")

	p = r.park(request("q/p", 9), time.Minute)
	r.push("q/p", "10")
	require.True(t, p.waits())
	r.declare("q", Settings{})
	require.Equal(t, "10", p.got(), "no window any more")
}

// Goal: switching off ends parked pops and refuses every change; what is stored stays. Closing does likewise.
func TestSwitchAndClose(t *testing.T) {
	r := newRig(t, Options{})
	r.push("q", "1")
	p := r.park(request("other", 1), time.Minute)
	r.s.SetEnabled(false)
	require.Equal(t, "", p.got())
	calls := map[string]func() error{
		"push":   func() error { return r.tryPush("q", "2") },
		"pop":    func() error { _, err := r.s.Pop(context.Background(), someone, request("q", 1)); return err },
		"ack":    func() error { _, err := r.s.Ack(someone, "q", "", nil); return err },
		"reset":  func() error { _, err := r.s.Reset(someone, "q"); return err },
		"delete": func() error { _, err := r.s.Delete(someone, "q"); return err },
		"usable": func() error { return r.s.Usable("q") },
	}
	for name, call := range calls {
		require.Positive(t, refused(t, Disabled, call()).RetryAfter, name)
	}
	require.Len(t, r.s.Queues(someone), 2)
	r.s.SetEnabled(true)
	require.Equal(t, "1", got(r.pop("q", 1)))
	p = r.park(request("other", 1), time.Minute)
	r.s.Close()
	require.Equal(t, "", p.got())
	for name, call := range calls {
		err := call()
		var e *Error
		require.True(t, errors.As(err, &e) && e.Reason == Closed, name)
	}
}

// Goal: 10,000 parked polls cost no timer, and memory within what is charged for them; when they have ended nothing is
// left of them.
func TestManyParked(t *testing.T) {
	const polls = 10_000
	r := newRig(t, Options{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, polls)
	for i := range polls {
		go func() {
			q := request(fmt.Sprintf("inbox-%d", i%1000), 1)
			q.Wait = time.Minute
			_, err := r.s.Pop(ctx, someone, q)
			done <- err
		}()
	}
	for r.s.Stats().Parked < polls {
		runtime.Gosched()
	}
	r.check()
	require.LessOrEqual(t, r.clock.Armed(), 1, "one timer for all")
	runtime.GC()
	runtime.ReadMemStats(&after)
	perPoll := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / polls
	t.Logf("%d bytes of heap and %d of stacks a parked poll; charged %d", perPoll,
		(int64(after.StackInuse)-int64(before.StackInuse))/polls, r.s.Stats().Bytes/polls)
	require.Less(t, perPoll, 2*r.s.Stats().Bytes/polls)
	r.advance(time.Minute)
	for range polls {
		require.NoError(t, <-done)
	}
	cancel()
	r.advance(IdleAfter)
	require.Equal(t, int64(0), r.s.Stats().Bytes)
}
