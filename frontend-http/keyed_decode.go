package frontendhttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"queen/engine/format"
)

// member is one member of an object as it was sent: value is JSON text that aliases the body.
type member struct{ key, value []byte }

// jsonObject reads an object whose members are few and small; the caller looks at them by name. The last of repeated
// keys counts.
type jsonObject []member

// object reads the next value into ms, reusing its room. ok is false for a value that is no object.
func (ms jsonObject) object(d *jx.Decoder) (jsonObject, error) {
	ms = ms[:0]
	obj, err := d.ObjIter()
	if err != nil {
		return ms, err
	}
	for obj.Next() {
		key := obj.Key()
		raw, err := d.Raw()
		if err != nil {
			return ms, err
		}
		ms = append(ms, member{key, raw})
	}
	return ms, obj.Err()
}

// get is nil when the key is absent.
func (ms jsonObject) get(key string) []byte {
	for i := len(ms) - 1; i >= 0; i-- {
		if string(ms[i].key) == key {
			return ms[i].value
		}
	}
	return nil
}

// has tells whether a key is there, null or not.
func (ms jsonObject) has(key string) bool { return ms.get(key) != nil }

// absent is true for null and for what is absent.
func absent(raw []byte) bool { return len(raw) == 0 || raw[0] == 'n' }

// text reads a string. ok is false for another type, for half a surrogate pair, and for what is absent; null is
// absent.
func (ms jsonObject) text(key string) (s string, ok bool) {
	raw := ms.get(key)
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	b, ok := unquote(raw)
	return string(b), ok
}

// textOr is text for an optional member: absent and null mean other. ok is false for a wrong type.
func (ms jsonObject) textOr(key, other string) (s string, ok bool) {
	if absent(ms.get(key)) {
		return other, true
	}
	return ms.text(key)
}

// view is textOr without a copy, which aliases the body where it can: nil for what is absent or null.
func (ms jsonObject) view(key string) (b []byte, ok bool) {
	raw := ms.get(key)
	switch {
	case absent(raw):
		return nil, true
	case len(raw) < 2 || raw[0] != '"':
		return nil, false
	}
	return unquote(raw)
}

// wholeNumber reads a whole number that fits; ok is false for anything else and for what is absent. A fraction of zero
// is a whole number too: some clients write 60.0.
func wholeNumber(raw []byte) (int64, bool) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// truth reads a boolean; absent and null are false. ok is false for another type.
func (ms jsonObject) truth(key string) (v, ok bool) {
	raw := ms.get(key)
	switch {
	case absent(raw), string(raw) == "false":
		return false, true
	case string(raw) == "true":
		return true, true
	}
	return false, false
}

// number reads a JSON number as counters keep it.
func number(raw []byte) (format.Number, bool) {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return format.Number{}, false
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return format.Number{Kind: format.IntNumber, Int: n}, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return format.Number{}, false
	}
	return format.Number{Kind: format.FloatNumber, Float: f}, true
}

// compact is JSON text without spaces between tokens; the result may alias raw.
func compact(raw []byte) []byte {
	if bytes.IndexByte(raw, ' ') < 0 && bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\t') < 0 &&
		bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// operations walks the ops of {"operations":[...]} or of a bare array, at most limit of them. bad makes the refusal
// of a family from its finer code; each gets the members of one op, which alias the body.
func operations(body []byte, limit int, bad func(kind, detail string) error, each func(i int, ms jsonObject) error) error {
	if !utf8.Valid(body) {
		return bad("body", "the body is not UTF-8")
	}
	var d jx.Decoder
	d.ResetBytes(body)
	list := d.Next() == jx.Array
	found := list
	walk := func() error { return walkOperations(&d, limit, bad, each) }
	if list {
		if err := walk(); err != nil {
			return err
		}
	} else {
		obj, err := d.ObjIter()
		if err != nil {
			return bad("body", "the body must be an object with operations")
		}
		for obj.Next() {
			if string(obj.Key()) != "operations" || found {
				if err := d.Skip(); err != nil {
					return bad("body", err.Error())
				}
				continue
			}
			found = true
			if err := walk(); err != nil {
				return err
			}
		}
		if err := obj.Err(); err != nil {
			return bad("body", err.Error())
		}
	}
	if !found {
		return bad("body", "operations is missing")
	}
	if err := atEnd(&d); err != nil {
		return bad("body", "something follows the object")
	}
	return nil
}

func walkOperations(d *jx.Decoder, limit int, bad func(kind, detail string) error, each func(i int, ms jsonObject) error) error {
	arr, err := d.ArrIter()
	if err != nil {
		return bad("body", "operations must be an array")
	}
	var ms jsonObject
	n := 0
	for ; arr.Next(); n++ {
		if n == limit {
			return bad("many", fmt.Sprintf("more than %d operations in one call", limit))
		}
		if ms, err = ms.object(d); err != nil {
			return bad("body", fmt.Sprintf("operation %d is not an object: %v", n, err))
		}
		if err := each(n, ms); err != nil {
			return err
		}
	}
	if err := arr.Err(); err != nil {
		return bad("body", err.Error())
	}
	return nil
}

// bodyMembers reads a whole body as one object.
func bodyObject(body []byte) (jsonObject, error) {
	if !utf8.Valid(body) {
		return nil, badBody("not UTF-8")
	}
	var d jx.Decoder
	d.ResetBytes(body)
	ms, err := jsonObject(nil).object(&d)
	if err != nil {
		return nil, badBody("the body must be an object: " + err.Error())
	}
	return ms, atEnd(&d)
}

// stringList reads an array of strings; nil for null.
func stringList(raw []byte) (list []string, err error) {
	if absent(raw) {
		return nil, nil
	}
	var d jx.Decoder
	d.ResetBytes(raw)
	arr, err := d.ArrIter()
	if err != nil {
		return nil, err
	}
	for arr.Next() {
		b, ok, err := stringOrNull(&d, "an element", len(list))
		if err != nil || !ok {
			return nil, badBody("every element must be a string")
		}
		list = append(list, string(b))
	}
	return list, arr.Err()
}

// splitFirst takes the first segment as one name and the rest, slashes and all, as another.
func splitFirst(rest string, names *[maxNames]string) (ok bool) {
	names[0], names[1], ok = strings.Cut(rest, "/")
	return ok
}

// oneSegment takes a rest without slashes.
func oneSegment(rest string, names *[maxNames]string) (ok bool) {
	names[0] = rest
	return !strings.Contains(rest, "/")
}
