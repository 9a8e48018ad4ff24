package batch

import "hash/crc32"

// Verify checks that b is exactly one batch as a producer may send it: whole, its checksum right, its records
// decodable within DefaultLimits, counted right and numbered from 0. It says nothing about who may send it: control
// batches and producers are the caller's to judge.
func Verify(b []byte) (Header, error) {
	h, _, err := VerifyTime(b, DefaultLimits)
	return h, err
}

// VerifyTime is Verify within other limits; most is the greatest timestamp of the records, which should be the one in
// the header.
func VerifyTime(b []byte, lim Limits) (h Header, most int64, err error) {
	if h, err = verifyHead(b); err != nil {
		return h, 0, err
	}
	if lim = lim.orDefault(); int(h.Count) > lim.Records {
		return h, 0, tooMany(h.Count, lim)
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	in, err := s.decompress(h.Codec(), b[HeaderBytes:], lim.Bytes)
	if err != nil {
		return h, 0, err
	}
	most, bad := skim(in, &h)
	if bad != nil {
		return h, 0, bad
	}
	return h, most, nil
}

// VerifyRecords is Verify within other limits; in the same pass fn sees each record, which is valid only until fn
// returns. An error of fn's ends the pass and is returned.
func VerifyRecords(b []byte, lim Limits, fn func(*Record) error) (Header, error) {
	h, err := verifyHead(b)
	if err != nil {
		return h, err
	}
	return h, each(h, b[HeaderBytes:], lim, fn, true)
}

// verifyHead checks everything but the records.
func verifyHead(b []byte) (Header, error) {
	h, err := ParseHeader(b)
	switch {
	case err != nil:
		return h, err
	case len(b) < h.Size():
		return h, corrupt("record batch of %d bytes is cut off at %d", h.Size(), len(b))
	case len(b) > h.Size():
		return h, refuse(Invalid, "%d bytes after the record batch: one partition takes one batch", len(b)-h.Size())
	case crc32.Checksum(b[posAttributes:], castagnoli) != h.CRC:
		return h, corrupt("the record batch's checksum is wrong")
	case h.Count <= 0:
		return h, refuse(Invalid, "record batch with %d records", h.Count)
	case h.LastOffsetDelta != h.Count-1:
		return h, refuse(Invalid, "last offset delta %d with %d records", h.LastOffsetDelta, h.Count)
	case h.ProducerID < NoProducer || h.ProducerID != NoProducer && (h.ProducerEpoch < 0 || h.BaseSequence < 0):
		return h, refuse(Invalid, "producer %d with epoch %d and sequence %d", h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	}
	return h, nil
}
