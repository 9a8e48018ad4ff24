package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// TestWatcherOfANewTenant: one that was taken before anything was known of the tenant learns what happens in the group that the tenant
// came into, also of what came before it looked.
func TestWatcherOfANewTenant(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a change that is not told of ends the test
	defer cancel()
	r := newRouted(t)
	require.EqualValues(t, 1, r.groupOf(callerOf(1)))
	second := callerOf(2)
	w := r.Watch(second)
	defer w.Close()
	ref, other := engine.PartitionRef{Queue: "q", Partition: "p"}, engine.PartitionRef{Queue: "q", Partition: "o"}
	gone := engine.PartitionRef{Queue: "q", Partition: "gone"}
	w.Add(ref, gone, other, ref)
	w.Remove(gone)
	r.push(second, "q", "gone")
	r.push(second, "q", "p")
	require.EqualValues(t, 2, r.groupOf(second))
	got, err := w.Next(ctx)
	require.NoError(t, err)
	require.Equal(t, []engine.Change{{PartitionRef: ref, Exists: true, End: 1}}, got)
	r.push(second, "q", "p")
	got, err = w.Next(ctx)
	require.NoError(t, err)
	require.Equal(t, []engine.Change{{PartitionRef: ref, Exists: true, End: 2}}, got)
	w.Remove(ref)
	r.push(second, "q", "p")
	r.push(second, "q", "o")
	got, err = w.Next(ctx)
	require.NoError(t, err)
	require.Equal(t, []engine.Change{{PartitionRef: other, Exists: true, End: 1}}, got)

	never := r.Watch(callerOf(3))
	never.Add(ref)
	never.Close()
}

// TestRowsOfGroups: administrative rows are in the group of their tenant, those of ephemeral queues and of the system in group 1; reading
// them places nobody.
func TestRowsOfGroups(t *testing.T) {
	ctx, r := context.Background(), newRouted(t)
	_, second := r.two()
	stranger := callerOf(9)
	at := r.AdminGeneration()
	_, found := r.AdminRow(stranger.Tenant, format.AdminKafkaConfig, "c")
	require.False(t, found)
	require.Empty(t, r.AdminRows(stranger.Tenant, format.AdminKafkaConfig, "", 10))
	require.Equal(t, at, r.AdminGeneration())
	has := func(g format.RaftGroup, owner format.Tenant, kind format.AdminKind, name string) {
		t.Helper()
		_, found := r.AdminRow(owner, kind, name)
		require.True(t, found)
		require.Len(t, r.AdminRows(owner, kind, "", 10), 1)
		for other := format.RaftGroup(1); other <= 2; other++ {
			_, found = r.Group(other).AdminRow(owner, kind, name)
			require.Equal(t, other == g, found, "group %d", other)
		}
	}
	set := func(owner format.Tenant, kind format.AdminKind, name string) {
		t.Helper()
		before := r.AdminGeneration()
		applied, err := r.SetAdmin(ctx, owner, engine.AdminChange{Kind: kind, Name: name, Value: []byte("1"), Guarded: true})
		require.NoError(t, err)
		require.True(t, applied)
		require.NotEqual(t, before, r.AdminGeneration())
	}
	set(second.Tenant, format.AdminKafkaConfig, "c")
	has(2, second.Tenant, format.AdminKafkaConfig, "c")
	set(format.SystemTenant, format.AdminKafkaUser, "u")
	has(1, format.SystemTenant, format.AdminKafkaUser, "u")
	_, err := r.Ephemeral().Configure(ctx, second, "e", engine.EphemeralDefaults())
	require.NoError(t, err)
	has(1, second.Tenant, format.AdminEphemeral, "e")
	applied, err := r.SetAdmin(ctx, second.Tenant, engine.AdminChange{Kind: format.AdminEphemeral, Name: "e", Delete: true})
	require.NoError(t, err)
	require.True(t, applied)
	_, found = r.AdminRow(second.Tenant, format.AdminEphemeral, "e")
	require.False(t, found)

	topics := r.Catalog().TopicsGeneration()
	_, err = r.Catalog().Configure(ctx, second, engine.ConfigureRequest{Queue: "q"})
	require.NoError(t, err)
	require.NotEqual(t, topics, r.Catalog().TopicsGeneration())
}

// TestCoordinatorOfGroups: a consumer group's row is in the group of its tenant, and its place is found there at once, also after a restart.
func TestCoordinatorOfGroups(t *testing.T) {
	ctx, fs, c := context.Background(), vfs.NewMem(), clock.NewFake(1_700_000_000_000_000)
	r := openRouted(t, fs, c, 1)
	first, second := r.two()
	at, err := r.Records().SetGroupRow(ctx, second, engine.GroupRow{Group: "g", Value: []byte("1")})
	require.NoError(t, err)
	require.Equal(t, at, r.Records().GroupRowAt(second, "g"))
	require.Equal(t, at, r.Group(2).Records().GroupRowAt(second, "g"))
	require.Zero(t, r.Records().GroupRowAt(first, "g"))
	require.Zero(t, r.Records().GroupRowAt(callerOf(9), "g"))
	require.Equal(t, []format.Tenant{second.Tenant}, r.Records().GroupTenants())
	_, err = r.Records().SetGroupRow(ctx, first, engine.GroupRow{Group: "h", Value: []byte("1")})
	require.NoError(t, err)
	require.NoError(t, r.Close(ctx))
	r = openRouted(t, fs, c, 2)
	defer r.Close(ctx)
	require.ElementsMatch(t, []format.Tenant{first.Tenant, second.Tenant}, r.Records().GroupTenants())
	row, err := r.Records().GroupRow(ctx, first, "h")
	require.NoError(t, err)
	_, err = r.Records().SetGroupRow(ctx, first, engine.GroupRow{Group: "h", At: row.At, Delete: true})
	require.NoError(t, err)
	require.Equal(t, []format.Tenant{second.Tenant}, r.Records().GroupTenants())
	require.Equal(t, at, r.Records().GroupRowAt(second, "g"))
}

// aged is the built-in sequencer in a later epoch.
type aged struct{ engine.Sequencer }

func (l aged) Start(a engine.Applier, applied format.Index) (format.Term, error) {
	epoch, err := l.Sequencer.Start(a, applied)
	return epoch + 4, err
}

// TestLeaderOfGroups: the epoch of partitions is that of the group that the caller's tenant is in, or would be told from.
func TestLeaderOfGroups(t *testing.T) {
	ctx, fs, c := context.Background(), vfs.NewMem(), clock.NewFake(1_700_000_000_000_000)
	first := openGroup(t, fs, c, 1)
	cfg := testConfig(fs, c, 2)
	cfg.Dir = engine.GroupDir(cfg.Dir, 2)
	second, err := engine.OpenGroupOver(cfg, 2, func(s engine.Sequencer) engine.Sequencer { return aged{s} })
	require.NoError(t, err)
	require.NoError(t, first.NoteGroup(ctx, 2))
	r := &routed{t, engine.NewRouter([]*engine.Node{first, second})}
	defer r.Close(ctx)
	one, two := r.two()
	for who, want := range map[engine.Caller]format.Term{one: 1, two: 5, callerOf(9): 1, someone: 1} {
		leader, term := r.Records().Leader(who)
		require.Zero(t, leader, "there is no cluster")
		require.Equal(t, want, term)
	}
	st, err := r.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, []format.Term{1, 1, 5}, []format.Term{st.Term, st.Groups[0].Term, st.Groups[1].Term})
}

// TestOperationsOfGroups: switches are those of all groups, jobs and activity those of the tenant's, and plans hold everywhere.
func TestOperationsOfGroups(t *testing.T) {
	ctx, r := context.Background(), newRouted(t)
	first, second := r.two()
	on, off := true, false
	put := func(c engine.Caller) error {
		_, err := r.Do(ctx, c, engine.Batch{Ops: []engine.Op{&engine.KV{Kind: engine.KVPut, Namespace: "n", Key: "k", Value: []byte("1")}}})
		return err
	}
	s, err := r.SetSwitches(ctx, &off, nil, nil)
	require.NoError(t, err)
	require.Equal(t, engine.Switches{TimerSchedule: true, TimerFire: true}, s)
	for _, c := range []engine.Caller{first, second} {
		require.ErrorIs(t, put(c), &engine.Error{Code: engine.CodePaused})
	}
	_, err = r.Group(1).SetSwitches(ctx, &on, nil, nil)
	require.NoError(t, err)
	require.False(t, r.Switches().KV, "it is off in group 2")
	s, err = r.SetSwitches(ctx, &on, nil, nil)
	require.NoError(t, err)
	require.Equal(t, engine.Switches{KV: true, TimerSchedule: true, TimerFire: true}, s)
	require.NoError(t, put(second))

	r.push(second, "q", "p")
	d, err := r.Pop(ctx, second, engine.PopRequest{Scope: engine.Scope{Queue: "q"}})
	require.NoError(t, err)
	require.NotNil(t, d)
	for _, err := range d.Messages() {
		require.NoError(t, err)
	}
	d.Delivered()
	r.do(second, &engine.Ack{Partition: d.Claims[0].PartitionID, Lease: d.Lease, HasOffset: true, Status: format.AckDLQ})
	count, err := r.CountRedrive(ctx, second, engine.RedriveRequest{Queue: "q"})
	require.NoError(t, err)
	require.EqualValues(t, 1, count.Count)
	j, err := r.StartRedrive(ctx, second, engine.RedriveRequest{Queue: "q"})
	require.NoError(t, err)
	got, err := r.RedriveJob(ctx, second, j.ID)
	require.NoError(t, err)
	require.Equal(t, j.ID, got.ID)
	_, err = r.RedriveJob(ctx, first, j.ID)
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeNotFound})
	from := format.Wall(1_700_000_000_000_000)
	_, counted := r.Activity(second, 0, from, from+60e6)
	require.True(t, counted)
	_, counted = r.Activity(callerOf(9), 0, from, from+60e6)
	require.False(t, counted)

	plans, err := auth.ParsePlans([]byte("plans: {p: {messages_per_second: 1000}}"), "p")
	require.NoError(t, err)
	q := auth.NewQuotas(func() *auth.Plans { return plans }, func() time.Time { return time.Unix(1e9, 0) })

	held := engine.Limit(r.Router, q)
	for g := format.RaftGroup(1); g <= 2; g++ {
		require.True(t, r.Group(g).Quoted(), "group %d", g)
	}
	o, ok := engine.OperationsOf(held)
	require.True(t, ok)
	require.Same(t, r.Router, o)
	_, ok = engine.MembershipOf(held)
	require.False(t, ok, "there is no cluster")
	_, ok = r.Cluster()
	require.False(t, ok)
}

// leadable is a cluster that notes who was made to lead it.
type leadable struct {
	engine.Membership
	to   format.Replica
	fail error
}

func (l *leadable) MakeLead(_ context.Context, _ format.RaftGroup, node format.Replica) error {
	l.to = node
	return l.fail
}

// TestMakeLeadOfGroups: whoever is to lead is to lead every group, or one that is named, and an error says which one it does not.
func TestMakeLeadOfGroups(t *testing.T) {
	a, b, c := &leadable{}, &leadable{}, &leadable{}
	m := engine.MembershipOfGroups(a, b, c)
	require.NoError(t, m.MakeLead(context.Background(), 0, 3))
	require.Equal(t, []format.Replica{3, 3, 3}, []format.Replica{a.to, b.to, c.to})
	b.fail = engine.ErrNotLeader
	err := m.MakeLead(context.Background(), 0, 2)
	require.ErrorIs(t, err, engine.ErrNotLeader)
	require.ErrorContains(t, err, "raft group 2: ")
	require.Equal(t, []format.Replica{2, 2, 3}, []format.Replica{a.to, b.to, c.to})
	b.fail = errors.New("elsewhere")
	require.ErrorIs(t, m.MakeLead(context.Background(), 0, 2), b.fail)
	require.NoError(t, m.MakeLead(context.Background(), 3, 1))
	require.Equal(t, []format.Replica{2, 2, 1}, []format.Replica{a.to, b.to, c.to})
	var refused *engine.Error
	require.ErrorAs(t, m.MakeLead(context.Background(), 4, 1), &refused)
	require.Equal(t, []any{engine.CodeBadRequest, "group"}, []any{refused.Code, refused.Field})
}
