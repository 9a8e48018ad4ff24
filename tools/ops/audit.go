package ops

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// auditQueue is where a node keeps records of what was done through it, in the tenant of who did it.
const auditQueue = "queen.audit"

// auditFlags choose records.
type auditFlags struct {
	subject, tool, verdict, from, to string
	limit                            int
}

func auditCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Look at the records of what was done"}
	list := &cobra.Command{Use: "list", Short: "List records of calls that changed something, the newest last", Args: cobra.NoArgs,
		Long: `List the records of calls that changed or may have changed something through the MCP server: when, by whom, which tool, the
digest of its arguments and the verdict. They are read by offset from the queue queen.audit; no consumer group is touched.
Exits 4 when there is none that matches.`}
	var f auditFlags
	fl := list.Flags()
	fl.StringVar(&f.subject, "subject", "", "only what this caller did")
	fl.StringVar(&f.tool, "tool", "", "only calls of this tool")
	fl.StringVar(&f.verdict, "verdict", "", "only this verdict: done, or the code of a refusal")
	fl.StringVar(&f.from, "from", "", "from this time on, as 24h ago or RFC 3339")
	fl.StringVar(&f.to, "to", "", "before this time")
	fl.IntVarP(&f.limit, "limit", "n", 100, "the last so many, 1 to 10000")
	columns := cli.RowColumns("at", "subject", "tool", "verdict", "client", "+tenant", "+arguments_sha256", "+traceparent", "+offset")
	cmd.AddCommand(remote.Command(s, list, "ndjson", columns,
		func(c *remote.Conn, out *cli.Printer[cli.Row], _ []string) error {
			rows, err := f.list(c)
			if err != nil {
				return err
			}
			if err := out.AddAll(rows); err != nil {
				return err
			}
			if len(rows) == 0 {
				return cli.Exit(cli.Nothing)
			}
			return nil
		}))
	return cmd
}

// list reads every partition of the queue from the first time on and keeps the last records that match.
func (f *auditFlags) list(c *remote.Conn) (rows []cli.Row, err error) {
	if f.limit < 1 || f.limit > 10_000 {
		return nil, cli.Errorf(cli.Usage, "--limit %d: want 1 to 10000", f.limit)
	}
	from, to := "", ""
	for flag, at := range map[string]*string{"from": &from, "to": &to} {
		given := map[string]string{"from": f.from, "to": f.to}[flag]
		if given == "" {
			continue
		}
		t, err := cli.ParseTime(flag, given)
		if err != nil {
			return nil, err
		}
		*at = t.Format("2006-01-02T15:04:05.000000Z")
	}
	var queue struct{ Partitions []struct{ Name string } }
	err = get(c, "/api/v1/resources/queues/"+url.PathEscape(auditQueue), nil, &queue)
	if remote.Status(err) == http.StatusNotFound { // nothing was ever done
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := expect(c, queue.Partitions, "partitions"); err != nil {
		return nil, err
	}
	for _, p := range queue.Partitions {
		found, err := f.partition(c, p.Name, from, to)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	slices.SortStableFunc(rows, func(a, b cli.Row) int { return strings.Compare(a.Text("at"), b.Text("at")) })
	return rows[max(0, len(rows)-f.limit):], nil
}

// fetched is what one read of a partition gave.
type fetched struct {
	Entries []struct {
		Error         string
		HighWatermark uint64
		Records       []struct {
			Offset  uint64
			Payload json.RawMessage
		}
	}
}

// partition reads one, and keeps the last records that match.
func (f *auditFlags) partition(c *remote.Conn, name, from, to string) (rows []cli.Row, err error) {
	next, err := firstOffset(c, name, from)
	if err != nil {
		return nil, err
	}
	for {
		var a fetched
		body := map[string]any{"entries": []any{map[string]any{"queue": auditQueue, "partition": name, "offset": next}}}
		if _, err := c.Call(c.Ctx, remote.Request{Method: http.MethodPost, Path: "/api/v1/fetch", Body: body}, &a); err != nil {
			return nil, err
		}
		if len(a.Entries) != 1 || a.Entries[0].Error != "" {
			return nil, cli.Errorf(cli.Server, "%s did not serve %s from offset %d", c.URL, auditQueue, next)
		}
		for _, r := range a.Entries[0].Records {
			next = r.Offset + 1
			var row cli.Row
			if json.Unmarshal(r.Payload, &row) != nil || row == nil || !f.matches(row, from, to) {
				continue
			}
			row.Set("offset", r.Offset)
			if rows = append(rows, row); len(rows) > 2*f.limit {
				rows = slices.Clone(rows[len(rows)-f.limit:])
			}
		}
		if len(a.Entries[0].Records) == 0 {
			return rows, nil
		}
	}
}

func (f *auditFlags) matches(row cli.Row, from, to string) bool {
	at := row.Text("at")
	return (f.subject == "" || row.Text("subject") == f.subject) && (f.tool == "" || row.Text("tool") == f.tool) &&
		(f.verdict == "" || row.Text("verdict") == f.verdict) && (from == "" || at >= from) && (to == "" || at < to)
}

// firstOffset is where a partition's records from a time on begin: at 0 without one.
func firstOffset(c *remote.Conn, partition, from string) (uint64, error) {
	timestamp := from
	if timestamp == "" {
		timestamp = "1970-01-01T00:00:01Z"
	}
	var a struct {
		Entries []struct {
			Error         string
			Offset        *uint64
			HighWatermark uint64
		}
	}
	body := map[string]any{"entries": []any{map[string]any{"queue": auditQueue, "partition": partition, "timestamp": timestamp}}}
	if _, err := c.Call(c.Ctx, remote.Request{Method: http.MethodPost, Path: "/api/v1/fetch/offsets", Body: body}, &a); err != nil {
		return 0, err
	}
	switch {
	case len(a.Entries) != 1 || a.Entries[0].Error != "":
		return 0, cli.Errorf(cli.Server, "%s did not find the time in %s", c.URL, auditQueue)
	case a.Entries[0].Offset == nil: // nothing since
		return a.Entries[0].HighWatermark, nil
	}
	return *a.Entries[0].Offset, nil
}
