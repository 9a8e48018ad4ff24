package engine_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

func plainCommit(group string, positions ...engine.GroupPosition) engine.GroupCommit {
	return engine.GroupCommit{Group: group, Positions: positions, Producer: engine.ProducerRef{ID: engine.NoProducer}}
}

func at(queue, partition string, to format.Offset, note string) engine.GroupPosition {
	return engine.GroupPosition{Queue: queue, Partition: partition, Offset: to, LeaderEpoch: 3, Metadata: note}
}

// Goal: rows of groups and positions with what was said with them outlive clean stops, kills and checkpoints.
func TestGroupsOutliveRestarts(t *testing.T) {
	r := newRig(t)
	r.open()
	_, err := r.node.Catalog().Configure(t.Context(), someone, engine.ConfigureRequest{Queue: "q"})
	require.NoError(t, err)
	want := map[string]engine.GroupOffset{}
	rowAt, rowValue := format.Place{}, ""
	for life := range 6 {
		records := r.node.Records()
		for i := range 5 {
			p := at("q", fmt.Sprint((life*3+i)%7), format.Offset(life+i), "")
			if i%2 == 0 {
				p.Metadata = fmt.Sprint("note ", life, i)
			}
			rowValue = fmt.Sprint("row ", life, i)
			rowAt, err = records.SetGroupRow(t.Context(), someone, engine.GroupRow{Group: "g", Value: []byte(rowValue), At: rowAt})
			require.NoError(t, err)
			c := plainCommit("g", p)
			c.Fenced, c.Row = true, rowAt
			bad, err := records.CommitOffsets(t.Context(), someone, c)
			require.NoError(t, err)
			require.Equal(t, []*engine.Error{nil}, bad)
			want[p.Partition] = engine.GroupOffset{PartitionRef: engine.PartitionRef{Queue: "q", Partition: p.Partition}, Found: true,
				Offset: p.Offset, LeaderEpoch: 3, Metadata: p.Metadata}
			r.tick(1500 * time.Millisecond)
		}
		if life%2 == 0 {
			r.close()
		} else {
			r.cut()
		}
		r.open()
		got := map[string]engine.GroupOffset{}
		rows, err := r.node.Records().Committed(t.Context(), someone, "g", nil)
		require.NoError(t, err)
		for _, row := range rows {
			got[row.Partition] = row
		}
		require.Equal(t, want, got, "life %d", life)
		row, err := r.node.Records().GroupRow(t.Context(), someone, "g")
		require.NoError(t, err)
		require.Equal(t, engine.GroupRow{Group: "g", Value: []byte(rowValue), At: rowAt}, row)
	}
	r.close()
}

// Goal: what CommitOffsets refuses, and that each refusal is its position's alone.
func TestCommitOffsetsRefuses(t *testing.T) {
	r := newRig(t)
	r.open()
	defer r.close()
	records := r.node.Records()
	_, err := r.node.Catalog().Configure(t.Context(), someone, engine.ConfigureRequest{Queue: "q"})
	require.NoError(t, err)
	long := string(make([]byte, format.MaxPositionMetadata+1))
	bad, err := records.CommitOffsets(t.Context(), someone, plainCommit("g", at("q", "0", 0, long), at("none", "0", 0, ""),
		at("q", "1", 7, "m"), at("q", string(make([]byte, 500)), 0, "")))
	require.NoError(t, err)
	require.Equal(t, engine.CodeTooLarge, bad[0].Code)
	require.Equal(t, engine.CodeUnknownQueue, bad[1].Code)
	require.Nil(t, bad[2])
	require.Equal(t, engine.CodeNameTooLong, bad[3].Code)
	refs := []engine.PartitionRef{{Queue: "q", Partition: "0"}, {Queue: "q", Partition: "1"}, {Queue: "none", Partition: "0"}}
	got, err := records.Committed(t.Context(), someone, "g", refs)
	require.NoError(t, err)
	require.Equal(t, []engine.GroupOffset{{PartitionRef: refs[0]},
		{PartitionRef: refs[1], Found: true, Offset: 7, LeaderEpoch: 3, Metadata: "m"}, {PartitionRef: refs[2]}}, got)

	_, err = records.CommitOffsets(t.Context(), someone, plainCommit(""))
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeBadRequest})
	_, err = records.SetGroupRow(t.Context(), someone, engine.GroupRow{Group: string(make([]byte, format.MaxGroupName+1))})
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeNameTooLong})
	_, err = records.SetGroupRow(t.Context(), someone, engine.GroupRow{Group: "g", Value: make([]byte, format.MaxGroupRow+1)})
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeTooLarge})
	_, err = records.GroupRow(t.Context(), someone, "g")
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeNotFound})

	// Without the row a delete still takes the positions; another tenant's group of that name is another one.
	_, err = records.SetGroupRow(t.Context(), engine.Caller{Tenant: format.Tenant{7}}, engine.GroupRow{Group: "g", Delete: true})
	require.NoError(t, err)
	got, err = records.Committed(t.Context(), someone, "g", nil)
	require.NoError(t, err)
	require.Len(t, got, 1)
	_, err = records.SetGroupRow(t.Context(), someone, engine.GroupRow{Group: "g", Delete: true})
	require.NoError(t, err)
	got, err = records.Committed(t.Context(), someone, "g", nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

// Goal: a commit through a stale owner never lands. Method: coordinators take the row from each other at random; the
// offset that each commits is the number of its take-over, so that the group's position may only rise.
func TestStaleCoordinatorIsFenced(t *testing.T) {
	r := newRig(t)
	r.open()
	defer r.close()
	records := r.node.Records()
	_, err := r.node.Catalog().Configure(t.Context(), someone, engine.ConfigureRequest{Queue: "q"})
	require.NoError(t, err)
	var mu sync.Mutex
	highest, fenced := format.Offset(0), 0
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 60 {
				row, err := records.GroupRow(t.Context(), someone, "g")
				if err != nil && !errors.Is(err, &engine.Error{Code: engine.CodeNotFound}) {
					t.Error(err)
					return
				}
				mine := format.Offset(len(row.Value)) + 1
				taken, err := records.SetGroupRow(t.Context(), someone, engine.GroupRow{Group: "g", Value: make([]byte, mine), At: row.At})
				if err != nil {
					continue
				}
				for range 3 {
					c := plainCommit("g", at("q", "0", mine, ""))
					c.Fenced, c.Row = true, taken
					_, err := records.CommitOffsets(t.Context(), someone, c)
					mu.Lock()
					switch {
					case err == nil:
						highest = max(highest, mine)
					case errors.Is(err, &engine.Error{Code: engine.CodeGone}):
						fenced++
					default:
						t.Error(err)
					}
					mu.Unlock()
				}
				mu.Lock()
				got, err := records.Committed(t.Context(), someone, "g", []engine.PartitionRef{{Queue: "q", Partition: "0"}})
				if err != nil || got[0].Found && got[0].Offset < highest {
					t.Errorf("position %+v below %d, %v", got, highest, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("highest %d, fenced %d", highest, fenced)
}

// Goal: who commits positions says nothing of other partitions: a native consumer starts there where the group's first pop
// says and goes on where the commit stands, also after a restart.
func TestCommitDecidesNoStart(t *testing.T) {
	r := newRecordRig(t)
	for _, v := range []string{"a", "b"} {
		r.say("0", v)
		r.say("1", v)
	}
	_, err := r.node.Records().CommitOffsets(t.Context(), someone, plainCommit("g", at("q", "0", 1, "")))
	require.NoError(t, err)
	r.close()
	r.open()
	d, err := r.node.Pop(t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: "g", Batch: 10, Partitions: 4,
		Start: engine.Start{Kind: format.StartAll}})
	require.NoError(t, err)
	require.NotNil(t, d)
	var got []string
	for m, err := range d.Messages() {
		require.NoError(t, err)
		got = append(got, fmt.Sprintf("%s %d=%s", d.Claims[m.Claim].Partition, m.Offset, m.Payload))
	}
	d.Delivered()
	require.ElementsMatch(t, []string{"0 1=b", "1 0=a", "1 1=b"}, got)
}
