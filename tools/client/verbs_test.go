package client

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/tools/cli"
	"queen/tools/remote"
)

// TestVerbs prints a message by every verb and form.
func TestVerbs(t *testing.T) {
	text := Message{Queue: "q", Partition: "p", Offset: 7, TransactionID: "é", CreatedAt: "2026-11-30T10:00:00.5Z", Data: json.RawMessage(`"a\tb"`),
		ConsumerGroup: "g", LeaseID: "l", DeliveryAttempt: 2}
	raw := Message{Data: json.RawMessage(`"/wBB"`), Encoding: "base64", ContentType: "image/png", Headers: json.RawMessage(`[{"name":"a","value":"b"}]`)}
	for _, c := range []struct {
		m            *Message
		format, want string
	}{
		{&text, "", ""}, {&text, "%%", "%"}, {&text, `\n\t\r\0\\\x41`, "\n\t\r\x00\\A"},
		{&text, "%q %p %o %k %g %l %a", "q p 7 é g l 2"}, {&text, "%k{hex}", "c3a9"},
		{&text, "%v", `"a\tb"`}, {&text, "%v{text}", "a\tb"}, {&text, "%v{hex}", "22615c746222"}, {&text, "%v{base64}", "ImFcdGIi"},
		{&text, "%d %d{unix}", "2026-11-30T10:00:00.5Z 1796032800"}, {&text, "%c%h", ""},
		{&raw, "%v", "\xff\x00A"}, {&raw, "%v{text}", "\xff\x00A"}, {&raw, "%v{hex}", "ff0041"}, {&raw, "%c %h", `image/png [{"name":"a","value":"b"}]`},
	} {
		verbs, err := parseVerbs(c.format)
		require.NoError(t, err, c.format)
		var out strings.Builder
		require.NoError(t, printVerbs(&out, verbs, c.m))
		require.Equal(t, c.want, out.String(), c.format)
	}
	for _, format := range []string{"%", "%z", "%v{", "%v{rot13}", "%o{hex}", `\`, `\q`, `\x4`, `\xzz`} {
		_, err := parseVerbs(format)
		require.Equal(t, cli.Usage, cli.Code(err), format)
	}
	require.Equal(t, "a?[31m\n\t?é?", string(tame([]byte("a\x1b[31m\n\t\u0085é\xff"))))
}

// TestVerbsOfLines: a command prints by --format in the zone that was asked for, and nothing beside.
func TestVerbsOfLines(t *testing.T) {
	zone := time.Local
	time.Local = time.FixedZone("", 3600)
	defer func() { time.Local = zone }()
	h := reply(`{"messages":[{"transactionId":"t","createdAt":"2026-11-30T10:00:00Z","data":1},{"transactionId":"u","data":2}]}`)
	code, out, errs := execute(t, h, "", "pop", "q", "--queue-mode", "--format", `%k %v %d\n`, "--local")
	require.Equal(t, cli.Done, code, errs)
	require.Equal(t, "t 1 2026-11-30T11:00:00+01:00\nu 2 \n", out)
}

// TestHeadersOfWrapped: headers and content types of a message go where the node keeps them.
func TestHeadersOfWrapped(t *testing.T) {
	for _, c := range []struct{ in, raw, contentType, header, bad string }{
		{in: `{"data":1}`},
		{in: `{"data":[1, 2],"headers":[{"name":"A b","value":"é%"}]}`, raw: "[1,2]", contentType: jsonType, header: "Queen-H-%41%20b: %C3%A9%25"},
		{in: `{"data":"eA==","encoding":"base64"}`, raw: "x"},
		{in: `{"data":"eA==","encoding":"base64","contentType":"a/b","headers":[{"name":"n","value":"AA==","encoding":"base64"}]}`, raw: "x",
			contentType: "a/b", header: "Queen-H-n: %00"},
		{in: `{"data":"{\"a\": 1}","encoding":"utf8","contentType":"application/json"}`, raw: `{"a": 1}`, contentType: jsonType},
		{in: `{"data":1,"encoding":"base64"}`, bad: "must be a string"}, {in: `{"data":"x","encoding":"rot13"}`, bad: "rot13"},
		{in: `{"data":1,"headers":[{"name":"n","value":"?","encoding":"base64"}]}`, bad: "header n"},
		{in: `{"data":1,"headers":[{"name":"n","value":"?","encoding":"hex"}]}`, bad: "unknown encoding"},
		{in: `{}`, bad: "needs payload or data"}, {in: `1`, bad: "cannot unmarshal"}, {in: ``, bad: "not JSON"},
	} {
		var item pushItem
		err := item.unwrap([]byte(c.in))
		if c.bad != "" {
			require.ErrorContains(t, err, c.bad, c.in)
			continue
		}
		require.NoError(t, err, c.in)
		require.Equal(t, c.raw, string(item.raw), c.in)
		require.Equal(t, c.contentType, item.contentType, c.in)
		var header string
		for name, values := range item.header {
			header += name + ": " + strings.Join(values, ", ")
		}
		require.Equal(t, c.header, header, c.in)
	}
}

// TestObjects reads what -o json and ndjson print, and tells what is no JSON once.
func TestObjects(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " \n": "", "[]": "", "{}": "{}", "{}\n{}\n": "{} {}", "[{},\n {}]\n": "{} {}", "[1,2": "1 2 bad", "[1,,2]": "1 bad",
		"hello": "bad", "{": "bad", "{} x": "{} bad", "[1] x": "1 bad", "[1]\n[2]": "1 2",
	} {
		var got []string
		s := sessionOver(t, in)
		err := s.objects(func(value json.RawMessage, _ bool) error {
			if value == nil {
				value = json.RawMessage("bad")
			}
			got = append(got, string(value))
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(got, " "), in)
	}
	s := sessionOver(t, "["+strings.Repeat(" ", inputMax+(2<<20))+"1]")
	err := s.objects(func(json.RawMessage, bool) error { return nil })
	require.ErrorContains(t, err, "longer than 64 MiB")
}

// reply answers every call with a body.
func reply(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

// sessionOver is a command that reads a text.
func sessionOver(t *testing.T, in string) *session {
	t.Helper()
	return &session{&remote.Conn{Invocation: &cli.Invocation{Streams: cli.Streams{In: strings.NewReader(in)}, Ctx: t.Context()}}}
}
