package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
	"queen/engine/logstore"
)

// An image travels in blocks of {kind u32, length u32, xxh3-64 of the body u64} and body. Their order is that of the kinds; files
// come in the order in which the head lists them, each in pieces that end with it.
type imageKind uint32

const (
	imageHeadBlock  imageKind = 1
	imageFileBlock  imageKind = 2
	imageKeyedBlock imageKind = 3
	imageFrameBlock imageKind = 4
	imageEntryBlock imageKind = 5
	imageEndBlock   imageKind = 6
)

const (
	imageBlockHead = 16
	// imagePiece is how large pieces of files are; maxImageBlock is above the largest manifest and the largest entry.
	imagePiece    = 1 << 20
	maxImageBlock = format.MaxManifestBytes + 1<<20
)

// errImage refuses what came over a connection.
var errImage = errors.New("engine: an image of another node is damaged")

func writeImageBlock(w io.Writer, kind imageKind, body []byte) error {
	var h [imageBlockHead]byte
	le := binary.LittleEndian
	le.PutUint32(h[:], uint32(kind))
	le.PutUint32(h[4:], uint32(len(body)))
	le.PutUint64(h[8:], xxh3.HashSeed(body, uint64(kind)))
	if _, err := w.Write(h[:]); err != nil {
		return err
	}
	_, err := w.Write(body)
	return err
}

// readImageBlock reads the next block into buf, which grows as bytes arrive and not by what a head claims.
func readImageBlock(r io.Reader, buf []byte) (imageKind, []byte, error) {
	var h [imageBlockHead]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, buf, err
	}
	le := binary.LittleEndian
	kind, n := imageKind(le.Uint32(h[:])), int(le.Uint32(h[4:]))
	if n > maxImageBlock {
		return 0, buf, fmt.Errorf("%w: a block of %d bytes", errImage, n)
	}
	buf = buf[:0]
	for len(buf) < n {
		at := len(buf)
		buf = append(buf, make([]byte, min(n-at, imagePiece))...)
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			return 0, buf, err
		}
	}
	if xxh3.HashSeed(buf, uint64(kind)) != le.Uint64(h[8:]) {
		return 0, buf, fmt.Errorf("%w: checksum of a block of %d bytes", errImage, n)
	}
	return kind, buf, nil
}

// imageHead precedes the manifest in the first block.
type imageHead struct {
	Newest uint32 // the newest segment of the node it comes from
	Files  uint32
}

const imageHeadSize = 8

func (h *imageHead) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, h.Newest)
	return binary.LittleEndian.AppendUint32(b, h.Files)
}

func parseImageHead(b []byte) (h imageHead, m format.Manifest, err error) {
	if len(b) < imageHeadSize {
		return h, m, fmt.Errorf("%w: a head of %d bytes", errImage, len(b))
	}
	h = imageHead{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])}
	if m, err = format.ParseManifest(b[imageHeadSize:]); err != nil {
		return h, m, fmt.Errorf("%w: %w", errImage, err)
	}
	if len(m.Groups) != 1 || len(m.Groups[0].Checkpoints) != 1 || int(h.Files) != len(m.Groups[0].Files) || h.Newest == 0 {
		return h, m, fmt.Errorf("%w: a head of %d groups and %d files", errImage, len(m.Groups), h.Files)
	}
	return h, m, nil
}

// imageEnd says how much there was.
type imageEnd struct{ Frames, Entries uint64 }

func (e *imageEnd) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.Frames)
	return binary.LittleEndian.AppendUint64(b, e.Entries)
}

const imageFrameFields = 6*8 + 4*4

// appendImageFrame appends {index, term, partition, base, W, queue u64, origin, count, length of refused u32, flags u32}, refused, frame.
func appendImageFrame(b []byte, v *format.StoredFrame, queue format.QueueID) []byte {
	le := binary.LittleEndian
	for _, n := range []uint64{uint64(v.Index), uint64(v.Term), uint64(v.Partition), uint64(v.Base), uint64(v.W), uint64(queue)} {
		b = le.AppendUint64(b, n)
	}
	for _, n := range []uint32{uint32(v.Origin), v.Count, uint32(len(v.Refused)), uint32(v.Flags)} {
		b = le.AppendUint32(b, n)
	}
	return append(append(b, v.Refused...), v.Frame...)
}

func parseImageFrame(b []byte) (v format.StoredFrame, queue format.QueueID, err error) {
	if len(b) < imageFrameFields {
		return v, 0, fmt.Errorf("%w: a frame of %d bytes", errImage, len(b))
	}
	le := binary.LittleEndian
	v.Index, v.Term = format.Index(le.Uint64(b)), format.Term(le.Uint64(b[8:]))
	v.Partition, v.Base, v.W = format.PartitionID(le.Uint64(b[16:])), format.Offset(le.Uint64(b[24:])), format.Wall(le.Uint64(b[32:]))
	queue = format.QueueID(le.Uint64(b[40:]))
	v.Origin, v.Count, v.Flags = format.SegmentID(le.Uint32(b[48:])), le.Uint32(b[52:]), format.RowFlags(le.Uint32(b[60:]))
	refused := int(le.Uint32(b[56:]))
	b = b[imageFrameFields:]
	partial := v.Flags&format.RowPartial != 0
	if refused > len(b) || partial != (refused > 0) || partial && refused != int(v.Count+7)/8 {
		return v, 0, fmt.Errorf("%w: a frame of %d messages with %d bytes of refused ones", errImage, v.Count, refused)
	}
	if partial {
		v.Refused = b[:refused]
	}
	v.Frame = b[refused:]
	_, _, err = format.ParseFrame(v.Frame)
	return v, queue, err
}

const imageEntryFields = 7*8 + 2*4

// appendImageEntry appends {index, term, key, client, series, responded to, frames before u64, type, length of the outcome + 1 or 0
// for none u32}, outcome, data.
func appendImageEntry(b []byte, e *logstore.Entry, outcome []byte, before uint64) []byte {
	le := binary.LittleEndian
	for _, n := range []uint64{uint64(e.Index), uint64(e.Term), e.Key, e.ClientID, e.SeriesID, e.RespondedTo, before} {
		b = le.AppendUint64(b, n)
	}
	b = le.AppendUint32(b, uint32(e.Type))
	length := uint32(0)
	if outcome != nil {
		length = uint32(len(outcome)) + 1
	}
	b = le.AppendUint32(b, length)
	return append(append(b, outcome...), e.Data...)
}

func parseImageEntry(b []byte) (e logstore.Entry, outcome []byte, before uint64, err error) {
	if len(b) < imageEntryFields {
		return e, nil, 0, fmt.Errorf("%w: an entry of %d bytes", errImage, len(b))
	}
	le := binary.LittleEndian
	e = logstore.Entry{Index: format.Index(le.Uint64(b)), Term: format.Term(le.Uint64(b[8:])), Key: le.Uint64(b[16:]),
		ClientID: le.Uint64(b[24:]), SeriesID: le.Uint64(b[32:]), RespondedTo: le.Uint64(b[40:]), Type: format.EntryType(le.Uint32(b[56:]))}
	before = le.Uint64(b[48:])
	length := int(le.Uint32(b[60:]))
	b = b[imageEntryFields:]
	if length > len(b)+1 {
		return e, nil, 0, fmt.Errorf("%w: entry %d with an outcome of %d bytes", errImage, e.Index, length)
	}
	if length > 0 {
		outcome, b = b[:length-1:length-1], b[length-1:]
	}
	e.Data = b
	return e, outcome, before, nil
}

// pieces collects what is written into blocks.
type pieces struct {
	buf  []byte
	emit func([]byte) error
}

// Write implements io.Writer.
func (p *pieces) Write(b []byte) (int, error) {
	p.buf = append(p.buf, b...)
	if len(p.buf) < imagePiece {
		return len(b), nil
	}
	return len(b), p.flush()
}

func (p *pieces) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	err := p.emit(p.buf)
	p.buf = p.buf[:0]
	return err
}
