package frontendhttp

import (
	"strconv"
	"time"
	"unicode/utf8"

	"queen/engine/format"
)

// out appends JSON. Commas come by themselves: one is due unless the last byte opens a container or ends a key, which
// the last byte of a value never does.
type out struct{ b []byte }

func (o *out) comma() {
	if n := len(o.b); n > 0 && o.b[n-1] != '{' && o.b[n-1] != '[' && o.b[n-1] != ':' {
		o.b = append(o.b, ',')
	}
}

// key starts a member; a value must follow.
func (o *out) key(k string) *out {
	o.comma()
	o.b = append(o.b, '"')
	o.b = append(o.b, k...)
	o.b = append(o.b, '"', ':')
	return o
}

// open starts a container, as an element or as the value of the key before it.
func (o *out) open(c byte) *out {
	o.comma()
	o.b = append(o.b, c)
	return o
}

func (o *out) close(c byte) *out {
	o.b = append(o.b, c)
	return o
}

func (o *out) str(k, v string) {
	o.key(k)
	o.b = appendString(o.b, v)
}

// strOrNull is null for the empty string.
func (o *out) strOrNull(k, v string) {
	if v == "" {
		o.null(k)
		return
	}
	o.str(k, v)
}

// text is a string as an element of an array.
func (o *out) text(v string) {
	o.comma()
	o.b = appendString(o.b, v)
}

func (o *out) num(k string, v int64) {
	o.key(k)
	o.b = strconv.AppendInt(o.b, v, 10)
}

func (o *out) count(k string, v uint64) {
	o.key(k)
	o.b = strconv.AppendUint(o.b, v, 10)
}

func (o *out) float(k string, v float64) {
	o.key(k)
	o.b = strconv.AppendFloat(o.b, v, 'f', -1, 64)
}

func (o *out) bool(k string, v bool) {
	o.key(k)
	o.b = strconv.AppendBool(o.b, v)
}

func (o *out) null(k string) {
	o.key(k)
	o.b = append(o.b, "null"...)
}

// uuid is null for the absent id.
func (o *out) uuid(k string, v format.UUID) {
	o.key(k)
	o.b = appendUUID(o.b, v)
}

// time is null for 0.
func (o *out) time(k string, v format.Wall) {
	o.key(k)
	o.b = appendTime(o.b, v)
}

// id is a number as digits in a string.
func (o *out) id(k string, v uint64) {
	o.key(k)
	o.b = append(o.b, '"')
	o.b = strconv.AppendUint(o.b, v, 10)
	o.b = append(o.b, '"')
}

// raw is a value that is JSON already.
func (o *out) raw(k string, v []byte) {
	o.key(k)
	o.b = append(o.b, v...)
}

func appendUUID(b []byte, v format.UUID) []byte {
	if v.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = v.AppendTo(b)
	return append(b, '"')
}

// appendTime writes ISO-8601 in UTC with microseconds; null for 0.
func appendTime(b []byte, v format.Wall) []byte {
	if v == 0 {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = time.UnixMicro(int64(v)).UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	return append(b, '"')
}

// plain bytes stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendString writes a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	i := 0
	for i < len(s) && plain[s[i]] {
		i++
	}
	b = append(b, s[:i]...)
	if i < len(s) {
		b = appendRest(b, s[i:])
	}
	return append(b, '"')
}

// appendRest writes what begins with a byte that is not plain.
func appendRest(b []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if r, size := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size != 1 {
				i += size
				continue
			}
		}
		b = append(b, s[from:i]...)
		b = appendEscaped(b, c)
		i++
		from = i
	}
	return append(b, s[from:]...)
}

// appendEscaped writes one byte that can not stand in a JSON string.
func appendEscaped(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c == '"' || c == '\\':
		return append(b, '\\', c)
	case c == '\n':
		return append(b, '\\', 'n')
	case c == '\r':
		return append(b, '\\', 'r')
	case c == '\t':
		return append(b, '\\', 't')
	case c < ' ':
		return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
	return utf8.AppendRune(b, utf8.RuneError)
}
