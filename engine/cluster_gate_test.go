package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
)

// Goal: while the disk of another node that votes is full nothing that grows storage is taken here either, since what is committed grows
// its disk as well; acks and deletes go on. This node does not say that its own were full, or two nodes would keep each other's
// gates closed for ever. It opens again by itself.
func TestAnotherNodesDiskIsFull(t *testing.T) {
	c := fakeClock()
	n, s := solo(t, c, nil)
	ctx := t.Context()
	require.NoError(t, soloPush(ctx, n, "p"))
	s.full.Store(true)
	looked := func(full bool) {
		for n.voterFull.Load() != full {
			c.WaitArmed(1)
			c.Advance(idleTurn)
		}
	}
	looked(true)
	err, _ := soloPush(ctx, n, "p").(*Error)
	require.NotNil(t, err)
	require.Equal(t, CodeStorageFull, err.Code)
	require.Contains(t, err.Message, "another node")
	_, refused := n.SetAdmin(ctx, format.DefaultTenant, AdminChange{Kind: format.AdminNode, Name: "x", Value: []byte("1")})
	require.ErrorIs(t, refused, &Error{Code: CodeStorageFull})
	st, bad := n.Status(ctx)
	require.NoError(t, bad)
	require.True(t, st.StorageFull)
	require.False(t, st.CanWrite)
	require.Contains(t, st.Why, "another node")
	require.False(t, n.Standing().Full)
	_, gone := n.Catalog().DeleteQueue(ctx, anyone, "q")
	require.NoError(t, gone)

	s.full.Store(false)
	looked(false)
	require.NoError(t, soloPush(ctx, n, "p"))
	n.full.Store(true) // now its own is
	require.True(t, n.Standing().Full)
	require.Error(t, soloPush(ctx, n, "p"))
	n.full.Store(false)
	require.NoError(t, soloPush(ctx, n, "p"))
}

// Goal: an entry holds no more calls of other nodes than an Origin names, whatever their size, and the room that it takes in front
// of them is counted: where segments are small an entry stays within what the log takes.
func TestEntriesOfManyCallsOfOthers(t *testing.T) {
	foreign := func(i int) *submission {
		s := newSubmission(consumption)
		s.buf.AddTick()
		s.from = contributor{node: ^format.Replica(0), request: ^uint64(0) - uint64(i), epoch: 2}
		return s
	}
	for _, c := range []struct{ most, room, calls, first int }{
		{entryByteLimit, 1 << 20, format.MaxOriginParts + 3, format.MaxOriginParts},
		{64 << 10, 9 << 10, 5000, 0},
	} {
		f := &fuser{wake: make(chan struct{}, 1), most: c.most, full: min(entryBytes, c.most), room: c.room, ordinals: format.MaxOrdinals - 1}
		own := newSubmission(writing)
		own.buf.AddTick()
		for i := range c.calls {
			f.submit(true, foreign(i))
		}
		f.submit(true, own)
		taken, owns := 0, 0
		for subs := f.take(); len(subs) > 0; subs = f.take() {
			var e format.EntryBuilder
			e.Begin(format.EntryHeader{Epoch: 2, Fuse: 1})
			if b := (&Node{}).origins(subs); b != nil {
				e.Add(b)
			}
			count := 0
			for _, s := range subs {
				e.Add(s.buf)
				if s == own {
					owns++
				} else {
					count++
				}
			}
			if taken == 0 && c.first != 0 {
				require.Equal(t, c.first, count)
			}
			taken += count
			head := e.Head(nil)
			require.LessOrEqual(t, len(head), c.most+c.room)
			entry, err := format.ParseEntry(head)
			require.NoError(t, err)
			require.NoError(t, format.ValidateEntry(&entry))
		}
		require.Equal(t, c.calls, taken)
		require.Equal(t, 1, owns)
	}
}

// Goal: a call with more messages than an entry may have beside an Origin is refused where it comes in, and where it is handed over
// to: then its node is told.
func TestMoreMessagesThanAnEntryHas(t *testing.T) {
	n, s := solo(t, fakeClock(), nil)
	n.fuser.ordinals = 3
	sub := newSubmission(writing)
	for range 4 {
		sub.buf.AddTick()
	}
	commands := sub.buf.AppendTo(nil)
	n.fuser.submit(false, sub)
	err := sub.wait(t.Context())
	require.NotNil(t, err)
	require.Equal(t, CodeTooLarge, err.Code)
	require.Error(t, n.Accept(3, Handover{Epoch: 2, Request: 1, Commands: commands}))
	n.fuser.ordinals = 4
	require.NoError(t, n.Accept(3, Handover{Epoch: 2, Request: 1, Commands: commands}))
	s.other(t, n, 6)
	require.ErrorIs(t, n.Accept(3, Handover{Epoch: 2, Request: 2, Commands: commands}), ErrNotLeader)
}
