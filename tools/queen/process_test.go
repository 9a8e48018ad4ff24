package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"queen/engine/invariants"
)

// popped is what these tests read of a pop.
type popped struct {
	Messages []struct {
		TransactionID, PartitionID, LeaseID, Partition string
		Offset                                         uint64
		DeliveryAttempt                                int
	}
}

func items(from, to int) any {
	var list []map[string]any
	for i := from; i < to; i++ {
		list = append(list, map[string]any{"queue": "q", "partition": "p", "transactionId": fmt.Sprintf("t%d", i), "payload": i})
	}
	return map[string]any{"items": list}
}

// TestKilledBetweenCalls kills a node with -9 after a push, after a pop and after an ack. What was acknowledged is there
// each time: the messages in order, the cursor where the ack left it, the lease still held by its worker.
func TestKilledBetweenCalls(t *testing.T) {
	dir := t.TempDir()
	n := runNode(t, dir, nil)
	n.must(201, "POST", "/api/v1/push", items(0, 5), nil)
	n.kill()

	n = runNode(t, dir, nil)
	var first popped
	n.must(200, "GET", "/api/v1/pop/queue/q?consumerGroup=g&subscriptionMode=all&batch=3&leaseSeconds=600", nil, &first)
	if len(first.Messages) != 3 || first.Messages[0].TransactionID != "t0" || first.Messages[0].DeliveryAttempt != 1 {
		t.Fatalf("after the first kill: %+v", first)
	}
	n.kill()

	n = runNode(t, dir, nil)
	if status, body := n.call("GET", "/api/v1/pop/queue/q?consumerGroup=g", nil); status != 204 {
		t.Fatalf("the lease was forgotten: %d %s", status, body)
	}
	var verdicts []struct {
		Success bool
		Error   *string
	}
	ack := map[string]any{"consumerGroup": "g", "acknowledgments": []any{map[string]any{
		"transactionId": "t2", "partitionId": first.Messages[2].PartitionID, "leaseId": first.Messages[2].LeaseID}}}
	n.must(200, "POST", "/api/v1/ack/batch", ack, &verdicts)
	if len(verdicts) != 1 || !verdicts[0].Success {
		t.Fatalf("the lease of before the kill was refused: %+v", verdicts)
	}
	n.kill()

	n = runNode(t, dir, nil)
	var rest popped
	n.must(200, "GET", "/api/v1/pop/queue/q?consumerGroup=g", nil, &rest)
	if len(rest.Messages) != 2 || rest.Messages[0].TransactionID != "t3" || rest.Messages[0].Offset != 3 {
		t.Fatalf("after the ack and the third kill: %+v", rest)
	}
	var again []struct{ Status string }
	n.must(201, "POST", "/api/v1/push", items(4, 6), &again)
	if again[0].Status != "duplicate" || again[1].Status != "queued" {
		t.Fatalf("the dedup window was forgotten: %+v", again)
	}
	if code := n.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("SIGTERM: exit %d", code)
	}
}

// TestKilledAtFailpoints runs a node into every named failpoint in turn, all on one directory, with segments and
// checkpoints so small that every part of a node's life comes by. Each time, what the life before acknowledged is there,
// once and in order, and at most the one message beyond it whose answer was lost.
func TestKilledAtFailpoints(t *testing.T) {
	if testing.Short() {
		t.Skip("a process per failpoint")
	}
	dir := t.TempDir()
	small := []string{"--segment-bytes", "1MiB", "--mark-bytes", "256KiB", "--checkpoint-bytes", "1MiB",
		"--checkpoint-every", "20ms"}
	acknowledged, checked := 0, 0
	var reached []string
	for _, name := range invariants.Failpoints() {
		t.Log(name)
		p := launch(t, []string{"QUEEN_FAILPOINT=" + name + ":1:kill"},
			append([]string{"serve", "--data", dir, "--http", "127.0.0.1:0"}, small...)...)
		if p.url != "" {
			if found, ok := p.readFrom(checked); ok {
				checkFound(t, found, acknowledged)
				acknowledged, checked = p.pushUntilKilled(found), found
			}
		}
		select {
		case <-p.exited:
			if p.code() != -1 {
				t.Fatalf("the node ended with %d:\n%s", p.code(), p.log())
			}
			reached = append(reached, name)
		default:
			p.kill() // this load does not pass the point; then it is a kill like any other
		}
	}
	n := runNode(t, dir, nil, small...)
	found, _ := n.readFrom(0)
	checkFound(t, found, acknowledged)
	t.Logf("%d messages; %d of %d failpoints ended the node: %s", found, len(reached), len(invariants.Failpoints()),
		strings.Join(reached, " "))
	if len(reached) < len(invariants.Failpoints())/2 {
		t.Error("most failpoints were not reached: the load tests too little")
	}
}

// filler makes a message of 64 KiB that compression does not take the size of.
var filler = func() string {
	b := make([]byte, 48<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return base64.StdEncoding.EncodeToString(b)
}()

// pushUntilKilled pushes one message after another, named by its offset, and returns the first that was not
// acknowledged; the process is over if that is because its answer was lost. The small messages after the large ones give the work behind them time to come by.
func (p *process) pushUntilKilled(next int) int {
	p.t.Helper()
	for i := range 250 {
		payload := filler
		if i >= 50 {
			payload = "x"
		}
		status, body := p.call("POST", "/api/v1/push", map[string]any{"items": []any{map[string]any{
			"queue": "q", "partition": "p", "transactionId": fmt.Sprintf("t%d", next), "payload": payload}}})
		switch {
		case status == 0:
			<-p.exited
			return next
		case status != 201 || !strings.Contains(string(body), fmt.Sprintf(`"status":"queued","offset":%d`, next)):
			p.t.Fatalf("push of t%d: %d %s", next, status, body)
		}
		next++
	}
	return next
}

// readFrom reads the partition from an offset to its end, checks every message, and returns the end; ok is false when
// the node was killed meanwhile.
func (p *process) readFrom(next int) (end int, ok bool) {
	p.t.Helper()
	for {
		status, body := p.call("POST", "/api/v1/fetch", map[string]any{"entries": []any{
			map[string]any{"queue": "q", "partition": "p", "offset": next}}})
		if status == 0 {
			<-p.exited
			return 0, false
		}
		var answer struct {
			Entries []struct {
				Error   string
				Records []struct {
					Offset        int
					TransactionID string
				}
			}
		}
		if err := json.Unmarshal(body, &answer); err != nil || status != 200 {
			p.t.Fatalf("fetch from %d: %d %s", next, status, body)
		}
		e := &answer.Entries[0]
		if e.Error != "" && (e.Error != "UNKNOWN_TOPIC_OR_PARTITION" || next > 0) {
			p.t.Fatalf("fetch from %d: %s", next, e.Error)
		}
		if len(e.Records) == 0 {
			return next, true
		}
		for _, r := range e.Records {
			if r.Offset != next || r.TransactionID != fmt.Sprintf("t%d", next) {
				p.t.Fatalf("offset %d holds %s at %d", next, r.TransactionID, r.Offset)
			}
			next++
		}
	}
}

func checkFound(t *testing.T, found, acknowledged int) {
	t.Helper()
	if found < acknowledged || found > acknowledged+1 {
		t.Fatalf("%d messages are there, %d were acknowledged", found, acknowledged)
	}
}

// TestSecondProcess: a data directory belongs to one process, and the refusal says to which.
func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	n := runNode(t, dir, nil)
	second := launch(t, nil, "serve", "--data", dir, "--http", "127.0.0.1:0")
	if code := second.code(); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	if want := fmt.Sprintf("is in use: vfs: lock %s/LOCK: held by pid %d", dir, n.cmd.Process.Pid); !strings.Contains(second.log(), want) {
		t.Errorf("%q does not say %q", second.log(), want)
	}
	n.must(201, "POST", "/api/v1/push", items(0, 1), nil)
}

// TestDrain: SIGTERM ends a parked pop with an empty answer and the process with 0, and takes the ready file away.
func TestDrain(t *testing.T) {
	n := runNode(t, t.TempDir(), nil)
	var ready readyFile
	data, err := os.ReadFile(n.readyFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &ready); err != nil {
		t.Fatal(err)
	}
	if "http://"+ready.HTTP != n.url || ready.PID != n.cmd.Process.Pid {
		t.Errorf("the ready file says %+v, the node is %d at %s", ready, n.cmd.Process.Pid, n.url)
	}
	parked := make(chan int, 1)
	go func() {
		res, err := http.Get(n.url + "/api/v1/pop/queue/q?wait=true&timeout=60000")
		if err != nil {
			parked <- 0
			return
		}
		res.Body.Close()
		parked <- res.StatusCode
	}()
	n.untilParked(1)
	if code := n.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if status := <-parked; status != 204 {
		t.Errorf("the parked pop was answered %d, want 204", status)
	}
	if _, err := os.Stat(n.readyFile); !os.IsNotExist(err) {
		t.Errorf("the ready file is still there: %v", err)
	}
}

// untilParked asks the node until so many requests wait in it.
func (p *process) untilParked(n int) {
	p.t.Helper()
	for {
		status, body := p.call("GET", "/metrics/prometheus", nil)
		if status != 200 {
			p.t.Fatalf("metrics: %d", status)
		}
		for line := range strings.Lines(string(body)) {
			if strings.HasPrefix(line, "queen_longpoll_parked") && strings.HasSuffix(strings.TrimSpace(line), fmt.Sprintf(" %d", n)) {
				return
			}
		}
	}
}

// TestStaleReadyFile: a file of an earlier run is gone before the node can be ready, and the new one is whole.
func TestStaleReadyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ready.json")
	if err := os.WriteFile(path, []byte("stale"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, nil, "serve", "--data", "/dev/null/x", "--http", "127.0.0.1:0", "--ready-file", path)
	if code := p.code(); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the stale ready file is still there: %v", err)
	}
}

// TestDev: dev needs nothing, keeps its data under the user's cache and says what to try.
func TestDev(t *testing.T) {
	home := t.TempDir()
	p := launch(t, []string{"XDG_CACHE_HOME=" + home}, "dev", "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--mcp", "127.0.0.1:0",
		"--segment-bytes", "4MiB")
	p.waitReady()
	p.must(201, "POST", "/api/v1/push", items(0, 1), nil)
	if code := p.stop(syscall.SIGINT); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	for _, want := range []string{"Queen " + version + " is ready at " + p.url, "Kafka clients: kcat -b 127.0.0.1:",
		"claude mcp add --transport http queen http://127.0.0.1:", "curl -s " + p.url + "/api/v1/push"} {
		if !strings.Contains(p.stdout.String(), want) {
			t.Errorf("%q does not say %q", p.stdout.String(), want)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "queen", "dev", "LOCK")); err != nil {
		t.Error(err)
	}
}

// TestInterrupt: a signal ends a client command that waits for input or for messages, with 130.
func TestInterrupt(t *testing.T) {
	n := runNode(t, t.TempDir(), nil)
	n.must(201, "POST", "/api/v1/push", items(0, 1), nil)
	for _, args := range [][]string{{"push", "q"}, {"ack"}, {"tail", "q", "--from", "beginning"},
		{"tail", "q", "-p", "p", "--from", "beginning"}} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "queen", append(args, "--url", n.url)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// A line of output shows that the command runs; push and ack get something to do first.
		switch args[0] {
		case "push":
			_, err = stdin.Write([]byte("1\n"))
		case "ack":
			// More than one call's worth, so that a verdict comes before the input ends.
			_, err = stdin.Write([]byte(strings.Repeat(`{"partitionId":"1","transactionId":"t"}`+"\n", 10_001)))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		go func() { _, _ = io.Copy(io.Discard, stdout) }()
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("%v: exit %d, want 130", args, code)
		}
	}
}
