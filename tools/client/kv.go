package client

import (
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

const kvPage = 1000

func kvCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "kv", Short: "Keys with versions and lifetimes"}
	cmd.AddCommand(kvGetCommand(s), kvPutCommand(s), kvDeleteCommand(s), kvIncrCommand(s), kvListCommand(s),
		kvNamespacesCommand(s), kvWatchCommand(s))
	return cmd
}

// namespaceFlag is --ns, which every command about keys needs.
func namespaceFlag(cmd *cobra.Command) *string {
	ns := cmd.Flags().String("ns", "", "the namespace: a-z, 0-9, dot, dash, underscore, 1 to 64 of them")
	required(cmd, "ns")
	return ns
}

func kvGetCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "get KEY", Short: "Show a key; exits 4 when there is none", Args: cobra.ExactArgs(1)}
	ns := namespaceFlag(cmd)
	columns := []string{"=key", "value", "version", "expiresAt", "updatedAt"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		path := "/api/v1/kv/" + url.PathEscape(*ns) + "/" + url.PathEscape(args[0])
		answer, err := s.Ask(get(path), "found")
		if err != nil {
			return err
		}
		return oneOr(out, answer, "found", cli.Nothing)
	})
}

// expiry are the flags of which a write that may create a key takes exactly one.
type expiry struct {
	ttl     time.Duration
	forever bool
}

func (e *expiry) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&e.ttl, "ttl", 0, "the key's lifetime, in whole seconds: 60s, 24h")
	cmd.Flags().BoolVar(&e.forever, "forever", false, "the key lives until it is deleted")
	cmd.MarkFlagsMutuallyExclusive("ttl", "forever")
	cmd.MarkFlagsOneRequired("ttl", "forever")
}

func (e *expiry) put(op map[string]any) error {
	if e.forever {
		op["forever"] = true
		return nil
	}
	n, err := wholeSeconds("ttl", e.ttl)
	op["ttlSeconds"] = n
	return err
}

// kvWrite sends one write and prints its verdict. One that lost against what is there exits 6.
func (s *session) kvWrite(out *cli.Printer[row], w cli.Write, op map[string]any) error {
	if w.DryRun {
		return planned(out, op)
	}
	answer, err := s.operate("/api/v1/kv", true, w.Key, "applied", op)
	if err != nil {
		return err
	}
	otherwise := cli.Partly
	if op["op"] == "delete" && op["expect"] == nil && answer.Text("reason") == "absent" {
		otherwise = cli.Nothing
	}
	return oneOr(out, answer, "applied", otherwise)
}

func kvPutCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	var e expiry
	var expect int64
	var absent bool
	var file, payload string
	cmd := &cobra.Command{Use: "put KEY [VALUE]", Short: "Set a key", Args: cobra.RangeArgs(1, 2),
		Long: `Set a key to VALUE, to what is in --file, or to standard input. What is no JSON is stored as a string.

With --expect or --if-absent the write applies only if the key is as expected; else it exits 6 and prints what is there.`}
	ns := namespaceFlag(cmd)
	e.flags(cmd)
	w.KeyFlag(cmd)
	w.DryRunFlag(cmd)
	f := cmd.Flags()
	f.Int64Var(&expect, "expect", 0, "apply only if this is the key's version; 0: only if there is no such key")
	f.BoolVar(&absent, "if-absent", false, "apply only if there is no such key")
	f.StringVar(&file, "file", "", "read the value from a file; - is standard input")
	f.StringVar(&payload, "payload", "auto", "how the value is written: auto, json, utf8, none (null)")
	cmd.MarkFlagsMutuallyExclusive("expect", "if-absent")
	columns := []string{"=key", "applied", "reason", "version", "value", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		op := map[string]any{"op": "put", "ns": *ns, "key": args[0]}
		if err := e.put(op); err != nil {
			return err
		}
		if absent {
			op["op"] = "putIfAbsent"
		}
		if f.Changed("expect") {
			op["expect"] = expect
		}
		if err := checkPayload(payload); err != nil {
			return err
		}
		var text []byte
		if payload != "none" {
			var err error
			if text, err = s.document(optional(args, 1), file); err != nil {
				return err
			}
		}
		value, raw, err := readPayload(payload, text)
		if err != nil || raw != nil {
			return cli.Errorf(cli.Usage, "the value of a key is JSON or text: %.60q", text)
		}
		op["value"] = value
		return s.kvWrite(out, w, op)
	})
}

func kvDeleteCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	var expect int64
	cmd := &cobra.Command{Use: "delete KEY", Short: "Delete a key; exits 4 when there is none, 6 when it is another version",
		Args: cobra.ExactArgs(1)}
	ns := namespaceFlag(cmd)
	w.KeyFlag(cmd)
	w.DryRunFlag(cmd)
	cmd.Flags().Int64Var(&expect, "expect", 0, "apply only if this is the key's version")
	columns := []string{"=key", "applied", "reason", "version", "value", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		op := map[string]any{"op": "delete", "ns": *ns, "key": args[0]}
		if cmd.Flags().Changed("expect") {
			op["expect"] = expect
		}
		return s.kvWrite(out, w, op)
	})
}

func kvIncrCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	var e expiry
	var lowest, highest int64
	cmd := &cobra.Command{Use: "incr KEY", Short: "Add to a counter; exits 6 when a limit is in the way",
		Args: cobra.ExactArgs(1), Long: `Add to a counter, which begins at 0. Its lifetime counts from the call that begins it.

A repeated call counts again, unless both have the same --idempotency-key.`}
	ns := namespaceFlag(cmd)
	e.flags(cmd)
	w.KeyFlag(cmd)
	w.DryRunFlag(cmd)
	f := cmd.Flags()
	by := f.Int64("by", 1, "how much to add; may be below 0")
	f.Int64Var(&lowest, "min", 0, "refuse a result below this")
	f.Int64Var(&highest, "max", 0, "refuse a result above this")
	columns := []string{"=key", "applied", "reason", "version", "value", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		op := map[string]any{"op": "incr", "ns": *ns, "key": args[0], "delta": *by}
		if err := e.put(op); err != nil {
			return err
		}
		if f.Changed("min") {
			op["min"] = lowest
		}
		if f.Changed("max") {
			op["max"] = highest
		}
		return s.kvWrite(out, w, op)
	})
}

func kvListCommand(s cli.Streams) *cobra.Command {
	var after string
	var limit int
	var keysOnly, expired, snapshot bool
	cmd := &cobra.Command{Use: "list [PREFIX]", Short: "List the keys of a namespace, in the order of their bytes",
		Args: cobra.MaximumNArgs(1), Long: `List the keys of a namespace, in the order of their bytes.

Keys are read a page at a time. With --snapshot all of them are as they were at one moment; a listing that takes too long for
that ends with an error (snapshot_expired), and what it printed until then is of that moment.`}
	ns := namespaceFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&after, "after", "", "begin behind this key")
	f.IntVarP(&limit, "limit", "n", 0, "end after so many keys; 0: all")
	f.BoolVar(&keysOnly, "keys-only", false, "leave the values out")
	f.BoolVar(&expired, "expired", false, "also those that have expired and are not swept yet")
	f.BoolVar(&snapshot, "snapshot", false, "all keys as they were at one moment")
	columns := []string{"=key", "value", "version", "expiresAt", "updatedAt"}
	return rowCommand(s, cmd, "ndjson", columns, func(s *session, out *cli.Printer[row], args []string) error {
		body := map[string]any{"namespace": *ns, "keysOnly": keysOnly, "includeExpired": expired}
		if len(args) == 1 {
			body["prefix"] = args[0]
		}
		if snapshot {
			body["snapshot"] = "new"
		}
		page := func(limit int, after string) request {
			body["limit"], body["after"] = limit, after
			return request{Method: http.MethodPost, Path: "/api/v1/resources/kv/list", Body: body}
		}
		return s.eachPage(limit, after, page, func(rows []row, answer row) error {
			if snapshot {
				if body["snapshot"] = answer.Text("snapshot"); body["snapshot"] == "" && answer.Text("nextAfter") != "" {
					return s.Stranger("snapshot: it is missing, and more pages follow")
				}
			}
			return out.AddAll(rows)
		})
	})
}

// pages prints a listing that continues after the last key of a page; limit 0 is all of it.
func (s *session) pages(out *cli.Printer[row], limit int, after string, page func(limit int, after string) request) error {
	return s.eachPage(limit, after, page, func(rows []row, _ row) error { return out.AddAll(rows) })
}

// eachPage hands on the pages of such a listing, each with the answer that it came in.
func (s *session) eachPage(limit int, after string, page func(limit int, after string) request,
	take func(rows []row, answer row) error) error {
	if limit < 0 {
		return cli.Errorf(cli.Usage, "--limit is at least 0")
	}
	for left := limit; ; {
		n := kvPage
		if limit > 0 {
			n = min(n, left)
		}
		rows, answer, err := s.AskList(page(n, after), "rows")
		if err != nil {
			return err
		}
		if err := take(rows, answer); err != nil {
			return err
		}
		left -= len(rows)
		next := answer.Text("nextAfter")
		if next == "" || next == after || limit > 0 && left <= 0 {
			return nil
		}
		after = next
	}
}

func kvNamespacesCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "namespaces", Short: "List namespaces with their number of keys", Args: cobra.NoArgs}
	return rowCommand(s, cmd, "json", []string{"=namespace", "keys"}, func(s *session, out *cli.Printer[row], _ []string) error {
		rows, _, err := s.AskList(get("/api/v1/resources/kv/namespaces"), "namespaces")
		if err != nil {
			return err
		}
		return out.AddAll(rows)
	})
}
