package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

const timerPartition = "w"

// shotName is one firing of a timer: each time that a key is scheduled is a generation of it. It is the payload, too.
type shotName struct {
	Key string `json:"key"`
	Gen int    `json:"gen"`
}

func (s shotName) payload() []byte {
	b, _ := json.Marshal(s) // a string and a number
	return b
}

// want is what has to become of a shot.
type want int8

const (
	unsure want = iota // nobody knows whether it is there
	fires              // once
	never
	either // once; or never, if the next of its key fires
)

// shot is what is known of one.
type shot struct {
	earliest time.Duration // at which it may be seen
	want     want
}

// timerHistory is the timers of a tenant. A client is done with a key once an answer does not come.
type timerHistory struct {
	mu    sync.Mutex
	shots map[shotName]*shot
	early int           // seen too early while clocks jump
	late  time.Duration // the worst
}

// clockRate is the part by which the clock of a raft group may go faster than ours. It does for a while when another node
// leads, whose estimate of it is late by as long as the last entry was under way (section 4 of the engine's design).
const clockRate = 20

// plan notes that a shot is about to be asked for. Asked for again, it counts from the first time.
func (h *timerHistory) plan(name shotName, now, delay time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.shots[name]; s == nil {
		h.shots[name] = &shot{earliest: now + delay - delay/clockRate}
	}
}

// planned judges the answer to a schedule.
func (h *timerHistory) planned(name shotName, status string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.shots[shotName{name.Key, name.Gen - 1}]
	switch {
	case status == "scheduled": // the one before it has fired
	case status == "rescheduled" && before != nil:
		before.want = never
	default:
		return fmt.Errorf("timer %v: a schedule is answered with %q", name, status)
	}
	h.shots[name].want = fires
	return nil
}

// cancelled judges the answer to a cancel of the newest shot of a key.
func (h *timerHistory) cancelled(name shotName, status string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch status {
	case "cancelled":
		h.shots[name].want = never
	case "absent": // it has fired
	default:
		return fmt.Errorf("timer %v: a cancel is answered with %q", name, status)
	}
	return nil
}

// doubt notes that a call about a key got no answer: a schedule of a shot, or a cancel of it.
func (h *timerHistory) doubt(name shotName, cancel bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel {
		h.shots[name].want = unsure
	} else if before := h.shots[shotName{name.Key, name.Gen - 1}]; before != nil {
		before.want = either
	}
}

// saw judges that a shot is in our hands.
func (h *timerHistory) saw(name shotName, at time.Duration, clocks bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.shots[name]
	switch {
	case s == nil:
		return fmt.Errorf("timer %v fired, and nobody scheduled it", name)
	case at < s.earliest && clocks:
		h.early++
	case at < s.earliest:
		return fmt.Errorf("timer %v was seen at %v, it may not fire before %v", name, at, s.earliest)
	}
	h.late = max(h.late, at-s.earliest)
	return nil
}

// judge holds what one node says has fired, and how often, against what has to.
func (h *timerHistory) judge(fired map[shotName]int) (errs []error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, n := range fired {
		if s := h.shots[name]; s == nil {
			errs = append(errs, fmt.Errorf("timer %v fired, and nobody scheduled it", name))
		} else if n > 1 {
			errs = append(errs, fmt.Errorf("timer %v fired %d times", name, n))
		} else if s.want == never {
			errs = append(errs, fmt.Errorf("timer %v fired, though it was cancelled or scheduled anew before", name))
		}
	}
	for name, s := range h.shots {
		if fired[name] > 0 {
			continue
		}
		if s.want == fires || s.want == either && fired[shotName{name.Key, name.Gen + 1}] == 0 {
			errs = append(errs, fmt.Errorf("timer %v did not fire", name))
		}
	}
	return errs
}

// schedule makes timers, of which it schedules some anew and cancels some.
func (k *client) schedule(w *crew, me int) {
	for n := 0; !w.stop.Load(); n++ {
		k.pause(10, 40)
		name := shotName{Key: fmt.Sprintf("t%d-%d", me, n)}
		if !k.timer(name) {
			continue
		}
		what := k.r.IntN(8)
		if what > 3 {
			continue
		}
		k.pause(0, 200)
		if what%2 == 0 {
			name.Gen++
			if !k.timer(name) {
				continue
			}
		}
		if what > 0 {
			k.cancel(name)
		}
	}
}

// timer schedules a shot; false when nobody knows whether it is there.
func (k *client) timer(name shotName) bool {
	h := k.h.timers[k.tenant]
	delay := time.Duration(k.r.IntN(3000)) * time.Millisecond
	h.plan(name, k.h.now(), delay)
	status, answer := k.timerOp(map[string]any{"op": "schedule", "queue": timerQueue, "partition": timerPartition, "timerKey": name.Key,
		"delayMs": delay.Milliseconds(), "payload": base64.StdEncoding.EncodeToString(name.payload())})
	if status != 200 {
		h.doubt(name, false)
		return false
	}
	k.h.check(h.planned(name, answer))
	return true
}

func (k *client) cancel(name shotName) {
	h := k.h.timers[k.tenant]
	status, answer := k.timerOp(map[string]any{"op": "cancel", "queue": timerQueue, "timerKey": name.Key})
	if status != 200 {
		h.doubt(name, true)
		return
	}
	k.h.check(h.cancelled(name, answer))
}

func (k *client) timerOp(op map[string]any) (status int, answer string) {
	var out struct{ Results []struct{ Status string } }
	status = k.call("POST", "/api/v1/timers", map[string]any{"operations": []any{op}}, &out)
	if status != 200 || len(out.Results) != 1 {
		k.elsewhere()
		return 0, ""
	}
	k.h.acked.Add(1)
	return 200, out.Results[0].Status
}

// fired consumes what fires until nothing is pending.
func (k *client) fired(w *crew) {
	home := rest{w: w}
	for !home.home(func() bool { return k.pending() == 0 }) {
		parcels, answered := k.pop(timerQueue, 50, 1)
		at := k.h.now()
		if !answered {
			k.elsewhere()
		}
		for i := range parcels {
			for j := range parcels[i].messages {
				var name shotName
				if err := json.Unmarshal(parcels[i].messages[j].Data, &name); err != nil {
					k.h.violate("a timer fired with %.100q", parcels[i].messages[j].Data)
					continue
				}
				k.h.check(k.h.timers[k.tenant].saw(name, at, k.h.clocks))
			}
		}
		k.ackAll(parcels)
	}
}

// pending is how many timers there are, -1 when nobody says; more than one is one.
func (k *client) pending() int {
	var page struct{ Rows []json.RawMessage }
	if k.call("GET", "/api/v1/timers/"+timerQueue+"?limit=1", nil, &page) != 200 {
		return -1
	}
	return len(page.Rows)
}

// judgeTimers reads by way of the client's node what has fired.
func (k *client) judgeTimers() {
	h := k.h.timers[k.tenant]
	for _, l := range k.h.of(k.tenant, indexQueue) { // every step took place, so its timer is there
		for n := range int(l.top()) {
			if !timed(n) {
				continue
			}
			h.mu.Lock()
			if s := h.shots[stepShot(l, n)]; s != nil {
				s.want = fires
			}
			h.mu.Unlock()
		}
	}
	fired := map[shotName]int{}
	err := k.fetch(timerQueue, timerPartition, func(r *record) error {
		var name shotName
		if err := json.Unmarshal(r.Payload, &name); err != nil {
			return fmt.Errorf("a timer fired with %.100q", r.Payload)
		}
		fired[name]++
		return nil
	})
	if err != nil {
		k.h.violate("node %d: tenant %d: timers: %v", k.at+1, k.tenant, err)
		return
	}
	for _, err := range h.judge(fired) {
		k.h.violate("node %d: tenant %d: %v", k.at+1, k.tenant, err)
	}
}
