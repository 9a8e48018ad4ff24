package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
)

// Goal: whatever is written, and whenever compaction has its turn, every key's newest record is there, nothing else than
// what the rules let go is missing, offsets and contents are what they were, for every kind of reader; what had its turn and
// is old is gone; and none of it comes back when indexes are made again.
func TestCompactionModel(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		rule := format.QueueOptions{Set: format.OptTombstoneMs | format.OptCompactDirtyPermille, TombstoneMs: 20_000}
		if seed%2 == 1 {
			rule.Set |= format.OptMinCompactionLagMs
			rule.MinCompactionLagMs = 15_000
		}
		b := newTables(t, seed+1, rule)
		for round := range 6 {
			for range 40 {
				b.write()
				if b.rng.IntN(6) == 0 {
					b.tick(time.Duration(b.rng.IntN(1500)) * time.Millisecond)
				}
			}
			if b.rng.IntN(2) == 0 {
				b.fill(time.Second)
			}
			b.works(1 + b.rng.IntN(4))
			for _, part := range b.parts() {
				b.check(fmt.Sprint("seed ", seed, " round ", round), part, 0)
			}
			if b.rng.IntN(3) == 0 {
				b.close()
				b.mixed.open()
			}
		}
		b.finish(fmt.Sprint("seed ", seed))
	}
}

// finish lets everything that was written have its turn, holds what is left against a plain compaction, and makes the
// indexes again.
func (b *tables) finish(what string) {
	b.t.Helper()
	for who := range b.txs {
		b.end(who)
	}
	bounds := map[string]format.Offset{}
	for _, part := range b.parts() {
		bounds[part] = format.Offset(len(b.log[part]))
	}
	for k := 0; !b.isClean(bounds); k++ {
		require.Less(b.t, k, 20, "compaction does not come to the end: %s", what)
		b.fill(20 * time.Second)
		b.works(6)
	}
	before := map[string]seen{}
	for part, bound := range bounds {
		before[part] = b.check(what+" at the end", part, bound)
		require.Less(b.t, len(before[part].all), len(b.log[part])*2/3, "little went")
	}
	b.close()
	b.remake(before)
}

// isClean says that everything up to the bounds had its turn.
func (b *tables) isClean(bounds map[string]format.Offset) bool {
	for part, bound := range bounds {
		if b.node.Compacted("table", part) < bound {
			return false
		}
	}
	return true
}
