package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

//go:embed judged.txt
var judgedText string

// difference is one thing that answers do not agree on, in some versions.
type difference struct {
	key  int16
	name string // of the case
	path string // without the numbers of elements
	// versions are those in which it shows; ours and other are the values in the first of them.
	versions    []int16
	ours, other string
}

func (d *difference) String() string {
	return fmt.Sprintf("%s %s %s: %s, the other %s (versions %v)", kmsg.NameForKey(d.key), d.name, d.path, d.ours, d.other, d.versions)
}

// judgement says why some differences are right.
type judgement struct {
	key, name, path, reason string
	// sometimes says that it hangs on timing whether the difference shows.
	sometimes, used bool
}

// judgements reads the lines of an implementation.
func judgements(text, implementation string) (all []*judgement, err error) {
	for n, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.SplitN(line, " ", 5)
		if len(f) < 5 || len(f[4]) < 15 {
			return nil, fmt.Errorf("judged.txt, line %d: want IMPLEMENTATION KEY CASE PATH REASON", n+1)
		}
		if name, sometimes := strings.CutSuffix(f[0], "?"); name == implementation {
			all = append(all, &judgement{key: f[1], name: f[2], path: f[3], reason: f[4], sometimes: sometimes})
		}
	}
	return all, nil
}

// judge finds the judgement of a difference; nil when nobody judged it.
func judge(all []*judgement, d *difference) *judgement {
	for _, j := range all {
		if fits(j.key, kmsg.NameForKey(d.key)) && fits(j.name, d.name) && fits(j.path, d.path) {
			j.used = true
			return j
		}
	}
	return nil
}

// fits compares with a pattern in which * stands for anything.
func fits(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	rest, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
