package engine_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// TestTransactionsShareAFlush: transactions that come while an entry is being flushed take one flush more, however many they
// are. Nobody is answered before the flush that holds his transaction, and what was answered outlives a power cut.
func TestTransactionsShareAFlush(t *testing.T) {
	r := calmRig(t)
	const calls = 200
	var answered atomic.Int32
	commit := func(call int) {
		name := fmt.Sprint("call ", call)
		message := engine.Message{TransactionID: name, Payload: []byte(name)}
		_, err := r.atomic(someone, incr("calls"), &engine.Append{Queue: "q", Partition: "p", Messages: []engine.Message{message}},
			&engine.Timer{Op: format.TimerSchedule, Queue: "reminders", Key: name, Partition: "p", Delay: time.Hour, Message: message})
		if err != nil {
			t.Error(err)
		}
		answered.Add(1)
	}
	h := r.hold()
	var all sync.WaitGroup
	all.Go(func() { commit(0) })
	<-h.entered
	for call := 1; call < calls; call++ {
		all.Go(func() { commit(call) })
	}
	r.await(calls-1, 0)
	if n := answered.Load(); n != 0 {
		t.Errorf("%d transactions are answered before anything is flushed", n)
	}
	h.release()
	all.Wait()
	if n := h.writes.Load(); n != 2 {
		t.Errorf("%d transactions took %d flushes, want 2", calls, n)
	}
	r.cut()
	r.open()
	res, err := r.atomic(someone, get("calls"))
	if err != nil || string(res[0].KV.Row.Value) != fmt.Sprint(calls) || len(r.payloads("q", "p")) != calls {
		t.Errorf("%+v, %v, %d messages after a power cut: want %d", res, err, len(r.payloads("q", "p")), calls)
	}
	r.close()
}
