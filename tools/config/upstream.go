package config

import (
	"maps"
	"slices"
	"strings"
)

// foreignName is an environment name that Queen MQ documents. It has a key here, or a note that says why it means
// nothing.
type foreignName struct {
	// name is the environment name; one that ends in * is a prefix.
	name    string
	key     string
	convert converter
	note    string
}

const (
	otherWAL   = "the log of this node is organised otherwise"
	otherLimit = "the limit is fixed here"
	noStage    = "transactions are in the log and not staged in memory"
	perCall    = "every call says it, and the default is fixed here"
	inPlan     = "rates and quotas are in the plan of a tenant (QUEEN_QUOTA_FILE), the switch is POST /api/v1/system/kv-timers"
)

// upstream is the table. It is a fact about Queen MQ, not a list of our settings.
var upstream = slices.Concat(upstreamKafka, upstreamNames)

// upstreamKafka are those of its Kafka frontend; names that are ours as well need no row.
var upstreamKafka = []foreignName{
	{name: "QUEEN_KAFKA_EMBEDDED", key: "frontends", convert: withKafka},
	{name: "QUEEN_KAFKA_ADDR", key: "kafka", convert: same},
	{name: "QUEEN_KAFKA_ADVERTISED_ADDR", key: "kafka.advertised", convert: same},
	{name: "QUEEN_KAFKA_GROUP_JOIN_DELAY_MS", key: "kafka.group.join.delay", convert: millis},
	{name: "QUEEN_KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS", key: "kafka.group.session.min", convert: millis},
	{name: "QUEEN_KAFKA_GROUP_MAX_SESSION_TIMEOUT_MS", key: "kafka.group.session.max", convert: millis},
	{name: "QUEEN_KAFKA_TXN_MAX_TIMEOUT_MS", key: "kafka.txn.timeout.max", convert: millis},
	{name: "QUEEN_KAFKA_CLUSTER", key: "kafka.cluster.id", convert: same},
	{name: "QUEEN_KAFKA_MAX_PRODUCER_STATES", note: "what is known of producers is in the log"},
	{name: "QUEEN_KAFKA_TXN_MAX_BYTES", note: noStage},
	{name: "QUEEN_KAFKA_TXN_MAX_RECORDS", note: noStage},
	{name: "QUEEN_KAFKA_TXN_MAX_STAGED_BYTES", note: noStage},
	{name: "QUEEN_KAFKA_TXN_MAX_OPEN", note: noStage},
	{name: "QUEEN_KAFKA_NODE_ID", note: "brokers have the numbers of the nodes"},
	{name: "QUEEN_KAFKA_CLUSTER_HEARTBEAT_MS", note: "nodes know of each other by replication"},
	{name: "QUEEN_KAFKA_CLUSTER_TTL_MS", note: "nodes know of each other by replication"},
	{name: "QUEEN_KAFKA_THREADS", note: "connections share the processors of the process"},
	{name: "QUEEN_KAFKA_OFFSET_STORE", note: "positions of Kafka groups are those of native groups"},
	{name: "QUEEN_KAFKA_FORWARD_SNI_HOST", note: "the tenant comes from the credential"},
	{name: "QUEEN_KAFKA_SHUTDOWN_GRACE_MS", note: "drain.timeout is for all frontends"},
}

var upstreamNames = []foreignName{
	{name: "QUEEN_BIND_ADDR", key: "http", convert: hostOf},
	{name: "PORT", key: "http", convert: portOf},
	{name: "QUEEN_MAX_BODY_BYTES", key: "http.max.body", convert: number("")},
	{name: "QUEEN_TENANCY_HEADER", key: "tenancy.header", convert: same},
	{name: "DEFAULT_SUBSCRIPTION_MODE", key: "subscription.default", convert: same},
	{name: "LOG_LEVEL", key: "log.level", convert: levelWord},
	{name: "QUEEN_LOG_JSON", key: "log.format", convert: jsonOrText},
	{name: "RETENTION_INTERVAL", key: "retention.every", convert: millis},
	{name: "PARTITION_CLEANUP_DAYS", key: "partition.cleanup", convert: number("d")},
	{name: "QUEEN_RAFT_DISK_HIGH_PCT", key: "disk.high", convert: number("")},
	{name: "QUEEN_RAFT_DISK_LOW_PCT", key: "disk.low", convert: number("")},
	{name: "QUEEN_RAFT_ADMIT_HOLD_MS", key: "admit.hold", convert: millis},

	{name: "JWT_ENABLED", key: "jwt.enabled", convert: same},
	{name: "JWT_SECRET", key: "jwt.secret", convert: same},
	{name: "JWT_PUBLIC_KEY", key: "jwt.public.key", convert: same},
	{name: "JWT_JWKS_URL", key: "jwt.jwks.url", convert: same},
	{name: "JWT_JWKS_REFRESH_INTERVAL", key: "jwt.jwks.refresh", convert: number("s")},
	{name: "JWT_JWKS_TIMEOUT_MS", key: "jwt.jwks.timeout", convert: millis},
	{name: "JWT_ALGORITHM", key: "jwt.algorithms", convert: algorithm},
	{name: "JWT_ISSUER", key: "jwt.issuer", convert: same},
	{name: "JWT_AUDIENCE", key: "jwt.audience", convert: same},
	{name: "JWT_CLOCK_SKEW", key: "jwt.clock.skew", convert: number("s")},
	{name: "JWT_ROLES_CLAIM", key: "jwt.roles.claim", convert: same},
	{name: "JWT_ROLES_ARRAY_CLAIM", key: "jwt.roles.array.claim", convert: same},
	{name: "JWT_ROLE_ADMIN", key: "jwt.role.admin", convert: same},
	{name: "JWT_ROLE_READ_WRITE", key: "jwt.role.read.write", convert: same},
	{name: "JWT_ROLE_READ_ONLY", key: "jwt.role.read.only", convert: same},
	{name: "JWT_ROLE_WRITE_ONLY", key: "jwt.role.write.only", convert: same},
	{name: "JWT_SKIP_PATHS", key: "jwt.skip.paths", convert: same},
	{name: "QUEEN_KV_MAX_VALUE_BYTES", note: otherLimit + ": 64 KiB of compact JSON"},
	{name: "QUEEN_KV_MAX_OPS_PER_CALL", note: otherLimit + ": 256"},
	{name: "QUEEN_KV_MAX_KEYS_PER_CALL", note: otherLimit + ": 1024"},
	{name: "QUEEN_KV_*", note: inPlan},
	{name: "QUEEN_TIMERS_MAX_HORIZON_S", note: otherLimit + ": 90 days"},
	{name: "QUEEN_TIMERS_MAX_PAYLOAD_BYTES", note: otherLimit + ": 1 MiB"},
	{name: "QUEEN_TIMERS_*", note: inPlan},
	{name: "QUEEN_EPHEMERAL_MAX_BYTES", key: "ephemeral.bytes", convert: number("")},
	{name: "QUEEN_EPHEMERAL_*", note: "bounds of one queue are in its declaration, rates in the tenant's plan"},
	{name: "QUEEN_RAFT_TIMER_TICK_MS", note: "a timer fires when it is due and not at the next tick"},
	{name: "QUEEN_RAFT_TRACE_RETENTION_S", note: "traces are kept for seven days"},

	{name: "DEFAULT_TIMEOUT", note: perCall},
	{name: "POP_DEFAULT_TIMEOUT_MS", note: perCall},
	{name: "QUEEN_STMT_TIMEOUT_MS", note: "the deadline of acks and leases is fixed here"},
	{name: "QUEEN_RAFT_POP_REPLY_MARGIN_MS", note: "a claim is checked against its deadline when it is made"},
	{name: "QUEEN_RAFT_ENTRY_MAX_BYTES", note: otherLimit},
	{name: "QUEEN_RAFT_REQUEST_ID_WINDOW_S", note: otherLimit},
	{name: "QUEEN_RAFT_TXN_WINDOW_MIN_S", note: "ids are kept for their queue's dedup window"},
	{name: "QUEEN_RAFT_READY_LAG_MS", note: "readiness asks whether the node can commit"},
	{name: "QUEEN_RAFT_ANSWER_AT_COMMIT", note: "a write is answered when it is durable and applied"},
	{name: "QUEEN_RAFT_GROUPS", note: otherWAL},
	{name: "QUEEN_RAFT_FWD_STREAMS", note: otherWAL},
	{name: "QUEEN_RAFT_PURGE_HOLD_S", note: otherWAL},
	{name: "QUEEN_RAFT_FORCE_RECOVER", note: "a damaged directory is repaired by offline tools, never by a boot"},
	{name: "QUEEN_RAFT_APPLY_SKIP", note: "a damaged directory is repaired by offline tools, never by a boot"},
	{name: "QUEEN_STORE_SCRUB_EVERY_S", note: otherWAL},
	{name: "QUEEN_QLOG_SHARDS", note: otherWAL},
	{name: "QUEEN_QLOG_LANES", note: otherWAL},
	{name: "QUEEN_LANES", note: otherWAL},
	{name: "QUEEN_CONSUME_CHECKPOINT_MS", note: "cursors are in the same log as messages"},
	{name: "QUEEN_CONSUME_IDLE_UNLOAD_S", note: "idle partitions stay resident, they are small"},
	{name: "QUEEN_APPLY_SCHEMA", note: "there is no database"},
}

// foreign finds the row of a name; nil when there is none.
func foreign(name string) *foreignName {
	for i := range upstream {
		if upstream[i].matches(name) {
			return &upstream[i]
		}
	}
	return nil
}

func (u *foreignName) matches(name string) bool {
	if prefix, ok := strings.CutSuffix(u.name, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return name == u.name
}

// among are the names of the environment that this row is about, sorted; names that a row before it is about are not.
func (u *foreignName) among(env map[string]string) []string {
	if _, ok := env[u.name]; ok {
		return []string{u.name}
	}
	if !strings.HasSuffix(u.name, "*") {
		return nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if foreign(name) == u {
			names = append(names, name)
		}
	}
	return names
}

// knownEnv are all names of the environment, sorted, for the nearest one.
func knownEnv() []string {
	var names []string
	for i := range settings {
		if settings[i].takes(fromEnv) {
			names = append(names, settings[i].envName())
		}
	}
	for i := range upstream {
		names = append(names, upstream[i].name)
	}
	slices.Sort(names)
	return names
}
