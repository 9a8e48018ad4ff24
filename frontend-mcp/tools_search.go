package frontendmcp

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"queen/engine"
	"queen/engine/format"
)

// Bounds of one search.
const (
	scanDefault = 10_000
	scanMost    = 100_000
	scanPage    = 1 << 20 // payload bytes read at a time
)

func searchTools() []*tool {
	return []*tool{
		row(tool{name: "message_search", title: "Search messages", toolset: "messages",
			text: "Finds messages of a queue by transaction id, by text in the payload, or by a JSON pointer that equals a value."}, search),
		row(tool{name: "message_trace", title: "Trace a message", toolset: "messages",
			text: "What became of one message: where it is, when what happened to it, and what every consumer group thinks of it."}, traceMessage),
	}
}

type searchArgs struct {
	Queue         string `json:"queue"`
	Partition     string `json:"partition,omitempty"`
	TransactionID string `json:"transaction_id,omitempty"`
	Contains      string `json:"contains,omitempty" jsonschema:"bytes that the payload contains"`
	Path          string `json:"path,omitempty" jsonschema:"a JSON pointer such as /order/id, with equals"`
	Equals        any    `json:"equals,omitempty" jsonschema:"what stands at path: text, number, true, false or null"`
	From          string `json:"from,omitempty" jsonschema:"RFC 3339, inclusive"`
	To            string `json:"to,omitempty" jsonschema:"RFC 3339, exclusive"`
	ScanBudget    int    `json:"scan_budget,omitempty" jsonschema:"messages to look at, 1 to 100000; default 10000"`
	Limit         int    `json:"limit,omitempty" jsonschema:"matches at most, 1 to 20; default 5"`
	Cursor        string `json:"resume_cursor,omitempty" jsonschema:"resume_cursor of the answer before, with the same arguments"`
	MaxBytes      int    `json:"max_bytes,omitempty"`
}

type match struct {
	Partition string     `json:"partition"`
	Message   messageRow `json:"message"`
}

type searchResult struct {
	Meta
	Matches      []match `json:"matches"`
	Scanned      int     `json:"scanned"`
	ScanComplete bool    `json:"scan_complete"`
	ResumeCursor string  `json:"resume_cursor,omitempty"`
}

// scan is one search under way.
type scan struct {
	*call
	in       searchArgs
	from, to format.Wall
	limit    int
	budget   int
	want     []byte // the JSON of Equals
	// trace, unless it is zero, looks for the first message that it names, and ends there.
	trace format.UUID
	out   *searchResult
}

func search(c *call, in searchArgs) (out searchResult, err error) {
	s := &scan{call: c, in: in, out: &out}
	if s.limit, err = oneOf("limit", in.Limit, 5, 1, 20); err != nil {
		return out, err
	}
	if s.budget, err = oneOf("scan_budget", in.ScanBudget, scanDefault, 1, scanMost); err != nil {
		return out, err
	}
	if err = c.setRoom(in.MaxBytes); err != nil {
		return out, err
	}
	if s.from, err = timeOf("from", in.From); err != nil {
		return out, err
	}
	if s.to, err = timeOf("to", in.To); err != nil {
		return out, err
	}
	if in.Path != "" && !strings.HasPrefix(in.Path, "/") {
		return out, badArgument("path", "path is no JSON pointer: it begins with a slash")
	}
	if s.want, err = json.Marshal(in.Equals); err != nil {
		return out, err
	}
	at, err := c.resume(in.Cursor, in.Queue, in.Partition, in.TransactionID, in.Contains, in.Path, in.Equals, in.From, in.To)
	if err != nil {
		return out, err
	}
	out.Meta, out.Matches = c.meta(), []match{}
	out.Untrusted = true
	return out, s.run(at)
}

// run goes through the partitions. A cursor's After is the engine's page, and its Skip the partitions done of that page;
// within a partition it goes on at an offset kept behind a colon.
func (s *scan) run(at place) error {
	page, start := splitPlace(at.After)
	for {
		rows, next, err := s.lanes(page)
		if err != nil {
			return err
		}
		for i := min(at.Skip, len(rows)); i < len(rows); i++ {
			stopped, err := s.lane(&rows[i], start)
			if err != nil {
				return err
			}
			if stopped >= 0 {
				s.cut(&s.out.Meta, -1, "call again with resume_cursor and the same arguments")
				s.out.ResumeCursor = place{After: page + ":" + digits(uint64(stopped)), Skip: i, Of: at.Of}.text()
				s.progress()
				return nil
			}
			start = -1
		}
		if next == "" {
			s.out.ScanComplete = true
			return nil
		}
		page, at.Skip, start = next, 0, -1
	}
}

// progress tells a client that asked for it how far the scan got.
func (s *scan) progress() { s.notify(float64(s.out.Scanned), float64(s.budget)) }

func splitPlace(after string) (page string, start int64) {
	page, text, ok := strings.Cut(after, ":")
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || n < 0 {
		return page, -1
	}
	return page, n
}

// lanes are the partitions to look at.
func (s *scan) lanes(page string) (rows []engine.PartitionInfo, next string, err error) {
	if s.in.Partition != "" {
		p, err := s.engine.Catalog().Partition(s.ctx, s.caller, s.in.Queue, s.in.Partition)
		return []engine.PartitionInfo{p}, "", err
	}
	return s.engine.Catalog().Partitions(s.ctx, s.caller, s.in.Queue, s.from, engine.Page{After: page, Limit: 200})
}

// lane looks through one partition. It returns the offset to go on with, -1 when the partition is done.
func (s *scan) lane(p *engine.PartitionInfo, start int64) (int64, error) {
	at := max(format.Offset(max(start, 0)), p.Start)
	if start < 0 && s.from != 0 {
		found, err := s.offsetOf(s.in.Queue, p.Name, timeText(s.from), 0)
		if err != nil {
			return -1, err
		}
		at = max(at, found)
	}
	for at < p.End {
		if s.budget == 0 || s.ctx.Err() != nil {
			return int64(at), s.ctx.Err()
		}
		res, err := s.engine.Read(s.ctx, s.caller, engine.ReadRequest{
			At: []engine.Position{{Queue: s.in.Queue, Partition: p.Name, Offset: at, MaxBytes: scanPage}}})
		if err != nil {
			return -1, err
		}
		part := &res.Parts[0]
		if part.Err != nil || len(part.Records) == 0 {
			return -1, nil // retention took it meanwhile
		}
		for i := range part.Records {
			r := &part.Records[i]
			if s.to != 0 && r.CreatedAt >= s.to {
				return -1, nil
			}
			if s.budget == 0 {
				return int64(r.Offset), nil
			}
			if s.matches(r) && !s.keep(p.Name, r) {
				return int64(r.Offset), nil
			}
			s.budget--
			s.out.Scanned++
			at = r.Offset + 1
			if !s.trace.IsZero() && len(s.out.Matches) > 0 {
				return int64(at), nil
			}
		}
		s.progress()
	}
	return -1, nil
}

// keep adds a match; false when there is no room for it.
func (s *scan) keep(partition string, r *engine.Record) bool {
	if len(s.out.Matches) == s.limit {
		return false
	}
	row, ok := s.messageRowOf(s.in.Queue, r, false, len(s.out.Matches) == 0)
	if ok {
		s.out.Matches = append(s.out.Matches, match{partition, row})
	}
	return ok
}

// matches holds a message to every criterion.
func (s *scan) matches(r *engine.Record) bool {
	switch {
	case r.CreatedAt < s.from:
		return false
	case !s.trace.IsZero() && r.TraceID != s.trace:
		return false
	case s.in.TransactionID != "" && r.TransactionID != s.in.TransactionID:
		return false
	case s.in.Contains == "" && s.in.Path == "":
		return true
	}
	shown := s.f.contentOf(s.in.Queue, r).payload // what is hidden is not found either
	if s.in.Contains != "" && !bytes.Contains(shown, []byte(s.in.Contains)) {
		return false
	}
	if s.in.Path == "" {
		return true
	}
	v, ok := pointed(shown, s.in.Path)
	return ok && bytes.Equal(v, s.want)
}

// pointed is the compact JSON at a pointer.
func pointed(payload []byte, pointer string) ([]byte, bool) {
	raw := json.RawMessage(payload)
	for step := range strings.SplitSeq(pointer[1:], "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		var object map[string]json.RawMessage
		var array []json.RawMessage
		switch {
		case json.Unmarshal(raw, &object) == nil && object != nil:
			next, ok := object[step]
			if !ok {
				return nil, false
			}
			raw = next
		case json.Unmarshal(raw, &array) == nil:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(array) {
				return nil, false
			}
			raw = array[i]
		default:
			return nil, false
		}
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil, false
	}
	text, err := json.Marshal(v)
	return text, err == nil
}
