package logstore

import (
	"fmt"

	"queen/engine/format"
)

// walker goes through the extents of one segment in order.
type walker struct {
	g    *segment
	w    *window
	pos  int64  // of the next extent
	next uint32 // its number
	prev uint64 // checksum of the one before
	free bool   // prev is not known: the first extent of the oldest segment is taken as it is
}

func newWalker(g *segment, w *window, before uint64, free bool) *walker {
	return &walker{g: g, w: w, pos: format.BlockSize, next: 1, prev: before, free: free}
}

// head parses the head of the next extent and checks that it is the one that belongs there.
func (k *walker) head() (h format.ExtentHead, err error) {
	b, err := k.w.bytes(k.pos, format.ExtentHeadSize)
	if err != nil {
		return h, err
	}
	if h, err = format.ParseExtentHead(b); err != nil {
		return h, err
	}
	switch {
	case h.Segment != k.g.head.Segment || h.Nonce != k.g.head.Nonce:
		err = fmt.Errorf("extent of segment %d nonce %#x, want %d nonce %#x",
			h.Segment, h.Nonce, k.g.head.Segment, k.g.head.Nonce)
	case h.Number != k.next:
		err = fmt.Errorf("extent %d, want %d", h.Number, k.next)
	case h.Previous != k.prev && !k.free:
		err = fmt.Errorf("extent %d follows checksum %#x, want %#x", h.Number, h.Previous, k.prev)
	}
	return h, err
}

// step moves behind an extent.
func (k *walker) step(h *format.ExtentHead) {
	k.pos += int64(h.Size())
	k.next++
	k.prev, k.free = h.Checksum(), false
}

// verified reads the next extent whole and verifies it. The bytes are valid until the next call.
func (k *walker) verified() (h format.ExtentHead, b []byte, err error) {
	if h, err = k.head(); err != nil {
		return h, nil, err
	}
	if b, err = k.w.bytes(k.pos, h.Size()); err != nil {
		return h, nil, err
	}
	_, err = format.VerifyExtent(b)
	return h, b, err
}

// recordVisitor sees a record: its head, its position, and a function that reads the first n bytes of the
// body.
type recordVisitor func(head *format.RecordHead, pos int64, body []byte) error

// visitVerified walks the records of a verified extent.
func (k *walker) visitVerified(h *format.ExtentHead, b []byte, visit recordVisitor) error {
	r := h.ReadRecords(b)
	for r.Next() {
		if err := visit(r.Head(), k.pos+int64(r.Pos()), r.Body()); err != nil {
			return err
		}
	}
	return r.Err()
}

// visitHeads walks the records of an extent without its payload: bodies end behind what the records' own
// checksums cover.
func (k *walker) visitHeads(h *format.ExtentHead, visit recordVisitor) error {
	pos, end := k.pos+format.ExtentHeadSize, k.pos+format.ExtentHeadSize+int64(h.Bytes)
	for n := h.Records; n > 0; n-- {
		if pos%format.BlockSize == 0 {
			pos += 8
		}
		head, body, err := readRecord(k.w, pos, end)
		if err != nil {
			return err
		}
		if err := visit(&head, pos, body); err != nil {
			return err
		}
		pos += int64(head.Size())
	}
	if pos != end {
		return fmt.Errorf("records of extent %d end at %d, want %d", h.Number, pos, end)
	}
	return nil
}

// readRecord reads a record's head and the covered part of its body, and verifies them.
func readRecord(w *window, pos, end int64) (head format.RecordHead, body []byte, err error) {
	if pos+format.RecordHeadSize > end {
		return head, nil, fmt.Errorf("record at %d begins behind the end %d", pos, end)
	}
	b, err := w.bytes(pos, format.RecordHeadSize)
	if err != nil {
		return head, nil, err
	}
	if head, err = format.ParseRecordHead(b); err != nil {
		return head, nil, err
	}
	if pos+int64(head.Size()) > end {
		return head, nil, fmt.Errorf("record at %d of %d bytes ends behind %d", pos, head.Size(), end)
	}
	if b, err = w.bytes(pos, format.RecordHeadSize+int(head.Covered)); err != nil {
		return head, nil, err
	}
	return format.ParseRecord(b)
}

// laterExtent looks for a whole extent of this life of the file behind pos, up to end.
func laterExtent(g *segment, w *window, pos, end int64, number uint32) (int64, bool, error) {
	for pos += format.BlockSize; pos+format.BlockSize <= end; pos += format.BlockSize {
		b, err := w.bytes(pos, format.ExtentHeadSize)
		if err != nil {
			return 0, false, err
		}
		h, err := format.ParseExtentHead(b)
		if err != nil || h.Segment != g.head.Segment || h.Nonce != g.head.Nonce || h.Number <= number {
			continue
		}
		if b, err = w.bytes(pos, h.Size()); err != nil {
			continue
		}
		if _, err = format.VerifyExtent(b); err == nil {
			return pos, true, nil
		}
	}
	return 0, false, nil
}
