// Package batch is what the broker knows of Kafka's record batches: their header, their records under any of the five
// codecs, how one is checked before it is stored, patched when it is served, and made from something else: from native
// messages, from the end of a transaction, from the message sets of old clients. It also knows the JSON form in which
// native readers see a record.
//
// A batch of today's format ("v2") is
//
//	base offset 8 | length 4 | leader epoch 4 | magic 1 | CRC-32C 4 | attributes 2 | last offset delta 4 |
//	base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | record count 4 | records
//
// all big-endian; the length counts what follows it and the checksum covers everything from the attributes on, so that
// base offset and leader epoch are written over without it. Attributes: bits 0-2 codec, 3 timestamps are append times,
// 4 transactional, 5 control. Only the records are compressed.
//
// Everything is a pure function over bytes. What is decompressed is bounded by Limits.
package batch
