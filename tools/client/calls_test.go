package client

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// call is a command line, with what its exit code may depend on.
type call struct {
	args []string
	in   string
	// write says that it changes something: a lost answer leaves open whether it did. reads is what its reads before that
	// are answered with, by the end of their path; other reads fail as the test says.
	write bool
	reads map[string]string
	// answers are what a node may answer, with the code of each: what is left of the classes that every command has.
	answers []answer
	// list says that [] is a list of this API.
	list bool
}

// answer is the body of an answer and the exit code that it leads to.
type answer struct {
	body string
	code int
}

var (
	group   = `{"q":{"partitions":[{"partition":"p","offsetLag":3,"leaseActive":true}]}}`
	pageOf1 = `{"entries":[{"partitions":[{"id":"1","name":"p","lastOffset":2,"logStart":0}],"next":null}]}`
	letters = `{"messages":[{"id":"id"}]}`
	depth   = map[string]string{"/depth": `{"pending":1}`}
	wrapped = `{"partitionId":"1","transactionId":"t"}` + "\n"
)

// calls have every command at least once.
var calls = []call{
	{args: []string{"push", "q", "x"}, write: true, answers: []answer{{`[{"status":"queued"}]`, 0}, {`[{"status":"error"}]`, 6}}},
	{args: []string{"push", "q", "--payload", "hex", "ff"}, write: true},
	{args: []string{"push", "q"}, in: "x\n", write: true},
	{args: []string{"push", "q", "--wrapped"}, in: `[{"data":1},{"data":2}]`, write: true},
	{args: []string{"pop", "q", "--group", "g"}, answers: []answer{{`{"messages":[]}`, 4}, {`{"messages":[{}]}`, 0}}},
	{args: []string{"pop", "q", "--group", "g", "--auto-ack"}, write: true},
	{args: []string{"ack"}, in: wrapped, write: true, answers: []answer{{`[{"success":true}]`, 0}, {`[{"success":false}]`, 6}}},
	{args: []string{"ack", "--partition-id", "1", "--offset", "0"}, write: true},
	{args: []string{"fetch", "q"}, answers: []answer{{`{"entries":[{"records":[]}]}`, 4},
		{`{"entries":[{"error":"OFFSET_OUT_OF_RANGE"}]}`, 1}, {`{"entries":[{"error":"UNKNOWN_TOPIC_OR_PARTITION"}]}`, 1}}},
	{args: []string{"fetch", "q", "--from", "1h ago"}},
	{args: []string{"peek", "q"}, answers: []answer{{`{"entries":[{"partitions":[]}]}`, 4}}},
	{args: []string{"peek", "q", "--group", "g"}},
	{args: []string{"tail", "q", "-p", "p", "-n", "1"}},
	{args: []string{"tail", "q", "-n", "1"}},
	{args: []string{"tail", "q", "-n", "1", "--from", "1h ago"}},
	{args: []string{"tail", "q", "-n", "1", "--group", "g"}, write: true},
	{args: []string{"tx"}, in: `{"kv":[]}`, write: true, answers: []answer{{`{"success":true}`, 0}, {`{"success":false}`, 6}}},
	{args: []string{"replay", "q", "--cg", "g", "--to", "beginning", "--yes"}, write: true, answers: []answer{{`{"consumerGroup":"g"}`, 0}}},
	{args: []string{"queue", "list"}, answers: []answer{{`{"queues":[]}`, 0}}},
	{args: []string{"queue", "describe", "q"}},
	{args: []string{"queue", "create", "q"}, write: true, answers: []answer{{`{"name":"q"}`, 4}}},
	{args: []string{"queue", "configure", "q", "--ttl", "5m"}, write: true, answers: []answer{{`{"configured":true}`, 0}}},
	{args: []string{"queue", "delete", "q", "--yes"}, write: true, reads: depth, answers: []answer{{`{"deleted":true}`, 0}, {`{"deleted":false}`, 4}}},
	{args: []string{"queue", "depth", "q"}},
	{args: []string{"queue", "stats", "q"}},
	{args: []string{"queue", "stats"}},
	{args: []string{"partition", "list", "q"}},
	{args: []string{"partition", "describe", "q", "p"}, answers: []answer{{pageOf1, 2}}},
	{args: []string{"partition", "seek", "q", "p", "--group", "g", "--to", "end", "--yes"}, write: true},
	{args: []string{"partition", "purge", "q", "p", "--yes"}, write: true, answers: []answer{{`{"deleted":0}`, 4}, {`{"deleted":3}`, 0}}},
	{args: []string{"group", "list"}, list: true},
	{args: []string{"group", "describe", "g"}, answers: []answer{{`{}`, 4}, {group, 0}}},
	{args: []string{"group", "lag", "g", "--fail-above", "2"}, answers: []answer{{`{}`, 4}, {group, 5}}},
	{args: []string{"group", "lag", "g", "--fail-above", "3"}, answers: []answer{{group, 0}}},
	{args: []string{"group", "lag"}, list: true},
	{args: []string{"group", "seek", "g", "q", "--to", "end", "--yes"}, write: true, answers: []answer{{`{"consumerGroup":"g"}`, 0}}},
	{args: []string{"group", "subscribe", "g", "--from", "now"}, write: true, answers: []answer{{`{"rowsUpdated":0}`, 4}, {`{"rowsUpdated":1}`, 0}}},
	{args: []string{"group", "delete", "g", "--yes"}, write: true, reads: map[string]string{"/consumer-groups/g": group},
		answers: []answer{{`{"consumerGroup":"g"}`, 0}}},
	{args: []string{"dlq", "list", "q"}, answers: []answer{{letters, 0}}},
	{args: []string{"dlq", "show", "id"}, answers: []answer{{letters, 0}, {`{"messages":[]}`, 4}}},
	{args: []string{"dlq", "replay", "id"}, write: true, answers: []answer{{`{"result":"moved"}`, 0}, {`{"result":"duplicate"}`, 6}}},
	{args: []string{"dlq", "replay"}, in: `[{"id":"id"}]`, write: true, answers: []answer{{`{"result":"moved"}`, 0}}},
	{args: []string{"dlq", "purge", "q", "--yes"}, write: true, answers: []answer{{`{"deleted":0}`, 4}, {`{"deleted":1}`, 0}}},
	{args: []string{"dlq", "redrive", "q", "--yes"}, write: true, answers: []answer{{`{"state":"done","total":0}`, 4},
		{`{"state":"done","total":1,"moved":1}`, 0}, {`{"state":"done","total":1,"gone":1}`, 6},
		{`{"state":"failed","total":2,"moved":1,"lastError":"the queue was deleted"}`, 2}}},
	{args: []string{"dlq", "redrive", "q", "--yes"}, write: true, reads: map[string]string{"/redrive/j": `{"state":"done","moved":1}`},
		answers: []answer{{`{"id":"j","state":"running","total":1}`, 0}}},
	{args: []string{"dlq", "redrive", "q", "--dry-run"}, answers: []answer{{`{"total":0}`, 4}, {`{"total":1}`, 0},
		{`{"total":0,"totalIsMinimum":true}`, 0}}},
	{args: []string{"dlq", "redrive", "q", "--partition", "p", "--yes"}, write: true, reads: map[string]string{"/dlq": letters},
		answers: []answer{{`{"result":"moved"}`, 0}, {`{"result":"gone"}`, 6}}},
	{args: []string{"message", "get", "1", "t"}, answers: []answer{{`{"transactionId":"t"}`, 0}}},
	{args: []string{"message", "search", "q"}, answers: []answer{{`{"messages":[]}`, 4}, {letters, 0}}},
	{args: []string{"message", "trace", "1", "t"}, answers: []answer{{`{"traces":[]}`, 4}, {`{"traces":[{}]}`, 0}}},
	{args: []string{"kv", "get", "k", "--ns", "n"}, answers: []answer{{`{"found":false}`, 4}, {`{"found":true}`, 0}}},
	{args: []string{"kv", "put", "k", "v", "--ns", "n", "--forever"}, write: true, answers: kvAnswers(6)},
	{args: []string{"kv", "delete", "k", "--ns", "n"}, write: true, answers: kvAnswers(4)},
	{args: []string{"kv", "incr", "k", "--ns", "n", "--ttl", "60s"}, write: true, answers: kvAnswers(6)},
	{args: []string{"kv", "list", "--ns", "n"}, answers: []answer{{`{"rows":[]}`, 0}}},
	{args: []string{"kv", "namespaces"}},
	{args: []string{"kv", "watch", "--ns", "n"}},
	{args: []string{"timer", "schedule", "q", "k", "v", "--delay", "1s"}, write: true, answers: []answer{{`{"results":[{"status":"scheduled"}]}`, 0}}},
	{args: []string{"timer", "get", "q", "k"}, answers: []answer{{`{"found":false}`, 4}, {`{"found":true}`, 0}}},
	{args: []string{"timer", "list", "q"}},
	{args: []string{"timer", "count", "q", "k"}},
	{args: []string{"timer", "cancel", "q", "k"}, write: true, answers: []answer{{`{"ok":false}`, 4}, {`{"ok":true}`, 0}}},
	{args: []string{"timer", "pause", "q", "k"}, write: true, answers: []answer{{`{"results":[{"ok":false,"status":"absent"}]}`, 4},
		{`{"results":[{"ok":true,"status":"paused"}]}`, 0}}},
	{args: []string{"timer", "resume", "q", "k"}, write: true, answers: []answer{{`{"results":[{"ok":false,"status":"absent"}]}`, 4},
		{`{"results":[{"ok":true,"status":"resumed"}]}`, 0}}},
	{args: []string{"lock", "acquire", "l"}, write: true, answers: lockAnswers("acquired", 6)},
	{args: []string{"lock", "renew", "l", "--token", "1"}, write: true, answers: lockAnswers("renewed", 6)},
	{args: []string{"lock", "release", "l", "--token", "1"}, write: true, answers: lockAnswers("released", 6)},
	{args: []string{"lock", "get", "l"}, answers: lockAnswers("held", 4)},
	{args: []string{"lock", "list"}, answers: []answer{{`{"rows":[]}`, 0}}},
	{args: []string{"lease", "list"}, answers: []answer{{`{"leases":[]}`, 0}}},
	{args: []string{"lease", "extend", "l"}, write: true, answers: []answer{{`{"success":true}`, 0}, {`{"success":false}`, 4}}},
	{args: []string{"lease", "release", "l"}, write: true, answers: []answer{{`{"success":true}`, 0}, {`{"success":false,"reason":"over"}`, 4},
		{`{"success":false,"reason":"acked"}`, 6}}},
	{args: []string{"trace", "add", "d", "--partition-id", "1", "--transaction-id", "t"}, write: true},
	{args: []string{"trace", "get", "--name", "n"}, answers: []answer{{`{"traces":[]}`, 4}}},
	{args: []string{"trace", "names"}},
	{args: []string{"ephemeral", "push", "q", "x"}, write: true, answers: []answer{{`{"pushed":1}`, 0}}},
	{args: []string{"ephemeral", "pop", "q"}, answers: []answer{{`{"messages":[]}`, 4}, {`{"messages":[{}]}`, 0}}},
	{args: []string{"ephemeral", "pop", "q", "--auto-ack"}, write: true},
	{args: []string{"ephemeral", "ack", "q", "id"}, write: true, answers: []answer{{`{"results":[{"outcome":"acked"}]}`, 0},
		{`{"results":[{"outcome":"acked"},{"outcome":"stale"}]}`, 6}}},
	{args: []string{"ephemeral", "configure", "q"}, write: true},
	{args: []string{"ephemeral", "reset", "q", "--yes"}, write: true},
	{args: []string{"ephemeral", "delete", "q", "--yes"}, write: true},
	{args: []string{"ephemeral", "list"}},
	{args: []string{"ephemeral", "depth", "q"}},
	{args: []string{"maintenance", "get"}, answers: []answer{{`{"kvEnabled":true}`, 0}}},
	{args: []string{"maintenance", "on"}, write: true, answers: []answer{{`{"kvEnabled":false}`, 0}}},
	{args: []string{"maintenance", "off", "kv"}, write: true, answers: []answer{{`{"kvEnabled":true}`, 0}}},
	{args: []string{"openapi"}, answers: []answer{{`{"openapi":"3.1.0","paths":{}}`, 0}}},
	{args: []string{"auth", "login", "c", "--url", "NODE", "--dry-run"}, in: "token\n", answers: []answer{{`{"queues":0}`, 0}}},
}

// offline are the commands that call no node.
var offline = []call{
	{args: []string{"auth", "logout"}, answers: []answer{{"", 4}}},
	{args: []string{"auth", "token"}, answers: []answer{{"", 4}}},
}

func kvAnswers(lost int) []answer {
	return []answer{{`{"results":[{"applied":true}]}`, 0}, {`{"results":[{"applied":false,"reason":"absent"}]}`, lost},
		{`{"results":[{"applied":false,"reason":"version_mismatch"}]}`, 6}}
}

func lockAnswers(verdict string, otherwise int) []answer {
	return []answer{{`{"results":[{"` + verdict + `":true}]}`, 0}, {`{"results":[{"` + verdict + `":false}]}`, otherwise}}
}

// tree has all commands of this package.
func tree(s cli.Streams) *cobra.Command {
	root := &cobra.Command{Use: "queen", SilenceErrors: true, SilenceUsage: true}
	auth := &cobra.Command{Use: "auth"}
	auth.AddCommand(AuthCommands(s)...)
	root.AddCommand(append(Commands(s), auth)...)
	cli.Groups(root)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	return root
}

// TestEveryCommandIsCalled: a command that is not in calls is one whose exit codes nobody checks.
func TestEveryCommandIsCalled(t *testing.T) {
	root := tree(cli.Streams{})
	called := map[*cobra.Command]bool{}
	for _, c := range append(calls, offline...) {
		cmd, _, err := root.Find(c.args)
		if err != nil || cmd == root {
			t.Fatalf("%v: %v", c.args, err)
		}
		called[cmd] = true
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() && !called[cmd] && cmd != root {
			t.Errorf("%s has no row in calls", strings.TrimPrefix(cmd.CommandPath(), "queen "))
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}
