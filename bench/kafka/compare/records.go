package main

import (
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bits of a record batch's attributes.
const transactional = 1 << 4

// batchHeader is what precedes the field Length in a batch, and Length itself; crcFrom is where the sum begins.
const (
	batchHeader = 12
	crcFrom     = 21
)

// batch is a record batch of one uncompressed record, as the producer a has to number it.
func (a *actor) batch(attributes int16, value string) []byte {
	record := kmsg.Record{Key: []byte("k"), Value: []byte(value)}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // the zero that stands for it takes a byte
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes, FirstTimestamp: stamp, MaxTimestamp: stamp,
		ProducerID: a.producer, ProducerEpoch: a.epoch, FirstSequence: a.sequence, NumRecords: 1, Records: record.AppendTo(nil)}
	if a.producer < 0 {
		b.ProducerEpoch, b.FirstSequence = -1, -1
	}
	b.Length = int32(len(b.AppendTo(nil)) - batchHeader)
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[crcFrom:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// batches says of record batches what has to be the same anywhere: offsets, kinds, numbers of records, and what a producer said.
func batches(b []byte) string {
	var all []string
	for len(b) >= batchHeader {
		var one kmsg.RecordBatch
		if err := one.ReadFrom(b); err != nil {
			all = append(all, "broken")
			break
		}
		b = b[min(len(b), batchHeader+int(max(one.Length, 0))):]
		all = append(all, fmt.Sprintf("at %d: %d records to +%d, attributes %#x, producer %v, epoch %d, sequence %d, times %s %s",
			one.FirstOffset, one.NumRecords, one.LastOffsetDelta, one.Attributes, one.ProducerID >= 0, one.ProducerEpoch, one.FirstSequence,
			from(one.FirstTimestamp), from(one.MaxTimestamp)))
	}
	return strings.Join(all, "; ")
}

// from is a time by its distance from that of the first record; those of markers are by the clock of a broker.
func from(millis int64) string {
	if d := millis - stamp; d >= 0 && d < 1_000_000 {
		return fmt.Sprintf("+%d", d)
	}
	return "(clock)"
}
