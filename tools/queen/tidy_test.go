package main

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits of files, so that each holds one noun and each function one thought.
const (
	fileLinesMax     = 600
	functionLinesMax = 70
	lineWidthMax     = 160
)

// sources calls f for every Go file of the module, by its path from the root, test data aside.
func sources(t *testing.T, f func(path string, text []byte)) {
	t.Helper()
	root, n := "../..", 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "peers" || name == "queen-data") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		n++
		f(filepath.ToSlash(rel), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 100 {
		t.Fatalf("found %d files", n)
	}
}

// TestFiles holds every file to its limits and to gofmt.
func TestFiles(t *testing.T) {
	sources(t, func(path string, text []byte) {
		lines := bytes.Split(text, []byte("\n"))
		if n := len(lines) - 1; n > fileLinesMax {
			t.Errorf("%s has %d lines, at most %d: split it by noun", path, n, fileLinesMax)
		}
		for i, l := range lines {
			if n := utf8.RuneCount(l); n > lineWidthMax {
				t.Errorf("%s:%d has %d characters, at most %d", path, i+1, n, lineWidthMax)
			}
		}
		formatted, err := format.Source(text)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		if !bytes.Equal(formatted, text) {
			t.Errorf("%s is not formatted with gofmt", path)
		}
	})
}

// TestFunctions holds every function to its length.
func TestFunctions(t *testing.T) {
	sources(t, func(path string, text []byte) {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%v", err)
			return
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || strings.HasSuffix(path, "_test.go") {
				continue
			}
			if n := files.Position(fn.End()).Line - files.Position(fn.Pos()).Line + 1; n > functionLinesMax {
				t.Errorf("%s: %s has %d lines, at most %d", files.Position(fn.Pos()), fn.Name.Name, n, functionLinesMax)
			}
		}
	})
}

// TestDocs wants a doc.go with a package comment in every package.
func TestDocs(t *testing.T) {
	for _, p := range packages(t) {
		text, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
		if err != nil {
			t.Errorf("%s has no doc.go", p.ImportPath)
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), "doc.go", text, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil || file.Doc == nil || len(file.Doc.Text()) < 40 {
			t.Errorf("%s: doc.go has no package comment: %v", p.ImportPath, err)
		}
	}
}

// timeAllowed are the places under engine/ and sidecar/ that may ask the system for time or randomness.
var timeAllowed = map[string]string{
	"engine/clock/real.go":          "the seam itself",
	"engine/clock/rand.go":          "the seam itself",
	"engine/vfs/mem_crash.go":       "a seeded source that decides what a crash loses",
	"engine/enginetest/generate.go": "a seeded source of operations",
	"engine/enginetest/player.go":   "a seeded source of operations",
}

// TestTime keeps time and randomness behind engine/clock: what asks the system for them can not be replayed.
func TestTime(t *testing.T) {
	used := map[string]bool{}
	sources(t, func(path string, text []byte) {
		if strings.HasSuffix(path, "_test.go") || !within(path, "engine") && !within(path, "sidecar") {
			return
		}
		for _, name := range impure(t, path, text) {
			if timeAllowed[path] == "" {
				t.Errorf("%s uses %s: ask engine/clock", path, name)
			}
			used[path] = true
		}
	})
	for path := range timeAllowed {
		if _, err := os.Stat("../../" + path); err == nil && !used[path] {
			t.Errorf("%s needs no exception any more: take it out of timeAllowed", path)
		}
	}
}

// impure names the uses of the system's time and randomness in a file.
func impure(t *testing.T, path string, text []byte) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Errorf("%v", err)
		return nil
	}
	packages := map[string]string{} // by the name they have in the file
	for _, imp := range file.Imports {
		p := strings.Trim(imp.Path.Value, `"`)
		switch p {
		case "time", "math/rand", "math/rand/v2", "crypto/rand":
			name := strings.TrimSuffix(p, "/v2")
			name = name[strings.LastIndexByte(name, '/')+1:]
			if imp.Name != nil {
				name = imp.Name.Name
			}
			packages[name] = p
		}
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && asksSystem(packages[x.Name], sel.Sel.Name) {
			found = append(found, x.Name+"."+sel.Sel.Name)
		}
		return true
	})
	return found
}

// asksSystem tells the functions of a package that ask the system from types and constants.
func asksSystem(pkg, name string) bool {
	switch pkg {
	case "time":
		switch name {
		case "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick":
			return true
		}
		return false
	case "math/rand", "math/rand/v2":
		return name != "Rand" && name != "Source"
	case "crypto/rand":
		return true
	}
	return false
}

// TestImpure checks the judge of TestTime itself.
func TestImpure(t *testing.T) {
	const source = "package x\nimport (\n\"time\"\nr \"math/rand/v2\"\n)\nvar a, b, c = time.Now, r.Int(), time.Second\n"
	if got := impure(t, "x.go", []byte(source)); len(got) != 2 || got[0] != "time.Now" || got[1] != "r.Int" {
		t.Errorf("got %v", got)
	}
}
