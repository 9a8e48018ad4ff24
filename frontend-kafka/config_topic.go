package frontendkafka

import (
	"math"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The names that mean something here; all others are kept and told again.
const (
	cleanupPolicy   = "cleanup.policy"
	maxMessageBytes = "max.message.bytes"
	timestampType   = "message.timestamp.type"
	minInsync       = "min.insync.replicas"
	retentionMs     = "retention.ms"
	retentionBytes  = "retention.bytes"

	deleteRetentionMs = "delete.retention.ms"
	minCompactionLag  = "min.compaction.lag.ms"
	maxCompactionLag  = "max.compaction.lag.ms"
	minDirtyRatio     = "min.cleanable.dirty.ratio"
)

const (
	tBool   = kmsg.ConfigTypeBoolean
	tString = kmsg.ConfigTypeString
	tInt    = kmsg.ConfigTypeInt
	tLong   = kmsg.ConfigTypeLong
	tDouble = kmsg.ConfigTypeDouble
	tList   = kmsg.ConfigTypeList
)

const defaultMaxMessageBytes = 1_048_588

var maxLong = strconv.FormatInt(math.MaxInt64, 10)

const recordedOnly = " Kept and told again; it changes nothing here."

// topicConfigs are all names of a topic that Kafka 4.3 takes.
var topicConfigs = configNames{
	{name: cleanupPolicy, kind: tList, def: "delete", check: someOf("delete", "compact"), synonym: "log.cleanup.policy",
		doc: "delete removes what retention names; compact keeps the newest record of each key, of segments that are closed."},
	{name: "compression.gzip.level", kind: tInt, def: "-1", check: gzipLevel, doc: "Level of gzip." + recordedOnly},
	{name: "compression.lz4.level", kind: tInt, def: "9", check: within32(1, 17), doc: "Level of lz4." + recordedOnly},
	{name: "compression.type", kind: tString, def: "producer", synonym: "compression.type",
		check: oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
		doc:   "Batches are stored as their producer compressed them." + recordedOnly},
	{name: "compression.zstd.level", kind: tInt, def: "3", check: within32(-131072, 22), doc: "Level of zstd." + recordedOnly},
	{name: deleteRetentionMs, kind: tLong, def: "86400000", check: within64(0), synonym: "log.cleaner.delete.retention.ms",
		doc: "How long a compacted topic keeps the mark of a deleted key after the key's records have gone."},
	{name: "file.delete.delay.ms", kind: tLong, def: "60000", check: within64(0), synonym: "log.segment.delete.delay.ms",
		doc: "Wait before a file is removed." + recordedOnly},
	{name: "flush.messages", kind: tLong, def: maxLong, check: within64(1), synonym: "log.flush.interval.messages",
		doc: "Every acknowledged record is on disk." + recordedOnly},
	{name: "flush.ms", kind: tLong, def: maxLong, check: within64(0), synonym: "log.flush.interval.ms",
		doc: "Every acknowledged record is on disk." + recordedOnly},
	{name: "follower.replication.throttled.replicas", kind: tList, check: throttled, doc: "Replicas to slow down." + recordedOnly},
	{name: "index.interval.bytes", kind: tInt, def: "4096", check: within32(0, math.MaxInt32), synonym: "log.index.interval.bytes",
		doc: "Spacing of an index." + recordedOnly},
	{name: "leader.replication.throttled.replicas", kind: tList, check: throttled, doc: "Replicas to slow down." + recordedOnly},
	{name: "local.retention.bytes", kind: tLong, def: "-2", check: within64(-2), synonym: "log.local.retention.bytes",
		doc: "There is no tiered storage." + recordedOnly},
	{name: "local.retention.ms", kind: tLong, def: "-2", check: within64(-2), synonym: "log.local.retention.ms",
		doc: "There is no tiered storage." + recordedOnly},
	{name: maxCompactionLag, kind: tLong, def: maxLong, check: within64(1), synonym: "log.cleaner.max.compaction.lag.ms",
		doc: "How long what is new waits at most for compaction, of segments that are closed."},
	{name: maxMessageBytes, kind: tInt, def: strconv.Itoa(defaultMaxMessageBytes), check: within32(0, math.MaxInt32), synonym: "message.max.bytes",
		doc: "Largest record batch, in bytes as it is sent."},
	{name: "message.timestamp.after.max.ms", kind: tLong, def: "3600000", check: within64(0), synonym: "log.message.timestamp.after.max.ms",
		doc: "How far a record's time may be ahead." + recordedOnly},
	{name: "message.timestamp.before.max.ms", kind: tLong, def: maxLong, check: within64(0), synonym: "log.message.timestamp.before.max.ms",
		doc: "How far a record's time may be behind." + recordedOnly},
	{name: timestampType, kind: tString, def: "CreateTime", check: oneOf("CreateTime", "LogAppendTime"), synonym: "log.message.timestamp.type",
		doc: "Whether records have the time of their producer or that of their append."},
	{name: minDirtyRatio, kind: tDouble, def: "0.5", check: between(0, 1), synonym: "log.cleaner.min.cleanable.ratio",
		doc: "How much of a partition must be new before it is compacted, to the thousandth."},
	{name: minCompactionLag, kind: tLong, def: "0", check: within64(0), synonym: "log.cleaner.min.compaction.lag.ms",
		doc: "How long after its append a record is not compacted away."},
	{name: minInsync, kind: tInt, def: "1", check: within32(1, math.MaxInt32), synonym: minInsync,
		doc: "Nodes that must have a record; a majority always must, so it can not be more than that."},
	{name: "preallocate", kind: tBool, def: "false", synonym: "log.preallocate", doc: "Files are always preallocated." + recordedOnly},
	{name: "remote.log.copy.disable", kind: tBool, def: "false", doc: "There is no tiered storage." + recordedOnly},
	{name: "remote.log.delete.on.disable", kind: tBool, def: "false", doc: "There is no tiered storage." + recordedOnly},
	{name: "remote.storage.enable", kind: tBool, def: "false", doc: "There is no tiered storage." + recordedOnly},
	{name: retentionBytes, kind: tLong, def: "-1", check: within64(-1), synonym: "log.retention.bytes",
		doc: "Bytes that a partition keeps at least, as they are stored; older batches are removed, whole. -1 is no bound."},
	{name: retentionMs, kind: tLong, def: "-1", check: within64(-1), synonym: "log.retention.ms",
		doc: "How long records are kept, in milliseconds; -1 is for ever."},
	{name: "segment.bytes", kind: tInt, def: "1073741824", check: within32(14, math.MaxInt32), synonym: "log.segment.bytes",
		doc: "All topics share the files of a node." + recordedOnly},
	{name: "segment.index.bytes", kind: tInt, def: "10485760", check: within32(4, math.MaxInt32), synonym: "log.index.size.max.bytes",
		doc: "All topics share the files of a node." + recordedOnly},
	{name: "segment.jitter.ms", kind: tLong, def: "0", check: within64(0), synonym: "log.roll.jitter.ms",
		doc: "All topics share the files of a node." + recordedOnly},
	{name: "segment.ms", kind: tLong, def: "604800000", check: within64(1), synonym: "log.roll.ms",
		doc: "All topics share the files of a node." + recordedOnly},
	{name: "unclean.leader.election.enable", kind: tBool, def: "false", synonym: "unclean.leader.election.enable",
		doc: "A node that lacks acknowledged records never leads." + recordedOnly},
}

// gzipLevel takes 1 to 9 and -1, the library's own.
func gzipLevel(s string) error {
	if s == "-1" {
		return nil
	}
	return within32(1, 9)(s)
}

// groupConfigs are the names of a group.
var groupConfigs = configNames{
	{name: "consumer.heartbeat.interval.ms", kind: tInt, def: "5000", check: within32(1, math.MaxInt32),
		synonym: "group.consumer.heartbeat.interval.ms", doc: "How often members of a consumer group report, in milliseconds."},
	{name: "consumer.session.timeout.ms", kind: tInt, def: "45000", check: within32(1, math.MaxInt32),
		synonym: "group.consumer.session.timeout.ms", doc: "Silence after which a member of a consumer group is gone, in milliseconds."},
	{name: "share.auto.offset.reset", kind: tString, def: "latest", check: shareReset, doc: "Where a share group starts." + recordedOnly},
	{name: "share.heartbeat.interval.ms", kind: tInt, def: "5000", check: within32(1, math.MaxInt32),
		synonym: "group.share.heartbeat.interval.ms", doc: "How often members of a share group report." + recordedOnly},
	{name: "share.isolation.level", kind: tString, def: "read_uncommitted", check: oneOf("read_committed", "read_uncommitted"),
		doc: "Whether a share group sees open transactions." + recordedOnly},
	{name: "share.record.lock.duration.ms", kind: tInt, def: "30000", check: within32(1000, math.MaxInt32),
		synonym: "group.share.record.lock.duration.ms", doc: "How long a share group's record is leased." + recordedOnly},
	{name: "share.session.timeout.ms", kind: tInt, def: "45000", check: within32(1, math.MaxInt32),
		synonym: "group.share.session.timeout.ms", doc: "Silence after which a member of a share group is gone." + recordedOnly},
	{name: "streams.heartbeat.interval.ms", kind: tInt, def: "5000", check: within32(1, math.MaxInt32),
		synonym: "group.streams.heartbeat.interval.ms", doc: "How often members of a streams group report." + recordedOnly},
	{name: "streams.num.standby.replicas", kind: tInt, def: "0", check: within32(0, math.MaxInt32),
		synonym: "group.streams.num.standby.replicas", doc: "Standby tasks of a streams group." + recordedOnly},
	{name: "streams.session.timeout.ms", kind: tInt, def: "45000", check: within32(1, math.MaxInt32),
		synonym: "group.streams.session.timeout.ms", doc: "Silence after which a member of a streams group is gone." + recordedOnly},
}

func shareReset(s string) error {
	if len(s) > 12 && s[:12] == "by_duration:" {
		return nil
	}
	return oneOf("latest", "earliest")(s)
}
