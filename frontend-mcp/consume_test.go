package frontendmcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
)

// TestTakeKeepsOutOfTheWay: a group that a worker holds a lease of, or used in the last ten minutes, is left alone unless share
// is true; who took and settled over MCP goes on, and so does everybody once the group was quiet for long.
func TestTakeKeepsOutOfTheWay(t *testing.T) {
	r := newRig(t, nil)
	r.push("q", "p", `1`, `2`, `3`, `4`, `5`, `6`, `7`)
	s := r.connect(Identity{}, nil)
	args := map[string]any{"queue": "q", "group": "workers"}
	take := func() map[string]any {
		t.Helper()
		out := ask(t, s, "message_take", args)
		require.Len(t, out["messages"], 1)
		return out
	}
	settle := func(out map[string]any) {
		t.Helper()
		m := out["messages"].([]any)[0].(map[string]any)
		in := map[string]any{"group": "workers", "lease_id": out["lease_id"], "results": []any{map[string]any{"partition_id": m["partition_id"],
			"offset": m["message"].(map[string]any)["offset"], "status": "completed"}}}
		in["confirm_token"] = ask(t, s, "message_ack", in)["confirm_token"]
		require.Equal(t, "settled", ask(t, s, "message_ack", in)["verdicts"].([]any)[0].(map[string]any)["verdict"])
	}
	settle(take())
	r.pass(time.Second)
	settle(take()) // its own acks do not count
	r.pass(time.Second)
	d := r.pop(popAll("q", "workers", time.Minute, 1))
	require.Equal(t, "group_in_use", refused(t, s, "message_take", args).Code, "a lease of a worker")
	r.settle(d, format.AckCompleted)
	require.Equal(t, "group_in_use", refused(t, s, "message_take", args).Code, "an ack of a worker")
	args["share"] = true
	settle(take())
	delete(args, "share")
	settle(take()) // nobody else has come since
	d = r.pop(popAll("q", "workers", time.Minute, 1))
	r.settle(d, format.AckCompleted)
	require.Equal(t, "group_in_use", refused(t, s, "message_take", args).Code)
	r.pass(9 * time.Minute)
	require.Equal(t, "group_in_use", refused(t, s, "message_take", args).Code, "it may have been used nine minutes ago")
	r.pass(2 * time.Minute)
	take()
}
