package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// fakeCommand runs a server in the node's place, as TestScripts tells.
func fakeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: fake WHAT [ARG]")
	}
	h := http.Handler(nil)
	switch {
	case args[0] == "lost" && len(args) == 1:
		h = losesWrites(ts, ts.Getenv("QUEEN_URL"))
	case args[0] == "status" && len(args) == 2:
		code, err := strconv.Atoi(args[1])
		ts.Check(err)
		h = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"error":%q}`, http.StatusText(code))
		})
	case args[0] == "answers" && len(args) == 2:
		h = answers(ts.ReadFile(args[1]))
	default:
		ts.Fatalf("unknown fake: %v", args)
	}
	server := httptest.NewServer(h)
	ts.Defer(server.Close)
	if node := ts.Getenv("QUEEN_URL"); ts.Getenv("NODE_URL") == "" {
		ts.Setenv("NODE_URL", node)
	}
	ts.Setenv("QUEEN_URL", server.URL)
}

// losesWrites passes reads on to a node. What writes is not carried out, and its answer is lost.
func losesWrites(ts *testscript.TestScript, node string) http.Handler {
	at, err := url.Parse(node)
	ts.Check(err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Query().Get("commitOnDelivery") == "true" {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	})
}

// answers gives every call the answer of the first line that is about it.
func answers(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for line := range strings.SplitSeq(text, "\n") {
			words := strings.SplitN(line, " ", 4)
			if len(words) < 4 || words[0] != r.Method || !strings.HasSuffix(r.URL.Path, words[1]) {
				continue
			}
			code, err := strconv.Atoi(words[2])
			if err != nil {
				panic(err) // of a transcript
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(words[3]))
			return
		}
		w.WriteHeader(http.StatusNotImplemented)
	})
}

// interruptsCommand runs queen against a node that is silent, sends SIGINT once it was called, and expects the exit code.
func interruptsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || args[1] != "queen" {
		ts.Fatalf("usage: interrupts CODE queen [ARG...]")
	}
	called := make(chan struct{})
	once := sync.OnceFunc(func() { close(called) })
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the connection end
		once()
		<-r.Context().Done()
	}))
	defer server.Close()
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + ts.Getenv("WORK"), "QUEEN_URL=" + server.URL}
	ts.Check(cmd.Start())
	select {
	case <-called:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("exit %s, want %s", got, args[0])
	}
}
