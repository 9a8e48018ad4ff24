package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
)

// addGroup writes a row of a consumer group, deletes the group, or commits positions of it, rightly or wrongly guarded.
func (d *driver) addGroup() {
	key := refAdminKey{format.DefaultTenant, format.AdminGroup, d.group()}
	c := format.Group{Tenant: key.tenant, Op: format.GroupCommit, Name: []byte(key.name), Guarded: d.chance(70)}
	switch n := d.r.IntN(10); {
	case n < 3:
		c.Op, c.Value = format.GroupSet, []byte(fmt.Sprint("v", d.r.IntN(99)))
	case n == 3:
		c.Op = format.GroupDelete
	default:
		for range d.r.IntN(4) {
			c.Positions = append(c.Positions, format.Position{
				Queue: []byte(d.queueName()), Partition: []byte(d.partName()), To: format.Offset(d.r.IntN(40)),
				LeaderEpoch: int32(d.r.IntN(3)) - 1, Metadata: []byte{byte('a' + d.r.IntN(26))},
			})
			if d.chance(3) {
				c.Positions[len(c.Positions)-1].Queue = []byte("nowhere")
			}
		}
	}
	if c.Guarded && d.chance(70) {
		c.At = d.ref.admins[key].at
	}
	place := d.place()
	d.buf.AddGroup(&c)
	d.add("group", func(it *format.Result, out *format.Results) error {
		was, existed := d.ref.admins[key]
		got := out.Groups[it.At]
		want, rows, refused := format.CodeOK, got.Rows, 0
		switch {
		case c.Guarded && c.At != was.at:
			want, rows = format.CodeGone, 0
		case c.Op == format.GroupSet:
			d.ref.admins[key], rows = refAdmin{string(c.Value), place}, 1
		case c.Op == format.GroupDelete:
			for _, q := range d.ref.queues {
				delete(q.groups, key.name)
			}
			delete(d.ref.admins, key)
		default:
			refused = d.commit(&c, &got, place)
			rows = uint64(len(c.Positions) - refused)
		}
		if it.Code != want || got.Existed != existed || got.Rows != rows || len(got.Refused) != refused {
			return fmt.Errorf("%+v: %s %+v, want %s, existed %v, %d rows, %d refused", c, codeNames[it.Code], got, codeNames[want],
				existed, rows, refused)
		}
		return d.sameAdmins()
	})
}

// commit predicts a GroupCommit that its guard lets pass, and returns how many positions have to be refused.
func (d *driver) commit(c *format.Group, got *format.GroupResult, place format.Place) (refused int) {
	for i := range c.Positions {
		p := &c.Positions[i]
		code, _ := d.ref.position(d, &format.SetOffset{Tenant: c.Tenant, Queue: p.Queue, Partition: p.Partition, Group: c.Name,
			To: p.To, Create: true, Metadata: p.Metadata}, place)
		if code == format.CodeOK {
			continue
		}
		d.stats["group position refused"]++
		if refused < len(got.Refused) && got.Refused[refused] == (format.PositionRefusal{At: uint32(i), Code: code}) {
			refused++
		}
	}
	return refused
}

func (r *rig) group(c format.Group) (format.Code, format.GroupResult, format.Place) {
	c.Tenant = format.DefaultTenant
	r.buf.AddGroup(&c)
	out := r.apply()
	return out.Items[0].Code, out.Groups[0], format.Place{Index: r.index}
}

func (r *rig) committed(part string) (Committed, format.PositionRow) {
	r.t.Helper()
	v, ok := r.m.Committed(format.DefaultTenant, "q", part, "g")
	require.True(r.t, ok, part)
	row := format.PositionRow{}
	if v.Key != nil {
		var err error
		row, err = format.ParsePositionRow([]byte(r.keyed.rows[string(v.Key)]))
		require.NoError(r.t, err)
	}
	return v, row
}

// Goal: positions that a group commits are the cursors that native acks move; epoch and metadata come back; an offset
// outside of the partition comes back as asked until the cursor moves.
func TestGroupCommitIsTheCursor(t *testing.T) {
	r := newRig(t)
	r.addPush("q", "0", []string{"", "", "", ""}, nil)
	r.apply()
	commit := func(to format.Offset, epoch int32, note string) format.GroupResult {
		code, res, _ := r.group(format.Group{Op: format.GroupCommit, Name: []byte("g"), Positions: []format.Position{
			{Queue: []byte("q"), Partition: []byte("0"), To: to, LeaderEpoch: epoch, Metadata: []byte(note)},
			{Queue: []byte("none"), Partition: []byte("0")},
			{Queue: []byte("q"), Partition: []byte("7"), To: 42, LeaderEpoch: format.NoLeaderEpoch},
		}})
		require.Equal(t, format.CodeOK, code)
		return res
	}
	res := commit(2, 5, "note")
	require.Equal(t, format.GroupResult{Rows: 2, Refused: []format.PositionRefusal{{At: 1, Code: format.CodeUnknownQueue}}}, res)
	v, row := r.committed("0")
	require.Equal(t, format.Offset(2), v.Offset)
	require.Equal(t, int32(5), v.LeaderEpoch)
	require.Equal(t, "note", string(row.Metadata))
	v, row = r.committed("7")
	require.Equal(t, format.Offset(0), v.Offset)
	require.Equal(t, format.PositionRow{Asked: 42, At: 0, Metadata: []byte{}}, row)
	require.Equal(t, int32(format.NoLeaderEpoch), v.LeaderEpoch)

	// A native consumer of the group goes on there, and its ack is the group's position.
	r.buf.AddPop(&format.Pop{Tenant: format.DefaultTenant, Queues: [][]byte{[]byte("q")}, Group: []byte("g"), Start: format.StartAll,
		Batch: 1, Partitions: 1})
	out := r.apply()
	require.Equal(t, format.Offset(2), out.Pops[0].Claims[0].First)
	v, _ = r.committed("0")
	require.Equal(t, format.Offset(2), v.Offset)
	r.buf.AddAck(&format.Ack{Partition: out.Pops[0].Claims[0].Partition, Group: []byte("g"), Lease: out.Pops[0].Lease,
		Runs: []format.AckRun{{First: 2, Count: 1, Status: format.AckCompleted}}})
	r.apply()
	v, _ = r.committed("0")
	require.Equal(t, format.Offset(3), v.Offset)
	require.Equal(t, int32(format.NoLeaderEpoch), v.LeaderEpoch)

	// Epochs that the cursor has no room for count as none.
	commit(1, 1<<31-1, "")
	v, row = r.committed("0")
	require.Equal(t, int32(format.NoLeaderEpoch), v.LeaderEpoch)
	require.Empty(t, row.Metadata)

	rows, next := r.m.CommittedPage(1, "g", 0, 10, 10)
	require.Len(t, rows, 2)
	require.Zero(t, next)
	require.Equal(t, "7", rows[1].Name)
	first, next := r.m.CommittedPage(1, "g", 0, 1, 10)
	rest, end := r.m.CommittedPage(1, "g", next, 10, 10)
	require.Equal(t, rows, append(first, rest...))
	require.Zero(t, end)
}

// Goal: whoever wrote the row last fences everybody else, for the row and for positions; a deleted group leaves neither.
func TestGroupRowFences(t *testing.T) {
	r := newRig(t)
	r.addPush("q", "0", []string{"", "", ""}, nil)
	r.apply()
	commit := func(to format.Offset, at format.Place) format.Code {
		code, _, _ := r.group(format.Group{Op: format.GroupCommit, Name: []byte("g"), Guarded: true, At: at, Positions: []format.Position{
			{Queue: []byte("q"), Partition: []byte("0"), To: to, LeaderEpoch: format.NoLeaderEpoch}}})
		return code
	}
	set := func(at format.Place) (format.Code, format.Place) {
		code, _, now := r.group(format.Group{Op: format.GroupSet, Name: []byte("g"), Guarded: true, At: at, Value: []byte("v")})
		return code, now
	}
	require.Equal(t, format.CodeOK, commit(1, format.Place{}))
	code, first := set(format.Place{})
	require.Equal(t, format.CodeOK, code)
	require.Equal(t, format.CodeGone, commit(2, format.Place{}))
	code, second := set(first)
	require.Equal(t, format.CodeOK, code)
	code, _ = set(first)
	require.Equal(t, format.CodeGone, code)
	require.Equal(t, format.CodeGone, commit(2, first))
	require.Equal(t, format.CodeOK, commit(3, second))
	v, _ := r.committed("0")
	require.Equal(t, format.Offset(3), v.Offset)

	gen := r.m.AdminGeneration()
	code, _, _ = r.group(format.Group{Op: format.GroupDelete, Name: []byte("g"), Guarded: true, At: first})
	require.Equal(t, format.CodeGone, code)
	code, res, _ := r.group(format.Group{Op: format.GroupDelete, Name: []byte("g"), Guarded: true, At: second})
	require.Equal(t, format.CodeOK, code)
	require.Equal(t, format.GroupResult{Existed: true, Rows: 2}, res)
	_, ok := r.m.Committed(format.DefaultTenant, "q", "0", "g")
	require.False(t, ok)
	_, ok = r.m.GroupRow(format.DefaultTenant, "g")
	require.False(t, ok)
	require.Equal(t, gen, r.m.AdminGeneration())

	// A native delete of the group on all queues takes the row along; one of a single queue does not.
	_, third := set(format.Place{})
	r.buf.AddDelete(&format.Delete{What: format.DeleteGroup, Tenant: format.DefaultTenant, Queue: []byte("q"), Name: []byte("g")})
	r.apply()
	require.Equal(t, format.CodeOK, commit(1, third))
	r.buf.AddDelete(&format.Delete{What: format.DeleteGroup, Tenant: format.DefaultTenant, AllQueues: true, Name: []byte("g")})
	r.apply()
	require.Equal(t, format.CodeGone, commit(1, third))
}

// Goal: rows of groups have bounds of their own, and no Admin command writes them.
func TestGroupRowBounds(t *testing.T) {
	r := newRig(t)
	r.check = false
	set := func(name string, value int) format.Code {
		code, _, _ := r.group(format.Group{Op: format.GroupSet, Name: []byte(name), Value: make([]byte, value)})
		return code
	}
	require.Equal(t, format.CodeOK, set("g", format.MaxGroupRow))
	require.Equal(t, format.CodeLimit, set("g", format.MaxGroupRow+1))
	require.Equal(t, format.CodeLimit, set(string(make([]byte, format.MaxGroupName+1)), 0))
	if testing.Short() {
		return // what follows fills a tenant
	}
	n := 1
	for set(fmt.Sprint(n), format.MaxGroupRow) == format.CodeOK {
		n++
	}
	require.Equal(t, 255, n)
	require.Equal(t, format.CodeOK, set("small", 100))
	r.buf.AddAdmin(&format.Admin{Tenant: format.DefaultTenant, Row: format.AdminKey, Name: []byte("of another kind")})
	r.buf.AddAdmin(&format.Admin{Tenant: format.DefaultTenant, Row: format.AdminGroup, Name: []byte("g")})
	out := r.apply()
	require.Equal(t, format.CodeOK, out.Items[0].Code)
	require.Equal(t, format.CodeMalformed, out.Items[1].Code)
	require.NoError(t, checkAdmins(&r.m.admins))
}

// Goal: a group that a commit made starts where its first pop says, on every partition but those that were committed; later
// pops change nothing, and the catalogue row keeps that nobody has said it yet.
func TestCommitDecidesNoStart(t *testing.T) {
	for _, start := range []format.StartKind{format.StartNew, format.StartAll} {
		r := newRig(t)
		r.addPush("q", "0", []string{"", "", ""}, nil)
		r.addPush("q", "1", []string{"", ""}, nil)
		r.apply()
		for to := range format.Offset(3) { // also again: that says no more than the first one
			r.advance(time.Second)
			code, res, _ := r.group(format.Group{Op: format.GroupCommit, Name: []byte("g"), Positions: []format.Position{
				{Queue: []byte("q"), Partition: []byte("0"), To: to, LeaderEpoch: format.NoLeaderEpoch}}})
			require.Equal(t, format.CodeOK, code)
			require.Equal(t, uint64(1), res.Rows)
		}
		r.addPush("q", "1", []string{""}, nil)
		r.apply()
		r.advance(time.Second)
		open, _ := r.m.GroupByName(1, "g")
		require.True(t, open.Undecided)
		e, back := enc{}, group{}
		e.group(r.m.groups[uint32(open.ID)])
		d := reader{b: e.b}
		d.group(&back)
		require.False(t, d.bad)
		require.True(t, back.undecided)

		claims := func(start format.StartKind) map[string][2]format.Offset {
			out := map[string][2]format.Offset{}
			for _, c := range r.pop(one("q", "g", start, 10, 10)).Claims {
				p, _ := r.m.PartitionByID(format.DefaultTenant, c.Partition)
				out[p.Name] = [2]format.Offset{c.First, c.End}
			}
			return out
		}
		want := map[string][2]format.Offset{"0": {2, 3}}
		if start == format.StartAll {
			want["1"] = [2]format.Offset{0, 3}
		}
		require.Equal(t, want, claims(start))
		decided, _ := r.m.GroupByName(1, "g")
		require.False(t, decided.Undecided)
		require.Equal(t, start, decided.Start)
		r.addPush("q", "2", []string{"", ""}, nil)
		r.apply()
		require.Equal(t, map[string][2]format.Offset{"2": {0, 2}}, claims(format.StartNew+format.StartAll-start))
		decided, _ = r.m.GroupByName(1, "g")
		require.Equal(t, start, decided.Start)
	}
}
