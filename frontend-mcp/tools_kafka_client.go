package frontendmcp

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"queen/engine"
)

// KafkaClient is how programs that use one client of Kafka come to a node.
type KafkaClient struct {
	// Name is how the client is asked for, Names what else it is called; all are in lower case and without spaces.
	Name  string
	Names []string
	// Package is what the registry of its language calls it, Version the one that a test runs Code with.
	Package, Version string
	// Code is a program that connects to KafkaExample, or the settings of one.
	Language, Code string
	Notes          []KafkaNote
	// Page is the page that shows all of this.
	Page string
}

// KafkaNote is something to know about a client. When is "always", "before VERSION", "from VERSION", or "login" for nodes that
// ask who calls.
type KafkaNote struct{ When, Text string }

// KafkaListener is where clients of Kafka reach the node, and what they need there. No Addr: nowhere.
type KafkaListener struct {
	Addr       string
	TLS, Login bool
}

// KafkaExample is the address that programs of KafkaClients connect to.
const KafkaExample = "127.0.0.1:9092"

type kafkaClientArgs struct {
	Client  string `json:"client,omitempty" jsonschema:"such as franz-go, librdkafka or java; without, those that are known"`
	Version string `json:"version,omitempty" jsonschema:"of the client, such as 1.46.3: leaves out notes about other versions"`
}

type kafkaClientRow struct {
	Client   string   `json:"client"`
	Also     []string `json:"also" jsonschema:"what else it is called"`
	Package  string   `json:"package"`
	Language string   `json:"language"`
	RanWith  string   `json:"ran_with" jsonschema:"version of the client that the code is tested with"`
}

type kafkaNoteRow struct {
	When string `json:"when" jsonschema:"always, before or from a version, or login: where the node asks who calls"`
	Text string `json:"text"`
}

type kafkaClientResult struct {
	Meta
	Version string           `json:"version"`
	Clients []kafkaClientRow `json:"clients" jsonschema:"the one that was asked for, else all"`
	// Bootstrap is empty where the node serves no clients of Kafka.
	Bootstrap string         `json:"bootstrap_servers,omitempty" jsonschema:"this node, for clients of Kafka"`
	TLS       bool           `json:"tls" jsonschema:"clients need TLS"`
	Login     bool           `json:"login" jsonschema:"clients need SASL"`
	Code      string         `json:"code,omitempty" jsonschema:"writes a record to this node and reads it back"`
	Notes     []kafkaNoteRow `json:"notes"`
}

func kafkaClient(c *call, in kafkaClientArgs) (out kafkaClientResult, err error) {
	at := c.f.opts.Kafka
	out.Meta, out.Version, out.Clients, out.Notes = c.meta(), c.f.opts.Version, []kafkaClientRow{}, []kafkaNoteRow{}
	out.Bootstrap, out.TLS, out.Login = at.Addr, at.TLS, at.Login
	version, err := clientVersion(in.Version)
	if err != nil {
		return out, err
	}
	var hints []string
	if at.Addr == "" {
		hints = append(hints, "this node serves no Kafka clients: start it with --frontends http,kafka and --kafka HOST:PORT")
	}
	if in.Client == "" {
		for i := range c.f.opts.KafkaClients {
			out.Clients = append(out.Clients, c.f.opts.KafkaClients[i].row())
		}
		out.Hint = strings.Join(append(hints, "call again with one of clients for its program"), "; ")
		return out, nil
	}
	k := c.f.kafkaClient(in.Client)
	if k == nil {
		known := make([]string, 0, len(c.f.opts.KafkaClients))
		for i := range c.f.opts.KafkaClients {
			known = append(known, c.f.opts.KafkaClients[i].Name)
		}
		return out, &toolError{Code: "not_found", Message: "nothing is known of that client", Field: "client",
			Hint: "known are: " + strings.Join(known, ", ")}
	}
	c.linkPage(k.Page)
	out.Clients = append(out.Clients, k.row())
	code := k.Code[:min(len(k.Code), snippetMax)]
	out.Code = strings.ReplaceAll(strings.ToValidUTF8(code, ""), KafkaExample, cmp.Or(at.Addr, KafkaExample))
	for i := range k.Notes {
		if n := &k.Notes[i]; n.about(version) {
			out.Notes = append(out.Notes, kafkaNoteRow(*n))
		}
	}
	if ran, err := clientVersion(k.Version); err == nil && version != nil && compareVersions(version, ran) != 0 {
		hints = append(hints, "the code is tested with "+k.Version+" of the client, not with yours")
	}
	if at.TLS || at.Login {
		hints = append(hints, "this node needs what the note about login says beside the code")
	}
	out.Hint = strings.Join(hints, "; ")
	return out, nil
}

func (k *KafkaClient) row() kafkaClientRow {
	return kafkaClientRow{Client: k.Name, Also: append([]string{}, k.Names...), Package: k.Package, Language: k.Language, RanWith: k.Version}
}

// kafkaClient finds a client by what people call it; nil when it is none of those that are known.
func (f *Frontend) kafkaClient(name string) *KafkaClient {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == ' ' || r == '_' })
	name = strings.Join(words, "-")
	for i := range f.opts.KafkaClients {
		k := &f.opts.KafkaClients[i]
		if k.Name == name || strings.ToLower(k.Package) == name || slices.Contains(k.Names, name) {
			return k
		}
	}
	return nil
}

// about tells whether a note is for users of a version; nil is one that was not told, whom every note is for.
func (n *KafkaNote) about(version []uint64) bool {
	word, bound, _ := strings.Cut(n.When, " ")
	if version == nil || word != "before" && word != "from" {
		return true
	}
	at, err := clientVersion(bound)
	return err != nil || (compareVersions(version, at) < 0) == (word == "before")
}

// clientVersion reads a version: numbers with dots between them, behind a v or not; a suffix such as -rc1 is left out. "" is nil.
func clientVersion(text string) (out []uint64, err error) {
	if text == "" {
		return nil, nil
	}
	numbers, _, _ := strings.Cut(strings.TrimPrefix(text, "v"), "-")
	for part := range strings.SplitSeq(numbers, ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil, &toolError{Code: string(engine.CodeBadRequest), Message: "version is none", Field: "version",
				Limit: "numbers with dots between them, such as 1.46.3"}
		}
		out = append(out, n)
	}
	return out, nil
}

// compareVersions orders versions; what one of them does not name is 0.
func compareVersions(a, b []uint64) int {
	at := func(v []uint64, i int) uint64 {
		if i < len(v) {
			return v[i]
		}
		return 0
	}
	for i := range max(len(a), len(b)) {
		if c := cmp.Compare(at(a, i), at(b, i)); c != 0 {
			return c
		}
	}
	return 0
}
