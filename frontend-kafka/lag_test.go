package frontendkafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Goal: who is late, and whether it comes closer, is told from fetches; not late is who waits for records or takes all there are, who
// is slow by itself, and who reads history, until it has come to the end once.
func TestLag(t *testing.T) {
	const most = 500 * time.Millisecond
	type step struct {
		after, served time.Duration
		look
		want  verdict
		lacks float64
	}
	late := func(behind time.Duration, written, given int64) look {
		return look{rest: true, late: true, behind: behind, written: written, given: given}
	}
	history := look{rest: true}
	ms := time.Millisecond
	for name, steps := range map[string][]step{
		"it falls behind": {
			{100 * ms, 90 * ms, late(250*ms, 0, 0), lagNone, 0},
			{100 * ms, 90 * ms, late(300*ms, 0, 0), lagOpen, 0},
			{100 * ms, 90 * ms, late(610*ms, 10, 8), lagOpen, 0},
			{200 * ms, 90 * ms, late(650*ms, 30, 12), lagLate, 0.5},
			{300 * ms, 90 * ms, late(640*ms, 10, 10), lagLate, 0},
			{300 * ms, 90 * ms, late(600*ms, 10, 12), lagLate, -0.2},
			{300 * ms, 90 * ms, late(590*ms, 10, 50), lagLate, -1},
			{300 * ms, 90 * ms, late(580*ms, 0, 50), lagLate, -1},
			{300 * ms, 90 * ms, look{}, lagNone, 0},
		},
		"an ended transaction": {
			{100 * ms, 90 * ms, late(20*time.Second, 0, 0), lagOpen, 0},
			{300 * ms, 90 * ms, late(15*time.Second, 10, 500), lagLate, -1},
			{100 * ms, 90 * ms, look{}, lagNone, 0},
		},
		"other partitions every time": {
			{300 * ms, 290 * ms, late(600*ms, 0, 0), lagOpen, 0},
			{300 * ms, 290 * ms, late(600*ms, 0, 0), lagOpen, 0},
			{300 * ms, 290 * ms, late(600*ms, 10, 5), lagLate, 0.5},
		},
		"slow by itself": {
			{time.Second, 100 * ms, late(time.Second, 0, 0), lagOpen, 0},
			{time.Second, 100 * ms, late(2*time.Second, 10, 5), lagNone, 0},
			{time.Second, 260 * ms, late(3*time.Second, 10, 5), lagLate, 0.5},
		},
		"it waits": {
			{100 * ms, 90 * ms, late(600*ms, 0, 0), lagOpen, 0},
			{time.Second, 990 * ms, look{waited: true, rest: true, late: true, behind: time.Second, written: 9}, lagNone, 0},
			{300 * ms, 290 * ms, late(900*ms, 10, 5), lagOpen, 0},
		},
		"history": {
			{300 * ms, 290 * ms, history, lagNone, 0},
			{300 * ms, 290 * ms, late(29*time.Second, 10, 5), lagNone, 0},
			{300 * ms, 290 * ms, late(2*time.Second, 10, 5), lagNone, 0},
			{300 * ms, 290 * ms, look{}, lagNone, 0},
			{300 * ms, 290 * ms, late(2*time.Second, 0, 0), lagOpen, 0},
			{300 * ms, 290 * ms, late(2*time.Second, 10, 5), lagLate, 0.5},
		},
		"lost": {
			{300 * ms, 290 * ms, late(29*time.Second, 0, 0), lagOpen, 0},
			{300 * ms, 290 * ms, late(29*time.Second, 10, 5), lagLate, 0.5},
			{300 * ms, 290 * ms, history, lagNone, 0},
			{300 * ms, 290 * ms, late(29*time.Second, 10, 5), lagNone, 0},
		},
	} {
		l, now := lag{}, int64(0)
		for i, s := range steps {
			now += s.after.Microseconds()
			s.look.now, s.look.served = now, s.served.Microseconds()
			v, lacks := l.judge(s.look, most)
			require.Equal(t, s.want, v, "%s, step %d", name, i)
			require.InDelta(t, s.lacks, lacks, 1e-9, "%s, step %d", name, i)
		}
	}
}

// Goal: progress is counted between two looks at the same partition, whichever others a client names in between; what goes back
// counts nothing, and what is remembered is bounded.
func TestLagProgress(t *testing.T) {
	var l lag
	look := func(num int32, end, next int64) [2]int64 {
		w, g := l.progress(lagPart{"t", num}, lagSeen{end, next})
		return [2]int64{w, g}
	}
	require.Equal(t, [2]int64{}, look(0, 100, 10))
	require.Equal(t, [2]int64{}, look(1, 200, 10))
	require.Equal(t, [2]int64{50, 20}, look(0, 150, 30))
	require.Equal(t, [2]int64{100, 5}, look(1, 300, 15))
	require.Equal(t, [2]int64{}, look(0, 160, 20), "read again from before")
	require.Equal(t, [2]int64{}, look(0, 5, 1), "the topic was made anew")
	require.Equal(t, [2]int64{1, 1}, look(0, 6, 2))
	for i := range int32(2 * lagParts) {
		look(i, 10, 5)
	}
	require.Len(t, l.seen, lagParts)
	l.end()
	require.Equal(t, [2]int64{}, look(0, 100, 10))
}
