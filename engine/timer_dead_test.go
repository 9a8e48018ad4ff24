package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

func later(key string) *engine.Timer {
	return &engine.Timer{Op: format.TimerSchedule, Queue: "q", Key: key, Partition: "p", Delay: time.Second,
		Message: engine.Message{TransactionID: "t-" + key, Payload: []byte(`"secret ` + key + `"`)}}
}

// fill lets partition p of queue q take one message, and gives it that.
func (r *rig) fill() {
	r.t.Helper()
	_, err := r.node.Catalog().Configure(r.t.Context(), someone, engine.ConfigureRequest{Queue: "q",
		Patch: format.QueueOptions{Set: format.OptMaxSize, MaxSize: 1}})
	require.NoError(r.t, err)
	r.mustPush("p", "first")
}

func (r *rig) refusedTimers() []engine.DeadLetter {
	r.t.Helper()
	rows, err := r.node.Catalog().DeadLetters(r.t.Context(), someone, engine.DeadLetterFilter{Queue: "q", Group: format.TimerGroup})
	require.NoError(r.t, err)
	return rows
}

// Goal: a timer that can not fire is tried five times, whatever restarts lie between, and is a dead letter then, which
// outlives them as well and leaves by a redrive (S-tmr-17). Method: a stop or a kill after every try.
func TestDeadTimerOutlivesKills(t *testing.T) {
	r, _ := withKeyed(t)
	r.open()
	r.fill()
	res, err := r.atomic(someone, later("k"))
	require.NoError(t, err)
	for try := range 8 {
		r.tick(time.Minute)
		if dead := r.refusedTimers(); try < 4 {
			require.Empty(t, dead, "try %d", try)
		} else {
			require.Len(t, dead, 1, "try %d", try)
			d := dead[0]
			require.Equal(t, "k", d.Timer)
			require.EqualValues(t, 5, d.Retries)
			require.Contains(t, d.Error, "maxSize")
			require.Equal(t, res[0].Timer.MessageID, d.Message.ID)
			require.Equal(t, `"secret k"`, string(d.Message.Payload))
		}
		if try%2 == 1 {
			r.cut()
		} else {
			r.close()
		}
		r.open()
	}
	if r.node.Positions()[0].Keyed == 0 {
		t.Fatal("no checkpoint flushed keyed rows")
	}
	_, found, err := r.node.Keyed().Timer(t.Context(), someone, "q", "k")
	require.NoError(t, err)
	require.False(t, found)
	d := r.refusedTimers()[0]
	detail, err := r.node.Inspect().Message(t.Context(), someone, d.PartitionID, "t-k")
	require.NoError(t, err)
	require.Equal(t, engine.DeadState, detail.State)
	out, err := r.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Redrive{DeadLetter: d.ID, Partition: "free", ToPart: true}}})
	require.NoError(t, err)
	require.Nil(t, out[0].Err)
	require.Empty(t, r.refusedTimers())
	_, got, err := r.read("free")
	require.NoError(t, err)
	require.Equal(t, []string{`"secret k"`}, got)
	r.close()
}

// Goal: what the moment refuses is not counted. Method: a queue whose key is not loaded, for many tries.
func TestTimerOutwaitsAMissingKey(t *testing.T) {
	v := newVault(t, ringOf(t, 1))
	v.encrypt("q", true)
	_, err := v.atomic(someone, later("k"))
	require.NoError(t, err)
	v.ring = ringOf(t, 2)
	for range 12 {
		v.tick(2 * time.Minute)
	}
	info, found, err := v.node.Keyed().Timer(t.Context(), someone, "q", "k")
	require.True(t, isCode(err, engine.CodeEncryption) || found && info.Attempts > 5, "%+v, %v, %v", info, found, err)
	require.Empty(t, v.refusedTimers())
	v.ring = ringOf(t, 1)
	v.tick(2 * time.Minute)
	got, bad := v.readAt("q", 0)
	require.Nil(t, bad)
	require.Equal(t, `"secret k"`, got)
}

// Goal: a dead letter of an encrypted queue is encrypted, also of a timer that is older than the queue's wish.
func TestDeadTimerIsSealed(t *testing.T) {
	v := newVault(t, ringOf(t, 1))
	v.fill()
	_, err := v.atomic(someone, later("k"))
	require.NoError(t, err)
	v.encrypt("q", true)
	for range 5 {
		v.tick(time.Minute)
	}
	dead := v.refusedTimers()
	require.Len(t, dead, 1)
	require.Equal(t, `"secret k"`, string(dead[0].Message.Payload))
	v.ring = ringOf(t, 2)
	dead = v.refusedTimers()
	require.Len(t, dead, 1)
	require.Equal(t, "null", string(dead[0].Message.Payload))
	require.Contains(t, dead[0].Error, "the key 1 is not loaded")
}

// Goal: of timers that are due an entry takes some megabytes, one at least, and no more are read than that, but for one. What can not be
// read is put off with the timers around it; one that was put off and cut away had ended the process at every start.
func TestFiresAreRead(t *testing.T) {
	const mb = 1 << 20
	for _, x := range []struct {
		sizes     []int
		due, read int
		off       []int
	}{
		{[]int{mb, mb, mb, mb}, 4, 4, nil},
		{[]int{-1, mb, mb, mb, mb, mb, -1, mb}, 5, 6, []int{0}},
		{[]int{mb, mb, mb, -1, mb, 1, mb}, 5, 6, []int{3}},
		{[]int{5 * mb, -1, 1}, 2, 3, []int{1}},
		{[]int{-1, -1}, 2, 2, []int{0, 1}},
		{nil, 0, 0, nil},
	} {
		due, off, read := engine.ReadFires(x.sizes)
		require.Equal(t, x.due, due, "%v", x.sizes)
		require.Equal(t, x.off, off, "%v", x.sizes)
		require.Equal(t, x.read, read, "%v", x.sizes)
	}
}
