package ephemeral

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
)

// Goal: reject refuses a push whole and changes nothing; room comes back with settled messages (S-eph-7).
func TestReject(t *testing.T) {
	r := newRig(t, Options{})
	r.declare("q", Settings{MaxLength: 3, MaxBytes: 10})
	r.push("q", "1", "2")
	refused(t, QueueFull, r.tryPush("q", "3", "4"))
	refused(t, QueueFull, r.tryPush("q/new", strings.Repeat("x", 9)))
	q := r.s.Queues(someone)[0]
	require.Equal(t, [3]int64{2, 2, 1}, [3]int64{q.Depth, q.Bytes, int64(q.Partitions)}, "nothing half done")
	r.push("q", strings.Repeat("x", 8))
	refused(t, QueueFull, r.tryPush("q", ""))
	d := r.pop("q", 1)
	refused(t, QueueFull, r.tryPush("q", "3"))
	r.ack("q", d, Completed)
	r.push("q", "3")
	r.push("implicit", make([]string, MaxLength)...)
	refused(t, QueueFull, r.tryPush("implicit", "and one"))
}

// Goal: dropOldest makes room over all partitions, counts what goes, and takes as much of a push as fits; what can
// never fit is refused.
func TestDropOldest(t *testing.T) {
	r := newRig(t, Options{})
	r.declare("q", Settings{MaxLength: 3, MaxBytes: 10, Policy: DropOldest})
	r.push("q/a", "1")
	r.push("q/b", "2")
	r.push("q/a", "3")
	held := r.pop("q@g", 2)
	require.Equal(t, "1 3", got(held))
	r.push("q/b", "4", "5")
	require.Equal(t, "unknown acked", r.ack("q@g", held, Completed), "1 was dropped under its hands, 2 unseen")
	require.Equal(t, "4 5", got(r.pop("q@g", 9)))
	require.Equal(t, Drops{Bounds: 2}, r.s.Queues(someone)[0].Drops)
	r.push("q/a", "6", "7", "8", "9", "10")
	require.Equal(t, "8 9 10", got(r.pop("q@g", 9)))
	require.Equal(t, Drops{Bounds: 6}, r.s.Queues(someone)[0].Drops)
	refused(t, QueueFull, r.tryPush("q/a", strings.Repeat("x", 11)))
	require.Equal(t, int64(3), r.s.Queues(someone)[0].Depth)
	r.push("q/a", "lots", strings.Repeat("x", 10))
	require.Equal(t, strings.Repeat("x", 10), got(r.pop("q@g", 9)))
	depth, err := r.s.Depth(someone, "q", nil)
	require.NoError(t, err)
	require.Equal(t, uint64(2+2+3), depth.PerGroup[0].Skipped)
}

// Goal: the plan of a tenant is asked after the queue's bounds and before the node's, once, and its refusal is told as
// it is.
func TestAdmit(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 20_000})
	r.declare("full", Settings{MaxLength: 1})
	over := errors.New("over the plan")
	asked, answer := 0, over
	push := func(queue string, payloads ...[]byte) error {
		err := r.s.Push(someone, PushRequest{Queue: queue, Partition: "p", Payloads: payloads, Admit: func() error { asked++; return answer }})
		r.check()
		return err
	}
	refused(t, QueueFull, push("full", nil, nil))
	require.Zero(t, asked)
	require.Equal(t, over, push("q", make([]byte, 50_000)))
	require.Equal(t, 1, asked)
	require.Nil(t, r.s.find(someone, "q"))
	answer = nil
	refused(t, NoRoom, push("q", make([]byte, 50_000)))
	require.Equal(t, 2, asked)
	require.NoError(t, push("q", nil))
	require.NoError(t, push("q"))
	require.Equal(t, 3, asked, "pushing nothing asks nobody")
}

// Goal: a full node refuses pushes, forgets idle queues before it does, and can still be drained by a group that is new.
func TestNodeBound(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 40_000})
	for i := range 20 {
		require.Nil(t, r.pop(fmt.Sprintf("idle-%d", i), 1))
		r.advance(time.Second)
	}
	r.push("q", strings.Repeat("x", 10_000))
	require.Equal(t, 21, r.s.Stats().Queues)
	r.push("q", strings.Repeat("x", 10_000))
	require.Less(t, r.s.Stats().Queues, 21)
	require.Nil(t, r.s.find(someone, "idle-0"), "the longest idle goes first")
	require.NotNil(t, r.s.find(someone, "idle-19"))
	r.push("q", strings.Repeat("x", 10_000))
	e := refused(t, NoRoom, r.tryPush("q", strings.Repeat("x", 10_000)))
	require.Positive(t, e.RetryAfter)
	require.Equal(t, 1, r.s.Stats().Queues)
	for range 3 {
		d := r.pop("q@new", 1)
		require.NotNil(t, d)
		require.Equal(t, "acked", r.ack("q@new", d, Completed))
	}
	require.Equal(t, int64(0), r.s.Queues(someone)[0].Depth)
}

// Goal: leases, cursors and parked pops are bounded too.
func TestBoundOfPops(t *testing.T) {
	r := newRig(t, Options{MaxBytes: 20_000})
	r.push("q", make([]string, 100)...)
	total, groups := 0, 0
	for ; ; groups++ {
		d, err := r.s.Pop(context.Background(), someone, request(fmt.Sprintf("q@g%d", groups), 1000))
		r.check()
		if err != nil {
			refused(t, NoRoom, err)
			break
		}
		if d != nil {
			total += len(d.Messages)
		}
	}
	require.Positive(t, groups)
	require.LessOrEqual(t, r.s.Stats().Bytes, int64(30_000))
	require.Less(t, total, 100)
	r.advance(30 * time.Second)
	r.advance(IdleAfter)
	require.Equal(t, 0, r.s.Queues(someone)[0].Groups, "groups that nobody polls are forgotten")
	drained := 0
	for d := r.pop("q@back", 100); d != nil; d = r.pop("q@back", 100) {
		drained += len(d.Messages)
		r.ack("q@back", d, Completed)
	}
	require.Equal(t, 100, drained)
}

// Goal: names, batches and settings are held to their bounds, naming field and limit.
func TestBadRequests(t *testing.T) {
	r := newRig(t, Options{})
	long := strings.Repeat("n", MaxName)
	r.push(long+"/"+long, "1")
	require.Equal(t, "1", got(r.popRequest(PopRequest{Queue: long, Partition: long, Pinned: true, Group: long, Batch: 1 << 30})))
	for field, err := range map[string]error{
		"queue":     r.tryPush("q\x00", "1"),
		"partition": r.tryPush("q/"+long+"x", "1"),
		"messages":  r.tryPush("q", make([]string, MaxBatch+1)...),
	} {
		require.Equal(t, field, refused(t, BadRequest, err).Field)
	}
	_, err := r.s.Pop(context.Background(), someone, PopRequest{Queue: "q", Group: "g\x7f"})
	require.Equal(t, "group", refused(t, BadRequest, err).Field)
	_, err = r.s.Pop(context.Background(), someone, PopRequest{Queue: "q", Pinned: true})
	require.Equal(t, "partition", refused(t, BadRequest, err).Field)
	_, err = r.s.Ack(someone, "", "", nil)
	require.Equal(t, "queue", refused(t, BadRequest, err).Field)
	_, err = r.s.Ack(someone, "q", "", make([]Ack, MaxAcks+1))
	require.Equal(t, "acks", refused(t, BadRequest, err).Field)
	require.Nil(t, r.s.find(someone, "q"), "nothing came into being")
	r.push("q")
	require.Nil(t, r.s.find(someone, "q"), "pushing nothing changes nothing")

	for field, s := range map[string]Settings{
		"maxBytes": {MaxBytes: MaxBytes + 1}, "maxLength": {MaxLength: -1}, "policy": {Policy: "drop"}, "ttlSeconds": {TTLSeconds: -1},
		"leaseSeconds": {LeaseSeconds: 86_401}, "retryLimit": {RetryLimit: 1001}, "windowBuffer.ms": {Window: Window{Millis: 300_001}},
		"windowBuffer.count": {Window: Window{Count: 10_001}},
	} {
		_, err := s.Normal()
		require.Equal(t, field, refused(t, BadRequest, err).Field)
	}
	full := Settings{MaxBytes: 1, MaxLength: 2, Policy: DropOldest, TTLSeconds: 3, LeaseSeconds: 4, RetryLimit: 5, Window: Window{6, 7}}
	back, err := DecodeSettings(full.Encode())
	require.NoError(t, err)
	require.Equal(t, full, back)
	golden := []byte{1, 2, 1, 2, 3, 4, 5, 6, 7}
	require.Equal(t, golden, full.Encode(), "bytes on disk")
	for n := range golden {
		_, err := DecodeSettings(golden[:n])
		require.Error(t, err, "%d bytes", n)
	}
	for _, b := range [][]byte{append(golden, 0), {2, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 0, 1, 1, 1, 1, 1, 1, 1}, {1, 3, 1, 1, 1, 1, 1, 1, 1},
		{1, 1, 1, 255, 255, 127, 1, 1, 1, 1, 1}} {
		_, err := DecodeSettings(b)
		require.Error(t, err, "% x", b)
	}
}

// Goal: what is charged for things is what they take, within a factor, so that the node's bound means something.
func TestCostsAreHonest(t *testing.T) {
	if testing.Short() {
		t.Skip("counts the heap")
	}
	r := newRig(t, Options{MaxBytes: 1 << 30})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	name := func(kind string, i int) string { return fmt.Sprintf("%s-%d", kind, i) }
	const n = 20_000
	payload := [][]byte{make([]byte, 100)}
	var kept []*Delivery
	for _, c := range []struct {
		what string
		do   func(i int)
	}{
		{"queues with a partition and a group", func(i int) {
			_, err := r.s.Pop(context.Background(), someone, PopRequest{Queue: name("q", i), Partition: "Default", Pinned: true})
			require.NoError(t, err)
		}},
		{"partitions", func(i int) {
			require.NoError(t, r.s.Push(someone, PushRequest{Queue: "parts", Partition: name("p", i%5000), Payloads: payload}))
		}},
		{"groups", func(i int) {
			_, err := r.s.Pop(context.Background(), someone, PopRequest{Queue: "q-0", Group: name("g", i)})
			require.NoError(t, err)
		}},
		{"messages", func(i int) {
			require.NoError(t, r.s.Push(someone, PushRequest{Queue: name("m", i/5000), Partition: "p", Payloads: payload}))
		}},
		{"deliveries", func(i int) {
			if i%5000 == 0 {
				d, err := r.s.Pop(context.Background(), someone, PopRequest{Queue: name("m", i/5000), Batch: 5000})
				require.NoError(t, err)
				d.Messages = nil
				kept = append(kept, d)
			}
		}},
	} {
		h, b := heap(), r.s.Stats().Bytes
		for i := range n {
			if c.what == "partitions" && i == 10_000 {
				break
			}
			c.do(i)
		}
		took, charged := heap()-h, r.s.Stats().Bytes-b
		t.Logf("%-36s %4d bytes each, charged %4d", c.what, took/n, charged/n)
		require.Less(t, float64(took), 1.5*float64(charged), c.what)
	}
	runtime.KeepAlive(kept)
}

// Goal: an implicit queue that is empty and unpolled for 300 s is collected; a poll, a parked pop, a message or a
// declaration keeps it (S-eph-2).
func TestCollection(t *testing.T) {
	r := newRig(t, Options{})
	there := func(names ...string) {
		t.Helper()
		var have []string
		for _, q := range r.s.Queues(someone) {
			have = append(have, q.Name)
		}
		require.Equal(t, names, have)
	}
	r.declare("declared", Settings{})
	r.push("declared", "1")
	r.ack("declared", r.pop("declared", 1), Completed)
	r.pop("polled", 1)
	r.pop("quiet", 1)
	r.push("stored", "1")
	waits := r.park(request("waits", 1), MaxWait)
	r.advance(IdleAfter - time.Second)
	r.pop("polled", 1)
	r.advance(time.Second - time.Microsecond)
	there("declared", "polled", "quiet", "stored", "waits")
	r.advance(time.Microsecond)
	require.Equal(t, "", waits.got())
	there("declared", "polled", "stored", "waits")
	r.advance(IdleAfter - time.Second)
	there("declared", "stored", "waits")
	r.advance(time.Second)
	there("declared", "stored")
	d := r.pop("stored", 1)
	require.Equal(t, "e:abc:p:0", d.Messages[0].ID)
	r.ack("stored", d, Completed)
	r.advance(IdleAfter)
	there("declared")
	require.Equal(t, 0, r.s.Queues(someone)[0].Partitions, "idle partitions go with their ids")
	r.push("stored", "2")
	require.Equal(t, "unknown", r.ack("stored", d, Completed))
	require.NotEqual(t, "e:abc:p:0", r.pop("stored", 1).Messages[0].ID, "an id is never used twice")
	require.Equal(t, uint64(4), r.s.Stats().Collected)
}

// Goal: a group that nobody polls is forgotten, so that it keeps nothing; while it works under a lease it is not.
func TestForgottenGroups(t *testing.T) {
	r := newRig(t, Options{})
	r.declare("q", Settings{LeaseSeconds: 3600, RetryLimit: 5})
	r.push("q/a", "1")
	r.push("q/b", "2")
	work, gone := r.pop("q@work", 9), r.pop("q/a@gone", 9)
	r.ack("q@gone", gone, Completed)
	r.pop("q@fan", 9)
	r.ack("q@other", r.pop("q@other", 9), Completed)
	r.advance(IdleAfter)
	depth, err := r.s.Depth(someone, "q", nil)
	require.NoError(t, err)
	require.Equal(t, []GroupDepth{{"fan", 2, 0}, {"work", 2, 0}}, depth.PerGroup, "both have leases")
	require.Equal(t, "acked acked", r.ack("q@work", work, Completed))
	r.advance(3600 * time.Second)
	r.advance(IdleAfter)
	require.Equal(t, 0, r.s.Queues(someone)[0].Groups)
	require.Equal(t, "1 2", got(r.pop("q@new", 9)), "what nobody reads stays for who comes")
}

// Goal: reset drops messages and leases and keeps groups and parked pops; delete ends everything (S-eph-15). Counters of
// other tenants and queues of the same name are not touched.
func TestResetAndDelete(t *testing.T) {
	r := newRig(t, Options{})
	foreign := format.Tenant{9}
	require.NoError(t, r.s.Push(foreign, PushRequest{Queue: "q", Partition: "p", Payloads: [][]byte{[]byte("theirs")}}))
	r.push("q", "1", "2", "3")
	d := r.pop("q@g", 2)
	n, err := r.s.Reset(someone, "q")
	require.NoError(t, err)
	require.Equal(t, int64(3), n)
	r.check()
	require.Equal(t, "unknown unknown", r.ack("q@g", d, Completed))
	d.Abandon()
	r.check()
	p := r.park(request("q@g", 1), time.Minute)
	n, err = r.s.Reset(someone, "q")
	require.NoError(t, err)
	require.Zero(t, n)
	require.True(t, p.waits())
	existed, err := r.s.Delete(someone, "q")
	require.NoError(t, err)
	require.True(t, existed)
	r.check()
	require.Equal(t, "", p.got())
	existed, err = r.s.Delete(someone, "q")
	require.NoError(t, err)
	require.False(t, existed)
	_, err = r.s.Depth(someone, "q", nil)
	refused(t, NotFound, err)
	theirs, err := r.s.Pop(context.Background(), foreign, request("q", 9))
	require.NoError(t, err)
	require.Equal(t, "theirs", got(theirs))
	out, err := r.s.Ack(someone, "q", "", []Ack{{ID: theirs.Messages[0].ID}})
	require.NoError(t, err)
	require.Equal(t, []Outcome{Unknown}, out, "a foreign message does not exist")
}

// Goal: depth counts what a group has before it, by partition, at most a thousand of them.
func TestDepth(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 1200 {
		require.NoError(t, r.s.Push(someone, PushRequest{Queue: "q", Partition: fmt.Sprintf("p%04d", i), Payloads: [][]byte{[]byte("xx")}}))
	}
	r.check()
	d := r.pop("q@g", 100)
	r.ack("q@g", d, Completed)
	r.pop("q@g", 50)
	group := "g"
	depth, err := r.s.Depth(someone, "q", &group)
	require.NoError(t, err)
	require.Equal(t, int64(1100), depth.Pending)
	require.Equal(t, int64(2200), depth.PendingBytes)
	require.Equal(t, 1100, depth.PartitionsPending)
	require.Len(t, depth.Parts, MaxListed)
	require.Equal(t, PartDepth{"p0100", 1, 2}, depth.Parts[0])
	never := "never"
	depth, err = r.s.Depth(someone, "q", &never)
	require.NoError(t, err)
	require.Equal(t, int64(1100), depth.Pending)
}
