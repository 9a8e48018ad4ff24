package batch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// retained reads what is left of a batch.
func retained(t *testing.T, b []byte) (h Header, all []Record) {
	t.Helper()
	h, err := ParseHeader(b)
	require.NoError(t, err)
	require.Len(t, b, h.Size())
	want := h.CRC
	seal(b)
	h, _ = ParseHeader(b)
	require.Equal(t, want, h.CRC)
	require.NoError(t, Records(b, Limits{}, func(r *Record) bool {
		c := Record{OffsetDelta: r.OffsetDelta, Timestamp: r.Timestamp, Key: append([]byte(nil), r.Key...)}
		if r.Value != nil {
			c.Value = append([]byte{}, r.Value...)
		}
		all = append(all, c)
		return true
	}))
	return h, all
}

// Goal: what is kept of a batch is what it was, in its place, under every codec, with and without a delete horizon, and a
// batch of which nothing is left is a header that spans the same offsets.
func TestRetain(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		for _, appendTime := range []bool{false, true} {
			in := Head(40)
			in.Attributes = int16(codec) | flagTransactional
			in.ProducerID, in.ProducerEpoch, in.BaseSequence = 7, 3, 11
			if appendTime {
				in.Attributes |= flagAppendTime
				in.MaxTimestamp = 9000
			}
			w := NewBuilder(nil, in)
			for i := range int32(20) {
				r := Record{OffsetDelta: i, Timestamp: 5000 + int64(i), Key: []byte(fmt.Sprint("k", i)), Value: []byte("value value value")}
				if i%5 == 0 {
					r.Value = nil
				}
				w.Add(&r)
			}
			b, err := w.Finish(0)
			require.NoError(t, err)
			before, all := retained(t, b)
			for _, horizon := range []int64{0, 1234} {
				out, kept, err := Retain([]byte("xx"), b, horizon, Limits{}, func(r *Record) bool { return r.OffsetDelta%3 == 1 })
				require.NoError(t, err)
				require.Equal(t, "xx", string(out[:2]))
				h, left := retained(t, out[2:])
				require.Equal(t, 7, kept)
				var want []Record
				most := NoTimestamp
				for _, r := range all {
					if r.OffsetDelta%3 == 1 {
						want, most = append(want, r), max(most, r.Timestamp)
					}
				}
				require.Equal(t, want, left)
				require.Equal(t, []any{before.BaseOffset, before.LastOffsetDelta, before.ProducerID, before.ProducerEpoch, before.BaseSequence,
					before.Codec(), int32(7), most}, []any{h.BaseOffset, h.LastOffsetDelta, h.ProducerID, h.ProducerEpoch, h.BaseSequence,
					h.Codec(), h.Count, h.MaxTimestamp})
				at, ok := h.DeleteHorizon()
				require.Equal(t, horizon > 0, ok)
				if ok {
					require.Equal(t, horizon, at)
				}
				again, _, err := Retain(nil, out[2:], 0, Limits{}, func(*Record) bool { return true })
				require.NoError(t, err)
				h, left = retained(t, again)
				_, ok = h.DeleteHorizon()
				require.False(t, ok)
				require.Equal(t, want, left)
			}
			out, kept, err := Retain(nil, b, 1234, Limits{}, func(*Record) bool { return false })
			require.NoError(t, err)
			require.Zero(t, kept)
			require.Len(t, out, HeaderBytes)
			h, left := retained(t, out)
			require.Empty(t, left)
			require.Equal(t, []any{before.LastOffsetDelta, NoTimestamp, int64(7), None}, []any{h.LastOffsetDelta, h.MaxTimestamp, h.ProducerID, h.Codec()})
			require.True(t, h.Transactional())
		}
	}
}
