package ops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"queen/tools/cli"
)

// manifest is a queue as a file says it: all of it. What it does not name is at its default.
type manifest struct {
	Queue     string `json:"queue"`
	Namespace string `json:"namespace,omitempty"`
	Task      string `json:"task,omitempty"`
	// Options are those that are set, each in its one form.
	Options map[string]json.RawMessage `json:"options,omitempty"`

	place string // where it was read
}

var manifestKeys = []string{"queue", "namespace", "task", "options"}

// manifestMax bounds the bytes of one file, documentsMax the queues of one call.
const (
	manifestMax  = 16 << 20
	documentsMax = 10_000
)

// readManifests reads files, "-" being standard input, of YAML or JSON: documents, lists of documents, or both.
func readManifests(inv *cli.Invocation, paths []string) ([]manifest, error) {
	if len(paths) == 0 {
		return nil, cli.Errorf(cli.Usage, "-f: name a file of manifests, or - for standard input")
	}
	var all []manifest
	for _, path := range paths {
		text, err := readAll(inv, path)
		if err != nil {
			return nil, err
		}
		documents, err := split(text)
		if err != nil {
			return nil, cli.Errorf(cli.Usage, "%s: %w", path, err)
		}
		for i, d := range documents {
			m, err := parseManifest(d)
			if err != nil {
				return nil, cli.Errorf(cli.Usage, "%s: document %d: %w", path, i+1, err)
			}
			m.place = fmt.Sprintf("%s: document %d", path, i+1)
			all = append(all, m)
		}
	}
	return all, checkManifests(all)
}

func readAll(inv *cli.Invocation, path string) ([]byte, error) {
	if path == "-" {
		text, err := io.ReadAll(io.LimitReader(inv.Input(), manifestMax+1))
		if err != nil {
			return nil, inv.BadInput(err)
		}
		return text, tooLong(path, text)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "-f: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, manifestMax+1))
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "-f: %w", err)
	}
	return text, tooLong(path, text)
}

func tooLong(path string, text []byte) error {
	if len(text) > manifestMax {
		return cli.Errorf(cli.Usage, "%s: more than %d bytes", path, manifestMax)
	}
	return nil
}

// checkManifests refuses what can not be applied in any order.
func checkManifests(all []manifest) error {
	if len(all) == 0 {
		return cli.Errorf(cli.Usage, "there is no manifest in what -f names")
	}
	if len(all) > documentsMax {
		return cli.Errorf(cli.Usage, "%d manifests: want %d at most", len(all), documentsMax)
	}
	seen := map[string]string{}
	for _, m := range all {
		if before, twice := seen[m.Queue]; twice {
			return cli.Errorf(cli.Usage, "%s: queue %q is in %s already", m.place, m.Queue, before)
		}
		seen[m.Queue] = m.place
	}
	return nil
}

// split makes JSON documents of a text; lists are taken apart.
func split(text []byte) (documents []json.RawMessage, err error) {
	first := bytes.TrimLeft(text, " \t\r\n\ufeff")
	if len(first) > 0 && (first[0] == '{' || first[0] == '[') {
		documents, err = splitJSON(text)
	}
	if err == nil {
		for _, one := range documents {
			if err := distinct(json.NewDecoder(bytes.NewReader(one)), 0); err != nil {
				return nil, err
			}
		}
	}
	if documents == nil { // YAML, which may begin like JSON
		documents, err = splitYAML(text)
	}
	if err != nil {
		return nil, err
	}
	var flat []json.RawMessage
	for _, d := range documents {
		var list []json.RawMessage
		if json.Unmarshal(d, &list) != nil {
			flat = append(flat, d)
			continue
		}
		flat = append(flat, list...)
	}
	return flat, nil
}

func splitJSON(text []byte) (documents []json.RawMessage, err error) {
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var one json.RawMessage
		switch err := d.Decode(&one); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, err
		}
		documents = append(documents, one)
	}
}

// splitYAML makes JSON of every document that is not empty.
func splitYAML(text []byte) (documents []json.RawMessage, err error) {
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var node yaml.Node
		switch err := d.Decode(&node); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, err
		}
		if len(node.Content) == 0 || node.Content[0].Tag == "!!null" {
			continue
		}
		c := converter{left: manifestMax}
		one, err := c.value(node.Content[0], 0)
		if err != nil {
			return nil, err
		}
		documents = append(documents, one)
	}
}

// parseManifest reads one document and refuses what it does not know.
func parseManifest(d json.RawMessage) (m manifest, err error) {
	var in map[string]json.RawMessage
	if json.Unmarshal(d, &in) != nil || in == nil {
		return m, errors.New("want an object with queue, namespace, task and options")
	}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		if !slices.Contains(manifestKeys, key) {
			return m, unknown("key", key, manifestKeys)
		}
	}
	for key, target := range map[string]*string{"queue": &m.Queue, "namespace": &m.Namespace, "task": &m.Task} {
		if raw, ok := in[key]; ok && json.Unmarshal(raw, target) != nil {
			return m, fmt.Errorf("%s must be a text, not %s", key, raw)
		}
	}
	if _, ok := in["queue"]; !ok {
		return m, errors.New("queue is missing")
	}
	var given map[string]json.RawMessage
	if raw, ok := in["options"]; ok && json.Unmarshal(raw, &given) != nil {
		return m, fmt.Errorf("options of queue %q must be an object", m.Queue)
	}
	m.Options = map[string]json.RawMessage{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		o := optionOf(key)
		if o == nil {
			return m, unknown("option", key, OptionNames())
		}
		if m.Options[key], err = o.read(given[key]); err != nil {
			return m, err
		}
	}
	return m, nil
}
