package frontendmcp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// TestLocksByPrefix: a walk finds each lock that is held once with all its holders, those of semaphores too, and nothing that
// is no lock; an end of a lifetime ends it.
func TestLocksByPrefix(t *testing.T) {
	r := newRig(t, nil)
	s := r.connect(Identity{}, nil)
	hold := func(name, owner string, ttl time.Duration) {
		r.do(&engine.Lock{Op: format.LockAcquire, Name: name, Owner: owner, Limit: 12, TTL: ttl})
	}
	for i := range 60 {
		hold(fmt.Sprintf("job/%02d", i), "w", time.Hour)
	}
	for i := range 12 {
		hold("job/pool", fmt.Sprint("w", i), time.Hour)
	}
	hold("job/pool2", "w", time.Hour)
	hold("job/short", "w", time.Second)
	hold("other", "w", time.Hour)
	for _, key := range []string{"job/none", "job/none#x", "#1", "job/\u00e9#"} {
		r.do(&engine.KV{Kind: engine.KVPut, Namespace: format.LockNamespace, Key: key, Value: []byte(`1`)})
	}
	r.clock.Advance(2 * time.Second)

	walk := func(args map[string]any) (names []string, held float64) {
		for calls := 0; ; calls++ {
			require.Less(t, calls, 100)
			out := ask(t, s, "lock_list", args)
			for _, x := range out["locks"].([]any) {
				l := x.(map[string]any)
				names, held = append(names, l["name"].(string)), held+l["held"].(float64)
				require.EqualValues(t, l["held"], len(l["holders"].([]any)))
			}
			if out["truncated"] == nil {
				return names, held
			}
			args["cursor"] = out["next_cursor"]
		}
	}
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprintf("job/%02d", i))
	}
	want = append(want, "job/pool", "job/pool2")
	for _, args := range []map[string]any{{"prefix": "job/"}, {"prefix": "job/", "limit": 1}, {"prefix": "job/", "max_bytes": 8192}} {
		if args["limit"] != nil {
			r.f.rates.unlimited = true
		}
		names, held := walk(args)
		require.Equal(t, want, names, "%v", args)
		require.EqualValues(t, 73, held)
	}
	names, _ := walk(map[string]any{})
	require.Equal(t, append(want, "other"), names)
	names, held := walk(map[string]any{"names": []string{"job/short", "job/pool"}})
	require.Equal(t, []string{"job/short", "job/pool"}, names)
	require.EqualValues(t, 12, held)

	for field, args := range map[string]map[string]any{"names": {"names": []string{}}, "prefix": {"names": []string{"l"}, "prefix": "l"},
		"cursor": {"prefix": "job/", "cursor": "x"}} {
		require.Equal(t, field, refused(t, s, "lock_list", args).Field)
	}
	require.Equal(t, "1..50", refused(t, s, "lock_list", map[string]any{"names": make([]string, 51)}).Limit)
}

// TestLockWithManyHolders: an answer says how many hold a semaphore, and shows as many of them as fit.
func TestLockWithManyHolders(t *testing.T) {
	r := newRig(t, nil)
	for i := range 300 {
		r.do(&engine.Lock{Op: format.LockAcquire, Name: "pool", Owner: fmt.Sprint(i, strings.Repeat("w", 200)), Limit: 1024, TTL: time.Hour})
	}
	s := r.connect(Identity{}, nil)
	for _, args := range []map[string]any{{}, {"names": []string{"pool"}}} {
		res := try(t, s, "lock_list", args)
		require.False(t, res.IsError, textOf(res))
		require.LessOrEqual(t, sizeOf(t, res), defaultRoom)
		out := res.StructuredContent.(map[string]any)
		l := out["locks"].([]any)[0].(map[string]any)
		require.EqualValues(t, 300, l["held"])
		require.NotEmpty(t, l["holders"])
		require.Less(t, len(l["holders"].([]any)), 300)
		require.Equal(t, true, out["truncated"])
		require.Nil(t, out["next_cursor"], "there is no other lock")
	}
}
