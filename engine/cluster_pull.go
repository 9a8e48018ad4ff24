package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"queen/engine/checkpoint"
	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/keyed"
	"queen/engine/logstore"
	"queen/engine/vfs"
	"queen/sidecar"
)

// failPullBlock is passed for every block of an image that arrives.
var failPullBlock = invariants.Register("engine.pull.block-taken")

// PullTarget is who an image is for: what its replica keeps of itself.
type PullTarget struct {
	Group     format.RaftGroup
	Replica   format.Replica
	Bootstrap *format.Bootstrap
	// State is the replica's term and vote, Record the snapshot record at the image's base.
	State  logstore.HardState
	Record *format.Snapshot
	// Disk and Boot are the data directory's, Last the newest entry in its log, which the image's have to reach.
	Disk format.UUID
	Boot uint64
	Last format.Index
}

// ReadImage reads an image, as Image.WriteTo writes it, beside what the data directory holds, and puts it in its place. The caller
// has locked the directory (LockDir) and its log is closed. A crash at any moment, or an error, leaves what was there before, or
// the image as a whole, which the next OpenLog puts in place.
func ReadImage(ctx context.Context, cfg Config, t PullTarget, r io.Reader) error {
	cfg = cfg.withDefaults()
	if err := dropPull(cfg); err != nil {
		return err
	}
	p := &puller{ctx: ctx, cfg: cfg, t: t, r: r, dir: path.Join(cfg.Dir, pullDir), ended: make(chan struct{})}
	if err := vfs.MkdirAllSync(cfg.FS, p.dir); err != nil {
		return fmt.Errorf("engine: pull: %w", err)
	}
	err := p.run()
	close(p.ended)
	if err != nil {
		p.abort()
		if full := p.full.Load(); full != nil {
			err = errors.Join(err, *full)
		}
		return err
	}
	return settlePull(cfg)
}

// puller writes an image into a directory of its own.
type puller struct {
	ctx  context.Context
	cfg  Config
	t    PullTarget
	r    io.Reader
	dir  string
	head imageHead
	m    format.Manifest
	log  *logstore.Store
	buf  []byte

	file     int // that is being written, and where
	out      vfs.File
	at       int64
	sum      *xxh3.Hasher
	bulk     *logstore.BulkWriter
	bulks    uint32
	bulkLast format.Index
	side     map[format.QueueID]*sidecar.Queue
	batch    []logstore.Entry
	bytes    int
	outcomes Outcomes
	next     format.Index
	count    imageEnd
	kind     imageKind

	full  atomic.Pointer[error] // why no segment can be made
	ended chan struct{}
}

// entryBatch is how many bytes of entries are written at a time.
const entryBatch = 4 << 20

func (p *puller) run() error {
	for p.kind != imageEndBlock {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		kind, body, err := readImageBlock(p.r, p.buf)
		p.buf = body
		if err != nil {
			return fmt.Errorf("engine: pull: %w", err)
		}
		if kind < p.kind || p.kind == 0 && kind != imageHeadBlock || p.kind == imageHeadBlock && kind == imageHeadBlock {
			return fmt.Errorf("%w: a block of kind %d after one of %d", errImage, kind, p.kind)
		}
		if err := p.turn(kind); err != nil {
			return err
		}
		if err := p.take(kind, body); err != nil {
			return err
		}
		invariants.Failpoint(failPullBlock)
	}
	return p.finish()
}

// turn ends what the kinds before kind were about.
func (p *puller) turn(kind imageKind) error {
	before := p.kind
	p.kind = kind
	if kind > imageFileBlock && before <= imageFileBlock && (p.file != len(p.group().Files) || p.out != nil) {
		return fmt.Errorf("%w: %d of %d files came", errImage, p.file, len(p.group().Files))
	}
	if before == imageKeyedBlock && kind > imageKeyedBlock {
		if err := p.importKeyed(); err != nil {
			return err
		}
	}
	return nil
}

func (p *puller) group() *format.ManifestGroup { return &p.m.Groups[0] }

func (p *puller) take(kind imageKind, body []byte) error {
	switch kind {
	case imageHeadBlock:
		return p.begin(body)
	case imageFileBlock:
		return p.takeFile(body)
	case imageKeyedBlock:
		return p.takeKeyed(body)
	case imageFrameBlock:
		return p.takeFrame(body)
	case imageEntryBlock:
		return p.takeEntry(body)
	case imageEndBlock:
		if len(body) != 16 || binary.LittleEndian.Uint64(body) != p.count.Frames || binary.LittleEndian.Uint64(body[8:]) != p.count.Entries {
			return fmt.Errorf("%w: %d frames and %d entries came, the end says %x", errImage, p.count.Frames, p.count.Entries, body)
		}
		return nil
	}
	return fmt.Errorf("%w: a block of kind %d", errImage, kind)
}

// begin starts the log of the image: numbered behind the segments that its frames come from, and with what the replica keeps.
func (p *puller) begin(body []byte) (err error) {
	if p.head, p.m, err = parseImageHead(body); err != nil {
		return err
	}
	g, rec := p.group(), p.t.Record
	end := g.Checkpoints[0].Index
	switch {
	case g.Group != p.t.Group || rec.Index != g.Floor || rec.OnDisk > g.Floor || end < g.Floor:
		return fmt.Errorf("%w: the log begins behind entry %d, the record is of %d", errImage, g.Floor, rec.Index)
	case end < p.t.Last:
		return fmt.Errorf("engine: pull: the image ends at entry %d, this node's log at %d", end, p.t.Last)
	}
	g.Replica = p.t.Replica
	low := make(chan error, 1)
	// A failed write ends the pull and not the process. A full disk would be waited for: it ends the pull as well.
	p.log, err = logstore.Open(logstore.Options{FS: p.cfg.FS, Dir: p.dir, SegmentBytes: p.cfg.SegmentBytes, PoolReady: 1, PoolReserve: 1,
		TailBytes: -1, Disk: p.t.Disk, Boot: p.t.Boot, FirstSegment: p.head.Newest + 1, Fatal: func(error) {},
		Events: &logstore.Events{PoolLow: func(is bool, err error) {
			select {
			case low <- err:
			default:
			}
		}}})
	if err != nil {
		return err
	}
	go p.watchSpace(p.log, low)
	state := p.t.State
	if state.Term < rec.Term {
		state = logstore.HardState{Term: rec.Term}
	}
	p.next = g.Floor + 1
	return p.log.Append(&logstore.Save{Group: p.t.Group, Replica: p.t.Replica, Bootstrap: p.t.Bootstrap, State: &state, Snapshot: rec,
		Install: true, Floor: g.Floor, Commit: g.Floor})
}

// watchSpace ends the log when no segment can be made for it.
func (p *puller) watchSpace(log *logstore.Store, low <-chan error) {
	select {
	case err := <-low:
		p.full.Store(&err)
		log.Kill()
	case <-p.ended:
	}
}

// takeFile writes a piece of the file that is due.
func (p *puller) takeFile(b []byte) (err error) {
	files := p.group().Files
	if p.file == len(files) {
		return fmt.Errorf("%w: more than %d files", errImage, p.file)
	}
	f := &files[p.file]
	if p.out == nil {
		if p.out, err = vfs.OpenNew(p.cfg.FS, path.Join(p.dir, imageFileName(p.t.Group, f))); err != nil {
			return err
		}
		p.at, p.sum = 0, xxh3.New()
	}
	if _, err := p.out.WriteAt(b, p.at); err != nil {
		return err
	}
	_, _ = p.sum.Write(b) // to memory
	if p.at += int64(len(b)); p.at < int64(f.Size) {
		return nil
	}
	out := p.out
	p.out = nil
	p.file++
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return err
	}
	if p.at > int64(f.Size) || p.sum.Sum128().Bytes() != f.Sum {
		return fmt.Errorf("%w: file %s", errImage, imageFileName(p.t.Group, f))
	}
	return nil
}

// flatName is where the rows of the keyed store wait until they are whole.
const flatName = "keyed.flat"

func (p *puller) takeKeyed(b []byte) (err error) {
	if p.out == nil {
		if p.out, err = vfs.OpenNew(p.cfg.FS, path.Join(p.dir, flatName)); err != nil {
			return err
		}
		p.at = 0
	}
	_, err = p.out.WriteAt(b, p.at)
	p.at += int64(len(b))
	return err
}

// importKeyed makes a keyed store of the rows, and its promise a file of the image.
func (p *puller) importKeyed() error {
	if p.cfg.KeyedDir == "" {
		return errors.New("engine: pull: the image has keyed rows, and KeyedDir is not set")
	}
	flat := p.out
	p.out = nil
	defer flat.Close()
	fr, err := keyed.OpenFlat(flat, p.at, flatName)
	if err != nil {
		return err
	}
	dir := p.cfg.KeyedDir + pulledSuffix
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	store, err := keyed.Open(keyed.Options{Dir: dir, Logger: p.cfg.Log, FreeBytes: p.free})
	if err != nil {
		return err
	}
	flushed, err := store.Import(p.ctx, fr)
	if err == nil {
		err = fr.Verify()
	}
	if err != nil {
		return errors.Join(err, store.Close())
	}
	m := flushed.Manifest()
	if m.Version != p.group().Checkpoints[0].Keyed {
		return errors.Join(fmt.Errorf("%w: keyed rows of version %d", errImage, m.Version), store.Close())
	}
	b := m.Append(nil)
	err = errors.Join(vfs.WriteFileSync(p.cfg.FS, path.Join(p.dir, keyedManifestName(m.Version)), b), flushed.Recorded(0), store.Close(),
		p.cfg.FS.Remove(path.Join(p.dir, flatName)))
	p.group().Files = append(p.group().Files, format.ManifestFile{Kind: format.FileKeyedManifest, Number: m.Version, First: m.Version,
		Last: m.Version, Size: uint64(len(b)), Sum: xxh3.Hash128(b).Bytes()})
	return err
}

func (p *puller) free() (uint64, error) {
	s, err := p.cfg.FS.Free(p.cfg.Dir)
	return uint64(s.Available), err
}

// takeFrame puts a frame into a bulk segment; where the order of the log begins anew another one begins.
func (p *puller) takeFrame(body []byte) error {
	v, queue, err := parseImageFrame(body)
	if err != nil {
		return err
	}
	if v.Index > p.group().Floor || v.Origin.IsBulk() || uint32(v.Origin) > p.head.Newest {
		return fmt.Errorf("%w: a frame of entry %d, born in segment %d", errImage, v.Index, v.Origin)
	}
	v.Group, v.Replica = p.t.Group, p.t.Replica
	p.count.Frames++
	if p.bulk != nil && v.Index < p.bulkLast {
		if err := p.endBulk(); err != nil {
			return err
		}
	}
	p.bulkLast = v.Index
	for fresh := false; ; fresh = true {
		if p.bulk == nil {
			p.bulks++
			p.side = map[format.QueueID]*sidecar.Queue{}
			if p.bulk, err = p.log.NewBulk(logstore.BulkOptions{Number: p.bulks}); err != nil {
				return err
			}
		}
		if _, err = p.bulk.Add(&v); err == nil {
			p.noteFrame(&v, queue)
		}
		if !errors.Is(err, logstore.ErrTooLarge) || fresh {
			return err
		}
		if err := p.endBulk(); err != nil {
			return err
		}
	}
}

func (p *puller) noteFrame(v *format.StoredFrame, queue format.QueueID) {
	q := p.side[queue]
	if q == nil {
		q = &sidecar.Queue{Queue: queue}
		p.side[queue] = q
	}
	q.Bytes += uint64(len(v.Frame))
	q.NewestW = max(q.NewestW, v.W)
}

// endBulk makes the bulk segment that is being written complete, and writes its sidecar.
func (p *puller) endBulk() error {
	w := p.bulk
	p.bulk = nil
	if w == nil {
		return nil
	}
	if err := w.Finish(); err != nil {
		return err
	}
	all := p.log.Bulks()
	s := &all[len(all)-1]
	side := sidecar.Sidecar{Segment: w.Number(), End: uint64(s.Used), Checksum: s.Checksum}
	for _, id := range slices.Sorted(maps.Keys(p.side)) {
		side.Queues = append(side.Queues, *p.side[id])
	}
	return sidecar.Write(p.cfg.FS, p.dir, &side)
}

// takeEntry adds an entry to the log.
func (p *puller) takeEntry(body []byte) error {
	e, outcome, before, err := parseImageEntry(append([]byte(nil), body...))
	if err != nil {
		return err
	}
	if e.Index != p.next {
		return fmt.Errorf("%w: entry %d where %d is due", errImage, e.Index, p.next)
	}
	p.next++
	p.count.Entries++
	if outcome != nil {
		p.outcomes.Add(p.t.Group, p.t.Replica, e.Index, e.Term, Applied{Canonical: outcome, FramesBefore: before})
	}
	p.batch = append(p.batch, e)
	if p.bytes += len(body); p.bytes < entryBatch {
		return nil
	}
	return p.flushEntries()
}

func (p *puller) flushEntries() error {
	if len(p.batch) == 0 {
		return nil
	}
	s := &logstore.Save{Group: p.t.Group, Replica: p.t.Replica, Entries: p.batch, Commit: p.next - 1,
		Outcomes: p.outcomes.Take(p.t.Group, p.t.Replica)}
	p.batch, p.bytes = nil, 0
	return p.log.Append(s)
}

// finish makes everything durable, and then the image count.
func (p *puller) finish() error {
	if err := errors.Join(p.endBulk(), p.flushEntries()); err != nil {
		return err
	}
	if p.next != p.group().Checkpoints[0].Index+1 {
		return fmt.Errorf("%w: the log ends at entry %d, the checkpoint is at %d", errImage, p.next-1, p.group().Checkpoints[0].Index)
	}
	p.m.Disk, p.m.Boot = p.log.Disk()
	for _, s := range p.log.Bulks() {
		m := format.ManifestSegment{Segment: format.SegmentID(s.Segment), State: format.SegmentClosed, End: uint64(s.Used), Checksum: s.Checksum}
		for i := range s.Groups {
			g := &s.Groups[i]
			m.Groups = append(m.Groups, format.ManifestRange{Group: g.Group, First: g.First(), Last: g.Last(), Cut: g.Cut})
		}
		p.m.Segments = append(p.m.Segments, m)
	}
	log := p.log
	p.log = nil
	if err := log.Close(); err != nil {
		return err
	}
	if err := checkpoint.WriteManifest(p.cfg.FS, p.dir, &p.m); err != nil {
		return err
	}
	return markPulled(p.cfg)
}

// abort lets go of what is open; the files go when the next pull begins, or with the next OpenLog.
func (p *puller) abort() {
	if p.bulk != nil {
		p.bulk.Abort()
	}
	if p.out != nil {
		p.out.Close()
	}
	if p.log != nil {
		p.log.Kill()
	}
}
