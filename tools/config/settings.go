package config

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// setting is one row of the table.
type setting struct {
	// key names the setting in the file; flag and environment names follow from it.
	key string
	// def is the default as text.
	def string
	// usage is the help line.
	usage string
	// bind gives the field.
	bind func(*Config) pflag.Value
	// needs is the key of a switch without which the setting would do nothing.
	needs string
	// objects says that the file may list mappings, which become a JSON array.
	objects bool
	// secret values are printed masked.
	secret bool
	// only restricts the sources; 0 is all.
	only source
}

// flagName is the long flag without its dashes.
func (s *setting) flagName() string { return strings.ReplaceAll(s.key, ".", "-") }

// envName is the environment name.
func (s *setting) envName() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

func (s *setting) takes(from source) bool { return s.only == 0 || s.only&from != 0 }

const envPrefix = "QUEEN_"

// settings is the table. It is made of parts, so that each file holds what belongs together.
var settings = slices.Concat(nodeSettings, kafkaSettings, mcpSettings, authSettings, clusterSettings)

// nodeSettings are in the order of the help and of "queen config print".
var nodeSettings = []setting{
	{key: "data", def: "./queen-data", usage: "data directory",
		bind: func(c *Config) pflag.Value { return text(&c.Data) }},
	{key: "frontends", def: "http", usage: "frontends to run: http, kafka, mcp",
		bind: func(c *Config) pflag.Value { return list(&c.Frontends) }},
	{key: "http", def: "127.0.0.1:6632", usage: "address of the HTTP API; port 0 takes a free one",
		bind: func(c *Config) pflag.Value { return addr(&c.HTTP) }},
	{key: "http.max.body", def: "64MiB", usage: "largest request body",
		bind: func(c *Config) pflag.Value { return size(&c.HTTPMaxBody, 1<<10) }},
	{key: "http.max.connections", def: "0", usage: "open HTTP connections at most; 0 takes 3/4 of the descriptor limit",
		bind: func(c *Config) pflag.Value { return whole(&c.HTTPMaxConns, 0, 1<<20) }},
	{key: "insecure", def: "false", usage: "allow listeners beyond loopback although nothing authenticates callers",
		bind: func(c *Config) pflag.Value { return flag(&c.Insecure) }},
	{key: "config", def: "", usage: "YAML file with settings; its keys are these names with dots for dashes",
		only: fromFlag | fromEnv, bind: func(c *Config) pflag.Value { return text(&c.File) }},
	{key: "ready.file", def: "", usage: "file to write the bound addresses to when the node is ready",
		bind: func(c *Config) pflag.Value { return text(&c.ReadyFile) }},
	{key: "drain.timeout", def: "20s", usage: "how long running requests may take when the node stops",
		bind: func(c *Config) pflag.Value { return duration(&c.DrainTimeout) }},
	{key: "log.level", def: "info", usage: "debug, info, warn or error",
		bind: func(c *Config) pflag.Value { return level(&c.LogLevel) }},
	{key: "log.format", def: "text", usage: "text or json",
		bind: func(c *Config) pflag.Value { return choice(&c.LogFormat, "text", "json") }},
	{key: "memory.limit", def: "0", usage: "soft memory limit of the process; 0 computes one, GOMEMLIMIT goes before it",
		bind: func(c *Config) pflag.Value { return size(&c.MemoryLimit, 0) }},
	{key: "metrics.max.queues", def: "200", usage: "queues and groups that metrics name; the rest is _other",
		bind: func(c *Config) pflag.Value { return whole(&c.MetricsMaxQueues, 1, 100_000) }},
	{key: "tenancy.header", def: "false", usage: "read the tenant from the x-queen-tenant header",
		bind: func(c *Config) pflag.Value { return flag(&c.TenancyHeader) }},
	{key: "tenancy.trusted.proxies", needs: "tenancy.header",
		usage: "addresses and networks whose x-queen-tenant header is believed without authentication",
		bind:  func(c *Config) pflag.Value { return networks(&c.TrustedProxies) }},
	{key: "subscription.default", def: "new", usage: "where a consumer group starts that does not say it: new or all",
		bind: func(c *Config) pflag.Value { return choice(&c.SubscriptionDefault, "new", "all") }},

	{key: "segment.bytes", def: "256MiB", usage: "size of a log segment",
		bind: func(c *Config) pflag.Value { return size(&c.SegmentBytes, 1<<20) }},
	{key: "tail.bytes", def: "256MiB", usage: "memory for recent messages",
		bind: func(c *Config) pflag.Value { return size(&c.TailBytes, 1<<20) }},
	{key: "ephemeral.bytes", def: "256MiB", usage: "memory for ephemeral queues",
		bind: func(c *Config) pflag.Value { return size(&c.EphemeralBytes, 1<<20) }},
	{key: "write.bytes", def: "128MiB", usage: "bytes of writes between admission and apply",
		bind: func(c *Config) pflag.Value { return size(&c.WriteBytes, 1<<20) }},
	{key: "admit.hold", def: "15s", usage: "how long a write waits for admission",
		bind: func(c *Config) pflag.Value { return duration(&c.AdmitHold) }},
	{key: "disk.high", def: "85", usage: "percent of disk used above which writes are refused",
		bind: func(c *Config) pflag.Value { return whole(&c.DiskHigh, 1, 100) }},
	{key: "disk.low", def: "80", usage: "percent of disk used below which they are taken again",
		bind: func(c *Config) pflag.Value { return whole(&c.DiskLow, 1, 100) }},
	{key: "mark.bytes", def: "64MiB", usage: "log written between marks at most; a checkpoint is taken at a mark",
		bind: func(c *Config) pflag.Value { return size(&c.MarkBytes, 64<<10) }},
	{key: "mark.every", def: "10s", usage: "time between marks at most, while there is traffic",
		bind: func(c *Config) pflag.Value { return duration(&c.MarkEvery) }},
	{key: "checkpoint.bytes", def: "256MiB", usage: "log written between checkpoints at most",
		bind: func(c *Config) pflag.Value { return size(&c.CheckpointBytes, 1<<20) }},
	{key: "checkpoint.every", def: "1m", usage: "time between checkpoints at most",
		bind: func(c *Config) pflag.Value { return duration(&c.CheckpointEvery) }},
	{key: "retention.every", def: "5s", usage: "pause between retention passes",
		bind: func(c *Config) pflag.Value { return duration(&c.RetentionEvery) }},
	{key: "partition.cleanup", def: "30d", usage: "how long an empty idle partition is kept; below 0 for ever",
		bind: func(c *Config) pflag.Value { return durationOrEver(&c.PartitionCleanup) }},

	{key: "failpoint", def: "", usage: "crash tests: failpoints to arm", only: fromEnv,
		bind: func(c *Config) pflag.Value { return text(&c.Failpoint) }},
}

// byKey finds a row; nil when there is none.
func byKey(key string) *setting {
	for i := range settings {
		if settings[i].key == key {
			return &settings[i]
		}
	}
	return nil
}

// byEnv finds the row of an environment name; nil when there is none.
func byEnv(name string) *setting {
	for i := range settings {
		if settings[i].envName() == name {
			return &settings[i]
		}
	}
	return nil
}
