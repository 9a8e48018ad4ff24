package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
	"queen/engine/logstore"
)

// Goal: a walk over the log takes for a Mark only what apply took for one. A leader that lost its epoch may have proposed
// a Mark whose number was due; it was refused, the next leader's has the same number. Method: both before the walk.
func TestRefusedMark(t *testing.T) {
	var buf format.CommandBuf
	buf.AddMark(&format.Mark{Number: 16})
	var b format.EntryBuilder
	b.Begin(format.EntryHeader{Epoch: 1})
	b.Add(&buf)
	e, err := format.ParseEntryHead(b.Finish(nil))
	require.NoError(t, err)
	refused := format.AppendOutcome(nil, &format.Results{Refused: format.CodeMoved})

	w := logWalk{counting: true, number: 15}
	require.Nil(t, w.markAt(&logstore.View{Index: 90, Outcome: refused}, &e), "a refused entry is no Mark")
	m := w.markAt(&logstore.View{Index: 100}, &e)
	require.NotNil(t, m)
	require.Equal(t, format.Index(100), m.Index)

	w.marks = []format.ManifestMark{{Number: 16, Index: 100}}
	require.Nil(t, w.markAt(&logstore.View{Index: 90}, &e), "the Mark of that number is known to stand elsewhere")
	require.Equal(t, &w.marks[0], w.markAt(&logstore.View{Index: 100}, &e))
}

// Goal: a Mark whose outcome a kill lost, since a checkpoint stood for it already, does not count as a record before which
// no frames were stored.
func TestMarkWithoutOutcomeTellsNoFrames(t *testing.T) {
	var w logWalk
	w.settle(&logstore.View{Index: 5, FramesBefore: 7, Outcome: []byte{}})
	w.settle(&logstore.View{Index: 6}) // the Mark
	require.False(t, w.started)
	require.EqualValues(t, 7, *w.frames)
}
