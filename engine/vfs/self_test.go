package vfs_test

import (
	"os"
	"os/exec"
	"testing"
)

// runSelf runs one test of this binary in a process of its own, with one more environment variable.
func runSelf(t *testing.T, test, env string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
