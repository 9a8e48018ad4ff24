package frontendmcp

import (
	"cmp"
	"encoding/hex"
	"slices"

	"queen/engine"
	"queen/engine/format"
)

type deadRow struct {
	ID            string `json:"dlq_id"`
	Queue         string `json:"queue"`
	Partition     string `json:"partition"`
	PartitionID   string `json:"partition_id"`
	Group         string `json:"group"`
	Offset        string `json:"offset"`
	TransactionID string `json:"transaction_id"`
	Error         string `json:"error"`
	Attempts      uint32 `json:"attempts" jsonschema:"failures that were charged to it"`
	FailedAt      string `json:"failed_at"`
	Size          int    `json:"size"`
}

type errorCount struct {
	Error string `json:"error"`
	Count int    `json:"count"`
}

type dlqArgs struct {
	Queue         string `json:"queue,omitempty"`
	Group         string `json:"group,omitempty"`
	Partition     string `json:"partition,omitempty"`
	ErrorContains string `json:"error_contains,omitempty"`
	Listing
}

type dlqList struct {
	Meta
	Rows    []deadRow    `json:"rows"`
	ByError []errorCount `json:"by_error" jsonschema:"of the newest 1000 that match"`
}

func dlqTools() []*tool {
	return []*tool{
		row(tool{name: "dlq_list", title: "List dead letters", toolset: "dlq",
			text: "Messages that were given up, newest first, with the error that their worker told, and the errors counted."}, dlqListing),
	}
}

func dlqListing(c *call, in dlqArgs) (out dlqList, err error) {
	limit, err := c.bounds(in.Listing)
	if err != nil {
		return out, err
	}
	at, err := c.resume(in.Cursor, in.Queue, in.Group, in.Partition, in.ErrorContains)
	if err != nil {
		return out, err
	}
	f := engine.DeadLetterFilter{Queue: in.Queue, Group: in.Group, Partition: in.Partition, Error: in.ErrorContains, Limit: 1000}
	sample, err := c.engine.Catalog().DeadLetters(c.ctx, c.caller, f)
	if err != nil {
		return out, err
	}
	out.Meta = c.meta()
	out.Untrusted = true
	out.ByError = countErrors(sample)
	for _, e := range out.ByError {
		c.take(e)
	}
	f.Skip, f.Limit = at.Skip, limit+1
	page := sample[min(at.Skip, len(sample)):]
	if at.Skip+limit+1 > len(sample) && len(sample) == 1000 {
		if page, err = c.engine.Catalog().DeadLetters(c.ctx, c.caller, f); err != nil {
			return out, err
		}
	}
	rows := []deadRow{}
	for i := range page[:min(len(page), limit+1)] {
		rows = append(rows, deadRowOf(&page[i]))
	}
	more := len(rows) > limit
	out.Rows, _ = fit(c, rows[:min(len(rows), limit)])
	if more || len(out.Rows) < len(rows) {
		out.NextCursor = place{Skip: at.Skip + len(out.Rows), Of: at.Of}.text()
		c.cut(&out.Meta, -1, goOn)
	}
	return out, nil
}

func deadRowOf(d *engine.DeadLetter) deadRow {
	row := deadRow{ID: hex.EncodeToString(d.ID[:]), Queue: d.Queue, Partition: d.Partition, PartitionID: digits(uint64(d.PartitionID)),
		Group: d.Group, Offset: digits(uint64(d.Message.Offset)), TransactionID: d.Message.TransactionID, Error: d.Error,
		Attempts: d.Retries, FailedAt: timeText(d.FailedAt), Size: len(d.Message.Payload)}
	if d.Timer != "" {
		row.Offset = "" // what a timer could not fire was never stored
	}
	return row
}

// countErrors counts equal errors, the most frequent first, ten at most.
func countErrors(rows []engine.DeadLetter) []errorCount {
	counts := map[string]int{}
	for i := range rows {
		counts[rows[i].Error]++
	}
	out := make([]errorCount, 0, len(counts))
	for text, n := range counts {
		if len(text) > 256 {
			continue // rows show it
		}
		out = append(out, errorCount{text, n})
	}
	slices.SortFunc(out, func(a, b errorCount) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error)) })
	return out[:min(len(out), 10)]
}

// deadID reads the id of a dead letter.
func deadID(text string) (id format.DeadLetterID, ok bool) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return id, false
	}
	copy(id[:], raw)
	return id, true
}
