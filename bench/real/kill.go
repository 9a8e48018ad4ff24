package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"queen/bench/internal/place"
)

// A kill counts when this many requests had left and got no answer.
const (
	killPushes = 4
	killPops   = 2
)

// kill is one SIGKILL.
type kill struct {
	at         int64 // messages taken before it
	unanswered [kinds]int
	restart    time.Duration
}

func (k *kill) counts() bool {
	return k.unanswered[pushCall] >= killPushes && k.unanswered[popCall] >= killPops
}

// killer ends the node again and again, spread over the run by the number of messages taken.
type killer struct {
	run   *single
	rng   *rand.Rand
	kills []kill
	// patience is the share of a push's usual time that a kill waits at most after the pushes have left. It is halved
	// when an answer was faster, and starts at one.
	patience float64
}

// strike carries out want kills that count and returns when the node runs again after the last.
func (k *killer) strike(ctx context.Context, want int) error {
	total := int64(len(k.run.in.Lines))
	k.patience = 1
	for counted := 0; counted < want; {
		due := total * int64(counted+1) / int64(want+1)
		for k.run.taken.Load() < due {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			_ = place.Pause(ctx, 100*time.Microsecond)
		}
		hit, err := k.once(ctx)
		if err != nil {
			return err
		}
		if hit {
			counted++
			k.patience = 1
		} else {
			k.patience /= 2
		}
	}
	return nil
}

// once gathers the producers, lets them go together, and kills the node a random moment after all their pushes have
// left: anywhere between parsing the first and answering the last. When an answer was faster it reports false, with the
// node killed or not.
func (k *killer) once(ctx context.Context) (bool, error) {
	r := k.run
	if !r.gate.gather(ctx, killPushes) {
		return false, fmt.Errorf("kill %d was due %d messages before the end, and %d producers no longer push: "+
			"use a longer input or fewer kills", len(k.kills)+1, int64(len(r.in.Lines))-r.taken.Load(), killPushes)
	}
	for r.traffic.underway(popCall) < min(r.o.workers, killPops+1) && ctx.Err() == nil {
		_ = place.Pause(ctx, 50*time.Microsecond) // the workers catch up with what was pushed
	}
	r.gate.release()
	sent := func() bool {
		return r.traffic.underway(pushCall) >= killPushes && r.traffic.underway(popCall) >= killPops
	}
	if !spin(ctx, 100*time.Millisecond, sent) {
		return false, ctx.Err()
	}
	spin(ctx, time.Duration(k.rng.Float64()*k.patience*float64(r.traffic.usual())), func() bool { return false })
	if !sent() {
		return false, ctx.Err()
	}
	r.traffic.noteKill()
	at := r.taken.Load()
	r.node.Kill()
	hit := kill{at: at, unanswered: r.traffic.settled(ctx)}
	if err := r.crashLossy(); err != nil {
		return false, err
	}
	if err := r.node.Restart(); err != nil {
		if r.o.lossy == "lie" {
			r.v.Add("the node does not start again after kill %d: %v", len(k.kills)+1, err)
		}
		return false, err
	}
	hit.restart = r.node.Started()
	k.kills = append(k.kills, hit)
	u := &hit.unanswered
	r.say("kill %d after %d messages: %d pushes, %d pops and %d acks unanswered, ready again after %v%s", len(k.kills), at,
		u[pushCall], u[popCall], u[ackCall], hit.restart.Round(time.Millisecond), not(hit.counts()))
	return hit.counts(), nil
}

func not(counts bool) string {
	if counts {
		return ""
	}
	return " (does not count)"
}

// spin waits without sleeping: what it waits for is over in microseconds.
func spin(ctx context.Context, d time.Duration, until func() bool) bool {
	for start := time.Now(); time.Since(start) < d && ctx.Err() == nil; runtime.Gosched() {
		if until() {
			return true
		}
	}
	return false
}
