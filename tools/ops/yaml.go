package ops

import (
	"encoding/json"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// nestingMax bounds how deep a manifest may nest; none that is valid does more than three.
const nestingMax = 16

// distinct refuses a JSON value in which a key is there twice: one of the two would be ignored.
func distinct(d *json.Decoder, depth int) error {
	if depth > nestingMax {
		return fmt.Errorf("nested more than %d deep", nestingMax)
	}
	token, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string)
			if seen[name] {
				return fmt.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
		if err := distinct(d, depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// converter makes JSON of YAML. Scalars that are no number, truth or null stay the text that they were written as, so that
// a name that looks like a date is a name. left bounds the bytes made: aliases can multiply.
type converter struct{ left int }

func (c *converter) value(n *yaml.Node, depth int) (json.RawMessage, error) {
	if depth > nestingMax {
		return nil, fmt.Errorf("line %d: nested more than %d deep", n.Line, nestingMax)
	}
	if err := c.take(n, len(n.Value)+2); err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.MappingNode:
		return c.object(n, depth)
	case yaml.SequenceNode:
		return c.list(n, depth)
	case yaml.AliasNode:
		return c.value(n.Alias, depth+1)
	}
	return c.scalar(n)
}

// take counts bytes that were made.
func (c *converter) take(n *yaml.Node, bytes int) error {
	if c.left -= bytes; c.left < 0 {
		return fmt.Errorf("line %d: more than %d bytes once aliases are followed", n.Line, manifestMax)
	}
	return nil
}

func (c *converter) object(n *yaml.Node, depth int) (json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: a key must be a word", key.Line)
		}
		if _, twice := out[key.Value]; twice {
			return nil, fmt.Errorf("line %d: %s is there twice", key.Line, key.Value)
		}
		v, err := c.value(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		out[key.Value] = v
	}
	return json.Marshal(out)
}

func (c *converter) list(n *yaml.Node, depth int) (json.RawMessage, error) {
	out := []json.RawMessage{}
	for _, e := range n.Content {
		v, err := c.value(e, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return json.Marshal(out)
}

func (c *converter) scalar(n *yaml.Node) (json.RawMessage, error) {
	switch n.Tag {
	case "!!null":
		return none, nil
	case "!!bool":
		var v bool
		if err := n.Decode(&v); err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
		return strconv.AppendBool(nil, v), nil
	case "!!int":
		var v int64
		if err := n.Decode(&v); err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
		return strconv.AppendInt(nil, v, 10), nil
	}
	return json.Marshal(n.Value)
}
