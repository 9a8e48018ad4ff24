package frontendmcp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/diagnosis"
	"queen/engine/format"
)

// cause is one thing that goes wrong, or seems to, on a queue of its own.
type cause struct {
	name string
	// early runs before time passes, late after.
	early, late func(r *rig, queue, group string)
	// want is the reason that must be named; "" is an innocent, which must not be.
	want string
	// lag says that lag_top must show the reason, too.
	lag bool
}

const allStart = format.StartAll

func popAll(queue, group string, lease time.Duration, batch int) engine.PopRequest {
	return engine.PopRequest{Scope: engine.Scope{Queue: queue}, Group: group, Start: engine.Start{Kind: allStart}, Lease: lease, Batch: batch,
		Partitions: 8}
}

// settle acks everything of a delivery.
func (r *rig) settle(d *engine.Delivery, status format.AckStatus) {
	r.t.Helper()
	require.NotNil(r.t, d)
	for _, claim := range d.Claims {
		for o := claim.First; o <= claim.Last; o++ {
			r.do(&engine.Ack{Partition: claim.PartitionID, Group: d.Group, Lease: d.Lease, HasOffset: true, Offset: o, Status: status})
		}
	}
}

func (r *rig) configure(queue string, patch format.QueueOptions) {
	r.t.Helper()
	_, err := r.engine.Catalog().Configure(r.ctx, r.caller, engine.ConfigureRequest{Queue: queue, Patch: patch})
	require.NoError(r.t, err)
}

var causes = []cause{
	{name: "held lease", want: diagnosis.ReasonLeaseHeld, lag: true, early: func(r *rig, q, g string) {
		r.push(q, "p1", `1`, `2`, `3`)
		require.NotNil(r.t, r.pop(popAll(q, g, time.Hour, 1)))
	}},
	{name: "failing message", want: diagnosis.ReasonPoison, lag: true, early: func(r *rig, q, g string) {
		r.configure(q, format.QueueOptions{RetryLimit: 50, Set: format.OptRetryLimit})
		r.push(q, "p1", `1`, `2`)
		for range 4 {
			r.settle(r.pop(popAll(q, g, time.Minute, 1)), format.AckFailed)
		}
	}},
	{name: "killing message", want: diagnosis.ReasonPoison, lag: true, early: func(r *rig, q, g string) {
		r.push(q, "p1", `1`, `2`)
		for range 4 {
			require.NotNil(r.t, r.pop(popAll(q, g, time.Second, 1)))
			r.pass(2 * time.Second)
		}
	}},
	{name: "never started, from all", want: diagnosis.ReasonNeverStarted, lag: true, early: func(r *rig, q, g string) {
		require.Nil(r.t, r.pop(popAll(q, g, time.Minute, 1)))
		r.push(q, "p1", `1`, `2`)
	}},
	{name: "never started, from new", want: diagnosis.ReasonNeverStarted, early: func(r *rig, q, g string) {
		r.push(q, "p1", `0`)
		require.Nil(r.t, r.pop(engine.PopRequest{Scope: engine.Scope{Queue: q}, Group: g, Batch: 1}))
		r.pass(time.Second)
		r.push(q, "p1", `1`, `2`)
	}},
	{name: "gone consumer", want: diagnosis.ReasonNoConsumer, lag: true, early: func(r *rig, q, g string) {
		r.push(q, "p1", `1`, `2`, `3`)
		r.settle(r.pop(popAll(q, g, time.Minute, 1)), format.AckCompleted)
	}},
	{name: "delayed queue", want: diagnosis.ReasonDelayed, lag: true, early: func(r *rig, q, g string) {
		r.configure(q, format.QueueOptions{DelayedProcessing: 3600, Set: format.OptDelayedProcessing})
		r.push(q, "p1", `1`)
		require.Nil(r.t, r.pop(popAll(q, g, time.Minute, 1)))
	}},
	{name: "nobody reads", want: "no_group", early: func(r *rig, q, _ string) { r.push(q, "p1", `1`) }},

	{name: "drained", early: func(r *rig, q, g string) {
		r.push(q, "p1", `1`, `2`)
		r.settle(r.pop(popAll(q, g, time.Minute, 10)), format.AckCompleted)
	}},
	{name: "at work", late: func(r *rig, q, g string) {
		r.push(q, "p1", `1`, `2`)
		require.NotNil(r.t, r.pop(popAll(q, g, time.Minute, 1)))
	}},
	{name: "behind but at work", early: func(r *rig, q, g string) {
		r.push(q, "p1", `1`, `2`)
		r.push(q, "p2", `1`, `2`)
		r.settle(r.pop(popAll(q, g, time.Minute, 1)), format.AckCompleted)
	}, late: func(r *rig, q, g string) {
		req := popAll(q, g, time.Minute, 1)
		req.Partitions = 1
		require.NotNil(r.t, r.pop(req))
	}},
	{name: "just arrived", late: func(r *rig, q, g string) {
		require.Nil(r.t, r.pop(popAll(q, g, time.Minute, 1)))
		r.push(q, "p1", `1`)
	}},
	{name: "empty", early: func(r *rig, q, g string) { require.Nil(r.t, r.pop(popAll(q, g, time.Minute, 1))) }},
	{name: "failed once and done", early: func(r *rig, q, g string) {
		r.push(q, "p1", `1`)
		r.settle(r.pop(popAll(q, g, time.Minute, 1)), format.AckFailed)
		r.settle(r.pop(popAll(q, g, time.Minute, 1)), format.AckCompleted)
	}},
	{name: "two groups, one drained", early: func(r *rig, q, g string) {
		r.push(q, "p1", `1`)
		r.settle(r.pop(popAll(q, g, time.Minute, 9)), format.AckCompleted)
		r.settle(r.pop(popAll(q, g+"-too", time.Minute, 9)), format.AckCompleted)
	}},
}

// pass lets time pass and what it brings happen.
func (r *rig) pass(d time.Duration) {
	r.clock.Advance(d)
	r.target.Settle(r.engine)
}

// TestDiagnoseNamesTheCause combines causes and innocents, 20 times: each cause must be named with its queue and group,
// by diagnose and by lag_top, and no innocent may be. The seed of a failing case is in its name.
func TestDiagnoseNamesTheCause(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			r := newRig(t, nil)
			s := r.connect(Identity{}, nil)
			type placed struct {
				cause
				queue, group string
			}
			var all []placed
			for i, n := range random.Perm(len(causes))[:4+random.IntN(8)] {
				all = append(all, placed{causes[n], fmt.Sprintf("queue-%d", i), fmt.Sprintf("group-%d", random.IntN(3))})
			}
			for _, p := range all {
				if p.early != nil {
					p.early(r, p.queue, p.group)
				}
			}
			r.pass(time.Minute)
			for _, p := range all {
				if p.late != nil {
					p.late(r, p.queue, p.group)
				}
			}
			found := ask(t, s, "diagnose", nil)["findings"].([]any)
			lag := ask(t, s, "lag_top", map[string]any{"k": 50})["rows"].([]any)
			for _, p := range all {
				var named, rows []string
				for _, x := range found {
					f := x.(map[string]any)
					if f["queue"] == p.queue && (f["severity"] != "info" || f["cause"] == diagnosis.ReasonDelayed) {
						named = append(named, f["cause"].(string))
						if f["group"] != nil {
							require.Equal(t, p.group, f["group"], p.name)
						}
					}
				}
				for _, x := range lag {
					if f := x.(map[string]any); f["queue"] == p.queue {
						rows = append(rows, f["reason"].(string))
					}
				}
				if p.want == "" {
					require.Empty(t, named, "%s is innocent", p.name)
					for _, reason := range rows {
						require.Contains(t, []string{diagnosis.ReasonInProgress, diagnosis.ReasonWaiting}, reason, "%s is innocent", p.name)
					}
					continue
				}
				require.Equal(t, []string{p.want}, slices.Compact(named), p.name)
				if p.lag {
					require.Contains(t, rows, p.want, p.name)
				}
			}
		})
	}
}
