package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/tools/docs"
)

// fetchClients is the name in the environment with which TestKafkaClients gets the clients that are not of this module, in the
// versions that the page names, from where their users get them, and runs their programs too.
const fetchClients = "QUEEN_FETCH_CLIENTS"

// programNames are what programs are called, by their language.
var programNames = map[string]string{"go": "main.go", "java": "Example.java", "javascript": "main.js", "properties": "worker.properties",
	"python": "main.py"}

// TestKafkaClients runs the program that the MCP tool kafka_client answers for each client against the node that answered: it
// writes a record and reads it back. Without fetchClients that is the one of this module; the others are read by the
// interpreters that are there, and those in Go by a test of the page.
func TestKafkaClients(t *testing.T) {
	all := docs.KafkaClients()
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			dir := t.TempDir()
			p := program{t: t, dir: dir, path: filepath.Join(dir, programNames[c.Language]), client: c}
			run := p.fetch() // before there is a node, which does not wait for it

			ready := filepath.Join(t.TempDir(), "ready.json")
			n := runNode(t, t.TempDir(), nil, "--frontends", "http,kafka,mcp", "--kafka", "127.0.0.1:0", "--mcp", "127.0.0.1:0",
				"--kafka-group-join-delay", "0s", "--ready-file", ready)
			n.readyFile = ready
			s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
				&mcp.StreamableClientTransport{Endpoint: "http://" + mcpAddr(t, ready) + "/mcp", DisableStandaloneSSE: true}, nil)
			require.NoError(t, err)
			defer s.Close()
			res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "kafka_client", Arguments: map[string]any{"client": c.Name, "version": c.Version}})
			require.NoError(t, err)
			require.False(t, res.IsError, "%+v", res.Content)
			out := res.StructuredContent.(map[string]any)
			require.Equal(t, n.kafkaAddr(), out["bootstrap_servers"])
			require.Nil(t, out["hint"])
			code, _ := out["code"].(string)
			require.Equal(t, strings.ReplaceAll(c.Code, "127.0.0.1:9092", n.kafkaAddr()), code)
			require.NoError(t, os.WriteFile(p.path, []byte(code), 0o600))

			switch {
			case run == nil:
				p.look()
			case c.Language == "properties":
				p.work(code, run)
			default:
				require.Contains(t, p.command(run...), "customer-7 hello\n")
			}
		})
	}
}

// program is one program of a client of Kafka, in a directory of its own.
type program struct {
	t         *testing.T
	dir, path string
	client    docs.KafkaClient
}

// fetch gets the client and returns the command that runs the program; nil where the client is not to be fetched.
func (p *program) fetch() []string {
	c := &p.client
	if c.Name == "franz-go" {
		version := strings.TrimSpace(p.command("go", "list", "-m", "-f", "{{.Version}}", c.Package))
		require.Equal(p.t, version, "v"+c.Version, "the page names another version than the one of this module")
		return []string{"go", "run", p.path}
	}
	if os.Getenv(fetchClients) == "" {
		return nil
	}
	switch c.Language {
	case "go":
		p.command("go", "-C", p.dir, "mod", "init", "example")
		p.command("go", "-C", p.dir, "get", c.Package+"@v"+c.Version)
		return []string{"go", "-C", p.dir, "run", "-mod=mod", "."}
	case "javascript":
		p.command("npm", "install", "--silent", "--prefix", p.dir, c.Package+"@"+c.Version)
		return []string{"node", p.path}
	case "python":
		p.command("python3", "-m", "venv", filepath.Join(p.dir, "venv"))
		p.command(filepath.Join(p.dir, "venv/bin/pip"), "install", "--quiet", "--disable-pip-version-check", c.Package+"=="+c.Version)
		return []string{filepath.Join(p.dir, "venv/bin/python"), p.path}
	}
	group, artifact, _ := strings.Cut(c.Package, ":")
	pom := fmt.Sprintf("<project><modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>a</artifactId><version>1</version><dependencies>"+
		"<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency></dependencies></project>",
		group, artifact, c.Version)
	path := filepath.Join(p.dir, "pom.xml")
	require.NoError(p.t, os.WriteFile(path, []byte(pom), 0o600))
	lib := filepath.Join(p.dir, "lib")
	p.command("mvn", "-q", "-B", "-f", path, "dependency:copy-dependencies", "-DoutputDirectory="+lib)
	if c.Language == "properties" {
		return []string{"java", "-cp", lib + "/*", "org.apache.kafka.connect.cli.ConnectDistributed", p.path}
	}
	return []string{"java", "-cp", lib + "/*", p.path}
}

// look has an interpreter read the program without its client.
func (p *program) look() {
	switch p.client.Language {
	case "javascript":
		p.command("node", "--check", p.path)
	case "python":
		p.command("python3", "-m", "py_compile", p.path)
	}
	p.t.Skipf("%s is not fetched: set %s", p.client.Package, fetchClients)
}

// command runs a command to its end, which must be a good one, and returns what it printed. The test is skipped where there is
// no such command.
func (p *program) command(args ...string) string {
	p.t.Helper()
	if _, err := exec.LookPath(args[0]); err != nil {
		p.t.Skipf("%s is not installed", args[0])
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(p.t, err, "%v\n%s\n%s", args, out, stderr.String())
	return string(out)
}

// work starts a worker of Kafka Connect and waits until it answers, which it does when it has made its topics and joined its
// group.
func (p *program) work(settings string, run []string) {
	t := p.t
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	require.Contains(t, settings, "127.0.0.1:8083")
	require.NoError(t, os.WriteFile(p.path, []byte(strings.ReplaceAll(settings, "127.0.0.1:8083", addr)), 0o600))
	var log strings.Builder
	cmd := exec.CommandContext(t.Context(), run[0], run[1:]...)
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	require.Eventually(t, func() bool {
		res, err := http.Get("http://" + addr + "/connectors")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	}, patience, tick)
}
