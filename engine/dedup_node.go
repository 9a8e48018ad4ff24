package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/logstore/idruns"
	"queen/engine/machine/slab"
	"queen/engine/vfs"
)

var failIDsAdded = invariants.Register("engine.ids.chunk-added")

// idWindowLeast is how long ids are kept at least: a repeated ack names them (S-dup-9).
const idWindowLeast = format.Wall(900 * time.Second / time.Microsecond)

// ids keeps the runs of callers' ids that the resident chunks no longer hold: every few chunks become a
// run, off the apply path, and pushes are told what the runs know of their ids.
type ids struct {
	n     *Node
	set   *idruns.Set
	nudge chan struct{}
	done  sync.WaitGroup

	// changing is held by what adds, merges or removes runs; acquired before mu.
	changing sync.Mutex
	duty     duty // of writing runs of new ids; merging them is the files' background work

	mu struct {
		sync.Mutex
		jobs  []idJob       // chunks to be added, in order
		moved chan struct{} // closed and replaced when ClearTo moves
	}
}

// idJob is a closed chunk on its way into a run.
type idJob struct {
	mark  idruns.Mark
	chunk *slab.IDChunk
	// files, when set, is told what the runs are at this mark: a checkpoint lists them.
	files chan []format.ManifestFile
}

func newIDs(n *Node) *ids {
	i := &ids{n: n, nudge: make(chan struct{}, 1)}
	i.mu.moved = make(chan struct{})
	return i
}

func (i *ids) start() {
	i.duty.clock, i.duty.quit, i.duty.pause = i.n.cfg.Clock, i.n.stopping, idPause
	i.duty.on.Store(true)
	i.done.Add(1)
	go i.run()
}

// stop waits for the background work; the node is closing.
func (i *ids) stop() { i.done.Wait() }

func (i *ids) close() {
	if i.set != nil {
		i.set.Close()
	}
}

// chunkClosed hands the newest closed chunk over. It runs in the apply goroutine; while the log is
// replayed, before anything else runs, it adds the chunk itself.
func (i *ids) chunkClosed(m format.ManifestMark, window format.Wall, chunk *slab.IDChunk, replayed bool, files chan []format.ManifestFile) error {
	job := idJob{mark: markOf(m, window), chunk: chunk, files: files}
	if replayed {
		return i.add(&job)
	}
	i.mu.Lock()
	i.mu.jobs = append(i.mu.jobs, job)
	i.mu.Unlock()
	i.poke()
	return nil
}

func markOf(m format.ManifestMark, window format.Wall) idruns.Mark {
	return idruns.Mark{Number: m.Number, W: m.W, Horizon: m.W - max(window, idWindowLeast)}
}

func (i *ids) poke() {
	select {
	case i.nudge <- struct{}{}:
	default:
	}
}

// stepRows is how many rows one step of merging ahead looks at.
const stepRows = 1 << 14

func (i *ids) run() {
	defer i.done.Done()
	for {
		select {
		case <-i.n.files.quit:
			return
		case <-i.nudge:
		}
		if err := i.turn(); err != nil && !i.n.closing() {
			i.n.cfg.Fatal(err)
			return
		}
	}
}

// turn adds the chunks that wait, then merges a little ahead. A full disk postpones: pushes with ids
// wait then, others do not.
func (i *ids) turn() error {
	if err := i.addWaiting(); err != nil {
		return i.postponed(err)
	}
	i.changing.Lock()
	again, err := i.set.Step(stepRows)
	i.changing.Unlock()
	if again {
		i.n.files.duty.rest()
		i.poke()
	}
	return i.postponed(err)
}

// addWaiting adds the chunks that wait.
func (i *ids) addWaiting() error {
	i.duty.busy.Store(true)
	defer i.duty.busy.Store(false)
	for {
		i.mu.Lock()
		if len(i.mu.jobs) == 0 {
			i.mu.Unlock()
			return nil
		}
		job := i.mu.jobs[0]
		i.mu.Unlock()
		if err := i.add(&job); err != nil {
			return err
		}
		i.mu.Lock()
		i.mu.jobs = slices.Delete(i.mu.jobs, 0, 1)
		i.mu.Unlock()
	}
}

func (i *ids) postponed(err error) error {
	var damage *idruns.DamageError
	if errors.Is(err, vfs.ErrNoSpace) || errors.As(err, &damage) {
		i.n.event("id runs", err)
		return nil
	}
	return err
}

// add gives the ids of one chunk to the runs.
func (i *ids) add(job *idJob) error {
	i.changing.Lock()
	err := i.set.Add(job.mark, chunkRows{job.chunk})
	files := i.set.Files()
	i.changing.Unlock()
	if err != nil {
		return err
	}
	invariants.Failpoint(failIDsAdded)
	if job.files != nil {
		job.files <- files
	}
	i.mu.Lock()
	close(i.mu.moved)
	i.mu.moved = make(chan struct{})
	i.mu.Unlock()
	return nil
}

// discard removes runs that neither count nor stand in one of the lists.
func (i *ids) discard(lists ...[]format.ManifestFile) error {
	i.changing.Lock()
	defer i.changing.Unlock()
	return i.set.Discard(lists...)
}

// chunkRows is a resident chunk as rows of a run. It never changes.
type chunkRows struct{ chunk *slab.IDChunk }

// Len implements idruns.Rows.
func (c chunkRows) Len() int { return c.chunk.Len() }

// Row implements idruns.Rows.
func (c chunkRows) Row(i int, r *format.IDRow) {
	id := c.chunk.Row(i)
	*r = idRow(&id)
}

// Touch implements idruns.Rows.
func (c chunkRows) Touch(i int) uint64 { return c.chunk.Touch(i) }

func idRow(id *slab.ID) format.IDRow {
	return format.IDRow{
		Partition: format.PartitionID(id.PID), Hash: id.Hash, Offset: format.Offset(id.Offset), W: format.Wall(id.W),
		Place: format.Place{Index: format.Index(id.Index), Ordinal: format.Ordinal(id.Ordinal)},
	}
}

// reach waits until the runs say something of every chunk up to a mark; false when that takes too long, the
// node stops or the caller is gone.
func (i *ids) reach(mark uint64, gone <-chan struct{}) bool {
	var timeout <-chan struct{}
	for {
		i.mu.Lock()
		moved := i.mu.moved
		i.mu.Unlock()
		if i.set.ClearTo() >= mark {
			return true
		}
		if timeout == nil {
			t := i.n.cfg.Clock.NewTimer(i.n.cfg.AdmitHold)
			defer t.Stop()
			timeout = t.C()
		}
		select {
		case <-moved:
		case <-timeout:
			return false
		case <-i.n.stopping:
			return false
		case <-gone:
			return false
		}
	}
}

// idEvidence is what one submission says of ids older than the resident chunks. All its frames speak
// of the same mark, so that apply takes or refuses all frames of a partition together.
type idEvidence struct {
	known bool
	clear uint64          // 0: none is needed
	err   *Error          // why there is none
	gone  <-chan struct{} // closed when nobody waits for the call any more; nil is never
	keys  []idruns.Key
	found []idruns.Original
}

// attach looks the ids of one frame up in the runs and puts into the command what they know.
func (e *idEvidence) attach(n *Node, a *format.Append) {
	if !e.known {
		e.begin(n)
	}
	if e.clear == 0 {
		return
	}
	a.ClearTo = e.clear
	n.state.RLock()
	q, ok := n.state.m.QueueByName(a.Tenant, viewString(a.Queue))
	pid := format.PartitionID(0)
	if ok {
		var p format.PartitionID
		if p, ok = n.state.m.PartitionID(q.ID, a.Partition); ok {
			pid = p
		}
	}
	n.state.RUnlock()
	if !ok {
		return // a partition that does not exist has no originals
	}
	e.keys = e.keys[:0]
	for at := 0; at < len(a.Hashes); at += len(format.IDHash{}) {
		e.keys = append(e.keys, idruns.Key{Partition: pid, Hash: format.IDHash(a.Hashes[at:])})
	}
	e.found = slices.Grow(e.found[:0], len(e.keys))[:len(e.keys)]
	if !e.lookUp(n) {
		a.ClearTo = 0
		return
	}
	a.Originals = appendOriginals(a.Originals[:0], a, e.found)
}

// begin fixes the mark up to which the submission speaks. A node whose runs lag holds it back.
func (e *idEvidence) begin(n *Node) {
	e.known = true
	n.state.RLock()
	from := n.state.m.EvidenceFrom()
	n.state.RUnlock()
	if from == 0 {
		return
	}
	if !n.ids.reach(from, e.gone) {
		e.err = &Error{Code: CodeOverloaded, RetryAfter: time.Second, Message: "the index of older ids lags behind"}
		return
	}
	e.clear = min(n.ids.set.ClearTo(), from+evidenceAhead)
}

// evidenceAhead is how many marks may come between the look-up and apply before it has to be done again. The ids of
// those chunks are resident when the look-up is done, so that their runs, the newest and smallest, are left out.
const evidenceAhead = 4

// appendOriginals turns what was found, one per id, into originals, by the message's number.
func appendOriginals(dst []format.Original, a *format.Append, found []idruns.Original) []format.Original {
	next := 0
	for i := range a.Count {
		if a.IDs == format.IDsSome && a.Bitmap[i/8]>>(i%8)&1 == 0 {
			continue
		}
		if o := &found[next]; o.Found {
			dst = append(dst, format.Original{At: i, Offset: o.Row.Offset, Place: o.Row.Place, W: o.Row.W})
		}
		next++
	}
	return dst
}

// olderID finds the original of a caller's id in the runs: an ack that names what was consumed long
// ago.
func (n *Node) olderID(pid format.PartitionID, h format.IDHash) (format.Offset, bool) {
	row, ok, err := n.ids.set.Probe(pid, h)
	if err != nil {
		n.event("id runs", err)
		return 0, false
	}
	return row.Offset, ok
}

// idsDurable reports that the ids of all chunks up to a mark are in runs on disk.
func (f *files) idsDurable(mark uint64) bool { return f.n.ids.set.ClearTo() >= mark }

// openIDs opens the runs that the newest checkpoint listed, whichever one is loaded: runs that are
// ahead of the state are only asked once it has caught up. Lost ones are made again from the log as
// far as it reaches; for others pushes with ids are refused by name until they are back.
func (r *restorer) openIDs() error {
	i := r.n.ids
	o := idruns.Options{FS: r.n.cfg.FS, Dir: r.n.cfg.Dir, Group: r.n.seq.Group(), ClearTo: r.newestMark,
		FilterBytes: r.n.cfg.FilterBytes, Pace: i.duty.rest}
	for _, f := range r.f.group().Files {
		if f.Kind == format.FileIDRun {
			o.Files = append(o.Files, f)
		}
	}
	var err error
	if i.set, err = idruns.Open(o); err != nil {
		return err
	}
	lost := r.firstLost(i.set.Damaged())
	if lost == 0 {
		return nil
	}
	i.set.Close()
	o.ClearTo = lost - 1
	o.Files = slices.DeleteFunc(o.Files, func(f format.ManifestFile) bool { return f.Last >= lost })
	i.set, err = idruns.Open(o)
	return err
}

// firstLost is the chunk from which on runs are made again from the log; 0 when nothing is damaged, or
// what is damaged is older than the log.
func (r *restorer) firstLost(damaged []error) uint64 {
	first := uint64(0)
	for _, err := range damaged {
		r.n.event("id run", err)
		var d *idruns.DamageError
		if !errors.As(err, &d) {
			continue
		}
		if first == 0 || d.First < first {
			first = d.First
		}
	}
	switch {
	case first > 1 && r.markOf(first-1).Number != 0:
		return first
	case first > 0 && r.logBegins() == 1:
		return 1 // where a chunk in between begins is not known, where the first does is
	}
	return 0
}

// logBegins is the first entry from which on the log holds all.
func (r *restorer) logBegins() (first format.Index) {
	before := uint32(0)
	for _, s := range r.n.seq.Log().Segments() {
		if s.Segment != before+1 {
			first = 0 // what lay between was reclaimed
		}
		before = s.Segment
		for i := range s.Groups {
			if g := &s.Groups[i]; g.Group == r.n.seq.Group() && first == 0 {
				first = g.First()
			}
		}
	}
	return first
}

// lostIDs reports that some id run that a manifest lists can not be used.
func lostIDs(cfg Config, m *format.Manifest) (bool, error) {
	for i := range m.Groups {
		g := &m.Groups[i]
		if len(g.Checkpoints) == 0 {
			continue
		}
		o := idruns.Options{FS: cfg.FS, Dir: cfg.Dir, Group: g.Group, ClearTo: g.Checkpoints[0].Mark, FilterBytes: -1}
		for _, f := range g.Files {
			if f.Kind == format.FileIDRun {
				o.Files = append(o.Files, f)
			}
		}
		set, err := idruns.Open(o)
		if err != nil {
			return false, err
		}
		damaged := len(set.Damaged()) > 0
		set.Close()
		if damaged {
			return true, nil
		}
	}
	return false, nil
}

// addChunk adds the ids of a chunk that was read off the log.
func (i *ids) addChunk(m format.ManifestMark, window format.Wall, rows []slab.ID) error {
	if m.Number != i.set.Next() {
		return nil // held already, or older than what can be made again
	}
	out := make(idruns.Slice, len(rows))
	for k := range rows {
		out[k] = idRow(&rows[k])
	}
	if err := i.set.Add(markOf(m, window), out); err != nil {
		return fmt.Errorf("engine: ids of mark %d: %w", m.Number, err)
	}
	return nil
}
