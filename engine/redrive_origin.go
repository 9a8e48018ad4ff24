package engine

import (
	"errors"
	"slices"
	"strconv"

	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/logstore/rows"
)

// Headers of a dead letter that was moved back: where the message stood before it was moved for the first time, since
// the copy has an id, an offset and a createdAt of its own.
const (
	HeaderOriginalID        = "queen-original-id"
	HeaderOriginalOffset    = "queen-original-offset"
	HeaderOriginalCreatedAt = "queen-original-created-at" // RFC 3339, UTC
	// HeaderOnlyGroup is the consumer group of a copy that no other one is handed.
	HeaderOnlyGroup = format.HeaderOnlyGroup
)

var originHeaders = []string{HeaderOriginalID, HeaderOriginalOffset, HeaderOriginalCreatedAt}

// movedHeaders are the headers of the copy of rec, which had those of hs. A message that has all three of its origin keeps
// them: it was moved before. only is the consumer group that the copy is for, "" for every one.
func movedHeaders(hs []format.Header, rec *Record, only string) []format.Header {
	has := func(name string) bool {
		return slices.ContainsFunc(hs, func(h format.Header) bool { return string(h.Key) == name })
	}
	moved := has(HeaderOriginalID) && has(HeaderOriginalOffset) && has(HeaderOriginalCreatedAt)
	out := make([]format.Header, 0, len(hs)+len(originHeaders)+1)
	for _, h := range hs {
		if string(h.Key) != HeaderOnlyGroup && (moved || !slices.Contains(originHeaders, string(h.Key))) {
			out = append(out, h)
		}
	}
	if !moved && rec.Offset < format.TimerOffset { // what a timer could not fire never stood anywhere
		out = append(out, format.Header{Key: viewBytes(HeaderOriginalID), Value: []byte(rec.ID.String())},
			format.Header{Key: viewBytes(HeaderOriginalOffset), Value: strconv.AppendUint(nil, uint64(rec.Offset), 10)},
			format.Header{Key: viewBytes(HeaderOriginalCreatedAt), Value: format.AppendISO(nil, rec.CreatedAt)})
	}
	if only != "" {
		out = append(out, format.Header{Key: viewBytes(HeaderOnlyGroup), Value: viewBytes(only)})
	}
	return out
}

// movedRecordHeaders is movedHeaders for a record that Kafka produced.
func movedRecordHeaders(hs []batch.RecordHeader, rec *Record, only string) []batch.RecordHeader {
	plain := make([]format.Header, len(hs))
	for i, h := range hs {
		plain[i] = format.Header(h)
	}
	plain = movedHeaders(plain, rec, only)
	out := make([]batch.RecordHeader, len(plain))
	for i, h := range plain {
		out[i] = batch.RecordHeader(h)
	}
	return out
}

var errNoOnlyGroup = errors.New("engine: a message for one consumer group does not name it")

// passes says that the message of a frame is for another consumer group than the one that f reads for. A reader of no
// consumer group sees everything.
func (f *frameReader) passes(head *format.FrameHead, body []byte) (bool, error) {
	if !head.Grouped || f.group == "" {
		return false, nil
	}
	only, err := onlyGroup(head, body)
	if err != nil {
		return false, err
	}
	return only != f.group, nil
}

// onlyGroup is the consumer group that the message of a grouped frame is for.
func onlyGroup(head *format.FrameHead, body []byte) (only string, err error) {
	named := false
	take := func(key, value []byte) {
		if string(key) == HeaderOnlyGroup {
			only, named = string(value), true
		}
	}
	if head.Kind == format.FrameKafka {
		err = batch.Records(body, batchLimits, func(r *batch.Record) bool {
			for _, h := range r.Headers {
				take(h.Key, h.Value)
			}
			return true
		})
	} else {
		var m format.FrameMessage
		var h format.Header
		it := head.Messages(body)
		if it.Next(&m) {
			hs := format.ReadHeaders(m.Headers)
			for hs.Next(&h) {
				take(h.Key, h.Value)
			}
			err = hs.Err()
		}
		err = errors.Join(it.Err(), err)
	}
	if err == nil && !named {
		err = errNoOnlyGroup
	}
	return only, err
}

// mayPass says that a row may hold a message that a consumer group is not handed though retention left it: it is thinned, or
// is one message, which may be another's.
func mayPass(r *rows.Row) bool { return isThinned(r) || r.Count == 1 }
