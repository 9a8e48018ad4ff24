package main

import (
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the transcripts of testdata/script: every command with its output and exit code, against a real
// node. They know commands of their own:
//
//	node [FLAG...]    runs a node and sets QUEEN_URL, NODE_ADDR and NODE_DATA
//	exits CODE CMD    runs queen and expects its exit code; stdout and stderr are those of the run
//	fake WHAT [ARG]   runs a server in the node's place and sets QUEEN_URL to it, and NODE_URL to the node:
//	                  "lost" passes reads on and breaks the connection of writes, "status CODE" refuses every call,
//	                  "answers FILE" has a line "METHOD END-OF-PATH STATUS BODY" for each answer
//	interrupts CODE CMD  runs queen, sends SIGINT when it called its node, which is silent, and expects its exit code
//	take NAME MEMBER  sets a variable to the first such member of the JSON on stdout
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"node":       nodeCommand(t),
			"exits":      exitsCommand,
			"fake":       fakeCommand,
			"interrupts": interruptsCommand,
			"take":       takeCommand,
		},
		RequireExplicitExec: true,
	})
}

func nodeCommand(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("usage: node [FLAG...]")
		}
		dir := ts.MkAbs("node-data")
		n := runNode(t, dir, nil, args...)
		ts.Defer(func() { n.stop(syscall.SIGTERM) })
		ts.Setenv("QUEEN_URL", n.url)
		ts.Setenv("NODE_ADDR", n.url[len("http://"):])
		ts.Setenv("NODE_DATA", dir)
	}
}

// exitsCommand is exec with an exit code. A script writes what it wants of stdout and stderr after it.
func exitsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = strconv.Itoa(exit.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("exit %s, want %s", got, args[0])
	}
}

func takeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: take NAME MEMBER")
	}
	member := regexp.MustCompile(`"` + regexp.QuoteMeta(args[1]) + `": ?"?([^",}\n]+)`)
	found := member.FindStringSubmatch(ts.ReadFile("stdout"))
	if found == nil {
		ts.Fatalf("no %s in the output", args[1])
	}
	ts.Setenv(args[0], found[1])
}
