package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

func pushEphemeral(r *rig, queue string, payloads ...string) error {
	b := make([][]byte, len(payloads))
	for i := range payloads {
		b[i] = []byte(payloads[i])
	}
	return r.node.Ephemeral().Push(context.Background(), someone, engine.EphemeralPush{Queue: queue, Partition: "p", Payloads: b})
}

// Goal: declarations and the switch outlive clean stops and kills, contents outlive neither, and an ack of another
// life is stale (S-eph-3, S-eph-9).
func TestEphemeralRestart(t *testing.T) {
	r := newRig(t)
	r.open()
	for i, end := range []func(){r.close, func() {
		r.cut()
	}} {
		e := r.node.Ephemeral()
		settings := engine.EphemeralDefaults()
		settings.MaxLength, settings.TTLSeconds = int64(2+i), 7
		declared, err := e.Configure(t.Context(), someone, "q", settings)
		require.NoError(t, err)
		require.Equal(t, settings, declared)
		_, err = e.Reset(t.Context(), someone, "q")
		require.NoError(t, err)
		require.NoError(t, pushEphemeral(r, "q", "1", "2"))
		require.NoError(t, pushEphemeral(r, "implicit", "1"))
		d, err := e.Pop(t.Context(), someone, engine.EphemeralPop{Queue: "q", Batch: 1})
		require.NoError(t, err)
		require.NoError(t, e.SetEnabled(t.Context(), false))
		end()
		r.open()
		e = r.node.Ephemeral()
		require.False(t, e.System().Enabled)
		require.ErrorIs(t, pushEphemeral(r, "q", "x"), &engine.Error{Code: engine.CodePaused})
		require.NoError(t, e.SetEnabled(t.Context(), true))
		rows, more, err := e.Queues(t.Context(), someone)
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, []engine.EphemeralQueue{{Name: "q", Declared: true, Settings: settings}}, rows)
		out, err := e.Ack(t.Context(), someone, "q", "", []engine.EphemeralAck{{ID: d.Messages[0].ID}})
		require.NoError(t, err)
		require.Equal(t, []engine.EphemeralOutcome{"stale"}, out)
		require.NoError(t, pushEphemeral(r, "q", make([]string, 2+i)...))
		require.ErrorIs(t, pushEphemeral(r, "q", "one too many"), &engine.Error{Code: engine.CodeQueueFull})
	}
	r.close()
}

// Goal: configure replaces what was declared and acts on what is there; delete takes contents and declaration; both
// are told apart (S-eph-15). Names of tenants do not meet.
func TestEphemeralDeclarations(t *testing.T) {
	r := newRig(t)
	r.open()
	defer r.close()
	ctx, e := t.Context(), r.node.Ephemeral()
	require.NoError(t, pushEphemeral(r, "q", "1", "2", "3"))
	small := engine.EphemeralDefaults()
	small.MaxLength, small.TTLSeconds = 3, 5
	_, err := e.Configure(ctx, someone, "q", small)
	require.NoError(t, err)
	require.ErrorIs(t, pushEphemeral(r, "q", "4"), &engine.Error{Code: engine.CodeQueueFull})
	r.clock.Advance(5 * time.Second)
	depth, err := e.Depth(ctx, someone, "q", nil)
	require.NoError(t, err)
	require.Equal(t, uint64(3), depth.Drops.TTL)
	require.True(t, depth.Declared)

	_, err = e.Configure(ctx, someone, "other", engine.EphemeralDefaults())
	require.NoError(t, err)
	require.NoError(t, pushEphemeral(r, "implicit", "1"))
	rows, _, err := e.Queues(ctx, someone)
	require.NoError(t, err)
	require.Len(t, rows, 3)
	for i, want := range []string{"implicit false", "other true", "q true"} {
		require.Equal(t, want, fmt.Sprint(rows[i].Name, " ", rows[i].Declared))
	}
	rows, _, err = e.Queues(ctx, engine.Caller{Tenant: format.Tenant{7}})
	require.NoError(t, err)
	require.Empty(t, rows)
	_, err = e.Depth(ctx, engine.Caller{Tenant: format.Tenant{7}}, "other", nil)
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeUnknownQueue})
	depth, err = e.Depth(ctx, someone, "other", nil)
	require.NoError(t, err)
	require.Zero(t, depth.Pending)

	for _, c := range []struct {
		queue             string
		deleted, declared bool
	}{{"q", true, true}, {"q", false, false}, {"other", true, true}, {"implicit", true, false}} {
		deleted, declared, err := e.Delete(ctx, someone, c.queue)
		require.NoError(t, err)
		require.Equal(t, c.deleted, deleted, c.queue)
		require.Equal(t, c.declared, declared, c.queue)
	}
	bad := small
	bad.MaxBytes = 1 << 40
	_, err = e.Configure(ctx, someone, "q", bad)
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeBadRequest})
	_, err = e.Configure(ctx, someone, "q\n", small)
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeBadRequest})
	rows, _, err = e.Queues(ctx, someone)
	require.NoError(t, err)
	require.Empty(t, rows)
}

// Goal: a node writes no entry for ephemeral traffic (that it opens no file the import table holds).
func TestEphemeralWritesNothing(t *testing.T) {
	r := newRig(t)
	r.open()
	defer r.close()
	e := r.node.Ephemeral()
	before := r.node.Inspect().Stats().Entries
	got := make(chan *engine.EphemeralDelivery, 1)
	go func() {
		d, _ := e.Pop(context.Background(), someone, engine.EphemeralPop{Queue: "inbox", Wait: time.Minute})
		got <- d
	}()
	for e.System().Parked == 0 {
		runtime.Gosched()
	}
	require.NoError(t, pushEphemeral(r, "inbox", "reply"))
	d := <-got
	require.Equal(t, "reply", string(d.Messages[0].Payload))
	_, err := e.Ack(t.Context(), someone, "inbox", "", []engine.EphemeralAck{{ID: d.Messages[0].ID}})
	require.NoError(t, err)
	require.Equal(t, before, r.node.Inspect().Stats().Entries)
}

// Goal: parked pops end when the node stops, and calls after it are refused.
func TestEphemeralStop(t *testing.T) {
	r := newRig(t)
	r.open()
	e := r.node.Ephemeral()
	done := make(chan error, 1)
	go func() {
		_, err := e.Pop(context.Background(), someone, engine.EphemeralPop{Queue: "q", Wait: time.Minute})
		done <- err
	}()
	for e.System().Parked == 0 {
		runtime.Gosched()
	}
	r.close()
	require.NoError(t, <-done)
	require.ErrorIs(t, pushEphemeral(r, "q", "x"), &engine.Error{Code: engine.CodeClosed})
}
