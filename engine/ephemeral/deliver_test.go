package ephemeral

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Goal: FIFO per partition, one copy for all groups, competition within one (S-eph-4, S-eph-5).
func TestGroups(t *testing.T) {
	r := newRig(t, Options{})
	r.push("q", "1", "2", "3", "4")
	a, b := r.pop("q@work", 2), r.pop("q@work", 9)
	require.Equal(t, "1 2", got(a))
	require.Equal(t, "3 4", got(b))
	require.Nil(t, r.pop("q@work", 9))
	fan := r.pop("q@fan", 9)
	require.Equal(t, "1 2 3 4", got(fan), "another group reads everything that is there")
	require.Equal(t, int64(4), r.s.Queues(someone)[0].Depth, "one copy")
	require.Equal(t, "acked acked acked acked", r.ack("q@fan", fan, Completed))
	require.Equal(t, int64(4), r.s.Queues(someone)[0].Depth)
	r.ack("q@work", a, Completed)
	require.Equal(t, int64(2), r.s.Queues(someone)[0].Depth, "it goes when all groups have settled it")
	r.ack("q@work", b, Completed)
	require.Equal(t, int64(0), r.s.Queues(someone)[0].Depth)

	r.push("q", "5")
	require.Equal(t, "5", got(r.pop("q", 1)), "queue mode is a group of its own")
	require.Equal(t, "5", got(r.pop("q@work", 1)))
	require.Equal(t, "5", got(r.pop("q@fan", 1)))
}

// Goal: a pop without a partition takes them in turn; one with a partition takes that one only, and keeps messages for
// its group there only.
func TestPartitions(t *testing.T) {
	r := newRig(t, Options{})
	r.push("q/a", "a1", "a2", "a3")
	r.push("q/b", "b1", "b2")
	require.Equal(t, "a1", got(r.pop("q@g", 1)))
	require.Equal(t, "b1", got(r.pop("q@g", 1)))
	require.Equal(t, "a2 a3 b2", got(r.pop("q@g", 9)))
	pinned := r.pop("q/b@pin", 9)
	require.Equal(t, "b1 b2", got(pinned))
	require.Equal(t, "b", pinned.Messages[0].Partition)
	d, err := r.s.Depth(someone, "q", nil)
	require.NoError(t, err)
	require.Equal(t, []GroupDepth{{"g", 5, 0}, {"pin", 2, 0}}, d.PerGroup)
	r.push("q/a", "a4")
	require.Nil(t, r.pop("q/b@pin", 9))
	require.Equal(t, "a1 a2 a3 a4", got(r.pop("q@pin", 9)), "now it reads everything")
}

// Goal: a lease ends after 30 s, to the microsecond; the message comes back before newer ones with attempts + 1, and is
// dropped and counted after the fifth failed delivery (S-eph-6).
func TestLeases(t *testing.T) {
	r := newRig(t, Options{})
	r.push("q", "1", "2")
	for failed := range 5 {
		d := r.pop("q", 1)
		require.Equal(t, uint32(failed), d.Messages[0].Failed)
		require.Equal(t, "1", string(d.Messages[0].Payload), "what came back goes first")
		r.advance(30*time.Second - time.Microsecond)
		require.Equal(t, "2", got(r.pop("q", 9)))
		r.s.Reset(someone, "other")
		two := r.pop("q", 9)
		require.Nil(t, two)
		r.advance(time.Microsecond)
		if failed < 4 {
			require.Equal(t, "stale", r.ack("q", d, Completed), "its lease ran out")
		} else {
			require.Equal(t, "unknown", r.ack("q", d, Completed), "it is dropped")
		}
		// Give "2" back uncounted for the next round.
		r.advance(0)
		for _, c := range r.s.find(someone, "q").groups[""].cursors {
			for _, held := range c.held {
				if held.lease.in() {
					(&Delivery{store: r.s, turns: []turn{{held, held.turn}}}).Abandon()
				}
			}
		}
	}
	require.Equal(t, "2", got(r.pop("q", 9)))
	require.Equal(t, Drops{Retry: 1}, r.s.Queues(someone)[0].Drops)
}

// Goal: failed and retry give a message back at once, counted; each outcome is told per id (S-eph-9).
func TestOutcomes(t *testing.T) {
	r := newRig(t, Options{})
	r.push("q", "1", "2", "3")
	d := r.pop("q@g", 9)
	require.Equal(t, "redelivered redelivered redelivered", r.ack("q@g", d, Failed))
	require.Equal(t, "stale stale stale", r.ack("q@g", d, Completed), "given back")
	again := r.pop("q@g", 9)
	require.Equal(t, "1!1 2!1 3!1", got(again))
	require.Equal(t, "unknown unknown unknown", r.ack("q@other", again, Completed))
	require.Equal(t, "unknown unknown unknown", r.ack("nowhere@g", again, Completed))
	require.Equal(t, "acked acked acked", r.ack("q@g", again, Completed))
	require.Equal(t, "unknown unknown unknown", r.ack("q@g", again, Completed), "settled")
	r.push("q", "4")
	for id, want := range map[string]Outcome{
		"e:abc:p:3": Unknown, "e:abd:p:0": Stale, "e:abc:p:03": Unknown, "e:abc:p:": Unknown, "e:abc:p:18446744073709551616": Unknown,
		"": Unknown, "e:": Unknown, "e:zz:p:1": Unknown, "e:1:": Unknown, "x": Unknown, "e:abc:nowhere:3": Unknown, "e:abc:p:-1": Unknown,
	} {
		out, err := r.s.Ack(someone, "q", "g", []Ack{{ID: id}})
		require.NoError(t, err)
		require.Equal(t, []Outcome{want}, out, "%q", id)
	}
	require.Equal(t, "e:abc:p:3", r.pop("q@g", 1).Messages[0].ID)
}

// Goal: retryLimit is how many failed deliveries a message survives less one; 0 is as 1.
func TestRetryLimit(t *testing.T) {
	for limit, deliveries := range map[int64]int{0: 1, 1: 1, 3: 3} {
		r := newRig(t, Options{})
		r.declare("q", Settings{RetryLimit: limit})
		r.push("q", "x")
		n := 0
		for d := r.pop("q", 1); d != nil; d = r.pop("q", 1) {
			n++
			require.Equal(t, "redelivered", r.ack("q", d, Retry))
		}
		require.Equal(t, deliveries, n, "limit %d", limit)
		require.Equal(t, uint64(1), r.s.Stats().Dropped.Retry)
	}
}

// Goal: commit on delivery settles when the answer left, gives back uncounted when it did not, and never hands out
// twice what may have arrived.
func TestCommitOnDelivery(t *testing.T) {
	r := newRig(t, Options{})
	r.push("q", "1", "2", "3")
	q := request("q", 1)
	q.CommitOnDelivery = true
	lost := r.popRequest(q)
	lost.Abandon()
	r.check()
	sent := r.popRequest(q)
	require.Equal(t, "1", got(sent), "uncounted")
	sent.Delivered()
	r.check()
	silent := r.popRequest(q)
	require.Equal(t, "2", got(silent))
	r.advance(31 * time.Second)
	require.Equal(t, "3", got(r.popRequest(q)))
	require.Equal(t, int64(1), r.s.Queues(someone)[0].Depth)
	silent.Abandon()
	silent.Delivered()
	r.check()
	require.Equal(t, "unknown", r.ack("q", sent, Completed))
}

// Goal: an abandoned delivery gives back only what is still leased by it.
func TestAbandon(t *testing.T) {
	r := newRig(t, Options{})
	r.push("q", "1", "2", "3")
	d := r.pop("q", 3)
	out, err := r.s.Ack(someone, "q", "", []Ack{{ID: d.Messages[0].ID}, {ID: d.Messages[1].ID, Status: Failed}})
	require.NoError(t, err)
	require.Equal(t, []Outcome{Acked, Redelivered}, out)
	other := r.pop("q", 1)
	require.Equal(t, "2!1", got(other))
	d.Abandon()
	r.check()
	require.Equal(t, "3", got(r.pop("q", 9)), "2 is another's now")
	r.advance(time.Minute)
	other.Abandon()
	require.Equal(t, "2!2 3!1", got(r.pop("q", 9)))
}

// Goal: ttl drops messages to the microsecond, whoever holds them, and counts them; a group that had not settled them
// counts them as skipped (S-eph-8).
func TestTTL(t *testing.T) {
	r := newRig(t, Options{})
	r.declare("q", Settings{TTLSeconds: 10})
	r.push("q", "1")
	r.advance(4 * time.Second)
	r.push("q", "2", "3")
	d := r.pop("q@g", 2)
	require.Equal(t, "1 2", got(d))
	r.advance(6*time.Second - time.Microsecond)
	require.Equal(t, int64(3), r.s.Queues(someone)[0].Depth)
	r.advance(time.Microsecond)
	require.Equal(t, int64(2), r.s.Queues(someone)[0].Depth)
	require.Equal(t, "unknown acked", r.ack("q@g", d, Completed))
	r.advance(4 * time.Second)
	require.Nil(t, r.pop("q@g", 1))
	require.Equal(t, Drops{TTL: 2}, r.s.Queues(someone)[0].Drops)
	depth, err := r.s.Depth(someone, "q", nil)
	require.NoError(t, err)
	require.Equal(t, []GroupDepth{{"g", 0, 2}}, depth.PerGroup)

	r.push("q", "4")
	r.advance(5 * time.Second)
	r.declare("q", Settings{TTLSeconds: 3})
	r.advance(0)
	require.Nil(t, r.pop("q@g", 1), "a shorter ttl acts on what is there")
}
