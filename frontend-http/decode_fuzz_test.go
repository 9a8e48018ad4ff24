package frontendhttp

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"queen/engine"
	"queen/engine/format"
)

// The decoders of the hot path against encoding/json: what one refuses the other refuses, and what both take is the
// same. The reference works key by key, because encoding/json would match keys in any case.

// refItem is one pushed item as the reference reads it.
type refItem struct {
	queue, partition, id string
	payload              []byte
	trace                format.UUID
}

// refString reads a string or null; ok is false for null, valid for anything else.
func refString(raw json.RawMessage) (s string, ok, valid bool) {
	if raw == nil || isNull(raw) {
		return "", false, true
	}
	if raw[0] != '"' || halfPair(string(raw)) || json.Unmarshal(raw, &s) != nil {
		return "", false, false
	}
	return s, true, true
}

var (
	escapes   = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)
	fullPairs = regexp.MustCompile(`(?i)\\ud[89ab]..\\ud[c-f]..`)
	halfPairs = regexp.MustCompile(`(?i)\\ud[89a-f]..`)
)

// halfPair reports half a surrogate pair among the escapes of a string.
func halfPair(raw string) bool {
	// Everything between escapes becomes a space, so that only neighbours pair up.
	var b strings.Builder
	for last := 0; ; {
		at := escapes.FindStringIndex(raw[last:])
		if at == nil {
			break
		}
		if at[0] > 0 {
			b.WriteByte(' ')
		}
		if e := raw[last+at[0] : last+at[1]]; len(e) == 6 {
			b.WriteString(e)
		} else {
			b.WriteByte(' ')
		}
		last += at[1]
	}
	return halfPairs.MatchString(fullPairs.ReplaceAllString(b.String(), " "))
}

// members reads an object in order, so that repeated keys are seen.
func members(raw []byte, visit func(key string, value json.RawMessage) bool) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return false
		}
		var v json.RawMessage
		if d.Decode(&v) != nil || !visit(key.(string), v) {
			return false
		}
	}
	return true
}

func refPush(body []byte) (items []refItem, ok bool) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, false
	}
	found := false
	ok = members(body, func(key string, v json.RawMessage) bool {
		if key != "items" {
			return true
		}
		var list []json.RawMessage
		if found || v[0] != '[' || json.Unmarshal(v, &list) != nil {
			return false
		}
		found = true
		for _, raw := range list {
			it, ok := refPushItem(raw)
			if !ok {
				return false
			}
			items = append(items, it)
		}
		return true
	})
	return items, ok && found
}

func refPushItem(raw json.RawMessage) (it refItem, ok bool) {
	queue := false
	ok = members(raw, func(key string, v json.RawMessage) (valid bool) {
		valid = true
		switch key {
		case "queue":
			it.queue, queue, valid = refString(v)
		case "partition":
			it.partition, _, valid = refString(v)
		case "transactionId":
			it.id, _, valid = refString(v)
		case "traceId":
			it.trace = format.UUID{}
			if s, ok, valid := refString(v); ok && valid {
				it.trace, _ = format.ParseUUID(s)
			}
		case "payload":
			it.payload = v
		}
		return valid
	})
	if it.partition == "" {
		it.partition = "Default"
	}
	fits := len(it.id) <= format.MaxTransactionID && 36+len(it.queue)+len(it.partition) <= format.NameBudget
	return it, ok && queue && it.payload != nil && fits
}

var pushSeeds = []string{`{"items":[{"queue":"q","payload":{"a":[1,"x"]},"transactionId":"t","partition":"p"}]}`,
	`{"items":[{"payload":null,"queue":"\u0071\ud83d\ude00","partition":null,"traceId":"4f2a6b1e-93c8-4d51-8a07-1c2d3e4f5a6b"}]} `,
	`{"x":{"items":[]},"items":[{"queue":"a","payload":1},{"queue":"b","payload":2},{"queue":"a","payload":3}]}`,
	`{"items":[{"queue":"q","queue":"r","payload":1,"payload":[ 2 ]}]}`, `{"items":[]}{`, `{"items":[]}"`,
	`{"items":[]} -`, `{"items":[]}]`, `{"\u0069tems":[]}`, `{"items":[{"queue":"\ud800","payload":1e5}]}`,
	`{"items":[{"queue":"q","payload":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}]}`, ``, `{`, "\x00"}

func FuzzPushDecode(f *testing.F) {
	for _, s := range pushSeeds {
		f.Add([]byte(s))
	}
	p := newPushBody()
	f.Fuzz(func(t *testing.T, body []byte) { checkPush(t, p, body) })
}

// checkPush reports whether the body is a push.
func checkPush(t *testing.T, p *pushBody, body []byte) bool {
	t.Helper()
	defer p.reset()
	want, ok := refPush(body)
	err := p.decode(body)
	if ok != (err == nil) {
		if deep(body) {
			return false // both have a limit of nesting, at slightly different depths
		}
		t.Fatalf("%q: accepted by the reference: %v, error %v", body, ok, err)
	}
	if err == nil {
		comparePush(t, p, want)
	}
	return ok
}

func deep(body []byte) bool {
	return bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > 9000
}

func comparePush(t *testing.T, p *pushBody, want []refItem) {
	t.Helper()
	if len(p.messages) != len(want) || len(p.of) != len(want) {
		t.Fatalf("%d messages want %d", len(p.messages), len(want))
	}
	next := make([]int, len(p.groups))
	for i, w := range want {
		g := p.of[i]
		op := p.ops[g].(*engine.Append)
		m := op.Messages[next[g]]
		next[g]++
		if op.Queue != w.queue || op.Partition != w.partition || m.TransactionID != w.id ||
			!bytes.Equal(m.Payload, w.payload) || m.TraceID != w.trace {
			t.Fatalf("item %d: %q %q %q %q want %+v", i, op.Queue, op.Partition, m.TransactionID, m.Payload, w)
		}
		if cap(m.Payload) != len(m.Payload) {
			t.Fatalf("item %d: a payload reaches into what follows", i)
		}
	}
	for g := range next {
		if next[g] != len(p.ops[g].(*engine.Append).Messages) {
			t.Fatalf("group %d has messages of nobody", g)
		}
	}
}

// refAck reads one acknowledgment.
func refAck(raw json.RawMessage) (a engine.Ack, group string, ok bool) {
	a.Status = format.AckCompleted
	ok = members(raw, func(key string, v json.RawMessage) (valid bool) {
		valid = true
		var s string
		var there bool
		switch key {
		case "transactionId":
			a.TransactionID, _, valid = refString(v)
		case "partitionId":
			s, _, valid = refString(v)
			a.Partition = partitionID(s)
		case "status":
			if s, there, valid = refString(v); there {
				a.Status = ackStatuses[s]
			}
		case "leaseId":
			a.Lease, _, valid = refString(v)
		case "error":
			a.Reason, _, valid = refString(v)
		case "consumerGroup":
			group, _, valid = refString(v)
		case "offset":
			a.HasOffset, a.Offset = !isNull(v), 0
			valid = !a.HasOffset || json.Unmarshal(v, (*uint64)(&a.Offset)) == nil
		}
		return valid
	})
	a.Unfenced = a.Lease == ""
	a.HasOffset = a.HasOffset && a.TransactionID == ""
	return a, groupName(group), ok
}

var ackSeeds = []string{
	`{"transactionId":"t","partitionId":"7","status":"completed","error":null,"consumerGroup":"g","leaseId":"l"}`,
	`{"consumerGroup":"__QUEUE_MODE__","status":null,"offset":3,"partitionId":"07"}`, `{"offset":null,"status":"x"}`,
	`{"offset":-0}`, `{"offset":1e2}`, `{"offset":18446744073709551616}`, `{"offset":01}`, `{}`, `{} 1`, `null`,
	`{"error":"\u00e9\ud83d","status":"dlq","status":"retry"}`}

func FuzzAckDecode(f *testing.F) {
	for _, s := range ackSeeds {
		f.Add([]byte(s))
	}
	a := new(ackBody)
	f.Fuzz(func(t *testing.T, body []byte) { checkAck(t, a, body) })
}

// checkAck reports whether the body is an acknowledgment.
func checkAck(t *testing.T, a *ackBody, body []byte) bool {
	t.Helper()
	defer a.reset()
	want, group, ok := refAck(body)
	ok = ok && utf8.Valid(body) && json.Valid(body) && 36+len(group) <= format.NameBudget
	err := a.single(body)
	if ok != (err == nil) {
		if deep(body) {
			return false
		}
		t.Fatalf("%q: accepted by the reference: %v, error %v", body, ok, err)
	}
	if want.Group = group; err == nil && (len(a.acks) != 1 || a.acks[0] != want) {
		t.Fatalf("%q: %+v want %+v", body, a.acks, want)
	}
	batch := append(append([]byte(`{"acknowledgments":[`), body...), `],"consumerGroup":null}`...)
	b := new(ackBody)
	if err := b.batch(batch); err == nil && ok && len(b.acks) == 1 {
		if want.Group = ""; b.acks[0] != want {
			t.Fatalf("%q: %+v want %+v", batch, b.acks, want)
		}
	}
	return ok
}

// mutate changes a body in a few places: bytes flipped, cut out, repeated, or tokens put in.
func mutate(r *rand.Rand, seed string) []byte {
	tokens := []string{"{", "}", "[", "]", ",", ":", `"`, "\\", "null", "true", "0", "-", "1e9", ".", " ", "\n", `"queue":`,
		`"payload":`, `"items":`, `"offset":`, `"status":`, `""`, `\u00`, `\ud83d`, "\xff", "\xc3", "é", "\x00"}
	b := []byte(seed)
	for range 1 + r.IntN(3) {
		i := r.IntN(len(b) + 1)
		switch r.IntN(4) {
		case 0:
			b = slices.Insert(b, i, []byte(tokens[r.IntN(len(tokens))])...)
		case 1:
			if i < len(b) {
				b[i] ^= 1 << r.IntN(8)
			}
		case 2:
			b = slices.Delete(b, i, min(len(b), i+1+r.IntN(4)))
		default:
			j := min(len(b), i+r.IntN(40))
			b = slices.Insert(b, i, slices.Clone(b[i:j])...)
		}
	}
	return b
}

// TestDecodersAgainstTheReference runs mutated bodies through both; many of them must be valid, or it shows little.
func TestDecodersAgainstTheReference(t *testing.T) {
	rounds := 30_000
	if testing.Short() {
		rounds = 4000
	}
	r := rand.New(rand.NewPCG(1, 2))
	p, a := newPushBody(), new(ackBody)
	pushes, acks := 0, 0
	for range rounds {
		if checkPush(t, p, mutate(r, pushSeeds[r.IntN(len(pushSeeds))])) {
			pushes++
		}
		if checkAck(t, a, mutate(r, ackSeeds[r.IntN(len(ackSeeds))])) {
			acks++
		}
	}
	if pushes < rounds/50 || acks < rounds/50 {
		t.Errorf("of %d bodies %d pushes and %d acks were valid", rounds, pushes, acks)
	}
	t.Logf("valid: %d pushes, %d acks of %d each", pushes, acks, rounds)
}

// FuzzStringEscape: what appendString writes is JSON, and reads back as the string with U+FFFD for what is no UTF-8.
func FuzzStringEscape(f *testing.F) {
	f.Add("a\"\\\n\x00\xff\u2028😀\xed\xa0\x80")
	f.Fuzz(func(t *testing.T, s string) {
		b := appendString(nil, s)
		var got string
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%q: %q: %v", s, b, err)
		}
		if want := strings.ToValidUTF8(s, "\x00"); strings.ReplaceAll(got, "\ufffd", "") !=
			strings.ReplaceAll(strings.ReplaceAll(want, "\x00", ""), "\ufffd", "") && !strings.Contains(s, "\x00") {
			t.Fatalf("%q came back as %q", s, got)
		}
	})
}

// FuzzHeaderEscape: message headers survive the way out and in, whatever their bytes.
func FuzzHeaderEscape(f *testing.F) {
	f.Add("X-%41", []byte(" a\x00\xff%"))
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		out := escapeHeader([]byte(name), true)
		back, err := unescapeHeader(strings.ToUpper(out), string(value))
		if err == nil && back.Name != name {
			t.Fatalf("%q came back as %q", name, back.Name)
		}
		if err != nil && utf8.ValidString(name) && !strings.Contains(string(value), "%") {
			t.Fatalf("%q: %v", name, err)
		}
		v := escapeHeader(value, false)
		if strings.ContainsAny(v, "\r\n\x00") || v != strings.TrimSpace(v) {
			t.Fatalf("%q is no header value", v)
		}
		if back, err := unescapeHeader("x", v); err != nil || !bytes.Equal(back.Value, value) {
			t.Fatalf("%q came back as %q, %v", value, back.Value, err)
		}
	})
}
