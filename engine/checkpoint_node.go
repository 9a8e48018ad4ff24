package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"queen/engine/checkpoint"
	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/keyed"
	"queen/engine/logstore/rows"
	"queen/engine/machine"
	"queen/engine/vfs"
	"queen/sidecar"
)

// Failpoints of a checkpoint, in order.
var (
	failMarkFrozen     = invariants.Register("engine.checkpoint.frozen")
	failOutcomesOut    = invariants.Register("engine.checkpoint.outcomes-flushed")
	failKeyedOut       = invariants.Register("engine.checkpoint.keyed-flushed")
	failFilesOut       = invariants.Register("engine.checkpoint.files-written")
	failManifestOut    = invariants.Register("engine.checkpoint.manifest-switched")
	failOldUnlinked    = invariants.Register("engine.checkpoint.old-unlinked")
	failKeyedDiscarded = invariants.Register("engine.checkpoint.keyed-recorded")
)

// files keeps what a node starts from: checkpoints, the manifest, indexes of closed segments. One
// goroutine writes, off the apply path; the apply goroutine hands it what was frozen at a Mark.
//
// INVARIANT: a position counts once the manifest names it, and the manifest names it only after
// everything it rests on is durable, in the order of write (TestCrashEverywhere).
type files struct {
	n     *Node
	store *keyed.Store // nil when keyed rows have no home on disk
	nudge chan struct{}
	asked chan chan struct{} // closed once what is due was done
	calls chan func()        // run by the goroutine that writes
	quit  chan struct{}
	done  sync.WaitGroup

	mu struct {
		sync.Mutex
		marks  []format.ManifestMark // of the newest chunks, ascending
		chunks map[uint32][]sidecar.Chunk
		stored map[uint32]map[format.QueueID]*sidecar.Queue
		closed map[uint32]bool // segments that have their index files
		job    *checkpointJob  // frozen and not yet written
		base   bool            // the next checkpoint has to be a base
		orphan bool            // the rows since the newest checkpoint are in no delta
		due    bool            // the next Mark makes a checkpoint whatever its distance

		passing bool       // the mover is at work
		passed  *relocated // what it found, until that is done
	}

	// Owned by the apply goroutine.
	bytes   int64 // of the log since the last checkpoint
	entries uint64
	since   int64 // mono reading at the last one
	segment uint32

	// indexed is the newest entry of which the rows are in the index and everything here was noted.
	indexed atomic.Uint64
	// listed is what noteListed found last.
	listed atomic.Uint64
	runs   *rows.Runs

	// Owned by the goroutine that writes.
	manifest  format.Manifest
	digests   keyed.Digests         // of the newest flush of keyed rows
	paced     int                   // bytes since the last pause
	giveAway  map[uint32]bool       // segments that are being reclaimed
	reclaimed int64                 // mono reading of the last pass
	idRuns    []format.ManifestFile // of the newest checkpoint
	started   bool
	postponed bool   // what a pass found waits for space
	merging   bool   // a merge of row indexes goes on in the next turn
	images    int    // taken and not closed: nothing is given away, no frame moves
	mover     *mover // its pass runs in a goroutine of its own

	duty   duty // of what merges and counts, shared with ids
	saving duty // of checkpoints: a snapshot keeps what changes meanwhile, so that it should not wait for merges
}

// checkpointJob is the state at a Mark, frozen.
type checkpointJob struct {
	head   format.CheckpointHead
	mark   format.ManifestMark
	snap   *machine.Snapshot
	base   bool
	orphan bool           // the delta stands on no kept position
	frozen *keyed.Overlay // nil when no keyed row changed
	// ids is told once which id runs there are at the mark, all durable.
	ids chan []format.ManifestFile
}

// letGo gives up the snapshot: as long as it is held, apply copies aside what changes.
func (job *checkpointJob) letGo() {
	if job.snap != nil {
		job.snap.Release()
		job.snap = nil
	}
}

func newFiles(n *Node) *files {
	f := &files{n: n, nudge: make(chan struct{}, 1), asked: make(chan chan struct{}), calls: make(chan func()), quit: make(chan struct{}),
		since: n.cfg.Clock.Mono()}
	f.mu.chunks = map[uint32][]sidecar.Chunk{}
	f.mu.stored = map[uint32]map[format.QueueID]*sidecar.Queue{}
	f.mu.closed = map[uint32]bool{}
	f.giveAway = map[uint32]bool{}
	for _, d := range []*duty{&f.duty, &f.saving} {
		d.clock, d.quit, d.pause = n.cfg.Clock, n.stopping, dutyPause
	}
	f.mover = newMover(n, f.quit)
	return f
}

// group is the manifest's part about the node's raft group.
func (f *files) group() *format.ManifestGroup {
	id := f.n.seq.Group()
	for i := range f.manifest.Groups {
		if f.manifest.Groups[i].Group == id {
			return &f.manifest.Groups[i]
		}
	}
	f.manifest.Groups = append(f.manifest.Groups, format.ManifestGroup{Group: id, Replica: f.n.replica()})
	return &f.manifest.Groups[len(f.manifest.Groups)-1]
}

// pause is called by what rewrites or reads through index files.
func (f *files) pause() error {
	f.duty.rest()
	return nil
}

func (f *files) start() {
	f.started = true
	for _, d := range []*duty{&f.duty, &f.saving} {
		d.before = &f.n.ids.duty
		d.on.Store(true)
	}
	f.mover.nextBulk = f.firstBulk()
	f.n.ids.start()
	f.done.Add(1)
	go f.run()
}

func (f *files) poke() {
	select {
	case f.nudge <- struct{}{}:
	default:
	}
}

// run writes what was frozen and keeps the segments' indexes.
func (f *files) run() {
	defer f.done.Done()
	var asked []chan struct{}
	for {
		select {
		case <-f.quit:
			return
		case <-f.nudge:
		case done := <-f.asked:
			asked = append(asked, done)
		case call := <-f.calls:
			call()
			continue
		}
		if err := f.turn(); err != nil && !f.n.closing() {
			f.n.cfg.Fatal(err)
			return
		}
		if f.isIdle() {
			for _, done := range asked {
				close(done)
			}
			asked = nil
		}
	}
}

// isIdle says that no pass is under way, and none waits for anything but space; nor is there more to merge.
func (f *files) isIdle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.merging && !f.mu.passing && (f.mu.passed == nil || f.postponed)
}

// settle returns once what was due when it was called has been done: index-close, reclaim, relocation.
func (f *files) settle() {
	done := make(chan struct{})
	select {
	case f.asked <- done:
	case <-f.quit:
		return
	}
	select {
	case <-done:
	case <-f.quit:
	}
}

// turn does everything that is due. A full disk postpones, a damaged row index is made again; any other
// error ends the node.
func (f *files) turn() error {
	for _, step := range []func() error{f.writeJob, f.closeSegments, f.finishPass, f.startPass} {
		err := f.indexDamage(step())
		if isNoSpace(err) {
			f.n.event("checkpoint postponed", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isNoSpace says that an error is a full disk: what failed is done later.
func isNoSpace(err error) bool {
	return errors.Is(err, vfs.ErrNoSpace) || errors.Is(err, keyed.ErrNoSpace)
}

// stop ends the background work and writes a last checkpoint. Callers may still commit; nothing but
// the node's own Mark is waited for.
func (f *files) stop() error {
	close(f.quit)
	f.done.Wait()
	f.n.ids.stop()
	if !f.started {
		return nil
	}
	if err := f.turn(); err != nil || f.unchanged() || f.n.cluster != nil { // the cluster goes on: its Marks are the leader's
		return err
	}
	f.mu.Lock()
	f.mu.due = true
	f.mu.Unlock()
	if f.n.house.markNow() {
		return f.turn()
	}
	return nil
}

// kill ends the background work where it stands.
func (f *files) kill() {
	close(f.quit)
	f.done.Wait()
	f.n.ids.stop()
	_ = f.close() // the process is taken to have died
}

// unchanged reports that the newest checkpoint is the state as it is.
func (f *files) unchanged() bool {
	f.n.state.RLock()
	defer f.n.state.RUnlock()
	g := f.group()
	return len(g.Checkpoints) > 0 && g.Checkpoints[0].Index == f.n.state.m.Applied()
}

// close lets go of the keyed rows. Nothing is written after it.
func (f *files) close() error {
	if f.runs != nil {
		f.runs.Shut()
	}
	f.n.ids.close()
	return f.closeKeyed()
}

func (f *files) closeKeyed() error {
	if f.store == nil {
		return nil
	}
	return f.store.Close()
}

// applied runs in the apply goroutine after every entry; a Mark has ended its chunk already.
func (f *files) applied(c *Committed, e *format.Entry, marked bool) {
	f.bytes += int64(e.Len)
	f.entries++
	if c.Pos.Segment != f.segment {
		f.segment = c.Pos.Segment
		f.poke() // the segment before it was sealed
	}
	if marked {
		f.checkChain(e)
		mark := f.noteMark(c)
		var job *checkpointJob
		if !c.Replayed {
			job = f.freeze(mark)
		}
		f.closeChunk(c, mark, job)
		f.poke()
	}
	f.indexed.Store(uint64(c.Index))
}

// checkChain compares the leader's chain hash, which the Mark carries, with this node's: after a
// restart it proves that the replay came to what was decided before.
func (f *files) checkChain(e *format.Entry) {
	var mark format.Mark
	r := e.Reader()
	if !r.Next() || r.Mark(&mark) != nil || mark.Chain == ([16]byte{}) {
		return
	}
	if before := f.n.house.chunk.ended().before; before != mark.Chain {
		f.n.cfg.Fatal(fmt.Errorf("engine: chain hash before mark %d is %x, the leader's is %x", mark.Number, before, mark.Chain))
	}
}

// noteMark remembers a Mark and the hash of the chunk it ended.
func (f *files) noteMark(c *Committed) format.ManifestMark {
	n := f.n
	ended := n.house.chunk.ended()
	n.state.RLock()
	number, _ := n.state.m.Marks()
	m := format.ManifestMark{Number: number, Index: c.Index, W: n.state.m.W(), Digest: n.state.m.Digest(), Chain: n.house.chunk.chain()}
	n.state.RUnlock()
	f.noteChunk(c.Pos.Segment, sidecar.Chunk{Group: n.seq.Group(), Mark: number, First: ended.first, Last: c.Index,
		Bytes: uint64(ended.bytes), Hash: ended.hash})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.marks = append(f.mu.marks, m)
	return m
}

// lastMark is the newest Mark applied, zero before the first.
func (f *files) lastMark() format.ManifestMark {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mu.marks) == 0 {
		return format.ManifestMark{}
	}
	return f.mu.marks[len(f.mu.marks)-1]
}

// freeze takes the state for a checkpoint if one is due: by bytes of log, by time, because keyed rows
// fill memory, or because the node stops.
func (f *files) freeze(mark format.ManifestMark) *checkpointJob {
	n := f.n
	f.mu.Lock()
	busy, base, due, orphan := f.mu.job != nil, f.mu.base, f.mu.due, f.mu.orphan
	f.mu.Unlock()
	now := n.cfg.Clock.Mono()
	due = due || f.bytes >= n.cfg.CheckpointBytes || now-f.since >= n.cfg.CheckpointEvery.Microseconds() || n.keyed.full()
	if busy || !due || !n.keyed.canFlush() {
		return nil
	}
	f.bytes, f.entries, f.since = 0, 0, now
	job := &checkpointJob{mark: mark, base: base, orphan: orphan, ids: make(chan []format.ManifestFile, 1)}
	n.state.Lock()
	m := n.state.m
	g := m.Genesis()
	job.snap = m.Freeze(base)
	job.head = format.CheckpointHead{Group: n.seq.Group(), Mark: mark.Number, Index: mark.Index, T: m.T(), W: m.W(),
		Cluster: g.Cluster, Level: g.Level, Digest: mark.Digest}
	job.frozen = n.keyed.freeze()
	n.state.Unlock()
	f.mu.Lock()
	f.mu.job, f.mu.due = job, false
	f.mu.Unlock()
	invariants.Failpoint(failMarkFrozen)
	return job
}

// closeChunk hands the ids of the chunk that a Mark ended to their runs.
func (f *files) closeChunk(c *Committed, mark format.ManifestMark, job *checkpointJob) {
	n := f.n
	n.state.RLock()
	window := n.state.m.LongestWindow()
	chunks := n.state.m.Chunks()
	n.state.RUnlock()
	var listed chan []format.ManifestFile
	if job != nil {
		listed = job.ids
	}
	if err := n.ids.chunkClosed(mark, window, chunks[len(chunks)-1], c.Replayed, listed); err != nil {
		n.cfg.Fatal(err)
	}
}

// busy reports that a checkpoint is being written: until it is there no other is begun.
func (f *files) busy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.job != nil
}

// writeJob writes the frozen state, if there is one.
func (f *files) writeJob() error {
	f.mu.Lock()
	job := f.mu.job
	f.mu.Unlock()
	if job == nil {
		return nil
	}
	err := f.write(job)
	job.letGo()
	defer f.n.house.poke() // keyed rows may have filled memory again meanwhile
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.job = nil
	// The rows of a delta that was not written are in no file: only a base holds them.
	f.mu.orphan = err != nil
	f.mu.base = err != nil || f.baseDue()
	return err
}

// baseDue reports that the deltas outweigh half of the base they stand on.
func (f *files) baseDue() bool {
	g := f.group()
	if len(g.Checkpoints) == 0 {
		return true
	}
	chains := checkpoint.Chains(g.Files, g.Checkpoints[0].Mark)
	if len(chains) == 0 {
		return true
	}
	var deltas uint64
	for _, d := range chains[0][1:] {
		deltas += d.Size
	}
	return deltas > chains[0][0].Size/2
}

// marksFrom returns the marks from number on.
func (f *files) marksFrom(number uint64) []format.ManifestMark {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, _ := slices.BinarySearchFunc(f.mu.marks, number, func(m format.ManifestMark, n uint64) int {
		return int(int64(m.Number - n))
	})
	f.mu.marks = slices.Delete(f.mu.marks, 0, i)
	return slices.Clone(f.mu.marks)
}
