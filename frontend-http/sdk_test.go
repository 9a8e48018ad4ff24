package frontendhttp

import (
	"os"
	"os/exec"
	"testing"
)

// TestPythonSDK runs the unmodified Python SDK against the frontend. It needs a Python that has it:
//
//	python3 -m venv DIR && DIR/bin/pip install queen-mq
//	QUEEN_SDK_PYTHON=DIR/bin/python go test -run PythonSDK ./frontend-http/
//
// bench/sdk/run does all of it against a node.
func TestPythonSDK(t *testing.T) {
	python := os.Getenv("QUEEN_SDK_PYTHON")
	if python == "" {
		t.Skip("QUEEN_SDK_PYTHON names no Python")
	}
	n := start(t)
	cmd := exec.Command(python, "../bench/sdk/check.py", "http://"+n.addr)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}
