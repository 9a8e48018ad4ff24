package engine_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/enginetest"
	"queen/engine/format"
	"queen/engine/vfs"
)

// openGroups opens nodes of raft groups 1 to n over one disk, all of one cluster. None but the first is noted as begun.
func openGroups(t testing.TB, fs vfs.FS, c clock.Clock, seed uint64, n format.RaftGroup) []*engine.Node {
	t.Helper()
	var nodes []*engine.Node
	for g := format.RaftGroup(1); g <= n; g++ {
		cfg := testConfig(fs, c, seed*100+uint64(g))
		cfg.Dir = engine.GroupDir(cfg.Dir, g)
		if g > 1 {
			st, err := nodes[0].Status(context.Background())
			require.NoError(t, err)
			cfg.Cluster = st.Cluster
		}
		node, err := engine.OpenGroup(cfg, g)
		require.NoError(t, err)
		nodes = append(nodes, node)
	}
	return nodes
}

// routed is a router of two groups that have begun.
type routed struct {
	t *testing.T
	*engine.Router
}

func openRouted(t *testing.T, fs vfs.FS, c clock.Clock, seed uint64) *routed {
	t.Helper()
	nodes := openGroups(t, fs, c, seed, 2)
	require.NoError(t, nodes[0].NoteGroup(context.Background(), 2))
	return &routed{t, engine.NewRouter(nodes)}
}

func newRouted(t *testing.T) *routed {
	t.Helper()
	r := openRouted(t, vfs.NewMem(), clock.NewFake(1_700_000_000_000_000), 1)
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

// callerOf is a caller of a tenant of its own.
func callerOf(tenant byte) engine.Caller {
	return engine.Caller{Tenant: format.Tenant{0: 0xdd, 15: tenant}}
}

// groupOf finds, or decides, which group a tenant is in.
func (r *routed) groupOf(c engine.Caller) format.RaftGroup {
	r.t.Helper()
	g, err := r.GroupOf(context.Background(), c.Tenant)
	require.NoError(r.t, err)
	return g
}

// two are a caller in group 1 and one in group 2.
func (r *routed) two() (first, second engine.Caller) {
	r.t.Helper()
	first, second = callerOf(1), callerOf(2)
	require.EqualValues(r.t, 1, r.groupOf(first))
	require.EqualValues(r.t, 2, r.groupOf(second))
	return first, second
}

func (r *routed) do(c engine.Caller, op engine.Op) {
	r.t.Helper()
	res, err := r.Do(context.Background(), c, engine.Batch{Ops: []engine.Op{op}})
	require.NoError(r.t, err)
	require.Nil(r.t, res[0].Err)
}

func (r *routed) push(c engine.Caller, queue, partition string) {
	r.t.Helper()
	r.do(c, &engine.Append{Queue: queue, Partition: partition, Messages: []engine.Message{{Payload: []byte("1")}}})
}

func (r *routed) partition(c engine.Caller) format.PartitionID {
	r.t.Helper()
	p, err := r.Catalog().Partition(context.Background(), c, "q", "p")
	require.NoError(r.t, err)
	return p.ID
}

// placed are the rows of the table.
func (r *routed) placed() map[string]byte {
	out := map[string]byte{}
	for _, row := range r.AdminRows(format.SystemTenant, format.AdminTenant, "", 1000) {
		out[row.Name] = row.Value[0]
	}
	return out
}

// TestRouterConforms holds a router to every rule of the suite, by a tenant of group 2; the others are spread.
func TestRouterConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite runs on the node")
	}
	enginetest.Run(t, func(t *testing.T, c *clock.Fake) engine.Engine {
		r := openRouted(t, vfs.NewMem(), c, 1)
		r.two()
		return r.Router
	}, enginetest.Options{Tenant: callerOf(2).Tenant, Settle: func(e engine.Engine) {
		e.(*engine.Router).Group(1).Settle()
		e.(*engine.Router).Group(2).Settle()
	}})
}

// TestTenantsHaveOneGroup: tenants are spread over the groups and see nothing of each other, the default one needs no row, and all
// of it is so after a restart, without another entry.
func TestTenantsHaveOneGroup(t *testing.T) {
	ctx, fs, c := context.Background(), vfs.NewMem(), clock.NewFake(1_700_000_000_000_000)
	r := openRouted(t, fs, c, 1)
	first, second := callerOf(1), callerOf(2)
	for _, who := range []engine.Caller{first, second, someone} {
		r.push(who, "q", "p")
	}
	a, b := r.partition(first), r.partition(second)
	require.EqualValues(t, 1, a.RaftGroup())
	require.EqualValues(t, 2, b.RaftGroup())
	require.EqualValues(t, 1, r.partition(someone).RaftGroup())
	foreign := func(who engine.Caller, id format.PartitionID) {
		t.Helper()
		_, err := r.Catalog().PartitionByID(ctx, who, id)
		require.ErrorIs(t, err, &engine.Error{Code: engine.CodeUnknownPartition})
		res, err := r.Do(ctx, who, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: id, Unfenced: true, TransactionID: "x", Status: format.AckCompleted}}})
		require.NoError(t, err)
		require.Equal(t, engine.CodeUnknownPartition, res[0].Err.Code)
	}
	foreign(first, b)
	foreign(second, a)
	want := map[string]byte{first.Tenant.String(): 1, second.Tenant.String(): 2}
	require.Equal(t, want, r.placed())
	require.NoError(t, r.Close(ctx))

	r = openRouted(t, fs, c, 2)
	defer r.Close(ctx)
	written := r.AdminGeneration()
	for _, who := range []engine.Caller{first, second, someone} {
		got, err := r.Read(ctx, who, engine.ReadRequest{At: []engine.Position{{Queue: "q", Partition: "p"}}})
		require.NoError(t, err)
		require.Len(t, got.Parts[0].Records, 1)
	}
	require.Equal(t, b, r.partition(second))
	require.Equal(t, want, r.placed())
	require.Equal(t, written, r.AdminGeneration(), "a tenant was placed anew")
	require.EqualValues(t, 1, r.groupOf(engine.Caller{Tenant: format.SystemTenant}))
}

// TestNewTenantsRace: two nodes that place tenants at the same moment agree, and so do all their callers.
func TestNewTenantsRace(t *testing.T) {
	nodes := openGroups(t, vfs.NewMem(), clock.NewFake(1_700_000_000_000_000), 1, 2)
	require.NoError(t, nodes[0].NoteGroup(context.Background(), 2))
	// Two routers have a memory each: what they share is the row, as nodes of a cluster do.
	routers := []*routed{{t, engine.NewRouter(nodes)}, {t, engine.NewRouter(nodes)}}
	defer routers[0].Close(context.Background())
	const tenants, callers = 20, 8
	var found [tenants][callers]format.RaftGroup
	var all sync.WaitGroup
	for i := range tenants {
		for k := range callers {
			all.Add(1)
			go func() {
				defer all.Done()
				found[i][k], _ = routers[k%2].GroupOf(context.Background(), callerOf(byte(i)).Tenant)
			}()
		}
	}
	all.Wait()
	rows := routers[0].placed()
	require.Len(t, rows, tenants)
	for i := range tenants {
		for k := range callers {
			require.EqualValues(t, rows[callerOf(byte(i)).Tenant.String()], found[i][k], "tenant %d, caller %d", i, k)
		}
	}
}

// TestTenantOfASingleGroupStays: a tenant that group 1 has anything of, from when there was no table, stays there, whatever it is; but for
// declarations of ephemeral queues, which are there in any case.
func TestTenantOfASingleGroupStays(t *testing.T) {
	ctx, r := context.Background(), newRouted(t)
	n := r.Group(1)
	do := func(c engine.Caller, b engine.Batch) error {
		res, err := n.Do(ctx, c, b)
		if err == nil && res[0].Err != nil {
			err = res[0].Err
		}
		return err
	}
	require.EqualValues(t, 1, r.groupOf(callerOf(100)), "the first one")
	for i, what := range []struct {
		name string
		make func(c engine.Caller) error
		want format.RaftGroup
	}{
		{"queue", func(c engine.Caller) error {
			_, err := n.Catalog().Configure(ctx, c, engine.ConfigureRequest{Queue: "q"})
			return err
		}, 1},
		{"key", func(c engine.Caller) error {
			return do(c, engine.Batch{Ops: []engine.Op{&engine.KV{Kind: engine.KVPut, Namespace: "n", Key: "k", Value: []byte("1")}}})
		}, 1},
		{"timer", func(c engine.Caller) error {
			return do(c, engine.Batch{Ops: []engine.Op{&engine.Timer{Op: format.TimerSchedule, Queue: "q", Key: "k", Partition: "p",
				Delay: time.Hour, Message: engine.Message{Payload: []byte("1")}}}})
		}, 1},
		{"answer under a key", func(c engine.Caller) error {
			c.Key = "once"
			return do(c, engine.Batch{Atomic: true, Ops: []engine.Op{&engine.KV{Kind: engine.KVDelete, Namespace: "n", Key: "k"}}})
		}, 1},
		{"administrative row", func(c engine.Caller) error {
			_, err := n.SetAdmin(ctx, c.Tenant, engine.AdminChange{Kind: format.AdminKafkaQuota, Name: "user=u", Value: []byte("{}")})
			return err
		}, 1},
		{"transactional id", func(c engine.Caller) error {
			_, err := n.Records().InitProducer(ctx, c, engine.ProducerInit{Timeout: time.Minute,
				ProducerRef: engine.ProducerRef{TransactionalID: "t", ID: engine.NoProducer}})
			return err
		}, 1},
		{"consumer group", func(c engine.Caller) error {
			_, err := n.Records().SetGroupRow(ctx, c, engine.GroupRow{Group: "g", Value: []byte("1")})
			return err
		}, 1},
		{"ephemeral queue", func(c engine.Caller) error {
			_, err := n.Ephemeral().Configure(ctx, c, "e", engine.EphemeralDefaults())
			return err
		}, 2},
	} {
		c := callerOf(byte(i))
		require.NoError(t, what.make(c), what.name)
		require.Equal(t, what.want, r.groupOf(c), what.name)
	}
}

// TestGroupsThatHaveNotBegun: tenants are placed only into groups whose Genesis is noted, and a row that names a group that the node
// does not have is an error, not group 1.
func TestGroupsThatHaveNotBegun(t *testing.T) {
	ctx := context.Background()
	nodes := openGroups(t, vfs.NewMem(), clock.NewFake(1_700_000_000_000_000), 1, 3)
	r := &routed{t, engine.NewRouter(nodes)}
	defer r.Close(ctx)
	for i := range 3 {
		require.EqualValues(t, 1, r.groupOf(callerOf(byte(i))))
	}
	require.NoError(t, nodes[0].NoteGroup(ctx, 3))
	require.NoError(t, nodes[0].NoteGroup(ctx, 3), "a second time")
	require.EqualValues(t, 3, r.groupOf(callerOf(10)))
	require.NoError(t, nodes[0].NoteGroup(ctx, 2))
	require.EqualValues(t, 2, r.groupOf(callerOf(11)))

	lost := callerOf(20)
	for _, value := range [][]byte{{4}, {0}, {1, 1}, nil} {
		_, err := r.SetAdmin(ctx, format.SystemTenant, engine.AdminChange{Kind: format.AdminTenant, Name: lost.Tenant.String(), Value: value})
		require.NoError(t, err)
		_, err = r.Do(ctx, lost, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "q", Messages: []engine.Message{{Payload: []byte("1")}}}}})
		require.ErrorIs(t, err, &engine.Error{Code: engine.CodeInternal}, "%v", value)
		_, found := r.AdminRow(lost.Tenant, format.AdminKafkaQuota, "x")
		require.False(t, found)
	}
	require.Nil(t, r.Group(0))
	require.Nil(t, r.Group(4))
	require.Panics(t, func() { engine.NewRouter([]*engine.Node{nodes[1], nodes[0]}) })
}

// TestTenantThatCanNotBePlaced: without group 1 a tenant that is known goes on, and of the call of a new one nothing is carried out.
func TestTenantThatCanNotBePlaced(t *testing.T) {
	ctx, r := context.Background(), newRouted(t)
	_, second := r.two()
	require.NoError(t, r.Group(1).Close(ctx))
	r.push(second, "q", "p")
	_, err := r.Catalog().Configure(ctx, callerOf(9), engine.ConfigureRequest{Queue: "q"})
	var e *engine.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, engine.CodeClosed, e.Code)
	require.Equal(t, engine.OutcomeNone, e.Outcome)
	_, _, err = r.Catalog().Queues(ctx, callerOf(9), engine.Page{})
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeClosed}, "nor is it read from a group that it may not be in")
}

// TestErrorsOfPlacing: whether a tenant's row was written is nothing to the caller, whose call was not carried out either way; a table
// that is full says of what.
func TestErrorsOfPlacing(t *testing.T) {
	var e *engine.Error
	require.ErrorAs(t, engine.ErrPlace(&engine.Error{Code: engine.CodeTimeout, Outcome: engine.OutcomeUnknown, Message: "m"}), &e)
	require.Equal(t, engine.Error{Code: engine.CodeTimeout, Message: "m"}, *e)
	require.ErrorAs(t, engine.ErrPlace(&engine.Error{Code: engine.CodeTooLarge, Field: "name", Limit: "100000 rows", Message: "m"}), &e)
	require.Equal(t, engine.Error{Code: engine.CodeTooLarge, Field: "tenant", Limit: "100000 rows",
		Message: "there is no room for another tenant among the system's administrative rows: 100000 rows"}, *e)
}

// TestTenantTooMany: tenants leave room for the system's other rows. One too many is refused, those that are placed go on.
func TestTenantTooMany(t *testing.T) {
	ctx, r := context.Background(), newRouted(t)
	first, second := r.two()
	r.BoundTenants(2)
	_, err := r.Do(ctx, callerOf(3), engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "q", Messages: []engine.Message{{Payload: []byte("1")}}}}})
	var e *engine.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, engine.Error{Code: engine.CodeTooLarge, Field: "tenant", Limit: "2 tenants",
		Message: "a cluster of several raft groups has at most 2 tenants", Cause: engine.ErrStateLimit}, *e)
	require.Len(t, r.placed(), 2)
	r.push(first, "q", "p")
	r.push(second, "q", "p")
	r.BoundTenants(3)
	r.push(callerOf(3), "q", "p")
}

// TestFullDiskPlacesTenants: a tenant with data from before there was a table can consume it when the disk is full, although its row is still
// to be written.
func TestFullDiskPlacesTenants(t *testing.T) {
	ctx, fs, now := context.Background(), vfs.NewMem(), clock.NewFake(1_700_000_000_000_000)
	r, c := openRouted(t, fs, now, 1), callerOf(9)
	defer r.Close(ctx)
	_, err := r.Group(1).Do(ctx, c, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "q", Messages: []engine.Message{{Payload: []byte("1")}}}}})
	require.NoError(t, err)
	space, err := fs.Free("data")
	require.NoError(t, err)
	used := space.Total - space.Available
	fs.SetCapacity(used + used/20)
	defer fs.SetCapacity(0)
	for full := false; !full; runtime.Gosched() {
		now.Advance(5 * time.Second)
		st, err := r.Group(1).Status(ctx)
		require.NoError(t, err)
		full = st.StorageFull
	}
	d, err := r.Pop(ctx, c, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: "g", Start: engine.Start{Kind: format.StartAll}, Batch: 1})
	require.NoError(t, err)
	require.NotNil(t, d)
	at, lease := d.Claims[0], d.Lease
	d.Delivered()
	r.do(c, &engine.Ack{Partition: at.PartitionID, Group: "g", Lease: lease, HasOffset: true, Offset: at.First, Status: format.AckCompleted})
}

// TestGroupsAreOneCluster: groups share the identity of the first, and a directory of another cluster is refused.
func TestGroupsAreOneCluster(t *testing.T) {
	ctx, fs, c := context.Background(), vfs.NewMem(), clock.NewFake(1_700_000_000_000_000)
	r := openRouted(t, fs, c, 1)
	first, err := r.Group(1).Status(ctx)
	require.NoError(t, err)
	second, err := r.Group(2).Status(ctx)
	require.NoError(t, err)
	require.False(t, first.Cluster.IsZero())
	require.Equal(t, first.Cluster, second.Cluster)
	require.NoError(t, r.Close(ctx))

	cfg := testConfig(fs, c, 7)
	cfg.Dir, cfg.Cluster = engine.GroupDir(cfg.Dir, 2), format.UUID{5}
	require.Equal(t, "data/group-02", cfg.Dir)
	_, err = engine.OpenGroup(cfg, 2)
	require.ErrorContains(t, err, "data/group-02 belongs to cluster "+first.Cluster.String()+", not to "+cfg.Cluster.String())
	openRouted(t, fs, c, 3).Close(ctx) // it is as it was
}

// TestTwoNodesPlaceATenant: of two that choose differently before either's row is applied, the first one's choice counts for both.
func TestTwoNodesPlaceATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		second := s.group2()
		require.NoError(t, s.node.NoteGroup(t.Context(), 2))
		// One that knows no other group can choose nothing but group 1.
		narrow, wide := &routed{t, engine.NewRouter([]*engine.Node{s.node})}, &routed{t, engine.NewRouter([]*engine.Node{s.node, second})}
		require.EqualValues(t, 1, wide.groupOf(callerOf(1)))
		s.shut()
		var got [2]format.RaftGroup
		for i, r := range []*routed{narrow, wide} {
			go func() { got[i] = r.groupOf(callerOf(2)) }()
			synctest.Wait()
			require.Zero(t, got[i])
		}
		s.open()
		require.Equal(t, [2]format.RaftGroup{1, 1}, got)
		require.EqualValues(t, 1, wide.placed()[callerOf(2).Tenant.String()])
		require.EqualValues(t, 2, wide.groupOf(callerOf(3)), "which it would have chosen")
		require.NoError(t, wide.Close(t.Context()))
	})
}

// group2 opens a node of raft group 2 beside the stage's.
func (s *stage) group2() *engine.Node {
	s.t.Helper()
	cfg := testConfig(s.fs, s.clock, 2)
	cfg.Dir = engine.GroupDir(cfg.Dir, 2)
	n, err := engine.OpenGroup(cfg, 2)
	require.NoError(s.t, err)
	return n
}

// TestWhoPlacesGoesAway: who waits for another call to place its tenant does it itself when that one ends early, and what that one had
// under way is not lost. Each answers its own caller's end.
func TestWhoPlacesGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		second := s.group2()
		require.NoError(t, s.node.NoteGroup(t.Context(), 2))
		r := engine.NewRouter([]*engine.Node{s.node, second})
		require.EqualValues(t, 1, (&routed{t, r}).groupOf(callerOf(1)))

		s.shut()
		type answer struct {
			group format.RaftGroup
			err   error
			done  bool
		}
		ask := func() (*answer, context.CancelFunc) {
			a := &answer{}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				a.group, a.err = r.GroupOf(ctx, callerOf(2).Tenant)
				a.done = true
			}()
			synctest.Wait()
			return a, cancel
		}
		ended := func(a *answer) {
			t.Helper()
			synctest.Wait()
			require.True(t, a.done)
			var e *engine.Error
			require.ErrorAs(t, a.err, &e)
			require.Equal(t, engine.CodeTimeout, e.Code)
			require.Equal(t, engine.OutcomeNone, e.Outcome)
		}
		places, leave := ask()
		waits, forget := ask()
		stays, done := ask()
		defer done()
		forget()
		ended(waits)
		require.False(t, places.done || stays.done)
		leave()
		ended(places)
		require.False(t, stays.done)
		s.open()
		require.True(t, stays.done)
		require.NoError(t, stays.err)
		require.EqualValues(t, 2, stays.group)
		require.Len(t, r.AdminRows(format.SystemTenant, format.AdminTenant, "", 10), 2)
		require.NoError(t, r.Close(t.Context()))
	})
}
