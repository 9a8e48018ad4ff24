package batch

// Single appends to dst a batch of its own for one record of the batch that b starts with, the one with that offset delta:
// its key, value, headers and time, under the same codec, of no producer and no transaction. edit, unless it is nil, changes
// the record before. ok is false, and dst as it was, when there is no such record.
func Single(dst, b []byte, delta int32, lim Limits, edit func(*Record)) (out []byte, ok bool, err error) {
	from, err := ParseHeader(b)
	if err != nil {
		return dst, false, err
	}
	h := Head(0)
	h.Attributes = from.Attributes & (codecMask | flagAppendTime)
	h.MaxTimestamp = from.MaxTimestamp // the record's time, where the append's counts
	w := NewBuilder(dst, h)
	err = Records(b, lim, func(r *Record) bool {
		if ok = r.OffsetDelta == delta; ok {
			one := *r
			one.OffsetDelta = 0
			if edit != nil {
				edit(&one)
			}
			w.Add(&one)
		}
		return !ok
	})
	if err == nil && ok {
		out, err = w.Finish(0)
	}
	if err != nil || !ok {
		return dst, false, err
	}
	return out, true, nil
}
