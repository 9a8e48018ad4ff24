package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/vfs"
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
			disk := r.fs.Crash(vfs.DropUnsynced())
			r.node.Kill()
			r.fs = disk
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

// TestRacesHaveOneWinner: of two workers that race for one key, one lock, one lease in a transaction, or the cancel of a timer
// against its fire, exactly one wins, a thousand times each.
func TestRacesHaveOneWinner(t *testing.T) {
	r := newRig(t)
	r.open()
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	race := func(what string, try func(round, worker int) bool) {
		t.Helper()
		for round := range rounds {
			var wg sync.WaitGroup
			var won [2]bool
			for w := range won {
				wg.Go(func() { won[w] = try(round, w) })
			}
			wg.Wait()
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
	lease := map[int]*engine.Delivery{}
	for round := range rounds {
		partition := fmt.Sprint("p", round)
		r.mustPush(partition, "1")
		d, err := r.node.Pop(t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q", Partition: partition, Pinned: true}})
		if err != nil || d == nil {
			t.Fatal(d, err)
		}
		lease[round] = d
	}
	race("lease", func(round, worker int) bool {
		d := lease[round]
		_, err := r.atomic(someone, &engine.Ack{Partition: d.Claims[0].PartitionID, Lease: d.Lease, HasOffset: true, Status: format.AckCompleted}, incr("acked"))
		return err == nil
	})
	res, err := r.atomic(someone, get("acked"))
	if err != nil || string(res[0].KV.Row.Value) != fmt.Sprint(rounds) {
		t.Fatalf("%+v, %v: want %d", res, err, rounds)
	}
	cancelled := 0
	for round := range rounds {
		key := fmt.Sprint("t", round)
		out, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Timer{Op: format.TimerSchedule, Queue: "timers", Key: key,
			Partition: "p", Message: engine.Message{Payload: []byte("1")}}}})
		if err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
		out, err = r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Timer{Op: format.TimerCancel, Queue: "timers", Key: key}}})
		if err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
		if out[0].Timer.Status == format.TimerCancelled {
			cancelled++
		}
	}
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
	r.node.Settle()
	fired := 0
	if p, err := r.node.Catalog().Partition(t.Context(), someone, "timers", "p"); err == nil {
		fired = int(p.End)
	}
	if fired+cancelled != rounds {
		t.Fatalf("%d fired and %d cancelled of %d", fired, cancelled, rounds)
	}
	r.close()
}

// kvCall is one operation of the linearizability test, on one of few keys.
type kvCall struct {
	key    string
	op     byte // p put, c put if at version, d delete, g get
	value  string
	expect uint64
}

type kvAnswer struct {
	applied bool
	value   string // "" is absent
	version uint64
}

// kvModel is a register with versions, as callers see it.
var kvModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(kvCall).key
			byKey[key] = append(byKey[key], op)
		}
		var all [][]porcupine.Operation
		for _, ops := range byKey {
			all = append(all, ops)
		}
		return all
	},
	Init: func() any { return kvAnswer{} },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(kvAnswer), input.(kvCall), output.(kvAnswer)
		switch {
		case in.op == 'g':
			return out.value == now.value && out.version == now.version, now
		case in.op == 'd':
			return out.applied == (now.version != 0), kvAnswer{}
		case in.op == 'c' && now.version != in.expect:
			return !out.applied && out.value == now.value && out.version == now.version, now
		}
		return out.applied && out.version > now.version, kvAnswer{value: in.value, version: out.version}
	},
}

// TestKeysAreLinearizable: a concurrent history of puts, conditional puts, deletes and reads is one that a single register
// per key explains (S-kv-17).
func TestKeysAreLinearizable(t *testing.T) {
	r := newRig(t)
	r.open()
	const workers, calls = 6, 500
	var mu sync.Mutex
	var history []porcupine.Operation
	began := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			seen := map[string]uint64{}
			for i := range calls {
				in := kvCall{key: fmt.Sprint("k", (i*7+w)%40), op: "gpcdcg"[(i*5+w*3+i/7)%6], value: fmt.Sprintf(`"%d.%d"`, w, i)}
				in.expect = seen[in.key]
				from := time.Since(began).Nanoseconds()
				out, err := r.call(in)
				if err != nil {
					t.Error(err)
					return
				}
				seen[in.key] = out.version
				op := porcupine.Operation{ClientId: w, Input: in, Call: from, Output: out, Return: time.Since(began).Nanoseconds()}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(history) != workers*calls {
		t.Fatalf("%d calls were answered", len(history))
	}
	if !porcupine.CheckOperations(kvModel, history) {
		t.Fatal("no order of the calls explains the answers")
	}
	r.close()
}

func (r *rig) call(in kvCall) (kvAnswer, error) {
	op := &engine.KV{Namespace: "n", Key: in.key}
	switch in.op {
	case 'g':
		op.Kind = engine.KVGet
	case 'd':
		op.Kind = engine.KVDelete
	default:
		op.Kind, op.Value, op.HasExpect, op.Expect = engine.KVPut, []byte(in.value), in.op == 'c', in.expect
	}
	res, err := r.atomic(someone, op)
	if err != nil {
		return kvAnswer{}, err
	}
	item := res[0].KV
	return kvAnswer{applied: item.Applied, value: string(item.Row.Value), version: item.Row.Version}, nil
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
