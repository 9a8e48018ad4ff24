package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSuitesJudge: logs of a suite are judged both ways against what is known, and so is the exit code.
func TestSuitesJudge(t *testing.T) {
	const (
		good  = "=== RUN   TestA\n--- PASS: TestA (0.01s)\n"
		skip  = "=== RUN   TestB\n    b_test.go:9: why\n--- SKIP: TestB (0.00s)\n"
		fail  = "=== RUN   TestC\n=== RUN   TestC/sub\n    --- FAIL: TestC/sub (1.00s)\n--- FAIL: TestC (1.00s)\n"
		known = "# a comment\nSKIP TestB it is not built\nFAIL TestC it is broken\n"
	)
	for _, c := range []struct {
		name, log, known, code, whole string
		want                          string // in what is said
		ok                            bool
	}{
		{"as known", good + skip + fail, known, "1", "1", "1 passed, 1 failed, 1 skipped", true},
		{"unknown skip", good + skip, "", "0", "1", "SKIP TestB", false},
		{"unknown failure", good + fail, "", "1", "1", "FAIL TestC", false},
		{"known skip passes", good + strings.ReplaceAll(skip, "SKIP", "PASS"), "SKIP TestB it is not built\n", "0", "", "which is now PASS", false},
		{"known skip fails", good + strings.ReplaceAll(skip, "SKIP", "FAIL"), "SKIP TestB it is not built\n", "1", "", "which is now FAIL", false},
		{"known failure passes", good + skip + strings.ReplaceAll(fail, "FAIL", "PASS"), known, "0", "", "which is now PASS", false},
		{"known test is gone", good + fail, known, "1", "1", "SKIP TestB, which did not run", false},
		{"some tests only", good, known, "0", "", "1 passed", true},
		{"no reason", good + skip, "SKIP TestB\n", "0", "", "has no reason", false},
		{"no end", good + "=== RUN   TestD\n", "", "0", "", "NO END TestD", false},
		{"killed", good, "", "137", "", "ended with 137", false},
		{"failed beside its tests", good, "", "1", "", "although none failed", false},
		{"passed beside its tests", good + skip + fail, known, "0", "", "although 1 failed", false},
		{"panic", good + "panic: test timed out after 1s\n", "", "2", "", "ended early", false},
		{"nothing", "", "", "0", "", "no test passed", false},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"log": c.log, "known": c.known} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command("suites/judge", filepath.Join(dir, "log"), filepath.Join(dir, "known"), c.code, c.whole).CombinedOutput()
		if (err == nil) != c.ok || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, %s", c.name, err, out)
		}
	}
}
