package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileDepthMax bounds the nesting of sections. No key has more dots.
const fileDepthMax = 8

// parseFile flattens a YAML mapping to keys with dots. Sections may be nested or written with dots, but a key that is
// there twice, in either form, is refused: one of the two would be ignored. Nodes are read instead of maps because they
// know their lines.
func parseFile(path string, data []byte) (layer, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	l := layer{}
	if len(doc.Content) == 0 {
		return l, nil
	}
	p := fileParser{path: path, out: l}
	p.section("", doc.Content[0], 0)
	return l, errors.Join(p.errs...)
}

type fileParser struct {
	path string
	out  layer
	errs []error
}

func (p *fileParser) bad(n *yaml.Node, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %s", p.path, n.Line, fmt.Sprintf(format, args...)))
}

func (p *fileParser) section(prefix string, n *yaml.Node, depth int) {
	if n.Kind != yaml.MappingNode {
		p.bad(n, "want settings as key: value")
		return
	}
	if depth > fileDepthMax {
		p.bad(n, "sections are nested too deeply")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := prefix + name.Value
		if name.Kind != yaml.ScalarNode {
			p.bad(name, "a key must be a word")
			continue
		}
		if value.Kind == yaml.MappingNode {
			p.section(key+".", value, depth+1)
			continue
		}
		p.set(key, name, value)
	}
}

func (p *fileParser) set(key string, name, value *yaml.Node) {
	s := byKey(key)
	if s == nil || !s.takes(fromFile) {
		p.errs = append(p.errs, unknown(fmt.Sprintf("%s:%d", p.path, name.Line), "setting", key, knownKeys(fromFile)))
		return
	}
	if _, twice := p.out[key]; twice {
		p.bad(name, "%s is there twice", key)
		return
	}
	text, ok := scalar(value)
	if !ok && s.objects {
		text, ok = objects(value)
	}
	if !ok {
		p.bad(value, "%s: want one value or a list of values", key)
		return
	}
	p.out[key] = raw{text, fmt.Sprintf("file %s:%d", p.path, name.Line)}
}

// scalar is the text of a value as it was written; a list is joined by commas, null is empty.
func scalar(n *yaml.Node) (string, bool) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "", true
	case n.Kind == yaml.ScalarNode:
		return n.Value, true
	case n.Kind != yaml.SequenceNode:
		return "", false
	}
	var words []string
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			return "", false
		}
		words = append(words, item.Value)
	}
	return strings.Join(words, ","), true
}

// objects is a list of mappings as a JSON array.
func objects(n *yaml.Node) (string, bool) {
	var list []map[string]any
	if n.Kind != yaml.SequenceNode || n.Decode(&list) != nil {
		return "", false
	}
	text, err := json.Marshal(list)
	return string(text), err == nil
}
