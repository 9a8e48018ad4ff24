package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/zeebo/xxh3"

	"queen/engine/checkpoint"
	"queen/engine/format"
	"queen/engine/keyed"
	"queen/engine/logstore"
	"queen/engine/machine"
	"queen/engine/vfs"
)

// openLog opens the node's log with what the manifest knows of it.
func openLog(cfg Config) (*logstore.Store, error) {
	found, err := checkpoint.ReadManifest(cfg.FS, cfg.Dir)
	if err != nil {
		return nil, err
	}
	o := logstore.Options{FS: cfg.FS, Dir: cfg.Dir, SegmentBytes: cfg.SegmentBytes,
		PoolReady: cfg.PoolReady, TailBytes: cfg.TailBytes, Fatal: cfg.Fatal}
	if found.Manifest != nil {
		if err := knownOfLog(cfg, found.Manifest, &o); err != nil {
			return nil, err
		}
	}
	return logstore.Open(o)
}

// knownOfLog fills in what a manifest proves. A segment counts as closed for the log only when nothing
// will ask for its entries by their indexes: the floor is past it.
func knownOfLog(cfg Config, m *format.Manifest, o *logstore.Options) error {
	o.Proven = map[format.RaftGroup]format.Index{}
	floors := map[format.RaftGroup]format.Index{}
	for i := range m.Groups {
		g := &m.Groups[i]
		floors[g.Group] = g.Floor
		if len(g.Checkpoints) > 0 {
			o.Proven[g.Group] = g.Checkpoints[0].Index
		}
	}
	closed, listed, newest := map[uint32]bool{}, map[uint32]bool{}, uint32(0)
	for i := range m.Segments {
		s := &m.Segments[i]
		listed[uint32(s.Segment)] = true
		if !s.Segment.IsBulk() {
			newest = max(newest, uint32(s.Segment))
		}
		needed := slices.ContainsFunc(s.Groups, func(g format.ManifestRange) bool { return g.Last > floors[g.Group] })
		closed[uint32(s.Segment)] = s.State == format.SegmentClosed && !needed
	}
	// Lost id runs are made again from entries below the floor, as far as there are any.
	lost, err := lostIDs(cfg, m)
	if err != nil {
		return err
	}
	o.Closed = func(segment uint32) bool { return closed[segment] && !lost }
	o.Reclaimed = func(segment uint32) bool { return segment < newest && !listed[segment] }
	o.BulkNeeded = func(segment uint32) bool { return listed[segment] }
	return nil
}

// restore builds the state as of the newest checkpoint that can be loaded; the log above it is
// replayed by the sequencer. What damage leaves no way around is an error that names the file.
func (n *Node) restore() (format.Index, error) {
	r := restorer{n: n, f: n.files}
	found, err := checkpoint.ReadManifest(n.cfg.FS, n.cfg.Dir)
	if err != nil {
		return 0, err
	}
	for _, d := range found.Damaged {
		n.event("manifest", d)
	}
	if found.Manifest == nil {
		if err := r.begin(found.Damaged); err != nil {
			return 0, err
		}
	} else {
		n.files.manifest = *found.Manifest
		n.files.noteListed()
		if err := r.load(); err != nil {
			return 0, err
		}
	}
	if err := r.openRuns(); err != nil {
		return 0, err
	}
	for _, step := range []func() error{n.files.forget, r.remakeRuns, r.sidecars, r.openIDs, r.readLog} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	n.files.indexed.Store(uint64(n.state.m.Applied()))
	return n.state.m.Applied(), r.sweep()
}

// restorer is the state of one start.
type restorer struct {
	n        *Node
	f        *files
	position format.ManifestCheckpoint // zero without a checkpoint
	// newestMark is that of the newest checkpoint, loaded or not.
	newestMark uint64
	damaged    []error
}

// begin starts without a manifest: on a new directory, or where the whole log is there, of which
// everything can be made again. A directory whose log lacks its beginning had one, and is refused.
func (r *restorer) begin(damaged []error) error {
	if all := r.n.seq.Log().Segments(); len(all) > 0 && all[0].Segment != 1 {
		return fmt.Errorf("engine: the manifest is missing, and the log begins with segment %d: %w", all[0].Segment,
			errors.Join(append(damaged, errors.New("without a manifest the state can be made from a whole log only"))...))
	}
	if len(damaged) > 0 {
		r.n.event("the manifest is lost; the state is made from the log", errors.Join(damaged...))
	}
	if err := r.openKeyed(nil); err != nil {
		return err
	}
	r.n.state.m = machine.New(machine.Options{Group: r.n.seq.Group(), Keyed: r.n.keyed})
	r.f.mu.base = true
	return nil
}

// load takes the newest position that can be loaded, over any base that is kept.
func (r *restorer) load() error {
	g := r.f.group()
	if err := r.checkSegments(); err != nil {
		return err
	}
	if len(g.Checkpoints) > 0 {
		r.newestMark = g.Checkpoints[0].Mark
	}
	for len(g.Checkpoints) > 0 {
		ok, err := r.tryPosition(g, g.Checkpoints[0])
		if err != nil {
			return err
		}
		if ok {
			break
		}
		r.n.event("checkpoint can not be loaded", errors.Join(r.damaged...))
		g.Checkpoints = g.Checkpoints[1:]
	}
	if len(g.Checkpoints) == 0 {
		if len(r.damaged) == 0 {
			return r.begin(nil)
		}
		return fmt.Errorf("engine: no checkpoint can be loaded: %w", errors.Join(r.damaged...))
	}
	r.position = g.Checkpoints[0]
	r.f.mu.base = len(r.damaged) > 0 || r.f.baseDue()
	return nil
}

// checkSegments holds the log against the manifest: a listed segment that is gone, or another one in
// its place, is refused.
func (r *restorer) checkSegments() error {
	have := map[uint32]logstore.SegmentInfo{}
	for _, s := range append(r.n.seq.Log().Segments(), r.n.seq.Log().Bulks()...) {
		have[s.Segment] = s
	}
	for i := range r.f.manifest.Segments {
		want := &r.f.manifest.Segments[i]
		name := path.Join(r.n.cfg.Dir, want.Segment.FileName())
		s, ok := have[uint32(want.Segment)]
		switch {
		case !ok:
			return &checkpoint.CorruptionError{File: name, Err: errors.New("the segment is listed and not there")}
		case !s.Sealed || s.Used != int64(want.End) || s.Checksum != want.Checksum:
			return &checkpoint.CorruptionError{File: name, Pos: s.Used, Err: fmt.Errorf(
				"ends at %d with checksum %#x, the manifest says %d with %#x", s.Used, s.Checksum, want.End, want.Checksum)}
		}
	}
	return nil
}

// tryPosition loads one position; false when its files are damaged by every way, which are noted.
func (r *restorer) tryPosition(g *format.ManifestGroup, p format.ManifestCheckpoint) (bool, error) {
	expect, err := r.keyedManifest(g, p.Keyed)
	if err != nil {
		r.damaged = append(r.damaged, err)
		return false, nil
	}
	chains := checkpoint.Chains(g.Files, p.Mark)
	if len(chains) == 0 {
		r.damaged = append(r.damaged, fmt.Errorf("engine: no base is listed for the checkpoint at mark %d", p.Mark))
	}
	for _, chain := range chains {
		if r.hasDamaged(g, chain) {
			continue
		}
		if r.n.keyed == nil || r.n.keyed.at != p.Keyed {
			if err := r.openKeyed(expect); err != nil {
				return false, err
			}
		}
		bad, err := r.loadChain(chain, p, expect)
		if err == nil {
			return true, nil
		}
		r.damaged = append(r.damaged, err)
		g.Files = slices.DeleteFunc(g.Files, func(f format.ManifestFile) bool {
			return f.Kind == format.FileCheckpoint && f.Number == bad
		})
	}
	return false, nil
}

// hasDamaged reports a chain of which a file was found damaged on another way.
func (r *restorer) hasDamaged(g *format.ManifestGroup, chain []format.ManifestFile) bool {
	return slices.ContainsFunc(chain, func(f format.ManifestFile) bool { return !slices.Contains(g.Files, f) })
}

// loadChain loads a base and deltas into a new machine; bad is the number of the file at fault.
func (r *restorer) loadChain(chain []format.ManifestFile, p format.ManifestCheckpoint, expect *keyed.Manifest) (bad uint64, err error) {
	m := machine.New(machine.Options{Group: r.n.seq.Group(), Keyed: r.n.keyed})
	var head format.CheckpointHead
	for _, f := range chain {
		bad = f.Number
		head, err = checkpoint.Load(r.n.cfg.FS, r.n.cfg.Dir, f, func(row checkpoint.Row) error {
			if int(row.Section) > len(machine.Sections) {
				return fmt.Errorf("engine: checkpoint row of section %d", row.Section)
			}
			return m.Load(machine.Sections[row.Section-1], row.Key, row.Bytes)
		})
		if err != nil {
			return bad, err
		}
	}
	if err := m.Finish(); err != nil {
		return bad, err
	}
	number, _ := m.Marks()
	if head.Index != p.Index || m.Applied() != p.Index || number != p.Mark || m.Digest() != head.Digest {
		return bad, fmt.Errorf("engine: checkpoint file %s leads to index %d, mark %d; the manifest says %d, %d",
			checkpoint.FileName(bad), m.Applied(), number, p.Index, p.Mark)
	}
	if err := r.sameKeyed(m, expect); err != nil {
		return bad, err
	}
	r.n.state.m = m
	return 0, nil
}

// sameKeyed holds what the state counted of each family of keyed rows against what the store wrote down when
// it flushed them: state and rows have to be of one moment.
func (r *restorer) sameKeyed(m *machine.Machine, expect *keyed.Manifest) error {
	if r.f.store == nil {
		return nil
	}
	for f := keyed.Family(1); f <= keyed.FamilyLast; f++ {
		var digest keyed.Digest
		if expect != nil {
			digest = expect.Digests[f]
		}
		if rows, sum := m.KeyedSum(byte(f)); rows != digest.Rows || sum != digest.Lo {
			return fmt.Errorf("engine: keyed rows of family %v: the state counts %d with sum %#x, the store wrote %d with %#x",
				f, rows, sum, digest.Rows, digest.Lo)
		}
	}
	return nil
}

// keyedManifest reads what the keyed store promised for a version; nil for 0.
func (r *restorer) keyedManifest(g *format.ManifestGroup, version uint64) (*keyed.Manifest, error) {
	if version == 0 {
		return nil, nil
	}
	name := path.Join(r.n.cfg.Dir, keyedManifestName(version))
	for _, f := range g.Files {
		if f.Kind != format.FileKeyedManifest || f.Number != version {
			continue
		}
		b, err := vfs.ReadFile(r.n.cfg.FS, name, int64(f.Size))
		if err == nil && xxh3.Hash128(b).Bytes() != f.Sum {
			err = errors.New("checksum")
		}
		var m keyed.Manifest
		if err == nil {
			m, err = keyed.DecodeManifest(b)
		}
		if err != nil {
			return nil, &checkpoint.CorruptionError{File: name, Err: err}
		}
		return &m, nil
	}
	return nil, &checkpoint.CorruptionError{File: name, Err: errors.New("it is not listed")}
}

// openKeyed opens the store of keyed rows at what a checkpoint expects. After an unclean end every row
// is read and counted: damage to badger's logs shows in no other way.
func (r *restorer) openKeyed(expect *keyed.Manifest) error {
	n := r.n
	if err := r.f.closeKeyed(); err != nil {
		return err
	}
	r.f.store = nil
	at := uint64(0)
	if expect != nil {
		at = expect.Version
		r.f.digests = expect.Digests
	}
	if n.cfg.KeyedDir == "" {
		if expect != nil {
			return fmt.Errorf("engine: the checkpoint needs keyed rows at version %d, and KeyedDir is not set", at)
		}
		n.keyed = newKeyedRows(nil, 0, n.cfg.overlay())
		return nil
	}
	store, err := keyed.Open(keyed.Options{Dir: n.cfg.KeyedDir, Expect: expect, Logger: n.cfg.Log, FreeBytes: n.keyedFree,
		RowsPerSecond: keyedRowsPerSecond, Clock: n.cfg.Clock})
	if err != nil {
		return err
	}
	r.f.store = store
	n.keyed = newKeyedRows(store, at, n.cfg.overlay())
	if expect == nil || !store.Report().Unclean {
		return nil
	}
	digests, err := store.VerifyAt(context.Background(), at)
	if err == nil {
		err = digests.Diff(expect.Digests)
	}
	if err != nil {
		return fmt.Errorf("engine: keyed rows at version %d: %w", at, err)
	}
	return nil
}

// keyedRowsPerSecond bounds a flush, so that its compaction leaves the cores to apply.
const keyedRowsPerSecond = 100_000

func (n *Node) keyedFree() (uint64, error) {
	s, err := n.cfg.FS.Free(n.cfg.Dir)
	return uint64(s.Available), err
}

// markClosed tells the log which segments have their index files, so that it forgets their entries
// when the floor has passed them. The replay may have needed these, so it comes after it.
func (f *files) markClosed() error {
	for _, s := range f.n.seq.Log().Segments() {
		if s.Sealed && f.isClosed(s.Segment) && !s.Closed {
			if err := f.n.seq.Log().MarkClosed(s.Segment); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep removes files that a crash left unlisted, once both manifest files agree that they are.
func (r *restorer) sweep() error {
	n := r.n
	names, err := n.cfg.FS.List(n.cfg.Dir)
	if err != nil {
		return err
	}
	files := r.f.group().Files
	listed := func(name string) bool {
		return slices.ContainsFunc(files, func(f format.ManifestFile) bool {
			return f.Kind == format.FileCheckpoint && checkpoint.FileName(f.Number) == name
		})
	}
	if !slices.ContainsFunc(names, func(name string) bool { return checkpoint.IsOurs(name) && !listed(name) }) {
		return nil
	}
	for range 2 {
		if err := r.f.saveManifest(); err != nil {
			return err
		}
	}
	_, err = checkpoint.Sweep(n.cfg.FS, n.cfg.Dir, files)
	return err
}
