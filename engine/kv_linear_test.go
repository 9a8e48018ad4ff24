package engine_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/vfs"
)

// kvStep is how far the clock moves at a time in TestKeysAreLinearizable. Lifetimes end half-way between two moves, since the
// log's time may be a little ahead where it is read while the clock moves.
const kvStep = 4 * time.Second

// kvCall is one operation of the linearizability test, on one of few keys.
type kvCall struct {
	key    string // "" of the clock
	op     byte   // p put, c put if at version, d delete, g get, i incr, t the clock moves, for all keys
	value  string
	expect uint64
	steps  int // of the clock that what is written lives, 0 for ever
	since  int // how often the clock had moved when the call began
	// Of incr.
	delta, least, most int64
}

type kvAnswer struct {
	applied bool
	reason  format.KVReason
	value   string // "" is absent
	version uint64
	expires format.Wall
	due     int // the move of the clock that reaches expires, 0 for never
}

// kvState is a key as the test's model has it: a register with versions that only rise, and with an end.
type kvState struct {
	value   string // "" is absent
	version uint64
	expires format.Wall
	due     int    // the move of the clock that ends it, 0 for never
	newest  uint64 // version of the last write, also of a delete
	now     int    // how often the clock has moved
}

// over says that the row's time has come when the clock has moved so often.
func (s kvState) over(now int) bool { return s.due != 0 && s.due <= now }

// ended is the key without its row.
func (s kvState) ended() kvState { return kvState{newest: s.newest, now: s.now} }

// step says whether an answer is right where the key stands so, and how it stands then. A read sees what is not over. The time
// of a write is that of its entry, which is some time of the call: where the clock moves meanwhile the row that it meets may
// count as over or not, and what it writes may be over as soon as it is there.
func (s kvState) step(in kvCall, out kvAnswer) (bool, kvState) {
	switch {
	case in.op == 't':
		s.now++
		return true, s
	case in.op == 'g' && s.over(s.now):
		right, _ := s.ended().kept(out, format.KVApplied)
		return right, s
	case in.op == 'g':
		return s.kept(out, format.KVApplied)
	case s.over(s.now):
		if right, next := s.ended().change(in, out); right || s.over(in.since) {
			return right, next
		}
	}
	return s.change(in, out)
}

func (s kvState) change(in kvCall, out kvAnswer) (bool, kvState) {
	switch {
	case in.op == 'd' && s.version == 0:
		return s.kept(out, format.KVAbsent)
	case in.op == 'd':
		return out == kvAnswer{applied: true, version: out.version} && out.version > s.newest, kvState{newest: out.version, now: s.now}
	case in.op == 'i':
		return s.incr(in, out)
	case in.op == 'p' || s.version == in.expect:
		return s.write(in.value, in, out)
	case in.expect == 0:
		return s.kept(out, format.KVExists)
	case s.version == 0:
		return s.kept(out, format.KVAbsent)
	}
	return s.kept(out, format.KVVersion)
}

// kept is what an op answers that changes nothing: what there is, and why.
func (s kvState) kept(out kvAnswer, why format.KVReason) (bool, kvState) {
	return out == kvAnswer{reason: why, value: s.value, version: s.version, expires: s.expires, due: s.due}, s
}

// put is what a write leaves.
func (s kvState) put(value string, out kvAnswer) (bool, kvState) {
	right := out.applied && out.reason == format.KVApplied && out.value == value && out.version > s.newest
	return right, kvState{value: value, version: out.version, expires: out.expires, due: out.due, newest: out.version, now: s.now}
}

// write gives the row a new end: so many moves after one that the call saw.
func (s kvState) write(value string, in kvCall, out kvAnswer) (bool, kvState) {
	right, next := s.put(value, out)
	if from := out.due - in.steps; in.steps == 0 {
		right = right && out.expires == 0
	} else {
		right = right && in.since <= from && from <= s.now
	}
	return right, next
}

// incr counts from zero where there is nothing, and does not move the end of what is there (S-kv-9 to 11).
func (s kvState) incr(in kvCall, out kvAnswer) (bool, kvState) {
	var base int64
	if s.version != 0 {
		var err error
		if base, err = strconv.ParseInt(s.value, 10, 64); err != nil {
			return s.kept(out, format.KVType)
		}
	}
	sum := base + in.delta
	if sum < in.least || sum > in.most {
		return s.kept(out, format.KVLimit)
	}
	if s.version == 0 {
		return s.write(strconv.FormatInt(sum, 10), in, out)
	}
	right, next := s.put(strconv.FormatInt(sum, 10), out)
	return right && out.expires == s.expires, next
}

var kvModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (all [][]porcupine.Operation) {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(kvCall).key
			byKey[key] = append(byKey[key], op)
		}
		clock := byKey[""]
		delete(byKey, "")
		for _, ops := range byKey {
			all = append(all, append(ops, clock...))
		}
		return all
	},
	Init: func() any { return kvState{} },
	Step: func(state, input, output any) (bool, any) {
		return state.(kvState).step(input.(kvCall), output.(kvAnswer))
	},
}

// TestKeysAreLinearizable: a concurrent history of puts, conditional puts, increments within bounds, deletes and reads, of
// keys that live for ever and of keys that end while the clock moves, is one that a single register per key explains
// (S-kv-4 to 14, S-kv-17). A row is over for
// readers from the move of the clock that reaches its end, whoever looks and whatever was swept.
func TestKeysAreLinearizable(t *testing.T) {
	r, _ := withKeyed(t)
	r.open()
	r.fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpWriteSync {
			for range 4 {
				runtime.Gosched() // others come meanwhile, and read while entries are under way
			}
		}
		return nil
	})
	const workers, calls = 6, 500
	w := kvWorkers{r: r, began: time.Now(), start: r.clock.Now()}
	var running sync.WaitGroup
	for worker := range workers {
		running.Go(func() { w.work(worker, calls) })
	}
	running.Wait()
	r.close()
	if len(w.history) != workers*calls {
		t.Fatalf("%d calls were answered", len(w.history))
	}
	reasons, ends := map[format.KVReason]int{}, 0
	for _, op := range w.history {
		out := op.Output.(kvAnswer)
		reasons[out.reason]++
		if out.expires != 0 {
			ends++
		}
	}
	t.Logf("reasons %v, %d answers tell of an end", reasons, ends)
	for _, why := range []format.KVReason{format.KVExists, format.KVAbsent, format.KVVersion, format.KVLimit, format.KVType} {
		if reasons[why] < calls/50 || ends < calls {
			t.Errorf("reasons %v, %d answers tell of an end: it shows little", reasons, ends)
			break
		}
	}
	if res := porcupine.CheckOperationsTimeout(kvModel, w.history, time.Minute); res != porcupine.Ok {
		t.Fatalf("the history of %d calls is %s: no order of the calls explains the answers", len(w.history), res)
	}
}

// kvWorkers call, and remember what they were told.
type kvWorkers struct {
	r       *rig
	began   time.Time
	start   int64        // of the test, by its clock
	moves   atomic.Int64 // of the clock that are done
	clock   sync.Mutex   // held while the clock moves: of two moves at once one may come to nothing
	mu      sync.Mutex
	history []porcupine.Operation
}

func (w *kvWorkers) work(worker, calls int) {
	rng := rand.New(rand.NewPCG(uint64(worker), 2))
	seen := map[string]uint64{}
	for i := range calls {
		in := kvCall{key: fmt.Sprint("k", rng.IntN(16)), op: "ggppcccdiiii"[rng.IntN(12)], value: strconv.Itoa(rng.IntN(30)),
			delta: rng.Int64N(15) - 7, least: -10, most: 20}
		if rng.IntN(4) == 0 {
			in.value = fmt.Sprintf(`"%d.%d"`, worker, i)
		}
		if rng.IntN(2) == 0 {
			in.steps = 1 + rng.IntN(4)
		}
		if rng.IntN(25) == 0 {
			in = kvCall{op: 't'}
		}
		in.expect, in.since = seen[in.key], int(w.moves.Load())
		from := time.Since(w.began).Nanoseconds()
		out, err := w.call(in)
		if err != nil {
			w.r.t.Error(err)
			return
		}
		seen[in.key] = out.version
		op := porcupine.Operation{ClientId: worker, Input: in, Call: from, Output: out, Return: time.Since(w.began).Nanoseconds()}
		w.mu.Lock()
		w.history = append(w.history, op)
		w.mu.Unlock()
	}
}

func (w *kvWorkers) call(in kvCall) (kvAnswer, error) {
	op := &engine.KV{Namespace: "n", Key: in.key}
	if in.steps > 0 {
		op.Keep = time.Duration(in.steps)*kvStep - kvStep/2
	}
	number := func(n int64) format.Number { return format.Number{Kind: format.IntNumber, Int: n} }
	switch in.op {
	case 't':
		w.clock.Lock()
		defer w.clock.Unlock()
		w.r.clock.Advance(kvStep)
		w.moves.Add(1)
		return kvAnswer{}, nil
	case 'g':
		op.Kind, op.Keep = engine.KVGet, 0
	case 'd':
		op.Kind, op.Keep = engine.KVDelete, 0
	case 'i':
		op.Kind, op.Delta, op.Min, op.Max = engine.KVIncr, number(in.delta), number(in.least), number(in.most)
	default:
		op.Kind, op.Value, op.HasExpect, op.Expect = engine.KVPut, []byte(in.value), in.op == 'c', in.expect
	}
	res, err := w.r.atomic(someone, op)
	if err != nil {
		return kvAnswer{}, err
	}
	item := res[0].KV
	out := kvAnswer{applied: item.Applied, reason: item.Reason, value: string(item.Row.Value), version: item.Row.Version, expires: item.Row.Expires}
	if out.expires != 0 {
		step := kvStep.Microseconds()
		out.due = int((int64(out.expires) - w.start + step - 1) / step)
	}
	return out, nil
}

// TestReadOfAnEndWaits: a read that comes when a key's time is over is not answered before the entries under way that still count
// the key as live. Else it would say that nothing is there, and a call that ends later that it has counted on (S-kv-17).
func TestReadOfAnEndWaits(t *testing.T) {
	r := calmRig(t)
	first := incr("k")
	first.Keep = time.Second
	if _, err := r.atomic(someone, first); err != nil {
		t.Fatal(err)
	}
	counted, read := make(chan engine.KVItem, 1), make(chan engine.KVItem, 1)
	do := func(op *engine.KV, answer chan engine.KVItem) {
		res, err := r.atomic(someone, op)
		if err != nil {
			t.Error(err)
			res = make([]engine.Result, 1)
		}
		answer <- res[0].KV
	}
	h := r.hold()
	go do(incr("k"), counted)
	<-h.entered
	r.clock.Advance(2 * time.Second)
	go do(get("k"), read)
	for r.node.WaitingReads() == 0 && len(read) == 0 {
		runtime.Gosched()
	}
	if len(read) > 0 {
		t.Errorf("the read is answered %+v while the key is counted on", <-read)
		read <- engine.KVItem{}
	}
	h.release()
	if item := <-counted; !item.Applied || string(item.Row.Value) != "2" {
		t.Errorf("counted to %+v, want 2: it was live when the call came", item)
	}
	if item := <-read; item.Found {
		t.Errorf("read %+v of a key whose time is over", item)
	}
	r.close()
}
