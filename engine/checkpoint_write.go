package engine

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"queen/engine/checkpoint"
	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/keyed"
	"queen/engine/logstore/idruns"
	"queen/engine/machine"
	"queen/engine/vfs"
)

// keptPositions is how many checkpoints are kept; marksBehind is how many chunks before the older one
// stay in the log, because the ids of them are resident state that no checkpoint file holds.
const (
	keptPositions = 2
	marksBehind   = 8
)

// keptFrom is the mark behind which the log stays when the older checkpoint is at a mark: eight chunks before it, and
// those that stand in one id run with the first of them, so that a run which is lost can be made again.
func keptFrom(older uint64) uint64 {
	from := older - min(older, marksBehind)
	return from - from%idruns.ChunkGroup
}

// write makes the checkpoint of a job, in the order that makes it valid (engine design section 10):
// outcomes up to C, with which a commit at or above C is durable too, since every entry carries its
// own; keyed rows; the rows of the state; the manifest. Only then what it replaces goes.
func (f *files) write(job *checkpointJob) error {
	if err := f.n.seq.FlushOutcomes(); err != nil {
		return err
	}
	invariants.Failpoint(failOutcomesOut)
	flushed, err := f.flushKeyed(job)
	if err != nil {
		return err
	}
	invariants.Failpoint(failKeyedOut)
	added, err := f.writeRows(job)
	if err != nil {
		return err
	}
	job.letGo() // before the id runs are waited for
	g := f.group()
	position := format.ManifestCheckpoint{Mark: job.mark.Number, Index: job.mark.Index, File: added[len(added)-1].Number}
	if len(g.Checkpoints) > 0 {
		position.Keyed = g.Checkpoints[0].Keyed
	}
	if flushed != nil {
		position.Keyed = flushed.Manifest().Version
		line, err := f.writeKeyedManifest(flushed.Manifest())
		if err != nil {
			return err
		}
		added = append(added, line)
	}
	runs, ok := f.awaitIDs(job)
	if !ok {
		return errRunsLag
	}
	invariants.Failpoint(failFilesOut)
	g.Files = append(slices.DeleteFunc(g.Files, isIDRun), runs...)
	if err := f.switchTo(position, added, flushed); err != nil {
		return err
	}
	before := f.idRuns
	f.idRuns = runs
	return f.n.ids.discard(runs, before)
}

// errRunsLag postpones a checkpoint whose id runs a full disk keeps from being written.
var errRunsLag = fmt.Errorf("engine: the id runs are behind the checkpoint: %w", vfs.ErrNoSpace)

// awaitIDs waits until the runs of the job's mark are durable and returns them.
func (f *files) awaitIDs(job *checkpointJob) ([]format.ManifestFile, bool) {
	select {
	case runs := <-job.ids:
		return runs, true
	case <-f.quit:
	}
	// The background work has ended, or will: what is left of it is done here.
	f.n.ids.stop()
	if err := f.n.ids.turn(); err != nil {
		f.n.event("id runs", err)
	}
	select {
	case runs := <-job.ids:
		return runs, true
	default:
		return nil, false
	}
}

func isIDRun(f format.ManifestFile) bool { return f.Kind == format.FileIDRun }

// switchTo makes the manifest name a position whose files are all durable, then lets what is no longer
// needed go.
func (f *files) switchTo(position format.ManifestCheckpoint, added []format.ManifestFile, flushed *keyed.Flushed) error {
	g := f.group()
	g.Checkpoints = append([]format.ManifestCheckpoint{position}, g.Checkpoints...)
	g.Checkpoints = g.Checkpoints[:min(len(g.Checkpoints), keptPositions)]
	g.Files = append(g.Files, added...)
	dropped := dropUnneeded(g)
	older := &g.Checkpoints[len(g.Checkpoints)-1]
	g.Marks = f.marksFrom(keptFrom(older.Mark))
	if err := f.saveManifest(); err != nil {
		return err
	}
	invariants.Failpoint(failManifestOut)
	if flushed != nil {
		discard := uint64(0)
		if older.Keyed < position.Keyed {
			discard = older.Keyed
		}
		if err := flushed.Recorded(discard); err != nil {
			return err
		}
		f.n.keyed.recorded(position.Keyed)
		f.digests = flushed.Manifest().Digests
	}
	invariants.Failpoint(failKeyedDiscarded)
	f.n.cfg.Log.Info("checkpoint", "mark", position.Mark, "index", position.Index, "files", len(added))
	return f.discard(dropped)
}

// dropUnneeded takes out of the list what no kept position needs: checkpoint files before the base
// before the newest base, which back each other, and what the keyed store said of other versions.
func dropUnneeded(g *format.ManifestGroup) (dropped []format.ManifestFile) {
	var bases []uint64
	for _, f := range g.Files {
		if f.Kind == format.FileCheckpoint && checkpoint.IsBase(f.Number) {
			bases = append(bases, checkpoint.MarkOf(f.Number))
		}
	}
	slices.Sort(bases)
	from := uint64(0)
	if len(bases) > 1 {
		from = bases[len(bases)-2]
	}
	needed := func(f format.ManifestFile) bool {
		switch f.Kind {
		case format.FileCheckpoint:
			mark := checkpoint.MarkOf(f.Number)
			return mark > from || mark == from && checkpoint.IsBase(f.Number)
		case format.FileKeyedManifest:
			return slices.ContainsFunc(g.Checkpoints, func(c format.ManifestCheckpoint) bool { return c.Keyed == f.Number })
		}
		return true
	}
	kept := g.Files[:0:0]
	for _, f := range g.Files {
		if needed(f) {
			kept = append(kept, f)
		} else {
			dropped = append(dropped, f)
		}
	}
	g.Files = kept
	return dropped
}

// discard removes files that the manifest no longer lists, after both manifest files say so: the
// older one has to lead to files that are there.
func (f *files) discard(dropped []format.ManifestFile) error {
	if len(dropped) == 0 {
		return nil
	}
	if err := f.saveManifest(); err != nil {
		return err
	}
	for _, d := range dropped {
		name := checkpoint.FileName(d.Number)
		if d.Kind == format.FileKeyedManifest {
			name = keyedManifestName(d.Number)
		}
		if err := f.n.cfg.FS.Remove(path.Join(f.n.cfg.Dir, name)); err != nil {
			return fmt.Errorf("engine: remove an old checkpoint: %w", err)
		}
	}
	invariants.Failpoint(failOldUnlinked)
	return nil
}

// noteListed sums up the files of the manifest beside segments, for onDisk.
func (f *files) noteListed() {
	size := uint64(0)
	for _, r := range f.manifest.RowRuns {
		size += r.Size
	}
	for i := range f.manifest.Groups {
		for _, c := range f.manifest.Groups[i].Files {
			size += c.Size
		}
	}
	f.listed.Store(size)
}

// onDisk is the size of what the node keeps beside its log: checkpoints, id runs and row runs as the manifest lists them,
// and keyed rows as their store last counted them, which it does once a minute.
func (f *files) onDisk() uint64 {
	size := f.listed.Load()
	if f.store != nil {
		m := f.store.Metrics()
		size += uint64(m.LSMBytes + m.ValueLogBytes)
	}
	return size
}

// saveManifest writes the next generation, with the segments as they are.
func (f *files) saveManifest() error {
	f.n.state.RLock()
	f.manifest.Cluster = f.n.state.m.Genesis().Cluster
	f.n.state.RUnlock()
	f.manifest.Segments, f.manifest.RowRuns = f.manifestSegments(), f.runs.Files()
	f.noteListed()
	return checkpoint.WriteManifest(f.n.cfg.FS, f.n.cfg.Dir, &f.manifest)
}

// writeRows writes the delta and, when it is due, a base beside it: then each of the two leads to the
// position, and the next base of the one before still has all deltas.
func (f *files) writeRows(job *checkpointJob) (added []format.ManifestFile, err error) {
	g := f.group()
	if len(g.Checkpoints) > 0 && len(checkpoint.Chains(g.Files, g.Checkpoints[0].Mark)) > 0 && !job.orphan {
		h := job.head
		h.Kind, h.Number = format.CheckpointDelta, checkpoint.Number(h.Mark, format.CheckpointDelta)
		h.Parent = g.Checkpoints[0].File
		line, err := f.writeFile(h, job.snap.Delta)
		if err != nil {
			return nil, err
		}
		added = append(added, line)
	}
	if job.base {
		h := job.head
		h.Kind, h.Number = format.CheckpointBase, checkpoint.Number(h.Mark, format.CheckpointBase)
		line, err := f.writeFile(h, job.snap.Base)
		if err != nil {
			return nil, err
		}
		added = append(added, line)
	}
	return added, nil
}

func (f *files) writeFile(h format.CheckpointHead, walk func(machine.EmitRow) error) (format.ManifestFile, error) {
	w, err := checkpoint.Create(f.n.cfg.FS, f.n.cfg.Dir, h)
	if err != nil {
		return format.ManifestFile{}, err
	}
	w.Pace = f.pace
	err = walk(func(s machine.Section, key uint64, row []byte) error {
		return w.Row(checkpoint.Row{Section: sectionNumber(s), Key: key, Bytes: row})
	})
	if err != nil {
		return format.ManifestFile{}, err
	}
	return w.Finish()
}

// sectionNumber is the byte on disk of a section of the machine's snapshot.
func sectionNumber(s machine.Section) uint8 { return uint8(slices.Index(machine.Sections, s) + 1) }

// flushKeyed writes the keyed rows that changed, nil when none did.
func (f *files) flushKeyed(job *checkpointJob) (*keyed.Flushed, error) {
	if job.frozen == nil {
		return nil, nil
	}
	before := uint64(0)
	if g := f.group(); len(g.Checkpoints) > 0 {
		before = g.Checkpoints[0].Keyed
	}
	digests := f.digests.Clone()
	if digests == nil {
		digests = keyed.Digests{}
	}
	for row := range job.frozen.Rows() {
		old, found, err := f.store.GetAt(before, row.Key)
		if err != nil {
			return nil, err
		}
		if found {
			digests.Remove(row.Key, old)
		}
		if !row.Tombstone {
			digests.Add(row.Key, row.Value)
		}
	}
	return f.store.FlushAt(context.Background(), uint64(job.mark.Index), digests, job.frozen.Rows())
}

func keyedManifestName(version uint64) string { return fmt.Sprintf("keyed-%020d.man", version) }

// writeKeyedManifest keeps what the keyed store promised for a version.
func (f *files) writeKeyedManifest(m keyed.Manifest) (format.ManifestFile, error) {
	b := m.Append(nil)
	if err := vfs.WriteFileSync(f.n.cfg.FS, path.Join(f.n.cfg.Dir, keyedManifestName(m.Version)), b); err != nil {
		return format.ManifestFile{}, fmt.Errorf("engine: keyed manifest: %w", err)
	}
	return format.ManifestFile{Kind: format.FileKeyedManifest, Number: m.Version, First: m.Version, Last: m.Version,
		Size: uint64(len(b)), Sum: xxh3.Hash128(b).Bytes()}, nil
}

// paceBytes is what a checkpoint writes between two pauses; with paceEvery it bounds its share of the
// disk to 64 MiB/s.
const (
	paceBytes = 8 << 20
	paceEvery = 125 * time.Millisecond
)

// pace waits between pieces of a large file, so that commits keep their latency.
func (f *files) pace(bytes int) {
	f.saving.rest()
	f.paced += bytes
	if f.paced < paceBytes {
		return
	}
	f.paced = 0
	t := f.n.cfg.Clock.NewTimer(paceEvery)
	defer t.Stop()
	select {
	case <-t.C():
	case <-f.quit:
	}
}
