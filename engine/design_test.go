package engine_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/vfs"
	"queen/engine/vfs/errorfs"
)

var duplicateIDs = flag.Int("duplicates", 2000, "ids of TestDuplicatesOfAColdNode; the long variant has 40086")

// TestStoppedForADay: possession does not run while a node is stopped, the calendar does: a lease is alive, a
// delay is over, a duplicate is new, retention has taken what is old (engine design, test 5).
func TestStoppedForADay(t *testing.T) {
	r := newRig(t)
	r.open()
	o := &overtaken{r}
	o.configure(format.OptDedupWindowSeconds|format.OptMaxWaitTimeSeconds,
		format.QueueOptions{DedupWindowSeconds: 3600, MaxWaitTimeSeconds: 2 * 86400})
	_, err := r.node.Catalog().Configure(t.Context(), someone, engine.ConfigureRequest{Queue: "slow",
		Patch: format.QueueOptions{Set: format.OptDelayedProcessing, DelayedProcessing: 3600}})
	require.NoError(t, err)
	require.NoError(t, r.pushID("p", "first", "id"))
	require.NoError(t, r.pushID("p", "again", "id"))
	require.Len(t, r.pushed["p"], 1, "a duplicate within the window")
	_, err = r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "slow", Partition: "p",
		Messages: []engine.Message{{Payload: []byte("delayed")}}}}})
	require.NoError(t, err)
	held, err := r.node.Pop(t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Lease: time.Minute})
	require.NoError(t, err)
	slow := engine.PopRequest{Scope: engine.Scope{Queue: "slow"}}
	d, err := r.node.Pop(t.Context(), someone, slow)
	require.NoError(t, err)
	require.Nil(t, d, "the delay is not over")

	r.close()
	r.clock.Advance(24 * time.Hour)
	r.open()
	r.node.Settle()

	other, err := r.node.Pop(t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}})
	require.NoError(t, err)
	require.Nil(t, other, "the lease is in force: nobody else gets the message")
	res, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: held.Claims[0].PartitionID,
		Lease: held.Lease, HasOffset: true, Offset: 0, Status: format.AckCompleted}}})
	require.NoError(t, err)
	require.Nil(t, res[0].Err, "its holder may ack")
	d, err = r.node.Pop(t.Context(), someone, slow)
	require.NoError(t, err)
	require.NotNil(t, d, "the delay is over")
	d.Abandon()
	require.NoError(t, r.pushID("p", "new", "id"))
	require.Len(t, r.pushed["p"], 2, "the window has passed")

	r.close()
	r.clock.Advance(36 * time.Hour)
	r.open()
	r.node.Settle()
	start, rest, err := r.read("p")
	require.NoError(t, err)
	require.Equal(t, 1, start, "retention has taken the first")
	require.Equal(t, []string{"new"}, rest)
	r.close()
}

// TestDuplicatesOfAColdNode: ids far behind the resident ones are judged after a restart with at most one read
// each, and with none where they are new (engine design, test 9).
func TestDuplicatesOfAColdNode(t *testing.T) {
	r := newRig(t)
	var reads atomic.Int64
	r.config = func(c *engine.Config) {
		c.FS = vfs.NewLogging(r.fs, true, func(line string) {
			if strings.HasPrefix(line, "read: data/ids-") {
				reads.Add(1)
			}
		})
	}
	r.open()
	o := &overtaken{r}
	o.configure(format.OptDedupWindowSeconds, format.QueueOptions{DedupWindowSeconds: 7 * 86400})
	push := func(round string) (duplicates int) {
		const batch = 50
		for i := 0; i < *duplicateIDs; i += batch {
			add := &engine.Append{Queue: "q", Partition: fmt.Sprint("p", i/batch%7)}
			for k := range batch {
				add.Messages = append(add.Messages, engine.Message{TransactionID: fmt.Sprintf("%s-%d", round, i+k)})
			}
			out, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{add}})
			require.NoError(t, err)
			for _, m := range out[0].Messages {
				if m.Status == engine.Duplicate {
					duplicates++
				}
			}
		}
		return duplicates
	}
	require.Zero(t, push("a"))
	for i := range 12 { // chunks, until none of the ids is resident
		r.mustPush("other", fmt.Sprint(i))
		r.tick(2 * time.Second)
	}
	r.close()
	r.open()
	reads.Store(0)
	require.Equal(t, *duplicateIDs, push("a"))
	require.LessOrEqual(t, reads.Load(), int64(*duplicateIDs), "reads of id runs for %d duplicates", *duplicateIDs)
	require.NotZero(t, reads.Load(), "the ids were still resident")
	cold := reads.Load()
	require.Zero(t, push("b"))
	require.LessOrEqual(t, reads.Load()-cold, int64(*duplicateIDs)/100+10, "filters answer for new ids")
	r.close()
}

// TestCallerGoneWhileIDsLag: a push that waits for the index of older ids ends with its caller.
func TestCallerGoneWhileIDsLag(t *testing.T) {
	r := newRig(t)
	var full atomic.Bool
	r.config = func(c *engine.Config) {
		faulty := errorfs.New(r.fs)
		faulty.Inject(errorfs.Rule{Err: vfs.ErrNoSpace, Match: func(op vfs.Op) bool {
			return full.Load() && op.Kind == vfs.OpCreate && strings.HasPrefix(op.Name, "data/ids-")
		}})
		c.FS = faulty
	}
	r.open()
	full.Store(true)
	for i := range 14 { // chunks: the oldest are resident no more, and their ids are in no run yet
		id := ""
		if i == 0 {
			id = "old"
		}
		require.NoError(t, r.pushID("p", fmt.Sprint(i), id))
		r.tick(2 * time.Second)
	}
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	armed := r.clock.Armed()
	go func() {
		_, err := r.node.Do(ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "q", Partition: "p",
			Messages: []engine.Message{{TransactionID: "late"}}}}})
		answered <- err
	}()
	r.clock.WaitArmed(armed + 1) // it waits
	cancel()
	<-answered
	full.Store(false)
	r.clock.Advance(time.Minute)
	r.close()
}
