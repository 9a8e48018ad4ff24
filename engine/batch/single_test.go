package batch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: a record alone is what it was in its batch, byte for byte and to the millisecond, under every codec, in a batch that
// a producer may send; what is not there gives none.
func TestSingle(t *testing.T) {
	want := []Record{
		{Timestamp: 5, Key: []byte("k"), Value: []byte("v"), Headers: []RecordHeader{{Key: []byte("h"), Value: []byte{0xff}}, {Key: []byte("h")}}},
		{Timestamp: NoTimestamp, Value: []byte{}},
		{Timestamp: 3, Key: []byte{}},
	}
	for codec := None; codec <= Zstd; codec++ {
		for _, appended := range []bool{false, true} {
			h := Head(40)
			h.Attributes = int16(codec) | flagTransactional
			h.ProducerID, h.ProducerEpoch, h.BaseSequence = 7, 3, 11
			if appended {
				h.Attributes |= flagAppendTime
				h.MaxTimestamp = 9000
			}
			w := NewBuilder(nil, h)
			for i := range want {
				r := want[i]
				r.OffsetDelta = int32(i)
				w.Add(&r)
			}
			b, err := w.Finish(0)
			require.NoError(t, err)
			for i := range want {
				out, ok, err := Single([]byte("xx"), b, int32(i), Limits{}, nil)
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, "xx", string(out[:2]))
				got := 0
				head, err := VerifyRecords(out[2:], Limits{}, func(r *Record) error {
					one := want[i]
					if appended {
						one.Timestamp = 9000
					}
					require.Equal(t, one, *r)
					got++
					return nil
				})
				require.NoError(t, err)
				require.Equal(t, 1, got)
				require.Equal(t, codec, head.Codec())
				require.Equal(t, appended, head.AppendTime())
				require.False(t, head.Transactional())
				require.Equal(t, NoProducer, head.ProducerID)
			}
			out, ok, err := Single(nil, b, int32(len(want)), Limits{}, nil)
			require.NoError(t, err)
			require.False(t, ok)
			require.Empty(t, out)
		}
	}
	_, _, err := Single(nil, []byte("no batch"), 0, Limits{}, nil)
	require.Error(t, err)
}
