package frontendmcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// TestTimerHold: a recurring timer that is paused does not fire and is listed as paused; resumed it fires once for all that it
// missed and goes on. A plan does none of it, and what is not there is refused.
func TestTimerHold(t *testing.T) {
	r := newRig(t, nil)
	s := r.connect(Identity{}, nil)
	r.do(&engine.Timer{Op: format.TimerSchedule, Queue: "r", Key: "m", Partition: "p", Cron: "* * * * *",
		Message: engine.Message{Payload: []byte(`1`)}})
	row := func() map[string]any {
		t.Helper()
		return ask(t, s, "timer_list", map[string]any{"queue": "r"})["timers"].([]any)[0].(map[string]any)
	}
	hold := func(paused bool, status string) {
		t.Helper()
		args, before := map[string]any{"queue": "r", "key": "m", "paused": paused}, row()
		plan := ask(t, s, "timer_hold", args)
		require.Equal(t, false, plan["done"])
		require.Equal(t, paused, plan["plan"].(map[string]any)["reversible"])
		require.Equal(t, before, row(), "the plan did something")
		args["confirm_token"], args["paused"] = plan["confirm_token"], !paused
		require.Equal(t, "confirm_invalid", refused(t, s, "timer_hold", args).Code, "a plan of the opposite")
		args["paused"] = paused
		out := ask(t, s, "timer_hold", args)
		require.Equal(t, []any{true, status}, []any{out["done"], out["status"]})
		if paused { // else it may have fired by now
			require.Equal(t, before["due_at"], out["due_at"])
		}
		require.Equal(t, paused, row()["paused"])
	}
	r.pass(time.Minute)
	require.EqualValues(t, 1, row()["fires"])
	require.Equal(t, false, row()["paused"])
	hold(true, "paused")
	r.pass(10 * time.Minute)
	require.EqualValues(t, 1, row()["fires"])
	hold(true, "paused")
	hold(false, "resumed")
	r.pass(0)
	require.EqualValues(t, 2, row()["fires"])
	r.pass(time.Minute)
	require.EqualValues(t, 3, row()["fires"])

	for _, paused := range []bool{true, false} {
		e := refused(t, s, "timer_hold", map[string]any{"queue": "r", "key": "none", "paused": paused})
		require.Equal(t, []string{"not_found", "key"}, []string{e.Code, e.Field})
	}
	require.Equal(t, "bad_request", refused(t, s, "timer_hold", map[string]any{"queue": "r", "key": "m"}).Code, "neither")
}
