// Package message makes the messages of a load: names of partitions, transaction ids and payloads that say of themselves
// which message of their partition they are and when they were meant to be sent, so that a consumer can judge order, gaps,
// repeats and latency from the message alone.
//
// The payload is JSON of an exact length whose filling does not compress to much less than three quarters.
//
// Read first: AppendPayload, Stamp.
package message
