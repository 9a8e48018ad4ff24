package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"queen/bench/internal/report"
)

// breaks are ways to break the nodes of a run: the judges have to find each.
var breaks = map[string]struct {
	// patch, in testdata, is applied to a copy of the tree that the nodes are built of; "" for none.
	patch string
	// faults are those under which it shows; set does the rest.
	faults string
	set    func(*options)
}{
	// From when the nodes are ready, their flushes are answered and not done, and all lose their power. They keep their state in one segment, so that
	// they start again, without what they lost, instead of finding a file that can not be.
	"no-flush": {faults: "powerall", set: func(o *options) {
		o.lie = true
		o.args = append(o.args, "--segment-bytes", "64MiB", "--mark-every", "1h", "--checkpoint-every", "1h")
	}},
	"no-lease": {patch: "no-lease.patch", faults: "none"},
	"early":    {patch: "early.patch", faults: "kill,killany,killall"},
}

func brokenNames() []string { return slices.Sorted(maps.Keys(breaks)) }

// breakOnPurpose has the run be one of broken nodes.
func (o *options) breakOnPurpose(dir string) error {
	b, ok := breaks[o.broken]
	if !ok {
		return fmt.Errorf("-broken %s: there are %s", o.broken, strings.Join(brokenNames(), ", "))
	}
	o.faults = b.faults
	if b.set != nil {
		b.set(o)
	}
	if b.patch == "" {
		return nil
	}
	tree := filepath.Join(dir, "tree")
	if err := copyTree(tree); err != nil {
		return err
	}
	patch, err := filepath.Abs(filepath.Join("bench/cluster/testdata", b.patch))
	if err != nil {
		return err
	}
	if err := applyPatch(tree, patch); err != nil {
		return err
	}
	o.binary = filepath.Join(dir, "broken")
	return command(tree, nil, "go", "build", "-o", o.binary, "queen/tools/queen")
}

// copyTree writes the tree as it was committed last into a new directory. The working directory is the root of the module.
func copyTree(tree string) error {
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	tar := tree + ".tar"
	if err := command(".", nil, "git", "archive", "--format=tar", "-o", tar, "HEAD"); err != nil {
		return err
	}
	defer os.Remove(tar)
	return command(tree, nil, "tar", "-xf", tar)
}

// applyPatch changes a tree that may lie inside of another repository, of which git must not know.
func applyPatch(tree, patch string) error {
	return command(tree, []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(tree)}, "git", "apply", patch)
}

func command(dir string, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// turn makes a run of broken nodes in which the judges found something one that went well, and the other way round. What they found counts
// only where something was done: of nodes that do nothing anything can be found.
func (o *options) turn(r *report.Report, acked int64) {
	for _, v := range r.Violations {
		fmt.Fprintf(os.Stderr, "run: %.500s\n", v)
	}
	found := o.found
	r.Violations = nil
	r.Conditions += fmt.Sprintf(", broken on purpose: %s", o.broken)
	r.Add("what the judges found", float64(len(found)), "")
	kinds := map[string]bool{}
	for _, v := range found {
		if kind := kindOf(v); !kinds[kind] {
			kinds[kind] = true
			r.Note("found: %.500s", v)
		}
	}
	switch {
	case acked == 0:
		r.Violate("the nodes are broken (%s), and nothing was asked of them that they acknowledged", o.broken)
	case len(found) == 0:
		r.Violate("the nodes are broken (%s), and the judges found nothing", o.broken)
	}
}
