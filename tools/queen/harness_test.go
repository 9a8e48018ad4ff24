package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain puts this test binary on the PATH as queen, so that tests run real processes of the code under test.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"queen": main}) }

// patience bounds every wait of these tests for another process. It is never the thing that is measured.
const patience = 60 * time.Second

// process is a node that runs as a process of its own.
type process struct {
	t testing.TB
	// url is the base of the HTTP API.
	url, readyFile string
	cmd            *exec.Cmd
	exited         chan struct{}
	// stdout may be read once the process has ended.
	stdout bytes.Buffer

	mu     sync.Mutex
	stderr strings.Builder
}

// runNode runs "queen serve" on a free port and returns once it says that it is ready. Small segments keep the
// directories of tests small.
func runNode(t testing.TB, dir string, env []string, args ...string) *process {
	t.Helper()
	p := launch(t, env, append([]string{"serve", "--data", dir, "--http", "127.0.0.1:0", "--segment-bytes", "4MiB",
		"--ready-file", filepath.Join(t.TempDir(), "ready.json")}, args...)...)
	p.waitReady()
	return p
}

// launch runs queen and returns at once. The test ends the process if it still runs.
func launch(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &process{t: t, exited: make(chan struct{}), cmd: exec.CommandContext(ctx, "queen", args...)}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	if i := indexOf(args, "--ready-file"); i >= 0 {
		p.readyFile = args[i+1]
	}
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = &p.stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	go p.watch(pipe, ready)
	t.Cleanup(func() {
		p.kill()
		cancel()
		if t.Failed() {
			t.Logf("queen %s:\n%s", strings.Join(args, " "), p.log())
		}
	})
	p.url = ""
	select {
	case addr := <-ready:
		p.url = "http://" + addr
	case <-p.exited:
	}
	return p
}

func indexOf(args []string, word string) int {
	for i, a := range args {
		if a == word {
			return i
		}
	}
	return -1
}

// watch copies the log, and tells the address of the ready line.
func (p *process) watch(pipe io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		p.mu.Lock()
		p.stderr.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		if _, addr, ok := strings.Cut(lines.Text(), "msg=ready frontend=http addr="); ok {
			ready <- addr
		}
	}
	_ = p.cmd.Wait()
	close(p.exited)
}

func (p *process) waitReady() {
	p.t.Helper()
	if p.url == "" {
		p.t.Fatalf("the node ended with %d before it was ready:\n%s", p.code(), p.log())
	}
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// kill is kill -9: nothing of the process runs afterwards.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.exited
}

// stop sends a signal and returns the exit code.
func (p *process) stop(sig syscall.Signal) int {
	_ = p.cmd.Process.Signal(sig)
	return p.code()
}

// code waits for the end; -1 is an end by a signal.
func (p *process) code() int {
	<-p.exited
	return p.cmd.ProcessState.ExitCode()
}

// call sends a request and returns status and body; status 0 is a lost answer.
func (p *process) call(method, path string, body any) (int, []byte) {
	p.t.Helper()
	return p.callAs("", method, path, body)
}

// callAs is call of a tenant, as a proxy that is trusted tells it; "" tells none.
func (p *process) callAs(tenant, method, path string, body any) (int, []byte) {
	p.t.Helper()
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			p.t.Fatal(err)
		}
	}
	req, err := http.NewRequest(method, p.url+path, bytes.NewReader(b))
	if err != nil {
		p.t.Fatal(err)
	}
	if tenant != "" {
		req.Header.Set("x-queen-tenant", tenant)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, answer
}

// must is call with the status that the test relies on, decoded into out unless it is nil.
func (p *process) must(status int, method, path string, body, out any) {
	p.t.Helper()
	got, answer := p.call(method, path, body)
	if got != status {
		p.t.Fatalf("%s %s: status %d, want %d: %s", method, path, got, status, answer)
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			p.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
		}
	}
}
