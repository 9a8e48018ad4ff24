// Package ceiling is a Kafka port that only answers: it gives every batch an offset, keeps the last ones in memory and hands
// them to whoever fetches. Nothing is checked, stored or flushed. What a loader reaches against it is the loader's own
// ceiling, which the rate against a broker is held to.
//
// It knows what a producer and a directly assigned consumer ask: ApiVersions, Metadata, CreateTopics, InitProducerID,
// Produce, ListOffsets and Fetch with sessions. A session costs as much as partitions in it have changed, so that the ceiling
// does not sink with their number. Consumer groups are not answered.
//
// One lock guards topics, sessions and kept batches. Batches beyond Options.KeepBytes go, oldest first; a fetch below what
// is left is answered OFFSET_OUT_OF_RANGE.
//
// Read first: Listen, Options.
package ceiling
