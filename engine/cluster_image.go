package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"

	"queen/engine/checkpoint"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/logstore/idruns"
	"queen/engine/logstore/rows"
	"queen/engine/vfs"
)

// Image is what another node needs to stand where this one stood at its newest checkpoint: the checkpoint, keyed rows, id runs,
// the frames that are live up to a mark, and the log from there to the checkpoint. Until Close no segment is given away and no
// frame moves.
type Image struct {
	n        *Node
	base     format.ManifestMark // the log is shown from behind it
	position format.ManifestCheckpoint
	group    format.ManifestGroup
	cluster  format.UUID
	files    []imageFile
	// Frames of entries from openFrom on, in segments from openSegment on, are found by their entries, earlier ones by the row
	// indexes. newest is the newest segment.
	openFrom    format.Index
	openSegment uint32
	newest      uint32
	bulks       []uint32
	// applied and stored are the newest entry applied when it was taken, and how many frames had been stored then.
	applied format.Index
	stored  uint64
}

// imageFile is an immutable file, held open: it may be removed meanwhile.
type imageFile struct {
	format.ManifestFile
	name string
	f    vfs.File
}

// errNoImage: there is nothing to copy yet, or not at this moment.
var errNoImage = errors.New("engine: no image can be taken of this node now")

// Image takes one. It waits until frames rest.
func (n *Node) Image(ctx context.Context) (*Image, error) {
	im := &Image{n: n}
	for {
		var err error
		taken := make(chan struct{})
		take := func() { err = im.take(); close(taken) }
		select {
		case n.files.calls <- take:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-n.files.quit:
			return nil, errStopping
		}
		<-taken
		if !errors.Is(err, errMoving) {
			return im, err
		}
		t := n.cfg.Clock.NewTimer(imagePause)
		select {
		case <-t.C():
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

const imagePause = paceEvery

// errMoving: frames are being relocated.
var errMoving = errors.New("engine: frames are being moved")

// take runs in the goroutine of the files.
func (im *Image) take() error {
	f := im.n.files
	if !f.isIdle() {
		return errMoving
	}
	g := f.group()
	if len(g.Checkpoints) == 0 {
		return fmt.Errorf("%w: it has no checkpoint", errNoImage)
	}
	im.position = g.Checkpoints[0]
	from := keptFrom(g.Checkpoints[len(g.Checkpoints)-1].Mark)
	for _, m := range g.Marks {
		if m.Number == from {
			im.base = m
		}
	}
	if im.base.Number == 0 {
		return fmt.Errorf("%w: mark %d is not known", errNoImage, from)
	}
	im.group = format.ManifestGroup{Group: g.Group, Marks: slices.Clone(g.Marks), Checkpoints: []format.ManifestCheckpoint{im.position}}
	im.cluster = f.manifest.Cluster
	if err := im.hold(g); err != nil {
		im.release()
		return err
	}
	r := restorer{n: im.n, f: f, position: im.position}
	im.openFrom = r.firstOpen()
	for _, s := range im.n.seq.Log().Segments() {
		im.newest = s.Segment
		if im.openSegment == 0 && (!s.Sealed || !f.isClosed(s.Segment)) {
			im.openSegment = s.Segment
		}
	}
	for _, s := range im.n.seq.Log().Bulks() {
		im.bulks = append(im.bulks, s.Segment)
	}
	im.n.state.RLock()
	im.applied, im.stored = im.n.state.m.Applied(), im.n.state.m.Counters().Rows
	im.n.state.RUnlock()
	f.images++
	return nil
}

// hold opens the files that the image needs.
func (im *Image) hold(g *format.ManifestGroup) error {
	chains := checkpoint.Chains(g.Files, im.position.Mark)
	if len(chains) == 0 {
		return fmt.Errorf("%w: the checkpoint at mark %d has no base", errNoImage, im.position.Mark)
	}
	files := slices.Clone(chains[0])
	for _, f := range g.Files {
		if f.Kind == format.FileIDRun {
			files = append(files, f)
		}
	}
	for _, f := range files {
		name := imageFileName(g.Group, &f)
		h, err := im.n.cfg.FS.Open(path.Join(im.n.cfg.Dir, name), vfs.ReadOnly)
		if err != nil {
			return fmt.Errorf("engine: image: %w", err)
		}
		im.files = append(im.files, imageFile{f, name, h})
	}
	im.group.Files = files
	return nil
}

// imageFileName is the name of a file that is copied as it is.
func imageFileName(g format.RaftGroup, f *format.ManifestFile) string {
	if f.Kind == format.FileIDRun {
		return idruns.FileName(g, f)
	}
	return checkpoint.FileName(f.Number)
}

func (im *Image) release() {
	for _, f := range im.files {
		f.f.Close()
	}
	im.files = nil
}

// Close lets go of what is held.
func (im *Image) Close() {
	im.release()
	done := func() { im.n.files.images--; im.n.files.poke() }
	select {
	case im.n.files.calls <- done:
	case <-im.n.files.quit:
	}
}

// Base is the entry that the image's log begins behind, and the newest entry of it.
func (im *Image) Base() (base, end format.Index) { return im.base.Index, im.position.Index }

// WriteTo writes the image as ReadImage takes it, at the pace of background work. ctx ends it.
func (im *Image) WriteTo(ctx context.Context, w io.Writer) error {
	s := &imageWriter{im: im, ctx: ctx, w: w, pacer: pacer{n: im.n, quit: im.n.files.quit}}
	for _, step := range []func() error{s.head, s.files, s.keyed, s.frames, s.log, s.end} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// imageWriter writes an image, block after block.
type imageWriter struct {
	im      *Image
	ctx     context.Context
	w       io.Writer
	pacer   pacer
	buf     []byte
	count   imageEnd
	slice   []movingFrame
	judge   judge
	entered uint64 // frames stored before the entry that comes next
}

func (s *imageWriter) block(kind imageKind, body []byte) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if err := writeImageBlock(s.w, kind, body); err != nil {
		return err
	}
	return s.pacer.spend(len(body))
}

func (s *imageWriter) head() error {
	m := format.Manifest{Cluster: s.im.cluster, Groups: []format.ManifestGroup{s.im.group}}
	m.Groups[0].Floor = s.im.base.Index
	h := imageHead{Newest: s.im.newest, Files: uint32(len(s.im.files))}
	return s.block(imageHeadBlock, m.Append(h.append(nil)))
}

// files writes every file in pieces.
func (s *imageWriter) files() error {
	for i := range s.im.files {
		f := &s.im.files[i]
		for at := int64(0); at < int64(f.Size); {
			b := make([]byte, min(imagePiece, int64(f.Size)-at))
			if n, err := f.f.ReadAt(b, at); n < len(b) {
				return fmt.Errorf("engine: image: %s: %w", f.name, err)
			}
			if err := s.block(imageFileBlock, b); err != nil {
				return err
			}
			at += int64(len(b))
		}
	}
	return nil
}

// keyed writes the rows of the keyed store as of the checkpoint.
func (s *imageWriter) keyed() error {
	version := s.im.position.Keyed
	if version == 0 {
		return nil
	}
	out := &pieces{emit: func(b []byte) error { return s.block(imageKeyedBlock, b) }}
	if _, err := s.im.n.files.store.Export(s.ctx, version, out); err != nil {
		return fmt.Errorf("engine: image: keyed rows: %w", err)
	}
	return out.flush()
}

// frames writes the live frames of entries up to the base: of bulk segments in their order, of the commit stream in slices that
// are in the order of the log.
func (s *imageWriter) frames() error {
	n := s.im.n
	s.judge = judge{n: n}
	for _, b := range s.im.bulks {
		if err := s.bulk(b); err != nil {
			return err
		}
	}
	in := func(g format.SegmentID) bool {
		return !g.IsBulk() && (s.im.openSegment == 0 || uint32(g) < s.im.openSegment)
	}
	if err := n.files.runs.WalkAll(in, s.row); err != nil {
		return err
	}
	if s.im.openFrom <= s.im.base.Index {
		var err error
		r := restorer{n: n, f: n.files, position: s.im.position}
		w := logWalk{r: &r, to: s.im.base.Index, rowsFrom: s.im.openFrom, idsFrom: math.MaxUint64, runsFrom: math.MaxUint64}
		w.emit = func(row rows.Row) { err = errors.Join(err, s.row(&row)) }
		if err = errors.Join(w.walk(s.im.openFrom), err); err != nil {
			return err
		}
	}
	return s.flush()
}

// bulk writes the live frames of a bulk segment.
func (s *imageWriter) bulk(segment uint32) error {
	log := s.im.n.seq.Log()
	return log.WalkFrames(segment, func(pos logstore.EntryPos, length uint32, v *format.StoredFrame) error {
		row := rows.Row{Partition: v.Partition, Base: v.Base, W: v.W, Segment: pos.Segment, Pos: pos.Pos, Len: length, Count: v.Count,
			Kept: v.Kept(), Flags: rows.Flags(v.Flags)}
		d := s.judge.frame(&row)
		if v.Group != s.im.group.Group || v.Index > s.im.base.Index || !d.live {
			return nil
		}
		whole, _, err := log.ReadFrame(pos, 0, length, nil)
		if err != nil {
			return err
		}
		return s.frame(&whole, d.queue)
	})
}

// row takes the row of a frame in the commit stream.
func (s *imageWriter) row(r *rows.Row) error {
	d := s.judge.frame(r)
	if !d.live {
		return nil
	}
	if k := len(s.slice); k > 0 && sameFrame(&s.slice[k-1].row, r) {
		s.slice[k-1].more = append(s.slice[k-1].more, *r)
		return nil
	}
	if len(s.slice) == sliceFrames {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.slice = append(s.slice, movingFrame{row: *r, queue: d.queue})
	return nil
}

// flush writes the frames that were collected.
func (s *imageWriter) flush() error {
	slices.SortFunc(s.slice, func(a, b movingFrame) int {
		return cmp.Or(cmp.Compare(a.row.Segment, b.row.Segment), cmp.Compare(a.row.Pos, b.row.Pos), cmp.Compare(a.row.Off, b.row.Off))
	})
	for i := range s.slice {
		f := &s.slice[i]
		r := &f.row
		v, b, err := s.im.n.seq.Log().ReadFrame(logstore.EntryPos{Segment: r.Segment, Pos: r.Pos}, r.Off, r.Len, nil)
		if err != nil {
			return unreadable(r, err)
		}
		if v.Index > s.im.base.Index {
			continue // it comes with the log
		}
		head, _, err := format.ParseFrame(b)
		if err == nil && !head.Placed {
			err = errors.New("a frame without its ordinal")
		}
		if err != nil {
			return unreadable(r, err)
		}
		v.Partition, v.Base, v.W, v.Count = r.Partition, r.Base, r.W, head.Count
		v.Flags, v.Refused = format.RowFlags(r.Flags), f.refused(head.Count)
		if err := s.frame(&v, f.queue); err != nil {
			return err
		}
	}
	s.slice = s.slice[:0]
	return nil
}

func (s *imageWriter) frame(v *format.StoredFrame, queue format.QueueID) error {
	s.count.Frames++
	s.buf = appendImageFrame(s.buf[:0], v, queue)
	return s.block(imageFrameBlock, s.buf)
}

// log writes the entries behind the base up to the checkpoint, whole, with what apply decided about them.
func (s *imageWriter) log() error {
	if err := s.countFrames(); err != nil {
		return err
	}
	log, group := s.im.n.seq.Log(), s.im.group.Group
	replica := s.im.n.replica()
	err := log.Replay(group, s.im.base.Index+1, func(v logstore.View) error {
		if v.Index > s.im.position.Index {
			return errWalked
		}
		got, err := log.Entries(nil, group, replica, v.Index, v.Index+1, math.MaxUint64, nil)
		if err != nil || len(got) != 1 {
			return errors.Join(err, fmt.Errorf("engine: image: entry %d: %d found", v.Index, len(got)))
		}
		s.count.Entries++
		s.buf = appendImageEntry(s.buf[:0], &got[0], v.Outcome, s.entered)
		n, err := framesStored(v.Outcome)
		s.entered += n
		return errors.Join(err, s.block(imageEntryBlock, s.buf))
	})
	if errors.Is(err, errWalked) {
		err = nil
	}
	return err
}

// countFrames finds out how many frames were stored before the first entry of the log: fewer than the state had when the image was
// taken, by those of the entries between.
func (s *imageWriter) countFrames() error {
	if err := s.im.n.seq.FlushOutcomes(); err != nil {
		return err
	}
	s.entered = s.im.stored
	err := s.im.n.seq.Log().Replay(s.im.group.Group, s.im.base.Index+1, func(v logstore.View) error {
		if v.Index > s.im.applied {
			return errWalked
		}
		if v.Outcome == nil && v.Type == format.EntryEncoded {
			e, err := format.ParseEntryHead(v.Head)
			if err != nil || !isMark(&e) {
				return errors.Join(err, fmt.Errorf("%w: the outcome of entry %d is not there yet", errNoImage, v.Index))
			}
		}
		n, err := framesStored(v.Outcome)
		s.entered -= n
		return err
	})
	if errors.Is(err, errWalked) {
		return nil
	}
	return err
}

// framesStored counts the rows that an outcome stands for.
func framesStored(outcome []byte) (n uint64, err error) {
	frames, refused, err := format.ParseEntryOutcome(outcome)
	if err != nil || refused != format.CodeOK {
		return 0, err
	}
	var o format.FrameOutcome
	for frames.Next(&o) {
		switch {
		case o.Code != format.CodeOK || o.Kept == 0 && len(o.Controls) == 0:
		case o.IsEnd:
			n += uint64(len(o.Controls))
		default:
			n++
		}
	}
	return n, frames.Err()
}

func (s *imageWriter) end() error { return s.block(imageEndBlock, s.count.append(nil)) }
