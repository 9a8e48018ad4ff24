package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// source is where a value comes from; a higher one wins.
type source int

const (
	fromDefault source = 1 << iota
	fromFile
	fromEnv
	fromFlag
)

// Input is what Load reads.
type Input struct {
	// Flags are the parsed flags that AddFlags registered; nil is none.
	Flags *pflag.FlagSet
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Defaults replace defaults of the table, by key, for a command that has other ones.
	Defaults map[string]string
}

// Value is one setting as it was resolved.
type Value struct {
	// Key is the setting, Text its value in the form that every source takes; a secret is masked.
	Key, Text string
	// Default is what Text is where nothing says otherwise.
	Default string
	// Source says where it came from: "default", "file F:LINE", "environment NAME" or "flag --NAME".
	Source string
	// Changed is false when Text is the default.
	Changed bool
}

// Resolved is the outcome of Load.
type Resolved struct {
	Config Config
	// Values are all settings of built parts, in the order of the table.
	Values []Value
	// Warnings are for the log: names of the environment that mean nothing here or have a newer one.
	Warnings []string
}

// raw is a value that was found, with the name by which people know its place.
type raw struct {
	text, place string
}

// layer holds the values of one source by key.
type layer map[string]raw

// AddFlags registers a flag per setting.
func AddFlags(fs *pflag.FlagSet) {
	for i := range settings {
		s := &settings[i]
		if !s.takes(fromFlag) {
			continue
		}
		v := &flagText{text: s.def, kind: s.kindName()}
		f := fs.VarPF(v, s.flagName(), "", s.usage)
		if v.kind == boolKind.name {
			f.NoOptDefVal = "true"
		}
	}
}

// flagText keeps what a flag said until Load parses it, so that all sources fail alike.
type flagText struct{ text, kind string }

func (f *flagText) String() string     { return f.text }
func (f *flagText) Set(s string) error { f.text = s; return nil }
func (f *flagText) Type() string       { return f.kind }

func (s *setting) kindName() string {
	switch {
	case s.bind != nil:
		return s.bind(new(Config)).Type()
	case s.def == "true" || s.def == "false":
		return boolKind.name
	}
	return textKind.name
}

// Load resolves every setting. The error joins all problems, each one line that names the setting and its place.
func Load(in Input) (*Resolved, error) {
	r := &Resolved{}
	env, errs := r.readEnv(in.Environ)
	layers := []layer{defaults(in.Defaults), nil, env, readFlags(in.Flags)}
	if path := pick(layers, "config"); path.text != "" {
		file, err := readFile(path.text)
		if err != nil {
			errs = append(errs, err)
		}
		layers[1] = file
	}
	for i := range settings {
		if err := r.resolve(&settings[i], layers); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, companions(layers)...)
	// What does not parse leaves its field empty, so the checks across settings would only echo it.
	if len(errs) == 0 {
		if err := r.Config.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	r.Config.Shown = r.Values
	return r, errors.Join(errs...)
}

// companions finds settings that would do nothing because their switch is not on. A switch that somebody turned off says
// so for all of them.
func companions(layers []layer) (errs []error) {
	for i := range settings {
		s := &settings[i]
		if s.needs == "" {
			continue
		}
		v, at := pick(layers, s.key), pick(layers, s.needs)
		if v.text != layers[0][s.key].text && at.text == byKey(s.needs).def && at.place == "default" {
			errs = append(errs, fmt.Errorf("%s (%s) does nothing without %s", s.key, v.place, s.needs))
		}
	}
	return errs
}

// pick is the value of the highest layer that has the key.
func pick(layers []layer, key string) raw {
	for _, l := range slices.Backward(layers) {
		if v, ok := l[key]; ok {
			return v
		}
	}
	return raw{}
}

func (r *Resolved) resolve(s *setting, layers []layer) error {
	v := pick(layers, s.key)
	value := s.bind(&r.Config)
	if err := value.Set(v.text); err != nil {
		return fmt.Errorf("%s (%s): %w, not %q", s.key, v.place, err, s.shown(v.text))
	}
	r.Values = append(r.Values, Value{Key: s.key, Text: s.shown(value.String()), Default: s.shown(s.def), Source: v.place,
		Changed: v.text != layers[0][s.key].text})
	return nil
}

// shown masks secrets.
func (s *setting) shown(text string) string {
	if s.secret && text != "" {
		return "***"
	}
	return text
}

func defaults(replaced map[string]string) layer {
	l := layer{}
	for i := range settings {
		l[settings[i].key] = raw{settings[i].def, "default"}
	}
	for key, text := range replaced {
		l[key] = raw{text, "default"}
	}
	return l
}

func readFlags(fs *pflag.FlagSet) layer {
	if fs == nil {
		return nil
	}
	l := layer{}
	for i := range settings {
		if f := fs.Lookup(settings[i].flagName()); f != nil && f.Changed {
			l[settings[i].key] = raw{f.Value.String(), "flag --" + f.Name}
		}
	}
	return l
}

// readFile reads the YAML file.
func readFile(path string) (layer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return parseFile(path, data)
}

// unknown is the error of a name that is none of ours.
func unknown(place, what, name string, known []string) error {
	near, ok := nearest(name, known)
	if !ok {
		return fmt.Errorf("%s: there is no %s %s", place, what, name)
	}
	return fmt.Errorf("%s: there is no %s %s: did you mean %s?", place, what, name, near)
}

// knownKeys are the keys a source takes, sorted.
func knownKeys(from source) []string {
	keys := map[string]bool{}
	for i := range settings {
		if settings[i].takes(from) {
			keys[settings[i].key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// nearest finds the known name with the smallest edit distance, if one is near enough to be a slip.
func nearest(name string, known []string) (string, bool) {
	best, distance := "", 1+min(max(2, len(name)/3), 5)
	for _, k := range known {
		if d := edits(strings.ToLower(name), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	return best, best != ""
}

// edits is the Levenshtein distance in bytes. Names longer than 128 bytes are cut: no known name is near them.
func edits(a, b string) int {
	a, b = a[:min(len(a), 128)], b[:min(len(b), 128)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
