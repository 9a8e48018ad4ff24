package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
)

func (r *rig) atomic(c engine.Caller, ops ...engine.Op) ([]engine.Result, error) {
	return r.node.Do(context.Background(), c, engine.Batch{Ops: ops, Atomic: true})
}

func incr(key string) *engine.KV {
	return &engine.KV{Kind: engine.KVIncr, Namespace: "n", Key: key, Delta: format.Number{Kind: format.IntNumber, Int: 1}}
}

func get(key string) *engine.KV { return &engine.KV{Kind: engine.KVGet, Namespace: "n", Key: key} }

// TestStateOutlivesKills: keys, pending timers, recurring ones and remembered answers are there after clean stops and
// after kills, with and without a checkpoint in between; every timer fires once, also what fell due while the node was away.
func TestStateOutlivesKills(t *testing.T) {
	r, _ := withKeyed(t)
	r.open()
	keyed := someone
	for life := range 6 {
		keyed.Key = fmt.Sprint("life ", life)
		timer := &engine.Timer{Op: format.TimerSchedule, Queue: "timers", Key: keyed.Key, Partition: "p", Delay: time.Minute,
			Message: engine.Message{TransactionID: keyed.Key, Payload: []byte("{}")}}
		res, err := r.atomic(keyed, incr("count"), timer)
		if err != nil || string(res[0].KV.Row.Value) != fmt.Sprint(life+1) {
			t.Fatalf("life %d: %+v, %v", life, res, err)
		}
		r.tick(1500 * time.Millisecond)
		if life%2 == 1 {
			r.cut()
		} else {
			r.close()
		}
		if life == 3 {
			r.clock.Advance(time.Hour)
		}
		r.open()
		again, err := r.atomic(keyed, incr("count"), timer)
		if life != 3 && (err != nil || again[1].Timer != res[1].Timer || string(again[0].KV.Row.Value) != fmt.Sprint(life+1)) {
			t.Fatalf("life %d: answered again as %+v, %v, first as %+v", life, again, err, res)
		}
		if life == 3 { // the answer was remembered for an hour: this is another call
			break
		}
	}
	r.tick(2 * time.Minute)
	read, err := r.node.Read(t.Context(), someone, engine.ReadRequest{At: []engine.Position{{Queue: "timers", Partition: "p"}}})
	if err != nil || len(read.Parts[0].Records) != 4 {
		t.Fatalf("%+v, %v: want four fires, of which the last one's id repeats", read, err)
	}
	for i, rec := range read.Parts[0].Records {
		if want := fmt.Sprint("life ", i); rec.TransactionID != want {
			t.Fatalf("fire %d is %q, want %q", i, rec.TransactionID, want)
		}
	}
	r.close()
}

// TestRacesHaveOneWinner: of two workers that race for one key, one lock, one timer or its cancel, exactly one wins, a
// thousand times each.
func TestRacesHaveOneWinner(t *testing.T) {
	r := newRig(t)
	r.open()
	race := func(what string, try func(round, worker int) bool) {
		t.Helper()
		for round := range raceRounds() {
			var won [2]bool
			together(2, func(w int) { won[w] = try(round, w) })
			if won[0] == won[1] {
				t.Fatalf("%s, round %d: won %v", what, round, won)
			}
		}
	}
	race("key", func(round, worker int) bool {
		res, err := r.atomic(someone, &engine.KV{Kind: engine.KVPut, Namespace: "n", Key: fmt.Sprint("k", round), Value: []byte("1"), HasExpect: true})
		return err == nil && res[0].KV.Applied
	})
	race("lock", func(round, worker int) bool {
		res, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Lock{Op: format.LockAcquire, Name: fmt.Sprint("l", round),
			Owner: fmt.Sprint(worker), TTL: time.Hour}}})
		return err == nil && res[0].Lock.Granted
	})
	race("timer", func(round, worker int) bool {
		schedule := &engine.Timer{Op: format.TimerSchedule, Queue: "never", Key: fmt.Sprint("t", round), Partition: "p", Delay: time.Hour,
			Message: engine.Message{Payload: []byte("1")}}
		res, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{schedule}})
		if err != nil || res[0].Err != nil {
			t.Error(res, err)
		}
		return err == nil && res[0].Timer.Status == format.TimerScheduled
	})
	race("cancel of a timer", func(round, worker int) bool {
		cancel := &engine.Timer{Op: format.TimerCancel, Queue: "never", Key: fmt.Sprint("t", round)}
		res, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{cancel}})
		return err == nil && res[0].Timer.Status == format.TimerCancelled
	})
	r.close()
}

// TestFullDiskRefusesWhatGrows: above the high mark puts, schedules and transactions that store are refused and nothing
// of them is written; deletes, cancels, releases and reads work; a timer that is due waits and is not lost.
func TestFullDiskRefusesWhatGrows(t *testing.T) {
	r := newRig(t)
	r.config = func(c *engine.Config) { c.DiskHigh, c.DiskLow = 90, 80 }
	r.open()
	timer := func(key string, delay time.Duration) *engine.Timer {
		return &engine.Timer{Op: format.TimerSchedule, Queue: "timers", Key: key, Partition: "p", Delay: delay, Message: engine.Message{Payload: []byte("1")}}
	}
	lock := &engine.Lock{Op: format.LockAcquire, Name: "l", Owner: "o", TTL: 100 * time.Hour}
	out, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{incr("n"), timer("due", 24*time.Hour), timer("far", 48*time.Hour), lock}})
	if err != nil || !out[3].Lock.Granted {
		t.Fatal(out, err)
	}
	space, err := r.fs.Free("data")
	if err != nil {
		t.Fatal(err)
	}
	used := space.Total - space.Available
	r.fs.SetCapacity(used + used/20)
	r.gate(true)
	for _, ops := range [][]engine.Op{{incr("n")}, {timer("new", time.Hour)},
		{&engine.Append{Queue: "q", Partition: "p", Messages: []engine.Message{{}}}, get("n")}} {
		var e *engine.Error
		if _, err := r.atomic(someone, ops...); !errors.As(err, &e) || e.Code != engine.CodeStorageFull || e.Outcome != engine.OutcomeNone {
			t.Fatalf("%T: %v", ops[0], err)
		}
	}
	r.tick(25 * time.Hour)
	if _, found, err := r.node.Keyed().Timer(t.Context(), someone, "timers", "due"); !found || err != nil {
		t.Fatalf("the timer that is due: %v, %v", found, err)
	}
	if late := r.node.Inspect().Stats().TimerOldestLateMicros; late == 0 {
		t.Fatal("a late timer does not show")
	}
	release := &engine.Lock{Op: format.LockRelease, Name: "l", Token: out[3].Lock.Token}
	out, err = r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.KV{Kind: engine.KVDelete, Namespace: "n", Key: "n"}, release,
		&engine.Timer{Op: format.TimerCancel, Queue: "timers", Key: "far"}, get("n")}})
	if err != nil || !out[0].KV.Applied || !out[1].Lock.Granted || out[2].Timer.Status != format.TimerCancelled || out[3].KV.Found {
		t.Fatalf("%+v, %v", out, err)
	}
	r.fs.SetCapacity(0)
	r.gate(false)
	for pending := true; pending; { // the pool of segments fills up in the background
		runtime.Gosched()
		r.tick(10 * time.Second)
		_, pending, _ = r.node.Keyed().Timer(t.Context(), someone, "timers", "due")
	}
	if p, err := r.node.Catalog().Partition(t.Context(), someone, "timers", "p"); err != nil || p.End != 1 {
		t.Fatalf("%+v, %v: the timer did not fire", p, err)
	}
	r.close()
}

// TestCatchUpAfterAStop: what a recurring timer does about fires that fell due while the node was away.
func TestCatchUpAfterAStop(t *testing.T) {
	for policy, want := range map[engine.CatchUp]format.Offset{engine.CatchUpOne: 1, engine.CatchUpAll: 24, engine.CatchUpSkip: 0} {
		r := newRig(t)
		r.open()
		_, err := r.atomic(someone, &engine.Timer{Op: format.TimerSchedule, Queue: "timers", Key: "c", Partition: "p", Cron: "0 * * * *", CatchUp: policy,
			Message: engine.Message{Payload: []byte("1")}})
		if err != nil {
			t.Fatal(err)
		}
		r.close()
		r.clock.Advance(24 * time.Hour)
		r.open()
		r.node.Settle()
		got := format.Offset(0)
		if p, err := r.node.Catalog().Partition(t.Context(), someone, "timers", "p"); err == nil {
			got = p.End
		}
		info, found, err := r.node.Keyed().Timer(t.Context(), someone, "timers", "c")
		if got != want || !found || err != nil || info.Due <= format.Wall(r.clock.Now()) {
			t.Fatalf("policy %d: %d fires, want %d; %+v, %v, %v", policy, got, want, info, found, err)
		}
		r.close()
	}
}

// gate lets time pass until the disk gate is closed, or open.
func (r *rig) gate(closed bool) {
	r.t.Helper()
	for {
		r.tick(5 * time.Second)
		if st, err := r.node.Status(r.t.Context()); err != nil || st.StorageFull == closed {
			return
		}
		runtime.Gosched()
	}
}
