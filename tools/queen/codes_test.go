package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// commandCodes are the exit codes that transcripts must show, by command: those that it can give, for commands about
// messages, queues, groups and keys; the interrupt is shown where somebody waits, and tested for all in tools/client.
var commandCodes = map[string]string{
	"ack":                   "0 1 2 3 4 6 7",
	"apply":                 "0 1 2 6",
	"auth hash-key":         "0 1",
	"auth login":            "0 1 2 3",
	"auth logout":           "0 1 4",
	"auth new-key":          "0 1",
	"auth token":            "0 1 3 4",
	"bench":                 "0 1 2",
	"completion bash":       "0 1",
	"completion fish":       "0 1",
	"completion powershell": "0 1",
	"completion zsh":        "0 1",
	"cluster members":       "2 4",
	"config check":          "0 5",
	"config delete-context": "0 1 4",
	"config print":          "0",
	"config set-context":    "0 1",
	"config use-context":    "0 1",
	"config view":           "0 1",
	"diff":                  "0 1 2 5",
	"dlq list":              "0 1 2 3",
	"dlq purge":             "0 1 2 3 4 7 8",
	"dlq redrive":           "0 1 2 3 4 6 7 8 130",
	"dlq replay":            "0 1 2 3 4 6 7",
	"dlq show":              "0 1 2 3 4",
	"docs":                  "0 1",
	"doctor":                "0 5",
	"ephemeral ack":         "0 1 2 3 4 6 7",
	"ephemeral configure":   "0 1 2 3 7",
	"ephemeral delete":      "0 1 2 3 7 8",
	"ephemeral depth":       "0 1 2 3",
	"ephemeral list":        "0 1 2 3",
	"ephemeral pop":         "0 1 2 3 4 7",
	"ephemeral push":        "0 1 2 3 4 7",
	"ephemeral reset":       "0 1 2 3 7 8",
	"export":                "0 1 2",
	"fetch":                 "0 1 2 3 4 130",
	"group delete":          "0 1 2 3 4 7 8",
	"group describe":        "0 1 2 3 4",
	"group lag":             "0 1 2 3 4 5",
	"group list":            "0 1 2 3",
	"group seek":            "0 1 2 3 7 8",
	"group subscribe":       "0 1 2 3 4 7",
	"kv delete":             "0 1 2 3 4 6 7",
	"kv get":                "0 1 2 3 4",
	"kv incr":               "0 1 2 3 6 7",
	"kv list":               "0 1 2 3",
	"kv namespaces":         "0 1 2 3",
	"kv put":                "0 1 2 3 6 7",
	"kv watch":              "0 1 2 3 130",
	"lag":                   "0 1 2 5",
	"lease extend":          "0 1 2 3 4 7",
	"lease list":            "0 1 2 3",
	"lease release":         "0 1 2 3 4 6 7",
	"lock acquire":          "0 1 2 3 6 7",
	"lock get":              "0 1 2 3 4",
	"lock list":             "0 1 2 3",
	"lock release":          "0 1 2 3 6 7",
	"lock renew":            "0 1 2 3 6 7",
	"maintenance get":       "0 1 2 3",
	"maintenance off":       "0 1 2 3 7",
	"maintenance on":        "0 1 2 3 7",
	"man":                   "0 1",
	"mcp call":              "1",
	"mcp install":           "0 1",
	"mcp stdio":             "1",
	"mcp tools":             "1 2",
	"message get":           "0 1 2 3 4",
	"message search":        "0 1 2 3 4",
	"message trace":         "0 1 2 3 4",
	"metrics":               "0 1 2 4",
	"openapi":               "0 1 2 3",
	"partition describe":    "0 1 2 3",
	"partition list":        "0 1 2 3",
	"partition purge":       "0 1 2 3 4 7 8",
	"partition seek":        "0 1 2 3 7 8",
	"peek":                  "0 1 2 3 4",
	"ping":                  "0 1 2",
	"pop":                   "0 1 2 3 4 7 130",
	"push":                  "0 1 2 3 4 6 7",
	"queue configure":       "0 1 2 3 7",
	"queue create":          "0 1 2 3 4 7",
	"queue delete":          "0 1 2 3 4 7 8",
	"queue depth":           "0 1 2 3",
	"queue describe":        "0 1 2 3",
	"queue export-config":   "0 1 2 3",
	"queue list":            "0 1 2 3 130",
	"queue stats":           "0 1 2 3",
	"replay":                "0 1 2 3 7 8",
	"serve":                 "0 1",
	"status":                "0 2 5",
	"tail":                  "0 1 2 3 7 130",
	"timer cancel":          "0 1 2 3 4 7",
	"timer count":           "0 1 2 3",
	"timer get":             "0 1 2 3 4",
	"timer list":            "0 1 2 3",
	"timer pause":           "0 1 2 3 4 7",
	"timer resume":          "0 1 2 3 4 7",
	"timer schedule":        "0 1 2 3 7",
	"top":                   "0 1 2",
	"trace add":             "0 1 2 3 7",
	"trace get":             "0 1 2 3 4",
	"trace names":           "0 1 2 3",
	"tx":                    "0 1 2 3 6 7",
	"version":               "0 1",
}

// shownElsewhere are commands that no transcript can show, with the test that runs them.
var shownElsewhere = map[string]string{
	"audit list": "TestAuditList", "dev": "TestDev", "help": "cobra",
	"cluster add": "TestClusterCommands", "cluster bootstrap": "TestClusterBootstrap",
	"cluster drain":   "TestClusterDrain",
	"cluster promote": "TestClusterCommands", "cluster remove": "TestClusterCommands",
	"cluster status": "TestClusterCommands", "cluster transfer-leader": "TestClusterCommands",
	"cluster upgrade-status": "TestClusterCommands", "cluster wait": "TestClusterCommands",
}

// exitsLine is a line of a transcript that tells an exit code.
var exitsLine = regexp.MustCompile(`(?m)^(?:exits|interrupts) (\d+) queen (.*)$`)

// TestCodesAreShown: every command has a row, and every code that it says is in a transcript.
func TestCodesAreShown(t *testing.T) {
	root := rootCommand(cli.Streams{Env: []string{"HOME=/home/you"}})
	shown := map[string]map[string]bool{}
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range exitsLine.FindAllStringSubmatch(string(text), -1) {
			cmd, _, err := root.Find(strings.Fields(strings.ReplaceAll(m[2], "'", "")))
			if err != nil {
				continue // a command that there is not, on purpose
			}
			name := strings.TrimPrefix(cmd.CommandPath(), "queen ")
			if shown[name] == nil {
				shown[name] = map[string]bool{}
			}
			shown[name][m[1]] = true
		}
	}
	rows := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "queen ")
		if cmd.HasSubCommands() {
			return
		}
		codes, known := commandCodes[name]
		switch {
		case !known && shownElsewhere[name] == "":
			t.Errorf("%s has no row in commandCodes: which exit codes can it give? Transcripts show %v", name,
				slices.Sorted(maps.Keys(shown[name])))
		case known:
			rows++
			for code := range strings.SplitSeq(codes, " ") {
				if !shown[name][code] {
					t.Errorf("no transcript shows exit %s of %s", code, name)
				}
			}
			for code := range shown[name] {
				if !slices.Contains(strings.Split(codes, " "), code) {
					t.Errorf("a transcript shows exit %s of %s, which commandCodes does not say", code, name)
				}
			}
		}
	}
	walk(root)
	if rows != len(commandCodes) {
		t.Errorf("%d rows, %d commands: a row is about a command that there is not", len(commandCodes), rows)
	}
}
