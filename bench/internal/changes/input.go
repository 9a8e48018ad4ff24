package changes

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

// Line is one event of the input: the At-th of its file.
type Line struct {
	File  *File
	At    int
	ID    []byte // change:file
	Raw   []byte
	Added int64
}

// Version is what the line says its file is at.
func (l *Line) Version() int { return l.File.First + l.At }

// File is an entity of the input and its events, in order. Versions count up by one from First.
type File struct {
	Name  string
	First int // version of its first line
	Lines []*Line
}

// Input is everything that is replayed.
type Input struct {
	Lines []*Line
	Files map[string]*File
}

// Read reads and checks the input: versions of a file without a gap, transaction ids that occur once.
func Read(path string) (*Input, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := &Input{Files: map[string]*File{}}
	seen := map[string]bool{}
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 1<<20)
	for n := 1; scan.Scan(); n++ {
		var v struct {
			File, Change string
			Version      int
			Added        int64
		}
		raw := bytes.Clone(scan.Bytes())
		if err := json.Unmarshal(raw, &v); err != nil || v.File == "" || v.Change == "" {
			return nil, fmt.Errorf("%s:%d: not an event with file, change and version: %v", path, n, err)
		}
		e := in.Files[v.File]
		if e == nil {
			e = &File{Name: v.File, First: v.Version}
			in.Files[v.File] = e
		}
		if want := e.First + len(e.Lines); v.Version != want {
			return nil, fmt.Errorf("%s:%d: %s goes on with version %d, want %d", path, n, v.File, v.Version, want)
		}
		l := &Line{File: e, At: len(e.Lines), ID: []byte(v.Change + ":" + v.File), Raw: raw, Added: v.Added}
		if seen[string(l.ID)] {
			return nil, fmt.Errorf("%s:%d: %s occurs twice", path, n, l.ID)
		}
		seen[string(l.ID)] = true
		e.Lines = append(e.Lines, l)
		in.Lines = append(in.Lines, l)
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	if len(in.Lines) == 0 {
		return nil, fmt.Errorf("%s: no events", path)
	}
	return in, nil
}

// Shares splits the input among n producers: whole files, so that each has about as many lines, in the order of the input.
func (in *Input) Shares(n int) [][]*Line {
	files := slices.SortedFunc(maps.Values(in.Files), func(a, b *File) int {
		return cmp.Or(cmp.Compare(len(b.Lines), len(a.Lines)), cmp.Compare(a.Name, b.Name))
	})
	owner, load := map[*File]int{}, make([]int, n)
	for _, f := range files {
		least := 0
		for i := range load {
			if load[i] < load[least] {
				least = i
			}
		}
		owner[f] = least
		load[least] += len(f.Lines)
	}
	out := make([][]*Line, n)
	for _, l := range in.Lines {
		i := owner[l.File]
		out[i] = append(out[i], l)
	}
	return out
}

// Find is the line that a delivered message claims to be; nil when there is none.
func (in *Input) Find(partition, data []byte) *Line {
	e := in.Files[string(partition)]
	var v struct{ Version int }
	if e == nil || json.Unmarshal(data, &v) != nil || v.Version < e.First || v.Version >= e.First+len(e.Lines) {
		return nil
	}
	return e.Lines[v.Version-e.First]
}
