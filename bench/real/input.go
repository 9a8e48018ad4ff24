package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// line is one event of the input: the at-th of its file.
type line struct {
	file *file
	at   int
	id   []byte // change:file
	raw  []byte
}

// file is an entity of the input and its events, in order. Versions count up by one from the first.
type file struct {
	name  string
	first int // version of its first line
	lines []*line
}

// input is everything that is replayed.
type input struct {
	lines []*line
	files map[string]*file
}

// readInput reads and checks the input: versions of a file without a gap, transaction ids that occur once.
func readInput(path string) (*input, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := &input{files: map[string]*file{}}
	seen := map[string]bool{}
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 1<<20)
	for n := 1; scan.Scan(); n++ {
		var v struct {
			File, Change string
			Version      int
		}
		raw := bytes.Clone(scan.Bytes())
		if err := json.Unmarshal(raw, &v); err != nil || v.File == "" || v.Change == "" {
			return nil, fmt.Errorf("%s:%d: not an event with file, change and version: %v", path, n, err)
		}
		e := in.files[v.File]
		if e == nil {
			e = &file{name: v.File, first: v.Version}
			in.files[v.File] = e
		}
		if want := e.first + len(e.lines); v.Version != want {
			return nil, fmt.Errorf("%s:%d: %s goes on with version %d, want %d", path, n, v.File, v.Version, want)
		}
		l := &line{file: e, at: len(e.lines), id: []byte(v.Change + ":" + v.File), raw: raw}
		if seen[string(l.id)] {
			return nil, fmt.Errorf("%s:%d: %s occurs twice", path, n, l.id)
		}
		seen[string(l.id)] = true
		e.lines = append(e.lines, l)
		in.lines = append(in.lines, l)
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	if len(in.lines) == 0 {
		return nil, fmt.Errorf("%s: no events", path)
	}
	return in, nil
}

// shares splits the input among n producers: whole files, so that each has about as many lines, in the order of the input.
func (in *input) shares(n int) [][]*line {
	files := slices.SortedFunc(maps.Values(in.files), func(a, b *file) int {
		return cmp.Or(cmp.Compare(len(b.lines), len(a.lines)), cmp.Compare(a.name, b.name))
	})
	owner, load := map[*file]int{}, make([]int, n)
	for _, f := range files {
		least := 0
		for i := range load {
			if load[i] < load[least] {
				least = i
			}
		}
		owner[f] = least
		load[least] += len(f.lines)
	}
	out := make([][]*line, n)
	for _, l := range in.lines {
		i := owner[l.file]
		out[i] = append(out[i], l)
	}
	return out
}

// find is the line that a delivered message claims to be; nil when there is none.
func (in *input) find(partition, data []byte) *line {
	e := in.files[string(partition)]
	var v struct{ Version int }
	if e == nil || json.Unmarshal(data, &v) != nil || v.Version < e.first || v.Version >= e.first+len(e.lines) {
		return nil
	}
	return e.lines[v.Version-e.first]
}
