package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// guideBlock is a block of shell of the README with the answer that is shown after it.
type guideBlock struct {
	line         int
	script, want string
}

// guide reads the blocks of README.md: every sh block, and a json block that follows it.
func guide(t *testing.T) []guideBlock {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []guideBlock
	var kind string
	var body strings.Builder
	for i, line := range strings.Split(string(data), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case !isFence:
			if kind != "" {
				body.WriteString(line + "\n")
			}
		case kind == "" && fence != "":
			kind = fence
			body.Reset()
		case kind == "sh":
			blocks = append(blocks, guideBlock{line: i + 1, script: body.String()})
			kind = ""
		case kind == "json":
			if len(blocks) == 0 || blocks[len(blocks)-1].want != "" {
				t.Fatalf("README.md:%d: an answer without a command", i+1)
			}
			blocks[len(blocks)-1].want = body.String()
			kind = ""
		default:
			kind = ""
		}
	}
	return blocks
}

// TestGuide runs the guide of the README as a reader would, in one shell and in order, against a node of its own, and
// compares every answer with the one that is shown.
func TestGuide(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "sed", "base64"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the guide needs %s, which is not installed", tool)
		}
	}
	blocks := guide(t)
	if len(blocks) < 10 {
		t.Fatalf("found %d blocks", len(blocks))
	}
	n := runNode(t, t.TempDir(), nil)
	runGuide(t, "README.md", blocks, []string{"QUEEN_URL=" + n.url})
}

// runGuide runs blocks of shell in one shell and in order, and compares every answer with the one that is shown.
func runGuide(t *testing.T, name string, blocks []guideBlock, env []string) {
	t.Helper()
	const mark = "-- end of block --"
	var script strings.Builder
	for _, b := range blocks {
		fmt.Fprintf(&script, "%s\necho\necho '%s'\n", b.script, mark)
	}
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script.String())
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", name, err, out, stderr.String())
	}
	answers := strings.Split(string(out), mark)
	if len(answers) != len(blocks)+1 {
		t.Fatalf("%s: %d answers for %d blocks", name, len(answers)-1, len(blocks))
	}
	for i, b := range blocks {
		if b.want == "" {
			continue
		}
		var got, want any
		if err := json.Unmarshal([]byte(b.want), &want); err != nil {
			t.Fatalf("%s:%d: the answer that is shown is no JSON: %v", name, b.line, err)
		}
		if err := json.Unmarshal([]byte(answers[i]), &got); err != nil {
			t.Errorf("%s:%d: the answer is no JSON: %v: %s", name, b.line, err, answers[i])
			continue
		}
		if diff := missing("", want, got); diff != "" {
			t.Errorf("%s:%d: %s\nin %s", name, b.line, diff, answers[i])
		}
	}
}

// missing tells what of want is not in got. Objects may have more keys than shown, arrays may not be longer, and "..."
// stands for anything.
func missing(at string, want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, an object is shown", at, got)
		}
		for k, v := range w {
			if _, ok := g[k]; !ok {
				return fmt.Sprintf("%s has no %s", at, k)
			}
			if diff := missing(at+"."+k, v, g[k]); diff != "" {
				return diff
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s is %v, %d elements are shown", at, got, len(w))
		}
		for i := range w {
			if diff := missing(fmt.Sprintf("%s[%d]", at, i), w[i], g[i]); diff != "" {
				return diff
			}
		}
		return ""
	case string:
		if w == "..." {
			return ""
		}
	}
	if want != got {
		return fmt.Sprintf("%s is %v, %v is shown", at, got, want)
	}
	return ""
}
