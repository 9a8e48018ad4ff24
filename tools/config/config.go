package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Config is what a node is told. The defaults are in the table of settings.
type Config struct {
	// Data is the data directory.
	Data string
	// Frontends are the names of the frontends to run, each of KnownFrontends, in the order given.
	Frontends []string
	// HTTP is the address of the native HTTP API, host:port; port 0 takes a free one.
	HTTP string
	// HTTPMaxBody is the largest request body in bytes.
	HTTPMaxBody int64
	// HTTPMaxConns caps open HTTP connections; 0 derives it from the descriptor limit.
	HTTPMaxConns int
	// MCP is the address of the MCP server; the others under mcp say what it offers, see frontendmcp.Options.
	MCP, MCPMode, MCPPublicURL                  string
	MCPToolsets, MCPTools, MCPHosts, MCPOrigins []string
	MCPRequireHuman, MCPReadOnly                bool
	MCPMask                                     []MCPMask
	// TenancyHeader lets the x-queen-tenant header narrow a caller to one tenant; TrustedProxies are believed without
	// authentication.
	TenancyHeader  bool
	TrustedProxies []netip.Prefix

	// Cluster says which node of which cluster this is.
	Cluster Cluster
	// Kafka are the settings of the Kafka frontend.
	Kafka Kafka

	// TLSCert, TLSKey and TLSClientCA are PEM files, or "": without a certificate listeners speak in the clear.
	TLSCert, TLSKey, TLSClientCA string
	// EncryptionKey is one key in hex, EncryptionKeyring a file of them; "" for both means that encrypted queues can be
	// neither written nor read.
	EncryptionKey, EncryptionKeyring string
	// QuotaFile is the file of plans, QuotaPlan the plan of tenants that it does not list, or "" for none.
	QuotaFile, QuotaPlan string
	// AuthKeys is the file of API keys, or "".
	AuthKeys string
	// The JWT fields say which tokens are taken, see auth.TokenOptions; JWTSecretFile holds JWTSecret, JWTPublicKey is a
	// PEM file or the PEM itself, and JWTKeySet a URL or a file.
	JWTEnabled, JWTAllowNoExpiry                                      bool
	JWTSecret, JWTSecretFile, JWTPublicKey, JWTKeySet                 string
	JWTKeySetRefresh, JWTKeySetTimeout, JWTClockSkew                  time.Duration
	JWTIssuer, JWTRolesClaim, JWTRolesArrayClaim, JWTTenantClaim      string
	JWTRoleAdmin, JWTRoleReadWrite, JWTRoleReadOnly, JWTRoleWriteOnly string
	JWTAlgorithms, JWTAudience, JWTSkipPaths                          []string
	// Insecure allows a listener beyond loopback although nothing authenticates its callers.
	Insecure bool

	// Shown is every setting as it is printed, secrets masked.
	Shown []Value

	// File is the configuration file that was read, or "".
	File string
	// ReadyFile is written when the node is ready, or "".
	ReadyFile string
	// DrainTimeout bounds how long a stopping node waits for running requests.
	DrainTimeout time.Duration
	// MemoryLimit is the soft memory limit of the process in bytes; 0 computes one.
	MemoryLimit int64
	// LogLevel and LogFormat ("text" or "json") shape the log on stderr.
	LogLevel  slog.Level
	LogFormat string
	// MetricsMaxQueues caps the label values of metrics.
	MetricsMaxQueues int
	// Failpoint arms failpoints for crash tests; only the environment can set it.
	Failpoint string

	// The rest goes to engine.Config under the same names.
	SegmentBytes, TailBytes, WriteBytes, MarkBytes, CheckpointBytes         int64
	EphemeralBytes                                                          int64
	AdmitHold, MarkEvery, CheckpointEvery, RetentionEvery, PartitionCleanup time.Duration
	DiskHigh, DiskLow                                                       int
	// SubscriptionDefault is "new" or "all": where a consumer group starts that does not say it.
	SubscriptionDefault string
}

// KnownFrontends are the names that --frontends takes.
var KnownFrontends = []string{"http", "kafka", "mcp"}

// BuiltFrontends are those of KnownFrontends that this build can run.
var BuiltFrontends = KnownFrontends

// Validate joins the problems that no single setting shows.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Frontends) == 0 {
		errs = append(errs, errors.New("frontends: at least one is needed: "+strings.Join(KnownFrontends, ", ")))
	}
	for i, f := range c.Frontends {
		switch {
		case !slices.Contains(KnownFrontends, f):
			errs = append(errs, fmt.Errorf("frontends: there is no frontend %q: there are %s",
				f, strings.Join(KnownFrontends, ", ")))
		case slices.Contains(c.Frontends[:i], f):
			errs = append(errs, fmt.Errorf("frontends: %s is there twice", f))
		case !slices.Contains(BuiltFrontends, f):
			errs = append(errs, fmt.Errorf("frontends: the %s frontend is not built yet", f))
		}
	}
	errs = append(errs, c.validateMCP()...)
	errs = append(errs, c.validateAccess()...)
	errs = append(errs, c.validateKafka()...)
	errs = append(errs, c.validateCluster()...)
	if c.DiskLow > c.DiskHigh {
		errs = append(errs, fmt.Errorf("disk.low: %d is above disk.high, %d", c.DiskLow, c.DiskHigh))
	}
	return errors.Join(errs...)
}
