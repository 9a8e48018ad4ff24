package frontendmcp

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// testClients stand in for the clients that the composition root hands over.
var testClients = []KafkaClient{
	{Name: "sarama", Names: []string{"ibm-sarama", "ibm/sarama"}, Package: "github.com/IBM/sarama", Version: "1.46.3", Language: "go",
		Code: `dial("127.0.0.1:9092"); dial("127.0.0.1:9092")`, Page: "concepts", Notes: []KafkaNote{{"always", "everybody"}, {"before 1.46", "old"},
			{"from 1.46", "new"}, {"from 2", "newer"}, {"login", "sasl"}}},
	{Name: "big", Names: []string{"large"}, Package: "big", Version: "1.0", Language: "java", Code: strings.Repeat("é", snippetMax), Page: "concepts"},
}

// TestKafkaClient: a client is found by each of its names, however they are written; the program names this node, the notes are
// those of the version, and what is not known is answered with what is.
func TestKafkaClient(t *testing.T) {
	with := func(at KafkaListener) *mcp.ClientSession {
		r := newRig(t, func(o *Options) { o.Pages, o.KafkaClients, o.Kafka = testPages, testClients, at })
		r.f.rates.unlimited = true
		return r.connect(Identity{}, nil)
	}
	s := with(KafkaListener{Addr: "queen.example:19092"})
	for _, name := range []string{"sarama", "Sarama", "IBM Sarama", "ibm_sarama", "IBM/sarama", "github.com/ibm/sarama"} {
		out := ask(t, s, "kafka_client", map[string]any{"client": name})
		require.Equal(t, `dial("queen.example:19092"); dial("queen.example:19092")`, out["code"], name)
		require.Equal(t, "queen.example:19092", out["bootstrap_servers"])
		require.Len(t, out["notes"], 5, "%s: those of every version", name)
		require.Nil(t, out["hint"])
		require.Equal(t, map[string]any{"client": "sarama", "also": []any{"ibm-sarama", "ibm/sarama"}, "package": "github.com/IBM/sarama",
			"language": "go", "ran_with": "1.46.3"}, out["clients"].([]any)[0])
	}
	for version, want := range map[string]string{"1.45.9": "everybody old sasl", "v1.46": "everybody new sasl", "1.46.3-rc1": "everybody new sasl",
		"2": "everybody new newer sasl", "10.1": "everybody new newer sasl", "1": "everybody old sasl"} {
		out := ask(t, s, "kafka_client", map[string]any{"client": "sarama", "version": version})
		var got []string
		for _, n := range out["notes"].([]any) {
			got = append(got, n.(map[string]any)["text"].(string))
		}
		require.Equal(t, want, strings.Join(got, " "), version)
		hint, _ := out["hint"].(string)
		require.Equal(t, version != "1.46.3-rc1", strings.Contains(hint, "tested with 1.46.3"), version)
	}
	all := ask(t, s, "kafka_client", nil)
	require.Len(t, all["clients"], 2)
	require.Nil(t, all["code"])
	e := refused(t, s, "kafka_client", map[string]any{"client": "pykafka"})
	require.Equal(t, []string{"not_found", "client", "known are: sarama, big"}, []string{e.Code, e.Field, e.Hint})
	for _, bad := range []string{"newest", "1.x", "1..2", "-1", "1.46 ", "99999999999"} {
		e := refused(t, s, "kafka_client", map[string]any{"client": "sarama", "version": bad})
		require.Equal(t, []string{"bad_request", "version"}, []string{e.Code, e.Field}, bad)
		require.NotEmpty(t, e.Limit)
	}

	guarded := ask(t, with(KafkaListener{Addr: "q:1", TLS: true, Login: true}), "kafka_client", map[string]any{"client": "sarama"})
	require.Equal(t, []any{true, true}, []any{guarded["tls"], guarded["login"]})
	require.Contains(t, guarded["hint"], "login")
	none := ask(t, with(KafkaListener{}), "kafka_client", map[string]any{"client": "sarama"})
	require.Nil(t, none["bootstrap_servers"])
	require.Contains(t, none["hint"], "serves no Kafka clients")
	require.Contains(t, none["code"], KafkaExample)
}
