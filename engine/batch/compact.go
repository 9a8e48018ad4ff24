package batch

// flagHorizon says that BaseTimestamp is the batch's delete horizon: from then on compaction may remove its records
// without a value. Record timestamps are relative to it like to any other base.
const flagHorizon = 1 << 6

// DeleteHorizon is the time from which records of the batch that have no value may go, milliseconds since 1970; ok is
// false when the batch has none. It means something only in a batch that Retain wrote: producers may set the bit.
func (h Header) DeleteHorizon() (ms int64, ok bool) {
	return h.BaseTimestamp, h.Attributes&flagHorizon != 0
}

// Retain appends to dst the batch that b starts with, without the records that keep refuses, and tells how many are
// left. Offsets, the span of offsets, producer and sequence stay; the checksum is made anew. With horizon, milliseconds
// since 1970 and above 0, the batch gets that delete horizon, else none. keep is called once for each record, which is
// valid only until it returns. A batch of which nothing is left is not compressed, and MaxTimestamp is NoTimestamp.
func Retain(dst, b []byte, horizon int64, lim Limits, keep func(*Record) bool) (out []byte, kept int, err error) {
	h, err := ParseHeader(b)
	if err != nil {
		return dst, 0, err
	}
	span := h.LastOffsetDelta
	h.Attributes &^= flagHorizon
	w := NewBuilder(dst, h)
	if horizon > 0 {
		w.h.Attributes |= flagHorizon
		w.h.BaseTimestamp, w.any = horizon, true
	}
	err = Records(b, lim, func(r *Record) bool {
		if keep(r) {
			w.Add(r)
			kept++
		}
		return true
	})
	if err != nil {
		return dst, 0, err
	}
	if kept == 0 {
		w.h.Attributes &^= codecMask | flagAppendTime | flagHorizon
		w.h.BaseTimestamp, w.h.MaxTimestamp = NoTimestamp, NoTimestamp
	}
	out, err = w.Finish(span)
	return out, kept, err
}
