package frontendkafka

import (
	"errors"
	"runtime"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/batch"
)

// unpacking is held by those who look into batches.
var unpacking = make(chan struct{}, runtime.GOMAXPROCS(0))

// checked makes of what a client sent one batch that may be stored. What is wrong with single records goes into part.
func (c *produceCall) checked(records []byte, rules *topicSettings, part *kmsg.ProduceResponseTopicPartition) ([]byte, error) {
	if len(records) == 0 {
		// Kafka 4 has no other word for a partition without a batch. CORRUPT_MESSAGE is for what a repeat may mend: clients would send
		// the same nothing again.
		return nil, &fault{kerr.InvalidRecord, "there is no record batch for the partition"}
	}
	// A batch of a megabyte may hold 64: no more of them are unpacked at once than there are processors to do it.
	unpacking <- struct{}{}
	defer func() { <-unpacking }()
	b := records
	if c.req.Version < produceBatches && (len(b) <= 16 || b[16] < batch.Magic) {
		var err error
		if b, err = batch.FromMessageSet(nil, b, batch.Limits{}); err != nil {
			return nil, batchFault(err, kerr.InvalidRecord)
		}
	}
	if len(b) > rules.maxMessageBytes {
		return nil, &fault{kerr.MessageTooLarge, "the record batch is larger than max.message.bytes"}
	}
	h, most, err := batch.VerifyTime(b, batch.Limits{})
	if err == nil && rules.compact {
		keyless(b, part)
	}
	switch {
	case err != nil:
		return nil, batchFault(err, kerr.UnsupportedForMessageFormat)
	case len(part.ErrorRecords) > 0:
		return nil, &fault{kerr.InvalidRecord, "a compacted topic takes no record without a key"}
	case h.Control():
		return nil, &fault{kerr.InvalidRecord, "control batches are the broker's to write"}
	case h.AppendTime():
		return nil, &fault{kerr.InvalidTimestamp, "the time of the append is the broker's to write"}
	case h.Codec() == batch.Zstd && c.req.Version < produceZstd:
		return nil, &fault{kerr.UnsupportedCompressionType, "zstd needs version 7 of the request"}
	case h.Transactional() && (h.ProducerID == batch.NoProducer || c.req.TransactionID == nil):
		return nil, &fault{kerr.InvalidRecord, "a transactional batch without a producer or a transactional id"}
	}
	if most != h.MaxTimestamp {
		batch.SetMaxTimestamp(b, most) // some clients leave it to the broker
	}
	return b, nil
}

// batchFault is the code of what is wrong with a batch; old is that of another format.
func batchFault(err error, old *kerr.Error) error {
	code := kerr.CorruptMessage
	switch batch.ReasonOf(err) {
	case batch.TooLarge:
		code = kerr.MessageTooLarge
	case batch.Invalid:
		code = kerr.InvalidRecord
	case batch.BadMagic:
		code = old
	case batch.BadCodec:
		code = kerr.UnsupportedCompressionType
	}
	return &fault{code, err.Error()}
}

// produceCode is the code of a refused partition. A name that is too long was refused before; that a queue is gone is
// as if it had never been.
func produceCode(err error) int16 {
	var e *engine.Error
	if errors.As(err, &e) && e != nil {
		switch {
		case e.Code == engine.CodeTimeout && e.Outcome == engine.OutcomeNone:
			return kerr.NotEnoughReplicas.Code // nothing was written: only 7 says that it may have been
		case e.Code == engine.CodeRateLimited:
			return kerr.NotEnoughReplicas.Code // the answer tells how long to wait; 89 is for requests of administrators
		}
	}
	return fenced(err, true)
}

// keyless names the records of a checked batch that a compacted topic does not take.
func keyless(b []byte, part *kmsg.ProduceResponseTopicPartition) {
	n := int32(0)
	err := batch.Records(b, batch.Limits{}, func(r *batch.Record) bool {
		if r.Key == nil {
			bad := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			bad.RelativeOffset, bad.ErrorMessage = n, kmsg.StringPtr("a compacted topic takes no record without a key")
			part.ErrorRecords = append(part.ErrorRecords, bad)
		}
		n++
		return len(part.ErrorRecords) < errorRecordsMax
	})
	if err != nil {
		panic("frontend-kafka: a checked batch can not be read: " + err.Error())
	}
}
