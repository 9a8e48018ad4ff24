package frontendkafka

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/format"
)

// fetchResult is what one look at a partition gave.
type fetchResult struct {
	code              int16
	hw, stable, start int64
	records           []byte
	bytes             int
	aborted           []engine.Aborted
	diverges          bool
	diverging         kmsg.FetchResponseTopicPartitionDivergingEpoch
}

// resolve finds the topic as it is now, once in a pass.
func (t *fetchTopic) resolve(ctx context.Context, f *fetching) *kerr.Error {
	if t.pass == f.pass {
		return t.fault
	}
	t.pass, t.fault = f.pass, nil
	var found *topic
	var err error
	switch {
	case t.name != "":
		found, err = f.c.f.topic(ctx, f.who, t.name)
		switch {
		case !t.byID:
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			err = kerr.UnknownTopicID
		case err == nil && found.id != t.id:
			err = kerr.InconsistentTopicID // deleted and created again
		}
	case t.byID:
		found, err = f.c.f.topicByID(ctx, f.who, t.id)
	default:
		err = kerr.UnknownTopicOrPartition
	}
	if err != nil {
		t.fault = kerr.TypedErrorForCode(fetchCode(err, t.byID))
		return t.fault
	}
	if t.name, t.width = found.name, found.width; t.byID {
		f.s.named(t)
	}
	return nil
}

// fetchCodes is the closed set of codes that a partition of Fetch may have.
var fetchCodes = map[int16]bool{
	0:                                  true,
	kerr.OffsetOutOfRange.Code:         true,
	kerr.CorruptMessage.Code:           true,
	kerr.UnknownTopicOrPartition.Code:  true,
	kerr.NotLeaderForPartition.Code:    true,
	kerr.ReplicaNotAvailable.Code:      true,
	kerr.TopicAuthorizationFailed.Code: true,
	kerr.KafkaStorageError.Code:        true,
	kerr.FencedLeaderEpoch.Code:        true,
	kerr.UnknownLeaderEpoch.Code:       true,
	kerr.OffsetNotAvailable.Code:       true,
	kerr.UnknownTopicID.Code:           true,
	kerr.InconsistentTopicID.Code:      true,
	kerr.UnknownServerError.Code:       true,
}

// fetchCode is the code of an error within the closed set. What may go away by itself is OFFSET_NOT_AVAILABLE, which
// clients repeat without a word.
func fetchCode(err error, byID bool) int16 {
	code := codeOf(err)
	switch {
	case code == kerr.UnknownTopicOrPartition.Code && byID:
		return kerr.UnknownTopicID.Code
	case fetchCodes[code]:
		return code
	case code == kerr.NotEnoughReplicas.Code, code == kerr.RequestTimedOut.Code, code == kerr.ThrottlingQuotaExceeded.Code:
		return kerr.OffsetNotAvailable.Code
	}
	return kerr.UnknownServerError.Code
}

// renderFrames puts what is stored behind each other as record batches.
func renderFrames(frames []engine.Frame, epoch int32) []byte {
	if len(frames) == 1 && frames[0].Batch != nil {
		return frames[0].Batch
	}
	size := 0
	for i := range frames {
		size += frameSize(&frames[i])
	}
	if size == 0 {
		return nil
	}
	out := make([]byte, 0, size)
	for i := range frames {
		if fr := &frames[i]; fr.Batch != nil {
			out = append(out, fr.Batch...)
		} else if len(fr.Messages) > 0 {
			out = appendMessages(out, fr, epoch)
		}
	}
	return out
}

// frameSize is about what a frame takes in the answer.
func frameSize(fr *engine.Frame) int {
	n := len(fr.Batch)
	if len(fr.Messages) > 0 {
		n += batch.HeaderBytes
	}
	for i := range fr.Messages {
		n += len(fr.Messages[i].Payload) + 24
	}
	return n
}

// appendMessages makes a batch of native messages: no key, the time of the append, the payload as value. What is not
// JSON goes out as it is; what says that it is and is not, as the JSON string of its bytes.
func appendMessages(out []byte, fr *engine.Frame, epoch int32) []byte {
	base := fr.Messages[0].Offset
	h := batch.Head(int64(base))
	if h.LeaderEpoch = epochNumber(fr.Epoch); fr.Epoch == 0 {
		h.LeaderEpoch = epoch
	}
	b := batch.NewBuilder(out, h)
	var hs []batch.RecordHeader
	for i := range fr.Messages {
		m := &fr.Messages[i]
		hs = hs[:0]
		for _, x := range m.Headers {
			hs = append(hs, batch.RecordHeader{Key: []byte(x.Name), Value: x.Value})
		}
		b.Add(&batch.Record{OffsetDelta: int32(m.Offset - base), Timestamp: millis(m.CreatedAt), Value: nativeValue(m), Headers: hs})
	}
	out, err := b.Finish(0)
	if err != nil {
		panic("frontend-kafka: a batch that is not compressed can not be made: " + err.Error())
	}
	return out
}

// nativeValue is the value of a native message.
func nativeValue(m *engine.Record) []byte {
	if m.ContentType != "" && m.ContentType != "application/json" {
		if m.Payload == nil {
			return []byte{}
		}
		return m.Payload
	}
	return batch.AppendNative(nil, m.Payload)
}

// millis is calendar time as records carry it.
func millis(w format.Wall) int64 { return int64(w) / 1000 }

// answerFloor is what a fetch gets though there is no room: slow readers do not stop others.
const answerFloor = 64 << 10

// answers counts the bytes of records in answers that are not written yet, over all connections.
type answers struct{ held atomic.Int64 }

// claim takes room for what the answer may still get.
func (f *fetching) claim() {
	f.reserve(f.got)
	free := f.c.f.opts.Memory - f.c.f.answers.held.Load()
	f.left = min(f.limit-f.got, max(int(free), answerFloor))
	f.reserve(f.got + f.left)
}

// reserve makes the claimed room n bytes.
func (f *fetching) reserve(n int) {
	f.c.f.answers.held.Add(int64(n - f.reserved))
	f.reserved = n
}

// hold leaves what is claimed to the connection until the answer is written.
func (f *fetching) hold() { f.c.held += int64(f.reserved) }

// throttle tells the client to wait when the node has more to do than it can.
func (f *fetching) throttle(err error) {
	if d := pauseOf(err); d > 0 {
		f.throttled, f.c.throttled = max(f.throttled, d), max(f.c.throttled, d)
	}
}

// wrote lets go of what answers held.
func (c *conn) wrote() {
	c.f.answers.held.Add(-c.held)
	c.held = 0
	for _, one := range c.listed {
		one.give()
	}
	c.listed = c.listed[:0]
}
