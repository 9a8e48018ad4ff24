package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// load runs Load as a command would: flags parsed from args, a file written from yaml when it is not empty.
func load(t *testing.T, args, env []string, yaml string) (*Resolved, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs)
	if yaml != "" {
		path := filepath.Join(t.TempDir(), "queen.yaml")
		if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(Input{Flags: fs, Environ: env})
}

func (r *Resolved) value(t *testing.T, key string) Value {
	t.Helper()
	for _, v := range r.Values {
		if v.Key == key {
			return v
		}
	}
	t.Fatalf("no value of %s", key)
	return Value{}
}

// TestPrecedence takes every subset of the sources and expects the highest one of it to win, and to be named.
func TestPrecedence(t *testing.T) {
	for subset := range 8 {
		var args, env []string
		yaml := ""
		want, source := "127.0.0.1:6632", "default"
		if subset&1 != 0 {
			yaml, want, source = "http: 127.0.0.1:1\n", "127.0.0.1:1", "file "
		}
		if subset&2 != 0 {
			env, want, source = []string{"QUEEN_HTTP=127.0.0.1:2"}, "127.0.0.1:2", "environment QUEEN_HTTP"
		}
		if subset&4 != 0 {
			args, want, source = []string{"--http", "127.0.0.1:3"}, "127.0.0.1:3", "flag --http"
		}
		r, err := load(t, args, env, yaml)
		if err != nil {
			t.Fatalf("subset %d: %v", subset, err)
		}
		if r.Config.HTTP != want {
			t.Errorf("subset %d: http is %s, want %s", subset, r.Config.HTTP, want)
		}
		v := r.value(t, "http")
		if v.Text != want || !strings.HasPrefix(v.Source, source) || v.Changed != (subset != 0) {
			t.Errorf("subset %d: got %+v, want %s from %s", subset, v, want, source)
		}
	}
}

// TestDefaults checks that every default parses, reads back as it is written, and passes the checks.
func TestDefaults(t *testing.T) {
	r, err := Load(Input{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Values {
		if def := byKey(v.Key).def; v.Text != def {
			t.Errorf("%s: default %q reads back as %q", v.Key, def, v.Text)
		}
	}
	// Every field belongs to a row: a field without one could never be set.
	fields := map[any]bool{}
	for i := range settings {
		if settings[i].bind == nil {
			continue
		}
		v := reflect.ValueOf(settings[i].bind(&r.Config))
		to := v.FieldByName("to").Pointer()
		if fields[to] {
			t.Errorf("%s fills a field of another row", settings[i].key)
		}
		fields[to] = true
	}
	// Kafka and Cluster are structs of their own; Shown is what was read.
	if n := reflect.TypeOf(r.Config).NumField() - 3 + reflect.TypeOf(r.Config.Kafka).NumField() +
		reflect.TypeOf(r.Config.Cluster).NumField(); len(fields) != n {
		t.Errorf("%d rows fill %d fields", len(fields), n)
	}
}

// kafka are arguments that run the Kafka frontend.
func kafka(args ...string) []string { return append([]string{"--frontends", "http,kafka"}, args...) }

// TestKafkaListeners: what settings make of listeners.
func TestKafkaListeners(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []KafkaListener
	}{
		{nil, []KafkaListener{{Name: "PLAINTEXT", Addr: "127.0.0.1:9092"}}},
		{[]string{"--kafka", "0.0.0.0:9092", "--kafka-advertised", "k.example:19092", "--auth-keys", "k"},
			[]KafkaListener{{Name: "SASL_PLAINTEXT", Addr: "0.0.0.0:9092", Advertised: "k.example:19092", SASL: true}}},
		{[]string{"--tls-cert", "c", "--tls-key", "k"}, []KafkaListener{{Name: "SSL", Addr: "127.0.0.1:9092", TLS: true}}},
		{[]string{"--kafka-sasl", "plain", "--kafka-tls-cert", "c", "--kafka-tls-key", "k"},
			[]KafkaListener{{Name: "SASL_SSL", Addr: "127.0.0.1:9092", TLS: true, SASL: true}}},
		{[]string{"--kafka-listeners", "PLAINTEXT://127.0.0.1:1,SASL_PLAINTEXT://:2", "--kafka-advertised", "SASL_PLAINTEXT://a:3"},
			[]KafkaListener{{Name: "PLAINTEXT", Addr: "127.0.0.1:1"}, {Name: "SASL_PLAINTEXT", Addr: ":2", Advertised: "a:3", SASL: true}}},
	} {
		r, err := load(t, kafka(c.args...), nil, "")
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		if got, err := r.Config.KafkaListeners(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %+v, %v", c.args, got, err)
		}
	}
}

// TestRefused goes through what stops a boot; each line must name the setting, its place and the way out.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name      string
		args, env []string
		yaml      string
		want      []string
	}{
		{"unknown environment name", nil, []string{"QUEEN_HTP=127.0.0.1:1"}, "",
			[]string{"environment: there is no setting QUEEN_HTP: did you mean QUEEN_HTTP?"}},
		{"unknown environment name, near nothing", nil, []string{"QUEEN_XYZZYXYZZY=1"}, "",
			[]string{"there is no setting QUEEN_XYZZYXYZZY"}},
		{"unknown key", nil, nil, "log.level: info\nlog:\n  fromat: json\n",
			[]string{"queen.yaml:3: there is no setting log.fromat: did you mean log.format?"}},
		{"key twice", nil, nil, "log.level: info\nlog:\n  level: warn\n", []string{"queen.yaml:3: log.level is there twice"}},
		{"key of no file", nil, nil, "failpoint: a:1:kill\n", []string{"there is no setting failpoint"}},
		{"file in file", nil, nil, "config: other.yaml\n", []string{"there is no setting config"}},
		{"no mapping", nil, nil, "- a\n- b\n", []string{"queen.yaml:1: want settings as key: value"}},
		{"broken YAML", nil, nil, "http: [\n", []string{"queen.yaml: yaml:"}},
		{"deep nesting", nil, nil, strings.Repeat("{a: ", 12) + "1" + strings.Repeat("}", 12),
			[]string{"nested too deeply"}},
		{"no file", []string{"--config", "/nonexistent/q.yaml"}, nil, "", []string{"/nonexistent/q.yaml"}},
		{"bool", nil, []string{"QUEEN_INSECURE=yes"}, "",
			[]string{`insecure (environment QUEEN_INSECURE): want true or false, not "yes"`}},
		{"duration without a unit", []string{"--drain-timeout", "5"}, nil, "",
			[]string{`drain.timeout (flag --drain-timeout): want a duration with its unit`}},
		{"size", []string{"--segment-bytes", "64XB"}, nil, "", []string{"segment.bytes", "want a size"}},
		{"size too large", []string{"--segment-bytes", "9999999999GiB"}, nil, "", []string{"want a size"}},
		{"negative size", []string{"--segment-bytes", "-1"}, nil, "", []string{"want a size"}},
		{"size too small", []string{"--segment-bytes", "1MB"}, nil, "", []string{"segment.bytes", "want at least 1MiB"}},
		{"size that would be the default", []string{"--tail-bytes", "0"}, nil, "", []string{"want at least 1MiB"}},
		{"duration that would be the default", []string{"--admit-hold", "0s"}, nil, "", []string{"want more than 0"}},
		{"cleanup that would be the default", []string{"--partition-cleanup", "0"}, nil, "", []string{"for ever"}},
		{"negative duration", []string{"--drain-timeout", "-1s"}, nil, "", []string{"want more than 0"}},
		{"percent", []string{"--disk-high", "101"}, nil, "", []string{"want a whole number from 1 to 100"}},
		{"address", []string{"--http", "6632"}, nil, "", []string{"want host:port"}},
		{"port", []string{"--http", "127.0.0.1:65536"}, nil, "", []string{"want a number from 0 to 65535"}},
		{"two problems", []string{"--http", "x", "--disk-high", "x"}, nil, "", []string{"http (flag", "disk.high (flag"}},
		{"gates crossed", []string{"--disk-high", "50", "--disk-low", "60"}, nil, "", []string{"disk.low: 60 is above"}},

		{"unknown frontend", []string{"--frontends", "http,ftp"}, nil, "", []string{`there is no frontend "ftp"`}},
		{"frontend twice", []string{"--frontends", "http,http"}, nil, "", []string{"http is there twice"}},
		{"no frontend", []string{"--frontends", ""}, nil, "", []string{"at least one"}},
		{"setting without its frontend", []string{"--kafka", "127.0.0.1:9999"}, nil, "",
			[]string{"kafka (flag --kafka) does nothing without frontends"}},
		{"upstream name without its frontend", nil, []string{"QUEEN_KAFKA_ADDR=127.0.0.1:9999"}, "",
			[]string{"kafka (environment QUEEN_KAFKA_ADDR) does nothing without frontends"}},
		{"unknown name of Kafka", nil, []string{"QUEEN_KAFKA_ADVERTISED_ADR=a:1"}, "",
			[]string{"did you mean QUEEN_KAFKA_ADVERTISED_ADDR?"}},
		{"Kafka everywhere, told nowhere", kafka("--insecure", "--kafka", "0.0.0.0:9092"), nil, "",
			[]string{"kafka.advertised: 0.0.0.0:9092 is every address"}},
		{"Kafka told a wildcard", kafka("--kafka-advertised", "[::]:9092"), nil, "", []string{"no client can connect to every address"}},
		{"Kafka told no port", kafka("--kafka-advertised", "example.org"), nil, "", []string{"kafka.advertised", "want host:port"}},
		{"Kafka told port 0", kafka("--kafka-advertised", "example.org:0"), nil, "", []string{"port 0"}},
		{"Kafka told IPv6 without brackets", kafka("--kafka-advertised", "fd00::1:9092"), nil, "", []string{"in brackets"}},
		{"Kafka told twice", kafka("--kafka-advertised", "a:1,b:2"), nil, "", []string{"more than one address"}},
		{"Kafka reachable", kafka("--kafka", "10.0.0.7:9092"), nil, "", []string{"kafka: 10.0.0.7:9092 can be reached", "--insecure"}},
		{"Kafka open beside tokens", kafka("--auth-keys", "k", "--kafka-listeners", "PLAINTEXT://127.0.0.1:1"), nil, "",
			[]string{"asks nobody who calls", "SASL_PLAINTEXT"}},
		{"Kafka listener of no protocol", kafka("--kafka-listeners", "PLAIN://:1"), nil, "", []string{"kafka.listeners", "want PLAINTEXT"}},
		{"Kafka listener twice", kafka("--kafka-listeners", "PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"), nil, "",
			[]string{"PLAINTEXT is there twice"}},
		{"Kafka listener without a certificate", kafka("--kafka-listeners", "SSL://127.0.0.1:1"), nil, "",
			[]string{"SSL needs a certificate"}},
		{"Kafka told for no listener", kafka("--kafka-listeners", "PLAINTEXT://127.0.0.1:1", "--kafka-advertised", "SSL://a:1"), nil, "",
			[]string{"kafka.advertised", "one of kafka.listeners"}},
		{"Kafka mechanism", kafka("--kafka-sasl", "gssapi"), nil, "", []string{`there is no mechanism "gssapi"`}},
		{"Kafka width", kafka("--kafka-max-partitions", "8"), nil, "", []string{"kafka.default.partitions: 16 is above"}},
		{"Kafka session", kafka("--kafka-group-session-max", "1s"), nil, "", []string{"kafka.group.session.min: 6s is above"}},
		{"Kafka certificate without its key", kafka("--kafka-tls-cert", "c"), nil, "", []string{"does nothing without kafka.tls.key"}},
		{"setting not built, file", nil, nil, "jwt:\n  secret: hunter2\n",
			[]string{"jwt.secret (file ", "does nothing without jwt.enabled"}},
		{"peers of nobody", nil, []string{"QUEEN_PEERS=1=a:1"}, "",
			[]string{"peers (environment QUEEN_PEERS) does nothing without node.id"}},
		{"node without peers", []string{"--node-id", "1"}, nil, "", []string{"node.id: node 1 needs peer.addr"}},
		{"nodes in the clear", []string{"--node-id", "1", "--peers", "1=a:1", "--peer-addr", "10.0.0.1:7000"}, nil, "",
			[]string{"peer.addr: 10.0.0.1:7000 can be reached from other machines", "--insecure"}},
		{"nodes with half a certificate", []string{"--node-id", "1", "--peers", "1=a:1", "--peer-addr", "127.0.0.1:7000", "--peer-ca", "f"}, nil,
			"", []string{"with all three, or with none"}},
		{"pull rate that nobody waits for", []string{"--node-id", "1", "--peers", "1=a:1", "--peer-addr", "127.0.0.1:7000", "--peer-pull-rate", "1kB"}, nil,
			"", []string{"peer.pull.rate: 1000 bytes per second, want at least 64KiB"}},
		{"groups of a single node", []string{"--peer-groups", "2"}, nil, "", []string{"peer.groups (flag --peer-groups) does nothing without node.id"}},
		{"groups that no setting makes, not spread", []string{"--node-id", "1", "--peer-spread=false"}, nil, "",
			[]string{"peer.spread (flag --peer-spread) does nothing without peer.groups"}},
		{"names without an authority", []string{"--node-id", "1", "--peer-names", "a"}, nil, "",
			[]string{"peer.names (flag --peer-names) does nothing without peer.ca"}},
		{"more groups than there may be", []string{"--node-id", "1", "--peer-groups", "17"}, nil, "",
			[]string{"peer.groups (flag --peer-groups)", "want a whole number from 1 to 16"}},
		{"no group", nil, []string{"QUEEN_NODE_ID=1", "QUEEN_PEER_GROUPS=0"}, "",
			[]string{"peer.groups (environment QUEEN_PEER_GROUPS)", "want a whole number from 1 to 16"}},
		{"tokens without a key", nil, []string{"JWT_ENABLED=true"}, "",
			[]string{"jwt.enabled: nothing can verify a token: give jwt.secret"}},
		{"secret without its switch", nil, []string{"JWT_SECRET=hunter2"}, "",
			[]string{"jwt.secret (environment JWT_SECRET) does nothing without jwt.enabled"}},
		{"secret twice", []string{"--jwt-enabled", "--jwt-secret", "hunter2", "--jwt-secret-file", "f"}, nil, "",
			[]string{"jwt.secret.file: jwt.secret is there too"}},
		{"keys of tokens in the clear", []string{"--jwt-enabled", "--jwt-jwks-url", "http://issuer.example/keys"}, nil, "",
			[]string{"jwt.jwks.url", "use https", "--insecure"}},
		{"negative skew", []string{"--jwt-clock-skew", "-1s"}, nil, "", []string{"jwt.clock.skew", "want 0 or more"}},
		{"tenancy that nobody vouches for", nil, []string{"QUEEN_TENANCY_HEADER=true"}, "",
			[]string{"tenancy.header: nothing authenticates", "tenancy.trusted.proxies"}},
		{"proxies without tenancy", []string{"--tenancy-trusted-proxies", "10.0.0.1"}, nil, "",
			[]string{"tenancy.trusted.proxies", "does nothing without tenancy.header"}},
		{"proxies and authentication", []string{"--tenancy-trusted-proxies", "10.0.0.1", "--tenancy-header", "--auth-keys", "k"},
			nil, "", []string{"tenancy.trusted.proxies: callers are authenticated"}},
		{"certificate without its key", []string{"--tls-cert", "c.pem"}, nil, "",
			[]string{"tls.cert (flag --tls-cert) does nothing without tls.key"}},
		{"key without its certificate", []string{"--tls-key", "k.pem"}, nil, "",
			[]string{"tls.key (flag --tls-key) does nothing without tls.cert"}},
		{"authority without a certificate", []string{"--tls-client-ca", "k.pem"}, nil, "",
			[]string{"tls.client.ca (flag --tls-client-ca) does nothing without tls.cert"}},
		{"no network", []string{"--tenancy-header", "--tenancy-trusted-proxies", "proxy.example"}, nil, "",
			[]string{"tenancy.trusted.proxies", "want addresses and networks"}},
		{"unknown name beside upstream's", nil, []string{"QUEEN_RAFT_TIMER_TICK=50"}, "",
			[]string{"did you mean QUEEN_RAFT_TIMER_TICK_MS?"}},
		{"encryption key and ring", []string{"--encryption-keyring", "ring.yaml"}, []string{"QUEEN_ENCRYPTION_KEY=hunter2"}, "",
			[]string{"encryption.keyring: encryption.key is there too"}},
		{"upstream value", nil, []string{"RETENTION_INTERVAL=5s"}, "",
			[]string{`environment RETENTION_INTERVAL: want a number of milliseconds, not "5s"`}},

		{"reachable", []string{"--http", "0.0.0.0:6632"}, nil, "", []string{"0.0.0.0:6632", "--insecure"}},
		{"reachable by the environment", nil, []string{"QUEEN_BIND_ADDR=0.0.0.0"}, "", []string{"--insecure"}},
		{"reachable wildcard", []string{"--http", ":6632"}, nil, "", []string{"--insecure"}},
		{"reachable name", []string{"--http", "example.org:1"}, nil, "", []string{"--insecure"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.args, c.env, c.yaml)
			if err == nil {
				t.Fatal("nothing was refused")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q tells a secret", err)
			}
		})
	}
}

// TestTaken goes through what is accepted, with the settings it leads to.
func TestTaken(t *testing.T) {
	for _, c := range []struct {
		name      string
		args, env []string
		yaml      string
		key, want string
		warnings  int
	}{
		{"strict bool flag", []string{"--insecure"}, nil, "", "insecure", "true", 0},
		{"insecure opens", []string{"--http", "0.0.0.0:1", "--insecure"}, nil, "", "http", "0.0.0.0:1", 0},
		{"insecure opens by the environment", nil, []string{"QUEEN_HTTP=0.0.0.0:1", "QUEEN_INSECURE=true"}, "",
			"http", "0.0.0.0:1", 0},
		{"other loopback", []string{"--http", "127.9.9.9:1"}, nil, "", "http", "127.9.9.9:1", 0},
		{"IPv6 loopback", []string{"--http", "[::1]:1"}, nil, "", "http", "[::1]:1", 0},
		{"localhost", []string{"--http", "localhost:1"}, nil, "", "http", "localhost:1", 0},
		{"nested file", nil, nil, "http:\n  max:\n    body: 1MiB\n", "http.max.body", "1MiB", 0},
		{"flat file", nil, nil, "http: 127.0.0.1:9\nhttp.max.body: 1048576\n", "http.max.body", "1MiB", 0},
		{"list in file", nil, nil, "frontends: [http]\n", "frontends", "http", 0},
		{"empty file", nil, nil, "# nothing\n", "http", "127.0.0.1:6632", 0},
		{"days", []string{"--partition-cleanup", "-1d"}, nil, "", "partition.cleanup", "-1d", 0},
		{"decimal size", []string{"--tail-bytes", "1GB"}, nil, "", "tail.bytes", "1000000000", 0},
		{"whole hours", []string{"--checkpoint-every", "90m"}, nil, "", "checkpoint.every", "1h30m", 0},
		{"ten minutes", []string{"--checkpoint-every", "600s"}, nil, "", "checkpoint.every", "10m", 0},
		{"twenty hours", []string{"--checkpoint-every", "20h"}, nil, "", "checkpoint.every", "20h", 0},
		{"empty value is absent", nil, []string{"QUEEN_HTTP="}, "", "http", "127.0.0.1:6632", 0},
		{"client names", nil, []string{"QUEEN_URL=http://x:1", "QUEEN_TOKEN=t"}, "", "http", "127.0.0.1:6632", 0},
		{"Kubernetes service", nil, []string{"QUEEN_PORT=tcp://10.0.0.1:6632", "QUEEN_SERVICE_HOST=10.0.0.1",
			"QUEEN_PORT_6632_TCP_ADDR=10.0.0.1", "QUEEN_HEADLESS_SERVICE_PORT_HTTP=1"}, "", "http", "127.0.0.1:6632", 0},
		{"failpoint", nil, []string{"QUEEN_FAILPOINT=a:1:kill"}, "", "failpoint", "a:1:kill", 0},
		{"Kafka off, as upstream says it", nil, []string{"QUEEN_KAFKA_EMBEDDED=false"}, "", "frontends", "http", 1},
		{"Kafka on, as upstream says it", nil, []string{"QUEEN_KAFKA_EMBEDDED=true", "QUEEN_KAFKA_ADDR=127.0.0.1:1",
			"QUEEN_KAFKA_ADVERTISED_ADDR=k.example:9", "QUEEN_KAFKA_GROUP_JOIN_DELAY_MS=0", "QUEEN_KAFKA_DEFAULT_PARTITIONS=4"}, "",
			"frontends", "http,kafka", 4},
		{"name of Kafka without meaning", nil, []string{"QUEEN_KAFKA_THREADS=4"}, "", "http", "127.0.0.1:6632", 1},
		{"Kafka for tests", nil, []string{"QUEEN_FRONTENDS=http,kafka", "QUEEN_KAFKA_GROUP_JOIN_DELAY=0s"}, "",
			"kafka.group.join.delay", "0s", 0},

		{"reachable with tokens", []string{"--http", "0.0.0.0:1"}, []string{"JWT_ENABLED=true", "JWT_SECRET=s"}, "",
			"http", "0.0.0.0:1", 2},
		{"reachable with keys", []string{"--http", "0.0.0.0:1", "--auth-keys", "k.yaml"}, nil, "", "http", "0.0.0.0:1", 0},
		{"secrets are masked", []string{"--jwt-enabled", "--jwt-secret", "hunter2"}, nil, "", "jwt.secret", "***", 0},
		{"encryption keys are masked", nil, []string{"QUEEN_ENCRYPTION_KEY=hunter2"}, "", "encryption.key", "***", 0},
		{"tokens switched off with their settings", nil, []string{"JWT_ENABLED=false", "JWT_SECRET=s"}, "",
			"jwt.enabled", "false", 2},
		{"any algorithm", []string{"--jwt-enabled", "--jwt-secret", "s"}, []string{"JWT_ALGORITHM=auto"}, "",
			"jwt.algorithms", "", 1},
		{"upstream skew", []string{"--jwt-enabled", "--jwt-secret", "s"}, []string{"JWT_CLOCK_SKEW=60"}, "",
			"jwt.clock.skew", "1m", 1},
		{"keys of tokens on this machine", []string{"--jwt-enabled", "--jwt-jwks-url", "http://127.0.0.1:1/k"}, nil, "",
			"jwt.jwks.url", "http://127.0.0.1:1/k", 0},
		{"proxies", []string{"--tenancy-header", "--tenancy-trusted-proxies", "10.0.0.7,fd00::/8"}, nil, "",
			"tenancy.trusted.proxies", "10.0.0.7/32,fd00::/8", 0},

		{"upstream port and host", nil, []string{"PORT=7000", "QUEEN_BIND_ADDR=127.0.0.2"}, "", "http", "127.0.0.2:7000", 2},
		{"upstream IPv6 host", nil, []string{"QUEEN_BIND_ADDR=::1"}, "", "http", "[::1]:6632", 1},
		{"own name before upstream's", nil, []string{"PORT=7000", "QUEEN_HTTP=127.0.0.1:8000"}, "",
			"http", "127.0.0.1:8000", 1},
		{"upstream milliseconds", nil, []string{"RETENTION_INTERVAL=1500"}, "", "retention.every", "1.5s", 1},
		{"upstream days", nil, []string{"PARTITION_CLEANUP_DAYS=7"}, "", "partition.cleanup", "7d", 1},
		{"upstream bytes", nil, []string{"QUEEN_MAX_BODY_BYTES=2097152"}, "", "http.max.body", "2MiB", 1},
		{"upstream mode", nil, []string{"DEFAULT_SUBSCRIPTION_MODE=all"}, "", "subscription.default", "all", 1},
		{"upstream log level", nil, []string{"LOG_LEVEL=TRACE"}, "", "log.level", "debug", 1},
		{"upstream JSON logs", nil, []string{"QUEEN_LOG_JSON=true"}, "", "log.format", "json", 1},
		{"upstream name without meaning", nil, []string{"QUEEN_RAFT_GROUPS=4"}, "", "http", "127.0.0.1:6632", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := load(t, c.args, c.env, c.yaml)
			if err != nil {
				t.Fatal(err)
			}
			if v := r.value(t, c.key); v.Text != c.want {
				t.Errorf("%s is %q, want %q", c.key, v.Text, c.want)
			}
			if len(r.Warnings) != c.warnings {
				t.Errorf("%d warnings, want %d: %q", len(r.Warnings), c.warnings, r.Warnings)
			}
		})
	}
}

// TestNamesWithoutMeaning: what upstream names and we do not heed is said once, with the reason, and stops nothing.
func TestNamesWithoutMeaning(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"QUEEN_KV_MAX_VALUE_BYTES=1", "the limit is fixed here: 64 KiB"},
		{"QUEEN_KV_MAX_OPS_PER_CALL=1", "the limit is fixed here: 256"},
		{"QUEEN_KV_WRITE_RATE=100", "plan of a tenant (QUEEN_QUOTA_FILE)"},
		{"QUEEN_TIMERS_MAX_HORIZON_S=60", "the limit is fixed here: 90 days"},
		{"QUEEN_TIMERS_MAX_PAYLOAD_BYTES=1", "the limit is fixed here: 1 MiB"},
		{"QUEEN_RAFT_TIMER_TICK_MS=50", "a timer fires when it is due"},
		{"QUEEN_RAFT_TRACE_RETENTION_S=1", "seven days"},
		{"QUEEN_EPHEMERAL_MAX_BYTES=2097152", "is taken as ephemeral.bytes"},
	} {
		r, err := load(t, nil, []string{c.set}, "")
		if err != nil {
			t.Errorf("%s: %v", c.set, err)
			continue
		}
		name, _, _ := strings.Cut(c.set, "=")
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], name) || !strings.Contains(r.Warnings[0], c.want) {
			t.Errorf("%s: %q do not say %q once", c.set, r.Warnings, c.want)
		}
	}
}

// TestUpstreamTable checks the table itself: every row leads somewhere, and what it translates to is accepted.
func TestUpstreamTable(t *testing.T) {
	for _, u := range upstream {
		if (u.key == "") == (u.note == "") {
			t.Errorf("%s: want exactly one of key and note", u.name)
		}
		if u.key != "" && (byKey(u.key) == nil || u.convert == nil) {
			t.Errorf("%s leads to the unknown setting %s", u.name, u.key)
		}
	}
	seen := map[string]bool{}
	for i := range settings {
		if s := &settings[i]; seen[s.key] || s.bind == nil {
			t.Errorf("%s is there twice, or fills nothing in", s.key)
		}
		seen[settings[i].key] = true
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"http", "http"}, {"htpp", "http"}, {"log.fromat", "log.format"}, {"logformat", "log.format"}, {"zzzzzzzzz", ""},
		{strings.Repeat("x", 1000), ""},
	} {
		if got, _ := nearest(c.name, knownKeys(fromFile)); got != c.want {
			t.Errorf("nearest to %.20s is %q, want %q", c.name, got, c.want)
		}
	}
}

// FuzzFile: no file makes the parser panic, and what it takes are known keys.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{"", "http: 127.0.0.1:1", "a: &a [*a]", "? {a: b}\n: c", "log: {level: [1, {a: b}]}", "\x00",
		"jwt:\n  secret: !!binary aGk=", "<<: {http: x}", "1: 2", "- a"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := parseFile("f", data)
		if err != nil {
			return
		}
		for key := range l {
			if byKey(key) == nil {
				t.Errorf("took the unknown key %q", key)
			}
		}
	})
}
