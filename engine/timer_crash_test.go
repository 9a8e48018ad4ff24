package engine_test

import (
	"fmt"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/vfs"
)

// timersAndKeys schedules timers, each in a transaction with a counter and under a key of its own, and lets them fire; it
// returns the names of those that were acknowledged.
func (m *mortal) timersAndKeys() (acked []string, err error) {
	if err := m.reopen(); err != nil {
		return nil, err
	}
	for i := range 12 {
		name := fmt.Sprint("t", i)
		caller := someone
		caller.Key = name
		_, err := m.node.Do(m.ctx, caller, engine.Batch{Atomic: true, Ops: []engine.Op{incr("count"), &engine.Timer{Op: format.TimerSchedule,
			Queue: "timers", Key: name, Partition: "p", Delay: time.Duration(i) * time.Second, Message: engine.Message{Payload: []byte(name)}}}})
		if err != nil {
			return acked, err
		}
		acked = append(acked, name)
		m.clock.Advance(1500 * time.Millisecond)
		if err := m.settle(); err != nil {
			return acked, err
		}
	}
	return acked, m.stop()
}

// TestTimersFireOnceWhateverDies cuts the power all over a life in which timers are scheduled and fire. Afterwards what was
// acknowledged is there, every timer fires exactly once, the counter that rose with each schedule agrees, and a call sent
// again under its key does nothing.
func TestTimersFireOnceWhateverDies(t *testing.T) {
	points := 0
	for n := int64(1); ; n += *crashStep {
		m := newMortal(t)
		m.fs.PowerOffAt(n)
		done := make(chan []string, 1)
		go func() {
			var acked []string
			defer func() { done <- acked }()
			acked, _ = m.timersAndKeys()
		}()
		acked := <-done
		if !m.fs.PoweredOff() {
			break
		}
		points++
		r, err := m.reopened(m.fs.Crash(vfs.RandomSubset(uint64(n))))
		if err != nil {
			t.Fatalf("power off at operation %d: open: %v", n, err)
		}
		r.judgeTimers(n, acked)
		r.close()
		if m.node != nil {
			go m.node.Kill()
		}
	}
	if points < 10 {
		t.Fatalf("only %d points", points)
	}
}

func (r *rig) judgeTimers(n int64, acked []string) {
	t := r.t
	t.Helper()
	count := func() string {
		res, err := r.atomic(someone, get("count"))
		if err != nil {
			t.Fatalf("power off at operation %d: %v", n, err)
		}
		return string(res[0].KV.Row.Value)
	}
	before := count()
	for _, name := range acked { // what was answered is answered again
		caller := someone
		caller.Key = name
		if _, err := r.atomic(caller, incr("count")); err == nil {
			t.Fatalf("power off at operation %d: the key of %s is forgotten", n, name)
		}
	}
	r.tick(30 * time.Minute)
	fired := map[string]int{}
	read, err := r.node.Read(t.Context(), someone, engine.ReadRequest{At: []engine.Position{{Queue: "timers", Partition: "p"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range read.Parts[0].Records {
		fired[string(rec.Payload)]++
	}
	for _, name := range acked {
		if fired[name] == 0 {
			t.Fatalf("power off at operation %d: %s was acknowledged and never fired, %v did", n, name, fired)
		}
	}
	for name, times := range fired {
		if times != 1 {
			t.Fatalf("power off at operation %d: %s fired %d times", n, name, times)
		}
	}
	if want := fmt.Sprint(len(fired)); count() != before || len(fired) > 0 && before != want {
		t.Fatalf("power off at operation %d: the counter is %q, %s timers fired", n, before, want)
	}
}
