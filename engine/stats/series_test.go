package stats

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func readSeries(s *Series, k SeriesKey, from, to int64) (minutes []int64, sum Counts, ok bool) {
	ok = s.Read(k, from, to, func(m int64, c *Counts) {
		minutes = append(minutes, m)
		sum.Add(c)
	})
	return minutes, sum, ok
}

// Goal: minutes are told apart, a turn of the ring forgets the oldest, and what was never counted is not told as 0.
func TestSeriesTurns(t *testing.T) {
	var s Series
	k := SeriesKey{Queue: 1}
	s.Add(k, 100, &Counts{PushMessages: 3})
	s.Add(k, 102, &Counts{PushMessages: 4, AckFailed: 1})
	s.Add(k, 102, &Counts{PushMessages: 5})
	minutes, sum, ok := readSeries(&s, k, 0, 103)
	require.True(t, ok)
	require.Equal(t, []int64{100, 101, 102, 103}, minutes)
	require.Equal(t, Counts{PushMessages: 12, AckFailed: 1}, sum)
	s.Add(k, 100+SeriesMinutes, &Counts{PopEmpty: 1})
	_, sum, _ = readSeries(&s, k, 100, 100)
	require.Zero(t, sum)
	minutes, sum, _ = readSeries(&s, k, 0, 100+SeriesMinutes)
	require.Len(t, minutes, SeriesMinutes)
	require.Equal(t, Counts{PushMessages: 9, AckFailed: 1, PopEmpty: 1}, sum)
	_, _, ok = readSeries(&s, SeriesKey{Queue: 2}, 0, 200)
	require.False(t, ok)
}

// Goal: the keys are bounded: one more finds room only when another was idle.
func TestSeriesBound(t *testing.T) {
	var s Series
	for i := range uint64(seriesKeys) {
		s.Add(SeriesKey{Queue: i}, int64(i%2)*seriesIdle, &Counts{PushMessages: 1})
	}
	late := SeriesKey{Queue: 1 << 40}
	s.Add(late, seriesIdle, &Counts{PushMessages: 1})
	_, _, ok := readSeries(&s, late, 0, 100)
	require.False(t, ok)
	s.Add(late, seriesIdle+1, &Counts{PushMessages: 1})
	_, sum, ok := readSeries(&s, late, 0, 100)
	require.True(t, ok)
	require.Equal(t, Counts{PushMessages: 1}, sum)
	require.Len(t, s.rings, seriesKeys/2+1)
}

// Goal: ages add up, and of the oldest ones the oldest stays, in a minute and over minutes.
func TestSeriesKeepsMaxima(t *testing.T) {
	var s Series
	k := SeriesKey{Queue: 1}
	s.Add(k, 101, &Counts{PopLag: 5, PopLagMax: 5})
	s.Add(k, 101, &Counts{PopLag: 7, PopLagMax: 4})
	s.Add(k, 102, &Counts{PopLag: 9, PopLagMax: 9})
	_, sum, _ := readSeries(&s, k, 101, 101)
	require.Equal(t, Counts{PopLag: 12, PopLagMax: 5}, sum)
	_, sum, _ = readSeries(&s, k, 0, 103)
	require.Equal(t, Counts{PopLag: 21, PopLagMax: 9}, sum)
}
