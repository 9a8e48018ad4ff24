package replication

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReportGrows: a node reads what one says that knows fewer fields, of which the others are zero, or more, which it skips.
func TestReportGrows(t *testing.T) {
	whole := Report{Node: 3, Flags: ReportFull, Wall: 5, KnownAddress: 7}
	for _, x := range []struct {
		size int
		want Report
	}{
		{reportSize, whole},
		{reportSize - 8, Report{Node: 3, Flags: ReportFull, Wall: 5}},
		{reportSize + 12, whole},
		{0, Report{}},
	} {
		var sent bytes.Buffer
		require.NoError(t, writeAnswer(&sent, whole, nil))
		b := append(sent.Bytes(), make([]byte, 12)...)[:8+x.size]
		binary.LittleEndian.PutUint32(b[4:], uint32(x.size))
		in := bytes.NewReader(append(b, "behind"...))
		got, err := readAnswer(in)
		require.NoError(t, err)
		require.Equal(t, x.want, got)
		rest, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, "behind", string(rest), x.size)
	}
	_, err := readAnswer(bytes.NewReader([]byte{0, 0, 0, 0, 1, 0x10, 0, 0}))
	require.ErrorContains(t, err, "a report of 4097 bytes")
	_, err = readAnswer(bytes.NewReader([]byte{0, 0, 0, 0, 9, 0, 0, 0, 1}))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
