package frontendkafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func sessionOf(r *fetchSessions, parts int32, now int64) *fetchSession {
	var all []int32
	for i := range parts {
		all = append(all, i)
	}
	s := newFetchSession(fetchRequest(12, "t", all...), nobody)
	r.offer(s, now)
	return s
}

var nobody = (&testNode{}).caller()

// Goal: without room, what is idle goes first, then what is smaller; nothing goes for something small.
func TestSessionsGo(t *testing.T) {
	r := &fetchSessions{most: 2_000_000}
	now := int64(0)
	admit := func(parts int32) (*fetchSession, bool) {
		s := sessionOf(r, parts, now)
		return s, s.id != 0 && r.admit(s, now)
	}
	for i := range sessionsMax {
		_, ok := admit(4)
		require.True(t, ok, i)
	}
	_, ok := admit(4)
	require.False(t, ok, "it is no larger than the others")
	big, ok := admit(100)
	require.True(t, ok)
	require.Len(t, r.byID, sessionsMax)
	require.Equal(t, (sessionsMax-1)*4+100, r.parts)

	busy := r.recent.Back().Value.(*fetchSession)
	busy.mu.Lock() // a fetch of it is being answered
	now = sessionIdle.Microseconds()
	require.Equal(t, big, r.find(big.id, now))
	_, ok = admit(4)
	require.False(t, ok, "what was used last longest ago is busy")
	busy.mu.Unlock()
	small, ok := admit(1)
	require.True(t, ok, "something is idle")
	require.Len(t, r.byID, sessionsMax)
	require.Nil(t, r.byID[busy.id])
	require.True(t, busy.dead)

	r.end(small.id, nobody)
	require.Nil(t, r.byID[small.id])
	require.Len(t, r.byID, sessionsMax-1)
}

// Goal: what connections keep of sessions that were offered is bounded over all of them; who gets none is answered whole, and
// what a connection no longer keeps does not count.
func TestOfferedSessionsAreBounded(t *testing.T) {
	n := start(t, func(o *Options) { o.Memory = 1 << 20 })
	n.topic("t", 1000)
	all := make([]int32, 400)
	for i := range all {
		all[i] = int32(i)
	}
	open := fetchRequest(11, "t", all...)
	open.SessionEpoch = 0
	offered := func() int {
		n.f.sessions.mu.Lock()
		defer n.f.sessions.mu.Unlock()
		return n.f.sessions.offered
	}
	first, second, third := n.dial(), n.dial(), n.dial()
	a := first.fetch(open).SessionID
	require.NotZero(t, a)
	require.NotZero(t, second.fetch(open).SessionID)
	require.Equal(t, 800, offered())
	got := third.fetch(open)
	require.Zero(t, got.SessionID, "1,024 partitions are room for two")
	require.Len(t, got.Topics[0].Partitions, len(all))
	a = first.fetch(open).SessionID // in the place of its own
	require.NotZero(t, a)
	require.Equal(t, 800, offered())

	require.Zero(t, first.fetch(incremental(11, a, 1)).ErrorCode)
	require.Equal(t, 400, offered(), "it is in use")
	b := third.fetch(open).SessionID
	require.NotZero(t, b)
	over := fetchRequest(11, "t", 0)
	over.SessionID, over.SessionEpoch = b, -1
	third.fetch(over)
	require.Equal(t, 400, offered(), "it was ended")
	require.NoError(t, second.Close())
	require.Eventually(t, func() bool { return offered() == 0 }, patience, pollEvery)

	long := fetchRequest(11, strings.Repeat("x", 30_000), 0)
	long.SessionEpoch = 0
	got = third.fetch(long)
	require.Zero(t, got.SessionID, "names that no topic can have are not kept")
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, got.Topics[0].Partitions[0].ErrorCode)
}

// Goal: a session that grows beyond what there is room for ends, and one that names nothing keeps nothing.
func TestSessionsGrowWithinBounds(t *testing.T) {
	n := start(t, func(o *Options) { o.Memory = 1 << 20 })
	c := n.dial()
	open := fetchRequest(11, "t", 0)
	open.SessionEpoch = 0
	id := c.fetch(open).SessionID
	require.NotZero(t, id)
	grow := incremental(11, id, 1)
	for i := range 1000 {
		grow.Topics = append(grow.Topics, kmsg.FetchRequestTopic{Topic: fmt.Sprint(i)})
	}
	require.Zero(t, c.fetch(grow).ErrorCode)
	n.f.sessions.mu.Lock()
	require.Len(t, n.f.sessions.byID[id].topics, 1)
	n.f.sessions.mu.Unlock()

	all := make([]int32, 3000)
	for i := range int32(4) {
		for j := range all {
			all[j] = 3000*i + int32(j)
		}
		grow = fetchRequest(11, "t", all...)
		grow.SessionID, grow.SessionEpoch = id, 2+i
		if got := c.fetch(grow); got.ErrorCode != 0 {
			require.Equal(t, kerr.FetchSessionIDNotFound.Code, got.ErrorCode)
			require.EqualValues(t, 1, i, "4,096 partitions are all")
			n.f.sessions.mu.Lock()
			defer n.f.sessions.mu.Unlock()
			require.Empty(t, n.f.sessions.byID)
			require.Zero(t, n.f.sessions.parts)
			return
		}
	}
	t.Fatal("it grew without end")
}

// Goal: what answers hold is counted until they are written, and a fetch without room gets little instead of nothing.
func TestAnswersAreBounded(t *testing.T) {
	n := start(t, func(o *Options) { o.Memory = 300 << 10 })
	n.topic("t", 4)
	c := n.dial()
	value := string(make([]byte, 50<<10))
	for i := range int32(4) {
		for range 4 {
			c.produce("t", i, records(t, nil, value))
		}
	}
	size := func(resp *kmsg.FetchResponse) (sum int) {
		for _, p := range resp.Topics[0].Partitions {
			sum += len(p.RecordBatches)
		}
		return sum
	}
	req := fetchRequest(12, "t", 0, 1, 2, 3)
	full := size(c.fetch(req))
	require.Greater(t, full, 200<<10)
	require.LessOrEqual(t, full, 350<<10)
	require.Eventually(t, func() bool { return n.f.answers.held.Load() == 0 }, patience, pollEvery)
	n.f.answers.held.Add(1 << 30)
	little := size(c.fetch(req))
	require.Greater(t, little, 50<<10)
	require.LessOrEqual(t, little, 120<<10)
	require.Eventually(t, func() bool { return n.f.answers.held.Load() == 1<<30 }, patience, pollEvery)
}

// Goal: the bytes of a Produce and a Fetch and of their answers, as clients have sent and read them for years.
func TestGoldenFrames(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 1)
	c := n.dial()
	batch := "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x3a" + "\xff\xff\xff\xff" + "\x02" + "\x71\x6a\x61\x89" +
		"\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x03\xe8" + "\x00\x00\x00\x00\x00\x00\x03\xe8" +
		"\xff\xff\xff\xff\xff\xff\xff\xff" + "\xff\xff" + "\xff\xff\xff\xff" + "\x00\x00\x00\x01" +
		"\x10\x00\x00\x00\x02k\x02v\x00"
	stored := batch[:15-3] + "\x00\x00\x00\x01" + batch[16:] // the leader epoch is written over
	frame := func(sent, want string) {
		t.Helper()
		c.frame([]byte(sent))
		correlation, body, err := c.body(false)
		require.NoError(t, err)
		require.EqualValues(t, 7, correlation)
		require.Equal(t, want, string(body))
	}
	// Produce 3: no transactional id, acks all, 1 s.
	frame("\x00\x00\x00\x03\x00\x00\x00\x07\x00\x01c"+"\xff\xff"+"\xff\xff"+"\x00\x00\x03\xe8"+
		"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x46"+batch,
		"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"+
			"\x00\x00\x00\x00\x00\x00\x00\x00"+"\xff\xff\xff\xff\xff\xff\xff\xff"+"\x00\x00\x00\x00")
	// Fetch 4: a consumer, no wait, 1 byte at least, 1 MiB at most, everything.
	frame("\x00\x01\x00\x04\x00\x00\x00\x07\x00\x01c"+"\xff\xff\xff\xff"+"\x00\x00\x00\x00"+"\x00\x00\x00\x01"+"\x00\x10\x00\x00"+"\x00"+
		"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00",
		"\x00\x00\x00\x00"+"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"+
			"\x00\x00\x00\x00\x00\x00\x00\x01"+"\x00\x00\x00\x00\x00\x00\x00\x01"+"\xff\xff\xff\xff"+"\x00\x00\x00\x46"+stored)
}
