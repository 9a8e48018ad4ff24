package config

import (
	"github.com/spf13/pflag"
)

// kafkaSettings are of the Kafka frontend.
var kafkaSettings = []setting{
	{key: "kafka", def: "127.0.0.1:9092", usage: "address of the Kafka protocol; port 0 takes a free one", needs: "frontends",
		bind: func(c *Config) pflag.Value { return addr(&c.Kafka.Addr) }},
	{key: "kafka.advertised", needs: "frontends",
		usage: "host:port that Kafka clients are told, or NAME://host:port for each of several listeners; default the bound one",
		bind:  func(c *Config) pflag.Value { return list(&c.Kafka.Advertised) }},
	{key: "kafka.listeners", needs: "frontends",
		usage: "several listeners in place of one: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, each ://host:port",
		bind:  func(c *Config) pflag.Value { return list(&c.Kafka.Listeners) }},
	{key: "kafka.sasl", needs: "frontends",
		usage: "mechanisms of SASL: plain, scram-sha-256, scram-sha-512; default all where callers are asked",
		bind:  func(c *Config) pflag.Value { return list(&c.Kafka.SASL) }},
	{key: "kafka.scram.role", def: "read-write", usage: "what users of SCRAM may do: read-only, write-only, read-write, admin",
		needs: "frontends",
		bind: func(c *Config) pflag.Value {
			return choice(&c.Kafka.ScramRole, "read-only", "write-only", "read-write", "admin")
		}},
	{key: "kafka.tls.cert", usage: "PEM file of the certificate of Kafka listeners; default that of all listeners",
		needs: "kafka.tls.key", bind: func(c *Config) pflag.Value { return text(&c.Kafka.TLSCert) }},
	{key: "kafka.tls.key", usage: "PEM file of that certificate's private key", needs: "kafka.tls.cert",
		bind: func(c *Config) pflag.Value { return text(&c.Kafka.TLSKey) }},
	{key: "kafka.cluster.id", def: "queen", usage: "id of the cluster that Kafka clients are told", needs: "frontends",
		bind: func(c *Config) pflag.Value { return text(&c.Kafka.ClusterID) }},
	{key: "kafka.rack", usage: "where this node stands, as Kafka clients are told; they read from the leader wherever they are", needs: "frontends",
		bind: func(c *Config) pflag.Value { return text(&c.Kafka.Rack) }},
	{key: "kafka.default.partitions", def: "16", usage: "width of topics that name none", needs: "frontends",
		bind: func(c *Config) pflag.Value { return whole(&c.Kafka.Partitions, 1, kafkaWidthMax) }},
	{key: "kafka.max.partitions", def: "1000000", usage: "width of a topic at most", needs: "frontends",
		bind: func(c *Config) pflag.Value { return whole(&c.Kafka.MaxPartitions, 1, kafkaWidthMax) }},
	{key: "kafka.auto.create", def: "true", usage: "let clients create topics by asking for them", needs: "frontends",
		bind: func(c *Config) pflag.Value { return flag(&c.Kafka.AutoCreate) }},
	{key: "kafka.shared.groups", def: "false", usage: "let native consumers pop what a live Kafka member of their consumer group holds",
		needs: "frontends", bind: func(c *Config) pflag.Value { return flag(&c.Kafka.SharedGroups) }},
	{key: "kafka.coalesce", def: "5", usage: "produce requests of one connection that may become one write", needs: "frontends",
		bind: func(c *Config) pflag.Value { return whole(&c.Kafka.Coalesce, 1, 64) }},
	{key: "kafka.max.connections", def: "4096", usage: "open Kafka connections at most", needs: "frontends",
		bind: func(c *Config) pflag.Value { return whole(&c.Kafka.MaxConns, 1, 1<<20) }},
	{key: "kafka.memory", def: "256MiB", needs: "frontends",
		usage: "bytes of requests under way over all connections at most, as many of answers, of fetch sessions, and of what members of groups say",
		bind:  func(c *Config) pflag.Value { return size(&c.Kafka.Memory, 1<<20) }},
	{key: "kafka.consumer.lag", def: "1s", needs: "frontends",
		usage: "how far consumers that take what they can get should fall behind at most; from half of it on producers wait for them, below 0 never",
		bind:  func(c *Config) pflag.Value { return durationOrEver(&c.Kafka.ConsumerLag) }},
	{key: "kafka.group.join.delay", def: "3s", usage: "how long the first member of an empty group waits for others", needs: "frontends",
		bind: func(c *Config) pflag.Value { return durationOrNone(&c.Kafka.JoinDelay) }},
	{key: "kafka.group.session.min", def: "6s", usage: "smallest session timeout of group members", needs: "frontends",
		bind: func(c *Config) pflag.Value { return duration(&c.Kafka.SessionMin) }},
	{key: "kafka.group.session.max", def: "30m", usage: "largest session timeout of group members", needs: "frontends",
		bind: func(c *Config) pflag.Value { return duration(&c.Kafka.SessionMax) }},
	{key: "kafka.txn.timeout.max", def: "1h", usage: "largest transaction timeout of producers", needs: "frontends",
		bind: func(c *Config) pflag.Value { return duration(&c.Kafka.TxnTimeoutMax) }},
}

// kafkaWidthMax is the widest topic whose partitions fit into one answer.
const kafkaWidthMax = 1_500_000
