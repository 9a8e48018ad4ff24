package engine_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
	"queen/engine/vfs/errorfs"
)

// ripeTables is the disk of a node whose table is full of old records, none of which was compacted yet.
func ripeTables(t *testing.T) *tables {
	b := newTables(t, 31, format.QueueOptions{Set: format.OptTombstoneMs | format.OptCompactDirtyPermille, TombstoneMs: 4000})
	b.close()
	b.config = func(c *engine.Config) { c.RetentionEvery = 1000 * time.Hour }
	b.mixed.open()
	for range 3 {
		for range 30 {
			b.write()
		}
		b.fill(time.Second)
	}
	for who := range b.txs {
		b.end(who)
	}
	b.fill(time.Second)
	b.fill(30 * time.Second)
	b.works(4)
	for _, part := range b.parts() {
		require.Len(t, b.check("ripe", part, 0).all, len(b.log[part]))
	}
	b.close()
	return b
}

// tableLife is a node on a disk with the tables, which may end at any operation.
type tableLife struct {
	*mortal
	b *tables
}

func (b *tables) life(fs *vfs.Mem) *tableLife {
	l := &tableLife{mortal: b.later(fs)}
	inner := l.config
	l.config = func(c *engine.Config) {
		inner(c)
		engine.Unpaced(c)
		c.CompactKeys = 30
	}
	o := *b
	o.mixed = &mixed{rig: l.rig, rng: rand.New(rand.NewPCG(1, 2))}
	l.b = &o
	return l
}

// compact opens the node, lets it do what is due, and stops it.
func (l *tableLife) compact() bool {
	return l.runThis(func() error {
		if err := l.reopen(); err != nil {
			return err
		}
		for range 7 {
			l.clock.Advance(3 * time.Second)
			if err := l.settle(); err != nil {
				return err
			}
			if err := l.orDeath(func() error { l.node.SettleFiles(); return nil }); err != nil {
				return err
			}
		}
		return l.stop()
	})
}

// checkAll reads everything, once a pass that the start has begun is over.
func (l *tableLife) checkAll(what string, had bool) {
	l.node.SettleFiles()
	for _, part := range l.b.parts() {
		bound := format.Offset(0)
		if had {
			bound = l.b.stable(part)
		}
		l.b.check(what, part, bound)
	}
}

// judge opens a disk after a crash: the rules hold, also when every index is made again, and compaction comes to its end.
func (l *tableLife) judge(what string, disk *vfs.Mem) {
	t := l.t
	t.Helper()
	for _, bare := range []bool{false, true} {
		what := fmt.Sprintf("%s, bare %v", what, bare)
		o := l.b.life(disk.Crash(vfs.KeepAll()))
		if bare {
			for _, name := range o.files(func(name string) bool { return slices.Contains([]string{".pidx", ".run", ".hsc"}, path.Ext(name)) }) {
				require.NoError(t, o.fs.Remove("data/"+name))
			}
		}
		require.NoError(t, o.tryOpen(), what)
		o.checkAll(what, false)
		o.close()
		require.True(t, o.compact(), "%s: the node does not live on", what)
		require.NoError(t, o.tryOpen(), what)
		o.checkAll(what+", after it lived on", true)
		o.close()
		left := o.files(func(name string) bool { return strings.HasSuffix(name, ".tmp") })
		require.Empty(t, left, what)
	}
}

// TestCompactionCrashes cuts the power at operations all over a life in which a table is compacted, its tombstones go, and its
// segments are given up: nothing that should be there is missing, and nothing that went comes back.
func TestCompactionCrashes(t *testing.T) {
	b := ripeTables(t)
	stop := invariants.CountHits()
	whole := b.life(b.fs.Crash(vfs.KeepAll()))
	require.True(t, whole.compact(), "the node died")
	stop()
	for _, name := range invariants.Failpoints() {
		if strings.HasPrefix(name, "engine.compact.") && invariants.Hits(name) == 0 {
			t.Errorf("%s was not passed", name)
		}
	}
	require.NoError(t, whole.tryOpen())
	whole.checkAll("whole", true)
	whole.close()
	step := *crashStep
	if testing.Short() {
		step *= 5
	}
	points := 0
	for n := int64(1); ; n += step {
		l := b.life(b.fs.Crash(vfs.KeepAll()))
		l.fs.PowerOffAt(n)
		if l.compact() && !l.fs.PoweredOff() {
			break
		}
		points++
		for i, policy := range []vfs.CrashPolicy{vfs.DropUnsynced(), vfs.RandomSubset(uint64(n))} {
			l.judge(fmt.Sprintf("power off at operation %d, policy %d", n, i), l.fs.Crash(policy))
		}
		if l.node != nil {
			go l.node.Kill()
		}
	}
	require.Greater(t, points, 5)
	t.Logf("%d points", points)
}

// TestCompactionWithoutSpace: a disk that is full when something of a compaction is written postpones it; the node lives on,
// and nothing is lost.
func TestCompactionWithoutSpace(t *testing.T) {
	b := ripeTables(t)
	failed := 0
	for _, where := range []string{"blk-*", "seg-*.pidx*", "manifest-*", "blk-*.hsc*"} {
		for _, kind := range []vfs.OpKind{vfs.OpCreate, vfs.OpWrite, vfs.OpWriteSync} {
			for _, nth := range []int64{1, 2, 4} {
				if testing.Short() && nth != 2 {
					continue
				}
				l := b.life(b.fs.Crash(vfs.KeepAll()))
				faulty, hit := errorfs.New(l.fs), false
				faulty.Inject(errorfs.Rule{Match: errorfs.All(errorfs.Kinds(kind), errorfs.Base(where), func(vfs.Op) bool {
					hit = true
					return true
				}), Nth: nth, Err: vfs.ErrNoSpace})
				inner := l.config
				l.config = func(c *engine.Config) { inner(c); c.FS = faulty }
				what := fmt.Sprintf("%v number %d on %s", kind, nth, where)
				require.True(t, l.compact(), "%s: the node died of a full disk", what)
				if hit {
					failed++
					l.judge(what, l.fs.Crash(vfs.KeepAll()))
				}
			}
		}
	}
	require.GreaterOrEqual(t, failed, 4)
}
