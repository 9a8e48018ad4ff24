package format

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// field is a line of a golden file: so many bytes, and what they are.
type field struct {
	size  int
	label string
}

// golden is one sample of a kind of bytes: how it is encoded now, and what its bytes must decode to for
// ever. A golden file is never changed once it is released; a new version gets new files.
type golden struct {
	name   string
	bytes  []byte
	fields []field
	// parse decodes the bytes of the file; the result must equal want.
	parse func([]byte) (any, error)
	want  any
	// decodeOnly is set where the encoder may change its bytes (compression).
	decodeOnly bool
}

// Goal: bytes on disk never change their meaning. Method: annotated hex files, compared both ways.
func TestGoldenFiles(t *testing.T) {
	cases := append(append(append(commandGoldens(), fileGoldens()...), recordGoldens()...), rowGoldens()...)
	seen := map[string]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			seen[c.name+".hex"] = true
			path := filepath.Join("testdata", "golden", c.name+".hex")
			if *rewrite {
				if err := os.WriteFile(path, renderGolden(t, c), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b := parseGolden(t, text)
			if !c.decodeOnly && !bytes.Equal(b, c.bytes) {
				t.Errorf("the encoder writes other bytes now:\n%s", renderGolden(t, c))
			}
			got, err := c.parse(b)
			if err != nil || !reflect.DeepEqual(normal(got), normal(c.want)) {
				t.Errorf("decodes to %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "golden"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !seen[f.Name()] {
			t.Errorf("%s belongs to no case: old bytes must stay readable", f.Name())
		}
	}
}

// renderGolden writes "offset  hex  what it is"; long runs of zeros are written as 00*count.
func renderGolden(t *testing.T, c golden) []byte {
	t.Helper()
	var out bytes.Buffer
	at := 0
	for _, f := range c.fields {
		size := f.size
		if size < 0 {
			size = len(c.bytes) - at + 1 + size
		}
		if size < 0 || at+size > len(c.bytes) {
			t.Fatalf("%s: field %q does not fit %d bytes at %d", c.name, f.label, len(c.bytes), at)
		}
		b := c.bytes[at : at+size]
		text := hex.EncodeToString(b)
		if len(b) > 16 && isZero(b) {
			text = "00*" + strconv.Itoa(len(b))
		}
		if size == 0 {
			continue
		}
		fmt.Fprintf(&out, "%06x  %-18s  %s\n", at, text, f.label)
		at += size
	}
	if at != len(c.bytes) {
		t.Fatalf("%s: %d bytes, %d of them annotated", c.name, len(c.bytes), at)
	}
	return out.Bytes()
}

func parseGolden(t *testing.T, text []byte) (b []byte) {
	t.Helper()
	for line := range strings.Lines(string(text)) {
		parts := strings.Fields(line)
		if len(parts) < 2 {
			t.Fatalf("line %q", line)
		}
		if n, ok := strings.CutPrefix(parts[1], "00*"); ok {
			count, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, make([]byte, count)...)
			continue
		}
		v, err := hex.DecodeString(parts[1])
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		b = append(b, v...)
	}
	return b
}

// parseOutcomeGolden prints what an outcome record says.
func parseOutcomeGolden(h *RecordHead, body []byte) (any, error) {
	r, err := ParseOutcome(h, body)
	if err != nil {
		return nil, err
	}
	var parts []string
	for o := (EntryOutcome{}); ; {
		if _, ok := r.Next(&o); !ok {
			break
		}
		if o.Refused != CodeOK {
			parts = append(parts, fmt.Sprintf("%d refused %d", o.Index, o.Refused))
			continue
		}
		var frames []FrameOutcome
		for f := (FrameOutcome{}); o.Frames.Next(&f); {
			frames = append(frames, f)
		}
		text := fmt.Sprintf("%d: %+v", o.Index, frames)
		var brackets []Code
		for c := (Code(0)); o.Frames.NextBracket(&c); {
			brackets = append(brackets, c)
		}
		if brackets != nil {
			text += fmt.Sprintf(" %d", brackets)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", "), r.Err()
}
