package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// snapshotPage reads a page of keys that begin with a.
func (r *rig) snapshotPage(after, snapshot string, limit int) (engine.KVItem, error) {
	items, err := r.node.Keyed().KV(r.t.Context(), someone, []engine.KV{{Kind: engine.KVPrefix, Namespace: "n", Key: "a", After: after,
		Limit: limit, Snapshot: snapshot}})
	if err != nil {
		return engine.KVItem{}, err
	}
	return items[0], nil
}

func (r *rig) put(key, value string) {
	r.t.Helper()
	_, err := r.atomic(someone, &engine.KV{Kind: engine.KVPut, Namespace: "n", Key: key, Value: []byte(value)})
	require.NoError(r.t, err)
}

func expired(err error) bool { return errors.Is(err, &engine.Error{Code: engine.CodeSnapshotExpired}) }

// TestSnapshotPages: whatever is written between pages, and with checkpoints anywhere between them, the pages of a
// snapshot together are the rows of the moment of the first one, or the listing is refused.
func TestSnapshotPages(t *testing.T) {
	r, _ := withKeyed(t)
	r.open()
	defer func() { r.close() }()
	random := rand.New(rand.NewPCG(1, 2))
	state := map[string]string{}
	change := func() {
		key := fmt.Sprintf("a%02d", random.IntN(40))
		if state[key] != "" && random.IntN(3) == 0 {
			_, err := r.atomic(someone, &engine.KV{Kind: engine.KVDelete, Namespace: "n", Key: key})
			require.NoError(t, err)
			delete(state, key)
			return
		}
		state[key] = fmt.Sprint(random.Uint32())
		r.put(key, state[key])
	}
	whole, refused, flushed := 0, 0, 0
	for round := range 120 {
		for range 10 {
			change()
		}
		then := map[string]string{}
		for key, value := range state {
			then[key] = value
		}
		got := map[string]string{}
		item, err := r.snapshotPage("", engine.SnapshotNew, 3)
		require.NoError(t, err)
		for {
			for _, row := range item.Rows {
				got[row.Key] = string(row.Value)
			}
			if !item.Truncated {
				break
			}
			for range random.IntN(4) {
				change()
			}
			if round%3 == 1 && random.IntN(3) == 0 {
				before := r.node.Positions()
				r.tick(1500 * time.Millisecond)
				r.node.SettleFiles()
				if after := r.node.Positions(); len(after) > 0 && (len(before) == 0 || after[0].Keyed > before[0].Keyed) {
					flushed++
				}
			}
			if item, err = r.snapshotPage(item.Next, item.Snapshot, 3); err != nil {
				break
			}
		}
		if err != nil {
			require.True(t, expired(err), "%v", err)
			refused++
			continue
		}
		require.Equal(t, then, got, "round %d", round)
		whole++
	}
	require.Positive(t, flushed, "no checkpoint flushed keys between two pages")
	require.Positive(t, refused, "no listing was overtaken by two checkpoints")
	require.Greater(t, whole, 60)
}

// TestSnapshotUnderWrites: transactions that move an amount between two keys run all the time; every listing of a
// snapshot sums up to the same.
func TestSnapshotUnderWrites(t *testing.T) {
	r := newRig(t)
	r.open()
	defer func() { r.close() }()
	const keys, each = 40, 1000
	for i := range keys {
		r.put(fmt.Sprintf("a%02d", i), fmt.Sprint(each))
	}
	move := func(key int, by int64) *engine.KV {
		return &engine.KV{Kind: engine.KVIncr, Namespace: "n", Key: fmt.Sprintf("a%02d", key), Delta: format.Number{Kind: format.IntNumber, Int: by}}
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 7))
			for {
				select {
				case <-stop:
					return
				default:
				}
				from := random.IntN(keys)
				to := (from + 1 + random.IntN(keys-1)) % keys
				if _, err := r.atomic(someone, move(from, -1), move(to, 1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer writers.Wait()
	defer close(stop)
	for range 50 {
		sum, rows := 0, 0
		item, err := r.snapshotPage("", engine.SnapshotNew, 7)
		for {
			require.NoError(t, err)
			for _, row := range item.Rows {
				n := 0
				_, err := fmt.Sscan(string(row.Value), &n)
				require.NoError(t, err)
				sum += n
				rows++
			}
			if !item.Truncated {
				break
			}
			item, err = r.snapshotPage(item.Next, item.Snapshot, 7)
		}
		require.Equal(t, keys, rows)
		require.Equal(t, keys*each, sum)
	}
}

// TestSnapshotEndsWithItsNode: a restart between two pages is told, also where the next life begins a snapshot of the same
// version.
func TestSnapshotEndsWithItsNode(t *testing.T) {
	r, _ := withKeyed(t)
	r.open()
	for i := range 5 {
		r.put(fmt.Sprint("a", i), "1")
	}
	first, err := r.snapshotPage("", engine.SnapshotNew, 2)
	require.NoError(t, err)
	r.close()
	r.open()
	defer func() { r.close() }()
	again, err := r.snapshotPage("", engine.SnapshotNew, 2)
	require.NoError(t, err)
	version := func(item engine.KVItem) string { v, _, _ := strings.Cut(item.Snapshot, "-"); return v }
	require.Equal(t, version(first), version(again))
	require.NotEqual(t, first.Snapshot, again.Snapshot)
	_, err = r.snapshotPage(first.Next, first.Snapshot, 2)
	require.True(t, expired(err), "%v", err)
	_, err = r.snapshotPage(again.Next, again.Snapshot, 2)
	require.NoError(t, err)
}

// TestSnapshotsAreLetGo: of a tenant's snapshots the ones used last stay, each for a minute after its last page and for ten
// after its first.
func TestSnapshotsAreLetGo(t *testing.T) {
	r := newRig(t)
	r.open()
	defer func() { r.close() }()
	for i := range 5 {
		r.put(fmt.Sprint("a", i), "1")
	}
	begin := func() string {
		item, err := r.snapshotPage("", engine.SnapshotNew, 2)
		require.NoError(t, err)
		return item.Snapshot
	}
	holds := func(token string) bool {
		_, err := r.snapshotPage("a1", token, 2)
		require.True(t, err == nil || expired(err), "%v", err)
		return err == nil
	}
	first, second := begin(), begin()
	for range 14 {
		begin()
	}
	require.True(t, holds(first))
	last := begin()
	require.True(t, holds(first), "a snapshot in use went before one that was not used")
	require.False(t, holds(second), "more than sixteen are held")
	r.clock.Advance(59 * time.Second)
	require.True(t, holds(first))
	r.clock.Advance(time.Second)
	require.False(t, holds(last), "held a minute after its last page")
	for range 18 {
		require.True(t, holds(first))
		r.clock.Advance(30 * time.Second)
	}
	require.False(t, holds(first), "held ten minutes after its first page")
}

// TestNoSnapshotOfAChange: pages of a call that changes something are of the moment of its change.
func TestNoSnapshotOfAChange(t *testing.T) {
	r := newRig(t)
	r.open()
	defer func() { r.close() }()
	_, err := r.atomic(someone, &engine.KV{Kind: engine.KVPut, Namespace: "n", Key: "a", Value: []byte("1")},
		&engine.KV{Kind: engine.KVPrefix, Namespace: "n", Key: "a", Snapshot: engine.SnapshotNew})
	var e *engine.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, engine.CodeBadRequest, e.Code)
	require.Equal(t, "snapshot", e.Field)
	item, err := r.snapshotPage("", "", 2)
	require.NoError(t, err)
	require.Empty(t, item.Rows, "the put of a refused call took place")
}
