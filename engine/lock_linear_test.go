package engine_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"queen/engine"
	"queen/engine/format"
)

var lockCalls = flag.Int("lock.calls", 400, "calls of each worker of TestLocksAreLinearizable")

// lockSlots is how many may hold one of the locks of the test.
const lockSlots = 2

// lockCall is one call of TestLocksAreLinearizable.
type lockCall struct {
	name, owner string
	op          format.LockOp
	slot        uint32
	token       uint64
}

// lockAnswer is what a call was told.
type lockAnswer struct {
	granted, already bool
	slot             uint32
	token            uint64
}

// lockState is a lock in the test's model: who holds which slot with what token, "" and 0 are nobody.
type lockState struct {
	owner  [lockSlots]string
	token  [lockSlots]uint64
	newest uint64
}

// step says whether an answer is right where the lock stands so, and how it stands then.
func (s lockState) step(in lockCall, out lockAnswer) (bool, lockState) {
	grant := func(slot uint32, owner string) (bool, lockState) {
		right := out.granted && !out.already && out.slot == slot && out.token > s.newest
		s.owner[slot], s.token[slot], s.newest = owner, out.token, max(s.newest, out.token)
		return right, s
	}
	if in.op != format.LockAcquire {
		held := s.token[in.slot] != 0 && s.token[in.slot] == in.token
		switch again := s.token[in.slot] > in.token && s.owner[in.slot] == in.owner; {
		case in.op == format.LockRenew && (held || again):
			return grant(in.slot, s.owner[in.slot])
		case in.op == format.LockRelease && held:
			s.owner[in.slot], s.token[in.slot] = "", 0
			return out.granted, s
		}
		return !out.granted, s
	}
	free := -1
	for slot := range uint32(lockSlots) {
		switch {
		case s.token[slot] != 0 && s.owner[slot] == in.owner:
			return out == lockAnswer{granted: true, already: true, slot: slot, token: s.token[slot]}, s
		case s.token[slot] == 0 && free < 0:
			free = int(slot)
		}
	}
	if free < 0 {
		return !out.granted, s
	}
	return grant(uint32(free), in.owner)
}

var lockModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (all [][]porcupine.Operation) {
		byName := map[string][]porcupine.Operation{}
		for _, op := range history {
			name := op.Input.(lockCall).name
			byName[name] = append(byName[name], op)
		}
		for _, ops := range byName {
			all = append(all, ops)
		}
		return all
	},
	Init: func() any { return lockState{} },
	Step: func(state, input, output any) (bool, any) {
		return state.(lockState).step(input.(lockCall), output.(lockAnswer))
	},
}

// TestLocksAreLinearizable: a concurrent history of acquires, renewals and releases, with tokens of now and from before, is
// one that a single semaphore per name explains (S-lock-1 to 7). -lock.calls makes it longer.
func TestLocksAreLinearizable(t *testing.T) {
	r := newRig(t)
	r.open()
	defer r.close()
	const workers = 6
	began := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			l := lockWorker{r: r, rng: rand.New(rand.NewPCG(uint64(w), 1)), held: map[string]lockAnswer{}, owner: fmt.Sprint("worker ", w%4)}
			for range *lockCalls {
				in := l.next()
				from := time.Since(began).Nanoseconds()
				out, err := l.call(in)
				if err != nil {
					t.Error(err)
					return
				}
				op := porcupine.Operation{ClientId: w, Input: in, Call: from, Output: out, Return: time.Since(began).Nanoseconds()}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	granted := 0
	for _, op := range history {
		if out := op.Output.(lockAnswer); out.granted && !out.already {
			granted++
		}
	}
	if !t.Failed() && (granted < len(history)/10 || granted > len(history)*9/10) {
		t.Errorf("%d of %d calls granted something: it shows little", granted, len(history))
	}
	if res := porcupine.CheckOperationsTimeout(lockModel, history, time.Minute); res != porcupine.Ok {
		t.Fatalf("the history of %d calls is %s", len(history), res)
	}
}

// lockWorker calls with what it was told last of each lock.
type lockWorker struct {
	r     *rig
	rng   *rand.Rand
	owner string // of two workers at times: an owner that asks again
	held  map[string]lockAnswer
}

func (l *lockWorker) next() lockCall {
	in := lockCall{name: fmt.Sprint("l", l.rng.IntN(24)), owner: l.owner, op: format.LockAcquire}
	last, ok := l.held[in.name]
	if ok && l.rng.IntN(4) > 0 {
		in.op, in.slot, in.token = format.LockRelease, last.slot, last.token
		if l.rng.IntN(2) == 0 {
			in.op = format.LockRenew
		}
		if l.rng.IntN(8) == 0 && in.token > 1 {
			in.token--
		}
	}
	return in
}

func (l *lockWorker) call(in lockCall) (lockAnswer, error) {
	op := &engine.Lock{Op: in.op, Name: in.name, Owner: in.owner, Slot: in.slot, Token: in.token, TTL: time.Hour}
	if in.op == format.LockAcquire {
		op.Limit = lockSlots
	}
	res, err := l.r.node.Do(l.r.t.Context(), someone, engine.Batch{Ops: []engine.Op{op}})
	if err != nil {
		return lockAnswer{}, err
	}
	if res[0].Err != nil {
		return lockAnswer{}, res[0].Err
	}
	out := lockAnswer{granted: res[0].Lock.Granted, already: res[0].Lock.Already, slot: res[0].Lock.Slot, token: res[0].Lock.Token}
	if in.op == format.LockRelease {
		out.token, out.slot = 0, in.slot
	}
	if out.granted && in.op != format.LockRelease {
		l.held[in.name] = out
	}
	return out, nil
}
