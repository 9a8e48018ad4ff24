package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/invariants"
)

// overtaken is a node on which something happens between a look-up and the proposal that rests on it.
type overtaken struct {
	*rig
}

func newOvertaken(t *testing.T) *overtaken {
	o := &overtaken{newRig(t)}
	o.open()
	t.Cleanup(o.close)
	return o
}

// at runs f once, when name is passed the next time.
func (o *overtaken) at(name string, f func()) {
	done := false
	disarm := invariants.ArmFunc(name, 1, func() { done = true; f() })
	o.t.Cleanup(func() {
		disarm()
		require.True(o.t, done, "%s was not passed", name)
	})
}

func (o *overtaken) configure(set format.OptionMask, opts format.QueueOptions) {
	opts.Set = set
	_, err := o.node.Catalog().Configure(o.t.Context(), someone, engine.ConfigureRequest{Queue: "q", Patch: opts})
	require.NoError(o.t, err)
}

// pop claims up to batch messages of partition p, completes them and returns their payloads.
func (o *overtaken) pop(group string, start engine.Start, batch int) (got []string) {
	d, err := o.node.Pop(o.t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: group, Start: start, Batch: batch})
	require.NoError(o.t, err)
	if d == nil {
		return nil
	}
	var ops []engine.Op
	for m, err := range d.Messages() {
		require.NoError(o.t, err)
		got = append(got, string(m.Payload))
		ops = append(ops, &engine.Ack{Partition: d.Claims[m.Claim].PartitionID, Group: group, Lease: d.Lease, HasOffset: true,
			Offset: m.Offset, Status: format.AckCompleted})
	}
	d.Delivered()
	res, err := o.node.Do(o.t.Context(), someone, engine.Batch{Ops: ops})
	require.NoError(o.t, err)
	for i := range res {
		if res[i].Err != nil {
			require.NoError(o.t, res[i].Err)
		}
	}
	return got
}

func (o *overtaken) start() int {
	start, _, err := o.read("p")
	require.NoError(o.t, err)
	return start
}

var fromAll = engine.Start{Kind: format.StartAll}

// TestEvidenceIsOvertaken: a retention raised, a group registered, a seek back, a subscription changed, each
// between evidence and apply: nothing is lost (engine design, test 14).
func TestEvidenceIsOvertaken(t *testing.T) {
	t.Run("retention raised", func(t *testing.T) {
		o := newOvertaken(t)
		o.configure(format.OptRetentionEnabled|format.OptRetentionSeconds, format.QueueOptions{RetentionEnabled: true, RetentionSeconds: 60})
		o.mustPush("p", "kept")
		o.tick(time.Second)
		o.at("engine.retain.asked", func() {
			o.configure(format.OptRetentionSeconds, format.QueueOptions{RetentionSeconds: 3600})
		})
		o.tick(2 * time.Minute)
		require.Equal(t, 0, o.start())
		o.tick(2 * time.Hour)
		require.Equal(t, 1, o.start(), "and it goes when its time has come, although nothing was written since")
	})
	t.Run("group registered", func(t *testing.T) {
		o := newOvertaken(t)
		o.completed()
		o.at("engine.trim.asked", func() { require.Equal(t, []string{"a", "b"}, o.pop("late", fromAll, 10)) })
		o.tick(time.Minute)
		require.Equal(t, 0, o.start())
		o.tick(time.Minute)
		require.Equal(t, 2, o.start(), "both groups have passed it")
	})
	t.Run("seek back", func(t *testing.T) {
		o := newOvertaken(t)
		o.completed()
		o.at("engine.trim.asked", func() {
			res, err := o.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.SetOffset{Queue: "q", Partition: "p", Group: "g"}}})
			require.NoError(t, err)
			require.Nil(t, res[0].Err)
		})
		o.tick(time.Minute)
		require.Equal(t, []string{"a", "b"}, o.pop("g", fromAll, 10))
	})
	t.Run("subscription changed", func(t *testing.T) {
		o := newOvertaken(t)
		o.mustPush("p", "a")
		o.tick(time.Minute)
		o.mustPush("p", "b")
		o.tick(time.Minute)
		o.mustPush("p", "c")
		o.at("engine.pop.evidence-found", func() {
			_, err := o.node.Catalog().SetSubscription(t.Context(), someone, "g", format.Wall(o.clock.Now())-61e6)
			require.NoError(t, err)
		})
		from := engine.Start{Kind: format.StartFrom, From: format.Wall(o.clock.Now()) - 1e6}
		require.Equal(t, []string{"b", "c"}, o.pop("g", from, 10))
	})
}

// completed pushes two messages that group g completes, under completed retention.
func (o *overtaken) completed() {
	o.configure(format.OptRetentionEnabled|format.OptCompletedRetentionSeconds,
		format.QueueOptions{RetentionEnabled: true, CompletedRetentionSeconds: 30})
	o.mustPush("p", "a")
	o.mustPush("p", "b")
	require.Equal(o.t, []string{"a", "b"}, o.pop("g", fromAll, 10))
	o.tick(time.Second)
}
