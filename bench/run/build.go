package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"queen/bench/internal/node"
	"queen/bench/internal/report"
)

// build compiles everything. The peer is a module of its own; without it its ratio is not measured.
func build(o *options) error {
	var err error
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if o.data, err = filepath.Abs(o.data); err != nil {
		return err
	}
	if _, err := node.Build(o.program("queen")); err != nil {
		return err
	}
	for _, name := range []string{"floor", "inproc", "http", "partitions"} {
		if out, err := exec.Command("go", "build", "-o", o.program(name), "queen/bench/"+name).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "queen").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	peer := exec.Command("go", "build", "-o", o.program("pebble"), "./pebble")
	peer.Dir = filepath.Join(strings.TrimSpace(string(root)), "bench", "peers")
	if out, err := peer.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "run: the peer is left out, it does not build: %v\n%s", err, out)
	}
	return nil
}

// commit is what was measured, with a mark when the tree differs from it.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// call runs a program of bench and returns its report. A run whose promises were broken has a report too.
func call(program string, args ...string) (*report.Report, error) {
	cmd := exec.Command(program, append(args, "--json")...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	r := &report.Report{}
	if bad := json.Unmarshal(out, r); bad != nil {
		return nil, fmt.Errorf("%s %s: %w (%v)\n%s", filepath.Base(program), strings.Join(args, " "), bad, err, errs.String())
	}
	return r, nil
}
