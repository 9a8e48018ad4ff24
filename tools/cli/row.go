package cli

import (
	"encoding/json"
	"strings"
	"time"
)

// Row is an object of an answer, whose members stay as they came: a version or a number in a value is not rounded.
type Row map[string]json.RawMessage

// RowColumns shows members of a Row by name. A name that begins with "+" is in -o wide only; one that begins with "=" is
// what -o name prints.
func RowColumns(names ...string) (columns []Column[Row]) {
	for _, name := range names {
		c := Column[Row]{}
		if rest, ok := strings.CutPrefix(name, "+"); ok {
			c.Wide, name = true, rest
		}
		if rest, ok := strings.CutPrefix(name, "="); ok {
			c.Key, name = true, rest
		}
		c.Head, c.Cell = name, func(r Row) string { return r.Text(name) }
		columns = append(columns, c)
	}
	return columns
}

// RowOf makes a Row of what encoding/json writes as an object.
func RowOf(v any) Row {
	b, err := json.Marshal(v)
	var r Row
	if err != nil || json.Unmarshal(b, &r) != nil || r == nil {
		return Row{}
	}
	return r
}

// Text is a member as people read it: a string without its quotes, nothing for null or no member.
func (r Row) Text(name string) string { return Unquoted(r[name]) }

// Is tells whether a member is true.
func (r Row) Is(name string) bool { return string(r[name]) == "true" }

// Set puts a member that encoding/json can always write.
func (r Row) Set(name string, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		b = []byte("null")
	}
	r[name] = b
}

// ShiftTimes puts the times of a Row into a zone: members whose names end as those of times do.
func (r *Row) ShiftTimes(zone *time.Location) {
	for name, value := range *r {
		if timeName(name) && len(value) > 2 && value[0] == '"' {
			if text := InZone(Unquoted(value), zone); text != Unquoted(value) {
				r.Set(name, text)
			}
		}
	}
}

// timeName tells the names that the API gives its times.
func timeName(name string) bool {
	for _, end := range []string{"At", "_at", "Timestamp", "timestamp", "lastSeen", "last_seen", "Time"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return name == "time" || name == "ts" || name == "since"
}

// InZone is an RFC 3339 time in a zone; any other text stays as it is.
func InZone(text string, zone *time.Location) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	layout := time.RFC3339
	if dot := strings.IndexByte(text, '.'); dot >= 0 { // as many digits as it had
		digits := len(text[dot+1:]) - len(strings.TrimLeft(text[dot+1:], "0123456789"))
		layout = "2006-01-02T15:04:05." + strings.Repeat("0", digits) + "Z07:00"
	}
	return t.In(zone).Format(layout)
}

// Unquoted is the text of a JSON value as people read it.
func Unquoted(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
