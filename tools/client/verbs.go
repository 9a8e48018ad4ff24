package client

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"queen/tools/cli"
)

// verbHelp is the help of --format.
const verbHelp = `print messages by this: %q queue, %p partition, %o offset, %k transactionId, %v payload as it is stored, %d createdAt, ` +
	`%g group, %l leaseId, %a attempt, %c content type, %h headers, %%; with a form as in %v{hex}, %v{base64}, %v{text} or %d{unix}; ` +
	`\n \t \r \0 \\ \xHH`

// verb writes a part of a message.
type verb func(m *Message) []byte

// verbForms are the forms that a verb has beside its plain one.
var verbForms = map[byte][]string{'v': {"hex", "base64", "text"}, 'k': {"hex", "base64"}, 'd': {"unix"}}

// parseVerbs reads a --format.
func parseVerbs(text string) (verbs []verb, err error) {
	var literal []byte
	bad := func(what string) error { return cli.Errorf(cli.Usage, "--format %s: %s", text, what) }
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			b, n := escaped(text[i+1:])
			if n == 0 {
				return nil, bad(`after \ comes n, t, r, 0, \ or xHH`)
			}
			literal, i = append(literal, b), i+n
		case c == '%' && i+1 == len(text):
			return nil, bad("after % comes a letter")
		case c == '%' && text[i+1] == '%':
			literal, i = append(literal, '%'), i+1
		case c == '%':
			name, form := text[i+1], ""
			i++
			if inner, ok := strings.CutPrefix(text[i+1:], "{"); ok {
				if form, _, ok = strings.Cut(inner, "}"); !ok {
					return nil, bad("a { has no }")
				}
				i += len(form) + 2
				if !slices.Contains(verbForms[name], form) {
					return nil, bad(fmt.Sprintf("%%%c has no form %s", name, form))
				}
			}
			v := verbOf(name, form)
			if v == nil {
				return nil, bad(fmt.Sprintf("there is no %%%c", name))
			}
			verbs = append(verbs, constant(literal), v)
			literal = nil
		default:
			literal = append(literal, c)
		}
	}
	return append(verbs, constant(literal)), nil
}

func constant(b []byte) verb { return func(*Message) []byte { return b } }

// escaped reads what stands behind a backslash; n is how much it is, 0 for nothing known.
func escaped(text string) (b byte, n int) {
	if text == "" {
		return 0, 0
	}
	switch text[0] {
	case 'n':
		return '\n', 1
	case 't':
		return '\t', 1
	case 'r':
		return '\r', 1
	case '0':
		return 0, 1
	case '\\':
		return '\\', 1
	case 'x':
		if len(text) >= 3 {
			if v, err := strconv.ParseUint(text[1:3], 16, 8); err == nil {
				return byte(v), 3
			}
		}
	}
	return 0, 0
}

// verbOf is nil for a letter that is no verb.
func verbOf(name byte, form string) verb {
	text := func(f func(*Message) string) verb { return func(m *Message) []byte { return []byte(f(m)) } }
	switch name {
	case 'q':
		return text(func(m *Message) string { return m.Queue })
	case 'p':
		return text(func(m *Message) string { return m.Partition })
	case 'o':
		return text(func(m *Message) string { return strconv.FormatUint(m.Offset, 10) })
	case 'k':
		return formed(form, func(m *Message) []byte { return []byte(m.TransactionID) })
	case 'v':
		return formed(form, (*Message).bytes)
	case 'd':
		return text(func(m *Message) string {
			if t, err := time.Parse(time.RFC3339Nano, m.CreatedAt); err == nil && form == "unix" {
				return strconv.FormatInt(t.Unix(), 10)
			}
			return m.CreatedAt
		})
	case 'g':
		return text(func(m *Message) string { return m.ConsumerGroup })
	case 'l':
		return text(func(m *Message) string { return m.LeaseID })
	case 'a':
		return text(func(m *Message) string { return strconv.Itoa(m.DeliveryAttempt) })
	case 'c':
		return text(func(m *Message) string { return m.ContentType })
	case 'h':
		return func(m *Message) []byte { return m.Headers }
	}
	return nil
}

// formed writes bytes in a form of verbForms.
func formed(form string, of verb) verb {
	return func(m *Message) []byte {
		b := of(m)
		switch form {
		case "hex":
			return []byte(hex.EncodeToString(b))
		case "base64":
			return []byte(base64.StdEncoding.EncodeToString(b))
		case "text":
			var s string
			if m.Encoding == "" && json.Unmarshal(b, &s) == nil {
				return []byte(s)
			}
		}
		return b
	}
}

// printVerbs prints a message. A terminal gets no control characters but line ends and tabs.
func printVerbs(out io.Writer, verbs []verb, m *Message) error {
	var line []byte
	for _, v := range verbs {
		line = append(line, v(m)...)
	}
	if cli.Terminal(out) {
		line = slices.Clip(tame(line))
	}
	_, err := out.Write(line)
	return err
}

// tame takes out of text what a terminal would obey.
func tame(text []byte) (out []byte) {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			out = append(out, '?')
		} else {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}
