package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// keyHistory is what clients did to keys, by key. A key is used for a while and then never again, so that its history can
// be judged and forgotten.
type keyHistory struct {
	mu   sync.Mutex
	ops  map[keyName][]porcupine.Operation
	done int // operations that were judged
}

// keyName is one key of a tenant: of a slot, the one of a stretch of time.
type keyName struct{ tenant, slot, era int }

func (n keyName) String() string { return fmt.Sprintf("k%d-%d", n.slot, n.era) }

const (
	keySlots = 3
	keyEra   = 8 * time.Second
)

// The kinds of operations.
const (
	keyGet = iota
	keyPut
	keySwap // a put that expects a version
	keyAdd
	keyDelete
)

var keyOps = [...]string{keyPut: "put", keySwap: "put", keyAdd: "incr", keyDelete: "delete"}

type keyInput struct {
	kind, value int    // value is what is put or added; values that are put are unique
	expect      uint64 // of a swap
}

// keyOutput is an answer: whether a write applied, and what is there then, or what is read.
type keyOutput struct {
	unknown, applied, found bool
	value                   int
	version                 uint64
}

func (h *keyHistory) add(n keyName, op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ops == nil {
		h.ops = map[keyName][]porcupine.Operation{}
	}
	h.ops[n] = append(h.ops[n], op)
}

// key reads and writes the keys of the day.
func (k *client) key(w *crew) {
	versions := map[keyName]uint64{} // what was seen last
	for n := 0; !w.stop.Load(); n++ {
		k.pause(1, 6)
		name := keyName{k.tenant, k.r.IntN(keySlots), int(k.h.now() / keyEra)}
		in := keyInput{kind: k.r.IntN(keyDelete + 1), value: k.number*1_000_000 + n}
		switch in.kind {
		case keyAdd:
			in.value = 1 + k.r.IntN(5)
		case keySwap:
			if in.expect = versions[name]; in.expect == 0 {
				in.kind = keyGet
			}
		}
		call := k.h.now()
		out, counts := k.keyOp(name, in)
		end := int64(k.h.now())
		if !counts {
			k.elsewhere()
			continue
		}
		if out.unknown {
			end = int64(24 * time.Hour) // it may take effect at any time
			k.elsewhere()
		} else {
			k.h.acked.Add(1)
			versions[name] = out.version
			maps.DeleteFunc(versions, func(old keyName, _ uint64) bool { return old.era < name.era })
		}
		k.h.keys.add(name, porcupine.Operation{ClientId: k.number, Input: in, Call: int64(call), Output: out, Return: end})
	}
}

// keyOp does one operation; false when it read nothing or can not have had an effect.
func (k *client) keyOp(name keyName, in keyInput) (out keyOutput, counts bool) {
	if in.kind == keyGet {
		var a struct {
			Found   bool
			Value   int
			Version uint64
		}
		if k.call("GET", "/api/v1/kv/bench/"+name.String(), nil, &a) != 200 {
			return out, false
		}
		return keyOutput{found: a.Found, value: a.Value, version: a.Version}, true
	}
	op := map[string]any{"op": keyOps[in.kind], "ns": "bench", "key": name.String()}
	switch in.kind {
	case keyPut, keySwap:
		op["value"], op["forever"] = in.value, true
	case keyAdd:
		op["delta"], op["forever"] = in.value, true
	}
	if in.kind == keySwap {
		op["expect"] = in.expect
	}
	var a struct {
		Results []struct {
			Applied bool
			Value   *int
			Version uint64
		}
	}
	status := k.call("POST", "/api/v1/kv", map[string]any{"operations": []any{op}}, &a)
	switch {
	case status == 429:
		return out, false
	case status != 200 || len(a.Results) != 1:
		return keyOutput{unknown: true}, true
	}
	r := &a.Results[0]
	out = keyOutput{applied: r.Applied, found: r.Value != nil, version: r.Version}
	if r.Value != nil {
		out.value = *r.Value
	}
	return out, true
}

// keyState is a key as the model knows it.
type keyState struct {
	found   bool
	value   int
	version uint64 // of the value; of loose ones, and where there is none, the highest that is surely over
	loose   bool   // the version was told nobody: it is above that
}

// is tells whether an answer shows the state, and what is known then.
func (s keyState) is(out keyOutput) (keyState, bool) {
	switch {
	case !s.found:
		return s, !out.found
	case !out.found || out.value != s.value || !s.at(out.version):
		return s, false
	}
	return keyState{found: true, value: out.value, version: out.version}, true
}

// at tells whether the value can be of a version.
func (s keyState) at(version uint64) bool {
	return s.found && (!s.loose && version == s.version || s.loose && version > s.version)
}

// after is the state that a write leads to, its version told nobody; false where it does not apply.
func (s keyState) after(in keyInput) (keyState, bool) {
	next := keyState{found: true, value: in.value, version: s.version, loose: true}
	switch in.kind {
	case keySwap:
		next.version = in.expect
		return next, s.at(in.expect)
	case keyAdd:
		if s.found {
			next.value += s.value
		}
	case keyDelete:
		return keyState{version: s.version}, s.found
	}
	return next, true
}

// keyStep gives the states that an operation can lead to.
func keyStep(s keyState, in keyInput, out keyOutput) []keyState {
	if in.kind == keyGet {
		if next, ok := s.is(out); ok {
			return []keyState{next}
		}
		return nil
	}
	next, applies := s.after(in)
	switch {
	case out.unknown && applies:
		return []keyState{s, next}
	case out.unknown:
		return []keyState{s}
	case !out.applied:
		if same, ok := s.is(out); ok && (!applies || s.loose && in.kind == keySwap && out.version != in.expect) {
			return []keyState{same}
		}
		return nil
	case !applies || out.version <= next.version || out.found != next.found || out.value != next.value:
		return nil
	}
	next.version, next.loose = out.version, false
	return []keyState{next}
}

// keyModel is one key as porcupine takes it.
var keyModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{keyState{}} },
	Step: func(state, input, output any) (all []any) {
		for _, s := range keyStep(state.(keyState), input.(keyInput), output.(keyOutput)) {
			all = append(all, s)
		}
		return all
	},
	Equal: func(a, b any) bool { return a == b },
}

// keyMost is how long one key may take to be judged, keysMost how long all may take that are left at the end.
const (
	keyMost  = 30 * time.Second
	keysMost = 2 * time.Minute
)

// judgeKey judges all operations on one key.
func judgeKey(ops []porcupine.Operation) error {
	model := keyModel.ToModel()
	switch porcupine.CheckOperationsTimeout(model, ops, keyMost) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("they could not be judged within %v", keyMost)
	}
	return errors.New("they are not linearizable")
}

// judge judges the keys of eras before one, and forgets them, until it is told to stop.
func (h *keyHistory) judge(before int, stop func() bool) (errs []error) {
	for !stop() {
		n, ops := h.take(before)
		if len(ops) == 0 {
			break
		}
		if err := judgeKey(ops); err != nil {
			errs = append(errs, fmt.Errorf("tenant %d: %d operations on key %v: %w", n.tenant, len(ops), n, err))
		}
	}
	return errs
}

// take gives what was done to some key of an era before one, and forgets it.
func (h *keyHistory) take(before int) (n keyName, ops []porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n, ops = range h.ops {
		if n.era < before {
			h.done += len(ops)
			delete(h.ops, n)
			return n, ops
		}
	}
	return keyName{}, nil
}

// judgeOnTheWay judges what nobody uses any more until the load has ended. Calls end within seconds, so an era that is two
// back is complete.
func (h *keyHistory) judgeOnTheWay(w *crew) {
	for !w.made.Load() && !w.over.Load() {
		time.Sleep(time.Second)
		w.h.check(h.judge(int(w.h.now()/keyEra)-1, w.over.Load)...)
	}
}

// judgeKeys judges all that is left, once nobody is at it any more.
func (h *history) judgeKeys() {
	end := time.Now().Add(keysMost)
	h.check(h.keys.judge(math.MaxInt, func() bool { return time.Now().After(end) })...)
	if n := len(h.keys.ops); n > 0 {
		h.violate("what was done to %d keys could not be judged within %v", n, keysMost)
	}
}
