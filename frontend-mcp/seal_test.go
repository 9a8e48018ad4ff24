package frontendmcp

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/clock"
)

// another is a frontend of its own over the same broker: that of another node, or of the same one after a restart.
func (r *rig) another(ticks clock.Clock) *rig {
	r.t.Helper()
	f, err := New(Options{Engine: r.engine, Clock: ticks, Version: "test", Mode: ModeAdmin, Toolsets: KnownToolsets})
	require.NoError(r.t, err)
	twin := *r
	twin.f = f
	return &twin
}

// replacing are arguments of kv_put over a key that is there before and after: a plan of it never drifts, so that nothing but its
// use refuses a token.
func replacing(token any) map[string]any {
	args := map[string]any{"namespace": "ns", "key": "k1", "value": 5}
	if token != nil {
		args["confirm_token"] = token
	}
	return args
}

func planned(t *testing.T, s *mcp.ClientSession) any {
	t.Helper()
	return ask(t, s, "kv_put", replacing(nil))["confirm_token"]
}

func confirmed(t *testing.T, s *mcp.ClientSession, token any) {
	t.Helper()
	require.Equal(t, true, ask(t, s, "kv_put", replacing(token))["done"])
}

// TestConfirmationsCountOnceEverywhere: a plan of one node is confirmed at another, or after a crash, and once in all.
func TestConfirmationsCountOnceEverywhere(t *testing.T) {
	r := newRig(t, nil)
	r.furnish()
	here, there := r.connect(Identity{}, nil), r.another(r.clock).connect(Identity{}, nil)
	token := planned(t, here)
	confirmed(t, there, token)
	before := r.digest()
	require.Equal(t, "confirm_used", refused(t, here, "kv_put", replacing(token)).Code, "where it was planned")
	require.Equal(t, "confirm_used", refused(t, there, "kv_put", replacing(token)).Code, "where it was used")
	require.Equal(t, before, r.digest(), "a replay wrote something")

	used, open := planned(t, here), planned(t, here)
	confirmed(t, here, used)
	r.engine = r.target.Reopen(true)
	after := r.another(r.clock).connect(Identity{}, nil)
	require.Equal(t, "confirm_used", refused(t, after, "kv_put", replacing(used)).Code, "after a crash")
	confirmed(t, after, open)
}

// TestConfirmationsOfOtherClocks: a token is as old as its time says at every node; one that a node's clock can not judge is
// refused; over midnight there is a new key, and the old one opens for a while; no row stays for ever.
func TestConfirmationsOfOtherClocks(t *testing.T) {
	r := newRig(t, nil)
	r.furnish()
	here := r.connect(Identity{}, nil)
	at := func(shift time.Duration) *mcp.ClientSession {
		return r.another(clock.NewFake(r.clock.Now()+shift.Microseconds())).connect(Identity{}, nil)
	}
	token := planned(t, here)
	require.Equal(t, "confirm_expired", refused(t, at((confirmTime+1)*time.Second), "kv_put", replacing(token)).Code, "too old there")
	require.Equal(t, "confirm_expired", refused(t, at(-(maxSkew+1)*time.Second), "kv_put", replacing(token)).Code, "from the future")
	require.Equal(t, "confirm_invalid", refused(t, at(72*time.Hour), "kv_put", replacing(token)).Code, "of a key that is no more")
	confirmed(t, at(-maxSkew*time.Second), token)

	toMidnight := time.Duration(keySpan-r.clock.Now()%keySpan) * time.Microsecond
	r.pass(toMidnight - time.Second)
	token = planned(t, here)
	r.pass(2 * time.Second)
	confirmed(t, at(0), token)
	confirmed(t, here, planned(t, here))
	item, err := r.engine.Keyed().Browse(r.ctx, system, engine.KVBrowse{Namespace: confirmNamespace, Prefix: "key/"})
	require.NoError(t, err)
	require.Len(t, item.Rows, 2, "a key of each day")
	r.pass(keyKept + time.Minute)
	item, err = r.engine.Keyed().Browse(r.ctx, system, engine.KVBrowse{Namespace: confirmNamespace})
	require.NoError(t, err)
	require.Empty(t, item.Rows)
}

// full is a broker whose disk is full: it takes no row about confirmations.
type full struct{ engine.Engine }

func (f full) Status(ctx context.Context) (engine.Status, error) {
	st, err := f.Engine.Status(ctx)
	st.StorageFull, st.CanWrite = true, false
	return st, err
}

func (f full) Do(ctx context.Context, c engine.Caller, b engine.Batch) ([]engine.Result, error) {
	for _, op := range b.Ops {
		if kv, ok := op.(*engine.KV); ok && kv.Namespace == confirmNamespace {
			return nil, &engine.Error{Code: engine.CodeStorageFull}
		}
	}
	return f.Engine.Do(ctx, c, b)
}

// TestConfirmationsOnAFullDisk: what frees a disk that is full can be confirmed, at the node that planned it and once; a token
// whose use can not be recorded does nothing.
func TestConfirmationsOnAFullDisk(t *testing.T) {
	r := newRig(t, nil)
	r.furnish()
	here, there := r.connect(Identity{}, nil), r.another(r.clock).connect(Identity{}, nil)
	before := planned(t, here)
	r.f.Attach(full{r.engine})
	state := r.digest()
	e := refused(t, here, "kv_put", replacing(before))
	require.Equal(t, []string{"storage_full", "none"}, []string{e.Code, e.Outcome})
	token := planned(t, here)
	require.Equal(t, "confirm_invalid", refused(t, there, "kv_put", replacing(token)).Code, "at another node")
	require.Equal(t, state, r.digest())
	confirmed(t, here, token)
	require.Equal(t, "confirm_used", refused(t, here, "kv_put", replacing(token)).Code)
	token = planned(t, here)
	r.clock.Advance((confirmTime + 1) * time.Second)
	require.Equal(t, "confirm_expired", refused(t, here, "kv_put", replacing(token)).Code)
}

// TestNodesKeepTheirOwnRows: the namespaces in which a node keeps what is no caller's can not be read, listed or written, for
// the administrator either, with a token or without.
func TestNodesKeepTheirOwnRows(t *testing.T) {
	r := newRig(t, nil)
	r.furnish()
	s := r.connect(Identity{}, nil)
	confirmed(t, s, planned(t, s))
	r.do(&engine.KV{Kind: engine.KVPut, Namespace: "~traces", Key: "k", Value: []byte(`1`)})
	before := r.digest()
	for _, ns := range []string{confirmNamespace, "~traces", "~"} {
		for name, args := range map[string]map[string]any{"kv_get": {"key": "k"}, "kv_list": {}, "kv_put": {"key": "k", "value": 2}, "kv_delete": {"key": "k"}} {
			args["namespace"] = ns
			e := refused(t, s, name, args)
			require.Equal(t, []string{"bad_request", "namespace"}, []string{e.Code, e.Field}, "%s of %s", name, ns)
		}
	}
	var names []string
	for _, x := range ask(t, s, "kv_list", nil)["namespaces"].([]any) {
		names = append(names, x.(map[string]any)["namespace"].(string))
	}
	require.Equal(t, []string{"ns", "queen-locks"}, names, "what callers wrote, and the locks, which they may read")
	require.Equal(t, before, r.digest())
}
