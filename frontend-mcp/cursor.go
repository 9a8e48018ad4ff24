package frontendmcp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"queen/engine"
)

// cursorMax bounds the text of a cursor.
const cursorMax = 4096

// place is where a listing goes on: After the engine's page, and Skip rows of the page behind it.
type place struct {
	After string `json:"a,omitempty"`
	Skip  int    `json:"s,omitempty"`
	// Of is a digest of the arguments: a cursor goes on with what it began with.
	Of []byte `json:"o"`
}

// digestOf is what a cursor or a confirmation is bound to.
func digestOf(parts ...any) []byte {
	text, err := json.Marshal(parts)
	if err != nil {
		panic("frontend-mcp: arguments that are not JSON") // they came as JSON
	}
	sum := sha256.Sum256(text)
	return sum[:12]
}

func (p place) text() string {
	text, _ := json.Marshal(p) // bytes, strings and numbers marshal
	return base64.RawURLEncoding.EncodeToString(text)
}

// resume reads a cursor of the same tool and arguments; "" is the start.
func (c *call) resume(cursor string, args ...any) (place, error) {
	of := digestOf(c.tool.name, args)
	p := place{Of: of}
	if cursor == "" {
		return p, nil
	}
	bad := badArgument("cursor", "cursor is not one of this tool's answers with the same arguments: start again without it")
	if len(cursor) > cursorMax {
		return p, bad
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(text, &p) != nil || string(p.Of) != string(of) || p.Skip < 0 || p.Skip > maxScan {
		return place{}, bad
	}
	return p, nil
}

// keepCursor leaves room for a cursor that holds a name, which may be long: twice the base64 of one that JSON has doubled.
func (c *call) keepCursor() {
	const most = 2 * (2*engine.MaxKVKey + 64) * 4 / 3
	if c.room > 4*most {
		c.room -= most
	}
}

// pageOf cuts a page out of rows that are all there: limit, room and the cursor of the rest.
func pageOf[T any](c *call, m *Meta, rows []T, p place, limit int) []T {
	rows = rows[min(p.Skip, len(rows)):]
	page, _ := fit(c, rows[:min(limit, len(rows))])
	if len(page) < len(rows) {
		c.cut(m, len(rows)-len(page), goOn)
		m.NextCursor = place{After: p.After, Skip: p.Skip + len(page), Of: p.Of}.text()
	}
	return page
}
