package engine_test

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

var prefixKeys = flag.Int("prefix.keys", 20_000, "keys of TestPrefixInBoundedMemory; the long variant has 1000000")

// liveHeap is what is reachable now.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // the second one empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// goOn lets the clock go with the machine's until the returned function is called: much work in the background rests
// between its pieces, and would do so for ever.
func (r *rig) goOn() (stop func()) {
	ticks, quit := time.NewTicker(time.Millisecond), make(chan struct{})
	var going sync.WaitGroup
	going.Go(func() {
		for {
			select {
			case <-ticks.C:
				r.clock.Advance(time.Millisecond)
			case <-quit:
				return
			}
		}
	})
	return func() {
		ticks.Stop()
		close(quit)
		going.Wait()
	}
}

// Goal: a prefix is read page by page, each key once and in order, and the reader holds a page and no more however many
// keys there are: less than the values of one in ten. Most keys are in the keyed store, the rest lie over it in memory.
func TestPrefixInBoundedMemory(t *testing.T) {
	keys := *prefixKeys
	if testing.Short() {
		keys = min(keys, 5000)
	}
	const valueBytes = 1000
	value := make([]byte, 0, valueBytes)
	value = append(value, '"')
	for len(value) < valueBytes-1 {
		value = append(value, byte('a'+len(value)%26))
	}
	value = append(value, '"')
	r, _ := withKeyed(t)
	r.open()
	defer r.goOn()()
	defer r.close()
	stored := keys * 9 / 10 / 50 * 50
	for from := 0; from < keys; from += 50 {
		if from == stored {
			r.tick(time.Minute)
			r.node.SettleFiles()
			at := r.node.Positions()
			require.NotEmpty(t, at)
			require.NotZero(t, at[0].Keyed, "no checkpoint flushed the keys")
		}
		var ops []engine.Op
		for i := from; i < min(from+50, keys); i++ {
			ops = append(ops, &engine.KV{Kind: engine.KVPut, Namespace: "n", Key: fmt.Sprintf("k/%08d", i), Value: value})
		}
		_, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: append(ops, &engine.KV{Kind: engine.KVPut, Namespace: "n", Key: "other", Value: value})})
		require.NoError(t, err)
	}
	r.node.SettleFiles() // what is written in the background lies in this process's memory
	before := liveHeap()
	op := engine.KV{Kind: engine.KVPrefix, Namespace: "n", Key: "k/", Limit: 1000}
	read, most := 0, int64(0)
	for pages := 0; ; pages++ {
		items, err := r.node.Keyed().KV(t.Context(), someone, []engine.KV{op})
		require.NoError(t, err)
		for i := range items[0].Rows {
			require.Equal(t, fmt.Sprintf("k/%08d", read), items[0].Rows[i].Key)
			require.Len(t, items[0].Rows[i].Value, valueBytes)
			read++
		}
		if pages%max(keys/10_000, 1) == 0 {
			most = max(most, liveHeap()-before)
		}
		runtime.KeepAlive(items)
		if !items[0].Truncated {
			break
		}
		op.After = items[0].Next
	}
	require.Equal(t, keys, read)
	bound := int64(max(keys*valueBytes/10, 4<<20))
	t.Logf("%d keys of %d bytes, at most %d KiB more while reading", keys, valueBytes, most>>10)
	require.Less(t, most, bound)
}

// Goal: timers that fall due while the node is away fire once when it is back, in the order of their times, not before
// them (S-tmr-5), after a stop and after a crash alike.
func TestTimersDueDuringAStop(t *testing.T) {
	for _, crash := range []bool{false, true} {
		r := newRig(t)
		r.open()
		due := map[string]format.Wall{}
		for _, m := range []int{5, 1, 9, 3, 30} {
			key := fmt.Sprint(m)
			res, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Timer{Op: format.TimerSchedule, Queue: "q", Key: key,
				Partition: "p", Delay: time.Duration(m) * time.Minute, Message: engine.Message{TransactionID: key, Payload: []byte(key)}}}})
			require.NoError(t, err)
			due[key] = res[0].Timer.Due
		}
		if crash {
			r.cut()
		} else {
			r.close()
		}
		r.clock.Advance(10 * time.Minute)
		r.open()
		r.node.Settle()
		_, got, err := r.read("p")
		require.NoError(t, err)
		require.Equal(t, []string{"1", "3", "5", "9"}, got)
		r.notEarly("p", due)
		r.tick(20 * time.Minute)
		r.notEarly("p", due)
		_, got, err = r.read("p")
		require.NoError(t, err)
		require.Equal(t, []string{"1", "3", "5", "9", "30"}, got)
		r.close()
	}
}

// notEarly compares what fired into a partition of q with when it was due.
func (r *rig) notEarly(partition string, due map[string]format.Wall) {
	r.t.Helper()
	res, err := r.node.Read(r.t.Context(), someone, engine.ReadRequest{At: []engine.Position{{Queue: "q", Partition: partition, MaxBytes: 1 << 20}}})
	require.NoError(r.t, err)
	for _, rec := range res.Parts[0].Records {
		require.GreaterOrEqual(r.t, rec.CreatedAt, due[rec.TransactionID], "timer %s", rec.TransactionID)
	}
}

// Goal: when the wall clock jumps, timers fire once and never before what the node told, a jump back does not hold them
// up by its length, and locks end as late as they do without it (S-clk-5): the calendar of the log only runs forward.
func TestClockJumpsUnderTimersAndLocks(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, 30 * time.Second, time.Hour, 24 * time.Hour} {
		r := newRig(t)
		r.open()
		ctx := t.Context()
		acquire := &engine.Lock{Op: format.LockAcquire, Name: "l", TTL: 10 * time.Minute}
		res, err := r.node.Do(ctx, someone, engine.Batch{Ops: []engine.Op{acquire, &engine.Timer{Op: format.TimerSchedule, Queue: "q", Key: "k", Partition: "p",
			Delay: 10 * time.Minute, Message: engine.Message{TransactionID: "k", Payload: []byte("k")}}}})
		require.NoError(t, err)
		due := map[string]format.Wall{"k": res[1].Timer.Due}
		r.clock.JumpWall(jump)
		waited := time.Duration(0)
		for ; ; waited += 5 * time.Second {
			_, pending, err := r.node.Keyed().Timer(ctx, someone, "q", "k")
			require.NoError(t, err)
			if !pending {
				break
			}
			if held := r.lockHeld("l"); jump < time.Minute && waited < 9*time.Minute {
				require.True(t, held, "jump %v ends the lock after %v", jump, waited)
			}
			require.Less(t, waited, 11*time.Minute, "jump %v holds the timer up", jump)
			r.tick(5 * time.Second)
		}
		if jump < time.Minute {
			require.GreaterOrEqual(t, waited, 9*time.Minute, "jump %v", jump)
		}
		require.False(t, r.lockHeld("l"), "jump %v: the lock outlives the timer of its length", jump)
		r.notEarly("p", due)
		r.tick(time.Hour)
		_, got, err := r.read("p")
		require.NoError(t, err)
		require.Equal(t, []string{"k"}, got, "jump %v", jump)
		r.close()
	}
}

func (r *rig) lockHeld(name string) bool {
	r.t.Helper()
	held, err := r.node.Keyed().Locks(r.t.Context(), someone, []string{name})
	require.NoError(r.t, err)
	return len(held[0]) > 0
}
