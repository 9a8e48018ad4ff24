package batch

import "encoding/binary"

// Record is one record of a batch.
type Record struct {
	OffsetDelta int32
	// Timestamp in milliseconds since 1970, -1 for none; the append's where the batch says so.
	Timestamp int64
	// Key and Value: nil is null, which is not the same as empty.
	Key, Value []byte
	// Headers keep their order; names may repeat.
	Headers []RecordHeader
}

// RecordHeader is one header of a record. The name is any bytes, UTF-8 by convention; a nil value is null.
type RecordHeader struct {
	Key   []byte
	Value []byte
}

// Records calls fn for each record of the batch that b starts with, until it returns false. The record, and what it
// points to, is valid only until fn returns. Records may have gaps between their offsets. Batches that were checked
// once do not fail, other than by limits; the checksum is not looked at.
func Records(b []byte, lim Limits, fn func(*Record) bool) error {
	h, err := ParseHeader(b)
	if err != nil {
		return err
	}
	if len(b) < h.Size() {
		return corrupt("record batch of %d bytes is cut off at %d", h.Size(), len(b))
	}
	return each(h, b[HeaderBytes:h.Size()], lim, func(r *Record) error {
		if !fn(r) {
			return errEnough
		}
		return nil
	}, false)
}

// maxHeaders bounds the headers of one record, which take 24 times the memory that they take on the wire.
const maxHeaders = 1 << 16

// errEnough ends a pass early; nobody sees it.
var errEnough = &Error{Reason: Invalid, Detail: "enough"}

// each decodes the records of a batch. dense wants offset deltas 0, 1, 2, ... and nothing after the last record.
func each(h Header, body []byte, lim Limits, fn func(*Record) error, dense bool) error {
	lim = lim.orDefault()
	if h.Count < 0 || int(h.Count) > lim.Records {
		return tooMany(h.Count, lim)
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	in, err := s.decompress(h.Codec(), body, lim.Bytes)
	if err != nil {
		return err
	}
	d, last := decoder{b: in}, int32(-1)
	for i := range int(h.Count) {
		r := &s.rec
		if err := d.record(r, &s.heap, &h); err != nil {
			err.Record = i
			return err
		}
		switch {
		case dense && r.OffsetDelta != int32(i):
			return &Error{Reason: Invalid, Record: i, Detail: "offset delta is not the record's number"}
		case r.OffsetDelta <= last || r.OffsetDelta > h.LastOffsetDelta:
			return &Error{Reason: Corrupt, Record: i, Detail: "offset delta is out of order"}
		}
		last = r.OffsetDelta
		if err := fn(r); err == errEnough {
			return nil
		} else if err != nil {
			return err
		}
	}
	if dense && len(d.b) > 0 {
		return refuse(Invalid, "%d bytes after the last of %d records", len(d.b), h.Count)
	}
	return nil
}

// decoder reads records off its bytes.
type decoder struct{ b []byte }

// record reads one record into r; headers go to *heap, which is used again.
func (d *decoder) record(r *Record, heap *[]RecordHeader, h *Header) *Error {
	n, ok := d.varint()
	if !ok || n < 0 || n > int64(len(d.b)) {
		return corrupt("length is not that of a record")
	}
	in := decoder{d.b[:n]}
	d.b = d.b[n:]
	if len(in.b) == 0 {
		return corrupt("record without attributes")
	}
	in.b = in.b[1:]
	dt, ok1 := in.varint()
	do, ok2 := in.varint()
	var ok3, ok4 bool
	r.Key, ok3 = in.bytes()
	r.Value, ok4 = in.bytes()
	if !ok1 || !ok2 || !ok3 || !ok4 || do < 0 || do > 1<<31-1 {
		return corrupt("record can not be decoded")
	}
	r.OffsetDelta = int32(do)
	if h.AppendTime() {
		r.Timestamp = h.MaxTimestamp
	} else {
		r.Timestamp = h.BaseTimestamp + dt
	}
	if !in.headers(r, heap) || len(in.b) > 0 {
		return corrupt("record headers can not be decoded")
	}
	return nil
}

func (d *decoder) headers(r *Record, heap *[]RecordHeader) bool {
	n, ok := d.varint()
	if !ok || n < 0 || n > maxHeaders || n > int64(len(d.b))/2 { // a header has at least two bytes
		return false
	}
	r.Headers = nil
	if n == 0 {
		return true
	}
	hs := (*heap)[:0]
	for range n {
		k, ok1 := d.bytes()
		v, ok2 := d.bytes()
		if !ok1 || !ok2 || k == nil {
			return false
		}
		hs = append(hs, RecordHeader{k, v})
	}
	*heap, r.Headers = hs, hs
	return true
}

// varint reads a zigzag number of at most 64 bits.
func (d *decoder) varint() (int64, bool) {
	if len(d.b) > 0 && d.b[0] < 0x80 { // most are one byte
		u := d.b[0]
		d.b = d.b[1:]
		return int64(u>>1) ^ -int64(u&1), true
	}
	v, n := binary.Varint(d.b)
	if n <= 0 {
		return 0, false
	}
	d.b = d.b[n:]
	return v, true
}

// bytes reads a length and as many bytes; -1 is nil.
func (d *decoder) bytes() ([]byte, bool) {
	n, ok := d.varint()
	switch {
	case !ok || n < -1 || n > int64(len(d.b)):
		return nil, false
	case n == -1:
		return nil, true
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out, true
}
