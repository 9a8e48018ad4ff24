package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// module is the path of the module; packages below are named without it.
const module = "queen/"

// leaves are the packages that know nothing of each other's purpose: bytes, files, time, assertions, counters.
var leaves = []string{"engine/format", "engine/vfs", "engine/vfs/errorfs", "engine/clock", "engine/invariants", "engine/stats",
	"engine/auth", "engine/auth/live", "engine/batch"}

// frontendLeaves are those a frontend may use: it knows no file.
var frontendLeaves = []string{"engine", "engine/batch", "engine/format", "engine/clock", "engine/invariants", "engine/stats", "engine/auth",
	"engine/diagnosis", "engine/mask"}

// importRow says what the packages of a folder may import of this module. The row with the longest matching folder
// counts. A package may always import what is below its own row's folder.
type importRow struct {
	folder string
	// may are the packages allowed; one that ends in /... stands for a folder.
	may []string
	// not are packages of the standard library that must stay out.
	not    []string
	reason string
}

// importTable is the architecture: imports point down only.
var importTable = []importRow{
	{"engine/format", nil, []string{"os", "net", "time", "math/rand", "math/rand/v2", "crypto/rand"},
		"format is bytes <-> structs and nothing else, so that every reader of a file shares it"},
	{"engine/vfs", []string{"engine/clock"}, nil, "files are a seam: nothing of the broker may be behind it"},
	{"engine/clock", nil, nil, "time is a seam: nothing of the broker may be behind it"},
	{"engine/invariants", nil, nil, "assertions are usable everywhere, so they use nothing"},
	{"engine/stats", nil, nil, "counters are a leaf that everything may count with"},
	{"engine/auth", nil, nil, "who calls is a leaf: it decides without the broker"},
	{"engine/auth/live", nil, nil, "values from files are a leaf for keys, certificates and plans alike"},
	{"engine/seal", []string{"engine/format"}, []string{"os", "net", "time"},
		"encryption is bytes and keys: where keys come from and when is not its business"},
	{"engine/batch", nil, []string{"os", "net", "time"},
		"record batches are bytes: who stores, serves or sends them is not its business"},
	{"engine/mask", []string{"engine/batch"}, []string{"os", "net", "time"},
		"what is hidden of a payload is a matter of bytes: every frontend that shows messages hides the same"},
	{"engine/value", []string{"engine/format"}, []string{"os", "net", "time"},
		"values of keys are JSON text: who stores them is not its business"},
	{"engine/keyed", []string{"engine/clock", "engine/format", "engine/vfs", "engine/invariants"}, nil,
		"the keyed store is below the machine's rows and knows none of them"},
	{"sidecar", []string{"engine/format", "engine/vfs", "engine/clock", "engine/invariants"}, nil,
		"sidecars are hashes beside segments: made and compared without the log that writes segments"},
	{"engine/logstore", append([]string{"sidecar"}, leaves...), nil,
		"the log stores records of any group: it does not know what a message or a queue is for"},
	{"engine/checkpoint", []string{"engine/format", "engine/vfs", "engine/invariants"}, nil,
		"checkpoints are files of rows: whose rows is not their business"},
	{"engine/machine", []string{"engine/batch", "engine/format", "engine/invariants", "engine/stats"},
		[]string{"os", "io/fs", "net", "time", "math/rand", "math/rand/v2", "crypto/rand", "sync", "context"},
		"the machine is deterministic: no clock, no file, no randomness, no goroutine, or replicas would differ"},
	{"engine/machine/slab", []string{"engine/invariants"},
		[]string{"os", "io/fs", "net", "time", "math/rand", "math/rand/v2", "crypto/rand", "context"},
		"slabs are the machine's memory and as deterministic; a lock guards frozen pages that a checkpoint reads"},
	{"engine/ephemeral", []string{"engine/clock", "engine/format"}, []string{"os", "io/fs", "net"},
		"ephemeral queues are memory and time: no file, no log and no state of the machine can be behind a reply"},
	{"engine/enginetest", append([]string{"engine", "engine/ephemeral", "engine/value"}, leaves...), nil,
		"the conformance suite sees the interface only, so that it judges every implementation alike"},
	{"engine/inspect", append([]string{"engine/logstore/...", "engine/checkpoint", "engine/keyed", "engine/machine/...",
		"sidecar"}, leaves...), nil, "tools read a directory without a node"},
	{"engine/diagnosis", []string{"engine", "engine/format"}, []string{"os", "net"},
		"what is wrong is judged over the typed interface, so that every frontend explains it alike"},
	{"engine", append([]string{"engine/logstore/...", "engine/checkpoint", "engine/keyed", "engine/machine/...", "engine/ephemeral",
		"engine/seal", "engine/value", "sidecar"},
		leaves...), nil, "the engine stands on log and machine; who replicates or serves it is above"},
	{"replication", append([]string{"engine", "engine/logstore/...", "engine/machine/...", "engine/checkpoint", "engine/keyed",
		"sidecar"}, leaves...), []string{"os"}, "replication implements engine.Sequencer and opens no file by itself"},
	{"frontend-http", frontendLeaves, []string{"io/fs", "path/filepath"},
		"a frontend is an adapter over engine.Engine: no file, no raft, no segment, and no other frontend"},
	{"frontend-http/wire", nil, nil, "the connection layer knows no route, no queue and no lease"},
	{"frontend-kafka", frontendLeaves, []string{"io/fs", "path/filepath"},
		"a frontend is an adapter over engine.Engine: no file, no raft, no segment, and no other frontend"},
	{"frontend-kafka/groups", []string{"engine/clock", "engine/format"}, []string{"os", "net"},
		"groups are members, time and a row: no socket and no engine, so that every step is tested by itself"},
	{"frontend-mcp", frontendLeaves, []string{"io/fs", "path/filepath"},
		"a frontend is an adapter over engine.Engine: no file, no raft, no segment, and no other frontend"},
	{"tools/config", nil, nil, "settings are a struct handed down by the composition root"},
	{"tools/certs", []string{"engine/auth/live"}, nil, "certificates are files: which listener uses them is not their business"},
	{"tools/docs", nil, nil, "pages are values handed down by the composition root"},
	{"tools/cli", nil, nil, "printing and exit codes know no command"},
	{"tools/remote", []string{"tools/cli"}, nil, "which node, as whom and how a call fails: no command and no route"},
	{"tools/client", []string{"tools/cli", "tools/remote"}, nil, "the client commands know the API only, never the engine"},
	{"tools/contexts", []string{"tools/cli", "tools/remote"}, nil, "names for nodes are a file: which node answers is not their business"},
	{"tools/ops", []string{"tools/cli", "tools/remote", "tools/contexts"}, nil, "the commands of operators know the API only, never the engine"},
	{"tools/mcp", []string{"tools/cli", "tools/remote"}, nil, "the client side of MCP knows the protocol and where a node is, never the engine"},
	{"tools/offline", append([]string{"engine"}, leaves...), nil,
		"a stopped node's directory is opened through the engine's own door, over files that are thrown away"},
	{"tools/queen", []string{"..."}, nil, "the composition root is the only place that knows everything"},
	{"bench", append([]string{"engine", "engine/enginetest/..."}, leaves...), nil,
		"measurements come through the doors that users have, or they measure something else"},
}

// libraryRow says where a library may be imported.
type libraryRow struct {
	path    string
	folders []string
	reason  string
}

// libraryTable keeps libraries where they belong. Tests may use any of them.
var libraryTable = []libraryRow{
	{"github.com/dgraph-io/badger/v4", []string{"engine/keyed", "engine/inspect"},
		"badger is safe under the rules of the keyed store only"},
	{"github.com/lni/dragonboat/v4", []string{"replication"}, "raft is what replication is about, and nobody else"},
	{"github.com/gofiber/fiber/v2", []string{"frontend-http"}, "HTTP ends in its frontend"},
	{"github.com/valyala/fasthttp", []string{"frontend-http", "bench"}, "HTTP ends in its frontend"},
	{"github.com/prometheus", []string{"frontend-http", "frontend-kafka", "frontend-mcp", "tools/ops"},
		"the engine counts, frontends render, and one tool reads it back"},
	{"github.com/twmb/franz-go", []string{"frontend-kafka", "bench"}, "Kafka ends in its frontend"},
	{"github.com/xdg-go/scram", []string{"frontend-kafka"}, "SCRAM is how Kafka clients authenticate"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"frontend-mcp", "tools/mcp", "tools/queen"}, "MCP ends in its frontend"},
	{"github.com/spf13", []string{"tools", "bench"}, "command lines are for tools"},
	{"github.com/zalando/go-keyring", []string{"tools/remote"}, "where tokens are kept is known in one place"},
	{"github.com/gobwas/ws", []string{"frontend-http", "bench"}, "WebSockets end in their frontend; a loader speaks them from the other side"},
	{"github.com/go-faster/jx", []string{"frontend-http", "engine/batch"},
		"JSON ends in its frontend; records have a JSON form that two of them share"},
	{"encoding/json", []string{"frontend-http", "frontend-mcp", "frontend-kafka", "tools", "bench", "engine/auth", "engine/mask", "engine/value"},
		"JSON ends in its frontend; tokens and their keys are JSON, and so are values of keys and what masks hide parts of"},
	{"net/http", []string{"frontend-http", "frontend-mcp", "tools", "bench"}, "the engine serves nobody"},
}

// goPackage is what "go list -json" says of a package.
type goPackage struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

// packages lists every package of the module.
func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v: %s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 20 {
		t.Fatalf("go list found %d packages", len(all))
	}
	return all
}

// TestImports compares what every package imports with the tables.
func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		row := rowOf(name)
		if row == nil {
			t.Errorf("%s has no row in importTable: what may it import, and why?", name)
			continue
		}
		for _, imported := range p.Imports {
			if reason := violation(name, row, imported); reason != "" {
				t.Errorf("%s imports %s: %s", name, imported, reason)
			}
		}
	}
}

// TestImportTableRefuses checks the judge itself with imports that must never be let through.
func TestImportTableRefuses(t *testing.T) {
	for _, c := range []struct{ name, imported string }{
		{"engine/machine", "queen/engine/vfs"}, {"engine/machine", "queen/engine/clock"}, {"engine/machine", "time"},
		{"engine/machine", "os"}, {"engine/machine/slab", "queen/engine/logstore"}, {"engine/format", "queen/engine/vfs"},
		{"frontend-http", "queen/frontend-kafka"}, {"frontend-http", "queen/engine/logstore"},
		{"frontend-kafka", "queen/replication"}, {"frontend-mcp", "queen/sidecar"}, {"frontend-http", "queen/engine/vfs"},
		{"engine", "queen/replication"}, {"engine", "queen/frontend-http"}, {"engine/logstore", "queen/engine/machine"},
		{"sidecar", "queen/engine/logstore"}, {"tools/client", "queen/engine"}, {"tools/config", "queen/tools/queen"},
		{"bench/http", "queen/engine/logstore"}, {"engine", "github.com/dgraph-io/badger/v4"},
		{"engine", "encoding/json"}, {"engine", "net/http"}, {"engine", "github.com/lni/dragonboat/v4/raftio"},
	} {
		if row := rowOf(c.name); row == nil || violation(c.name, row, c.imported) == "" {
			t.Errorf("%s may import %s", c.name, c.imported)
		}
	}
}

// rowOf finds the row of a package.
func rowOf(name string) *importRow {
	var best *importRow
	for i := range importTable {
		if r := &importTable[i]; within(name, r.folder) && (best == nil || len(r.folder) > len(best.folder)) {
			best = r
		}
	}
	return best
}

// within tells whether a package is a folder's or below it.
func within(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// violation is the reason against an import, "" when there is none.
func violation(name string, row *importRow, imported string) string {
	if slices.Contains(row.not, imported) {
		return row.reason
	}
	for _, lib := range libraryTable {
		if within(imported, lib.path) && !slices.ContainsFunc(lib.folders, func(f string) bool { return within(name, f) }) {
			return lib.reason
		}
	}
	target, ours := strings.CutPrefix(imported, module)
	if !ours || within(target, row.folder) && rowOf(target) == row {
		return ""
	}
	for _, may := range row.may {
		folder, whole := strings.CutSuffix(may, "...")
		switch {
		case may == target, whole && folder == "":
			return ""
		case whole && within(target, strings.TrimSuffix(folder, "/")):
			return ""
		}
	}
	// A folder's own subpackage may have a stricter row of its own.
	if within(target, row.folder) && row.folder != "engine" {
		return ""
	}
	return row.reason
}
