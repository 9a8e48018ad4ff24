package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
)

var failpointHits = flag.Int("failpoint.hits", 1, "at how many hits of each failpoint the power is cut")

// unpassed are failpoints that this life does not pass, or not always, each with the reason.
var unpassed = map[string]string{
	"engine.retain.asked":          "nothing is written there; TestEvidenceIsOvertaken",
	"engine.trim.asked":            "nothing is written there; TestEvidenceIsOvertaken",
	"engine.pop.evidence-found":    "nothing is written there; TestEvidenceIsOvertaken",
	"engine.relocate.rows-thinned": "it takes a merged run most of whose segments are gone; relocation has a test of its own",
	"engine.pull.block-taken":      "no other node's state is copied; TestImageCrash, replication's TestPullCutOff",
	"engine.pull.marked":           "likewise; TestImageCrashTwice",
	"engine.pull.old-removed":      "likewise",
	"engine.pull.moved":            "likewise",
	"engine.compact.bulk-listed":   "no queue compacts; TestCompactionCrashes",
	"engine.compact.rows-replaced": "no queue compacts; TestCompactionCrashes",
	"logstore.recycle.renamed":     "a memory disk fills the pool of segments before one is given away; logstore tests its crashes",
}

// life is a node with a keyed store on a disk that is cut off at some moment, and what it acknowledged.
type life struct {
	*rig
	keyed string
	ctx   context.Context
	die   context.CancelFunc
	// calls are those that waited no longer waits for; they end when their node is killed.
	calls *sync.WaitGroup
	dead  map[string]bool // reasons of dead letters: true once acknowledged, false while unsure
	gone  map[string]bool // those deleted: true once acknowledged
	flow  int             // messages of the queue that retention empties
}

func newLife(t *testing.T) *life {
	l := &life{rig: newRig(t), calls: &sync.WaitGroup{}, keyed: t.TempDir(), dead: map[string]bool{}, gone: map[string]bool{}}
	l.ctx, l.die = context.WithCancel(context.Background())
	l.config = func(c *engine.Config) {
		c.KeyedDir = l.keyed
		c.CheckpointBytes, c.CheckpointEvery = 96<<10, 10*time.Second
		die := l.die // of this life: what is left of it may come late
		c.Fatal = func(error) { die(); runtime.Goexit() }
	}
	return l
}

// live plays rounds of everything that makes a node write: messages that stay, a firehose that retention
// takes, dead letters filed and deleted, marks, checkpoints, closed and reclaimed segments, stops. False
// when the node died.
func (l *life) live() bool {
	steps := []func(int) error{l.keep, l.hose, l.fileOne, l.forget, l.pass}
	for round := range 24 {
		if round%8 == 0 {
			if l.node != nil && l.waited(func() error { return l.node.Close(l.ctx) }) != nil {
				return false
			}
			opened := *l.rig
			l.node = nil
			if l.waited(opened.tryOpen) != nil {
				return false
			}
			l.seed, l.node = opened.seed, opened.node
		}
		for _, step := range steps {
			if l.waited(func() error { return step(round) }) != nil {
				return false
			}
		}
	}
	return l.waited(func() error { return l.node.Close(l.ctx) }) == nil
}

// waited runs f until it ends or the node does.
func (l *life) waited(f func() error) error {
	done := make(chan error, 1)
	l.calls.Go(func() {
		err := errors.New("the node died")
		defer func() { done <- err }()
		err = f()
	})
	select {
	case err := <-done:
		return errors.Join(err, l.ctx.Err())
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

func (l *life) push(queue, partition, payload string) error {
	out, err := l.node.Do(l.ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: queue, Partition: partition,
		Messages: []engine.Message{{Payload: []byte(payload)}}}}})
	if err != nil {
		return err
	}
	if e := out[0].Messages[0].Err; e != nil {
		return e
	}
	return nil
}

func (l *life) keep(round int) error {
	for i := range 3 {
		payload := fmt.Sprintf("%d/%d", round, i)
		if err := l.push("q", fmt.Sprint("p", i), payload); err != nil {
			return err
		}
		l.pushed[fmt.Sprint("p", i)] = append(l.pushed[fmt.Sprint("p", i)], payload)
	}
	return nil
}

func (l *life) hose(round int) error {
	for _, queue := range []string{"hose", "d", "e"} { // of d and e only the dead letters keep what they file
		if round > 0 {
			break
		}
		_, err := l.node.Catalog().Configure(l.ctx, someone, engine.ConfigureRequest{Queue: queue, Patch: format.QueueOptions{
			Set: format.OptMaxWaitTimeSeconds, MaxWaitTimeSeconds: 5}})
		if err != nil {
			return err
		}
	}
	for range 2 {
		l.flow++
		if err := l.push("hose", "p", noise(l.flow, 100<<10)); err != nil {
			return err
		}
	}
	return nil
}

// fileOne files a message of a queue of its own as a dead letter: of d, of which they are deleted, or of e.
func (l *life) fileOne(round int) error {
	queue := []string{"d", "e"}[round%2]
	reason := fmt.Sprintf("%s %d", queue, round)
	l.dead[reason] = false
	if err := l.push(queue, "p", "body of "+reason); err != nil {
		return err
	}
	d, err := l.node.Pop(l.ctx, someone, engine.PopRequest{Scope: engine.Scope{Queue: queue}, Lease: time.Second, Batch: 1})
	if err != nil || d == nil {
		return errors.Join(errors.New("nothing to pop"), err)
	}
	d.Delivered()
	out, err := l.node.Do(l.ctx, someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: d.Claims[0].PartitionID,
		Lease: d.Lease, HasOffset: true, Offset: d.Claims[0].First, Status: format.AckDLQ, Reason: reason}}})
	if err == nil && out[0].Err != nil {
		return out[0].Err
	}
	l.dead[reason] = err == nil
	return err
}

// forget deletes all dead letters of d now and then, so that their segments can go.
func (l *life) forget(round int) error {
	if round%3 != 2 {
		return nil
	}
	for reason := range l.dead {
		if _, again := l.gone[reason]; !again && strings.HasPrefix(reason, "d") {
			l.gone[reason] = false
		}
	}
	_, err := l.node.Catalog().Purge(l.ctx, someone, "d", nil)
	for reason := range l.gone {
		l.gone[reason] = l.gone[reason] || err == nil
	}
	return err
}

func (l *life) pass(int) error {
	l.clock.Advance(6 * time.Second)
	l.node.Settle()
	l.node.SettleFiles()
	return nil
}

// judge opens what the disk kept: everything acknowledged is there, and nothing that was deleted.
func (l *life) judge(disk *vfs.Mem) error {
	o := &rig{t: l.t, fs: disk, clock: l.clock, seed: l.seed + 1000, pushed: maps.Clone(l.pushed)}
	o.config = func(c *engine.Config) { l.config(c); c.Fatal = func(err error) { panic(err) } }
	if err := o.tryOpen(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer o.close()
	if err := o.check(1); err != nil {
		return err
	}
	rows, err := o.node.Catalog().DeadLetters(l.t.Context(), someone, engine.DeadLetterFilter{Limit: 1000})
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, d := range rows {
		if string(d.Message.Payload) != "body of "+d.Error {
			return fmt.Errorf("dead letter %q has message %.30q", d.Error, d.Message.Payload)
		}
		if found[d.Error] || l.gone[d.Error] {
			return fmt.Errorf("dead letter %q is there twice, or was deleted", d.Error)
		}
		found[d.Error] = true
	}
	for reason, sure := range l.dead {
		if _, deleted := l.gone[reason]; sure && !deleted && !found[reason] {
			return fmt.Errorf("dead letter %q is lost", reason)
		}
	}
	return nil
}

// TestKillAtEveryFailpoint cuts the power at named places all over the life of a node, and again while it
// recovers from that: what was acknowledged is there (storage note, 7.4; engine design, test 13).
func TestKillAtEveryFailpoint(t *testing.T) {
	stop := invariants.CountHits()
	require.True(t, newLife(t).live())
	hits := map[string]int64{}
	for _, name := range invariants.Failpoints() {
		hits[name] = invariants.Hits(name)
	}
	stop()
	for name, n := range hits {
		require.True(t, n > 0 || unpassed[name] != "", "%s is not passed", name)
	}
	for k, name := range slices.Sorted(maps.Keys(hits)) {
		if testing.Short() && k%4 != 0 {
			continue
		}
		for i := range min(int64(*failpointHits), hits[name]) {
			killAt(t, name, 1+(2*i+1)*(hits[name]-1)/(2*int64(*failpointHits)), k)
		}
	}
}

func killAt(t *testing.T, name string, at int64, k int) {
	t.Helper()
	l := newLife(t)
	disarm := invariants.ArmFunc(name, at, func() { l.fs.PowerOffAt(1) })
	ended := l.live()
	disarm()
	if ended && !l.fs.PoweredOff() {
		return // the background came by less often this time
	}
	l.bury(l.node)
	disk := l.fs.Crash(vfs.DropUnsynced())
	if k%2 == 1 {
		disk = l.fs.Crash(vfs.RandomSubset(uint64(at)))
	}
	for _, second := range []int64{1 + at%7, 12 + at%31} { // dies again while it recovers
		l.recoverUntil(disk, second)
		disk = disk.Crash(vfs.RandomSubset(uint64(second)))
	}
	require.NoError(t, l.judge(disk), "power off at hit %d of %s", at, name)
}

// bury ends a node. One that died while it opened keeps its keyed store locked: the next life gets a copy, as
// after the death of a process.
func (l *life) bury(n *engine.Node) {
	if n != nil {
		n.Kill()
		l.calls.Wait()
		return
	}
	next := l.t.TempDir()
	require.NoError(l.t, os.CopyFS(next, os.DirFS(l.keyed)))
	l.keyed = next
}

// recoverUntil opens the node and cuts the power at an operation of its recovery, or soon after it.
func (l *life) recoverUntil(disk *vfs.Mem, op int64) {
	again := *l
	again.ctx, again.die = context.WithCancel(context.Background())
	again.calls = &sync.WaitGroup{}
	defer again.die()
	opened := &rig{t: l.t, fs: disk, clock: l.clock, seed: l.seed + 100 + uint64(op)}
	opened.config = func(c *engine.Config) {
		l.config(c)
		c.Fatal = func(error) { again.die(); runtime.Goexit() }
	}
	disk.PowerOffAt(op)
	node := make(chan *engine.Node, 1)
	open := func() error {
		err := opened.tryOpen()
		node <- opened.node
		return err
	}
	if again.waited(open) == nil {
		disk.PowerOffAt(1)
	}
	select {
	case n := <-node:
		if n != nil {
			again.bury(n) // its own calls: those of a node that died while it opened never end
			return
		}
	default:
	}
	l.bury(nil)
}

// TestTenKillsLeaveNoFiles: a node that dies again and again leaves nothing behind that grows.
func TestTenKillsLeaveNoFiles(t *testing.T) {
	l := newLife(t)
	require.True(t, l.live())
	count := func() int {
		names, err := l.fs.List("data")
		require.NoError(t, err)
		return len(names)
	}
	var after []int
	for kill := range 20 {
		l.ctx, l.die = context.WithCancel(context.Background())
		require.NoError(t, l.tryOpen())
		l.fs.PowerOffAt(int64(20 + 37*kill%200))
		for round := 0; l.ctx.Err() == nil && round < 40; round++ {
			if l.waited(func() error { return errors.Join(l.push("hose", "p", noise(kill*100+round, 50<<10)), l.pass(0)) }) != nil {
				break
			}
		}
		l.bury(l.node)
		l.fs = l.fs.Crash(vfs.RandomSubset(uint64(kill)))
		l.node = nil
		after = append(after, count())
	}
	first, last := slices.Max(after[:10]), slices.Max(after[10:])
	require.LessOrEqual(t, last, first+first/4, "files after each kill: %v", after)
}

// noise is text that does not compress, the same for the same number.
func noise(n, size int) string {
	var b strings.Builder
	for x := uint64(n)*0x9e3779b97f4a7c15 + 1; b.Len() < size; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		fmt.Fprintf(&b, "%016x", x)
	}
	return b.String()
}
