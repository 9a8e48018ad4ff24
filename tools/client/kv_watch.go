package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

func kvWatchCommand(s cli.Streams) *cobra.Command {
	var from uint64
	var limit int
	cmd := &cobra.Command{Use: "watch [PREFIX]", Short: "Follow the changes of a namespace", Args: cobra.MaximumNArgs(1),
		Long: `Print changes as they come, until a signal or --limit. When the connection ends it exits 2; the version of
the last change, as --from-version, continues where it ended.`}
	ns := namespaceFlag(cmd)
	cmd.Flags().Uint64Var(&from, "from-version", 0, "first print what is newer than this version; 0: from now on")
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "end after so many changes; 0 goes on")
	return rowCommand(s, cmd, "ndjson", []string{"=key", "value", "version", "deleted"}, func(s *session, out *cli.Printer[row], args []string) error {
		if limit < 0 {
			return cli.Errorf(cli.Usage, "--limit is at least 0")
		}
		q := url.Values{"ns": {*ns}}
		if len(args) == 1 {
			q.Set("prefix", args[0])
		}
		if from > 0 {
			q.Set("fromVersion", strconv.FormatUint(from, 10))
		}
		err := s.watch("/api/v1/kv/watch?"+q.Encode(), limit, func(change row) error {
			return errors.Join(out.Add(change), out.Flush())
		})
		if s.Ctx.Err() != nil {
			return cli.Exit(cli.Interrupted)
		}
		return err
	})
}

// watch reads an event stream until limit changes were seen; limit 0 reads on.
func (s *session) watch(path string, limit int, each func(row) error) error {
	r := get(path)
	r.Accept = "text/event-stream"
	res, err := s.Open(s.Ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	in, seen := bufio.NewReaderSize(res.Body, 1<<16), 0
	for {
		event, data, err := nextEvent(in)
		if err != nil {
			return cli.Errorf(cli.Server, "the stream ended: %w", err)
		}
		switch event {
		case "lost":
			fmt.Fprintln(s.Err, "queen: deletions before the next change may be missing")
		case "error":
			return cli.Errorf(cli.Server, "the node ended the stream: %s", data)
		case "change":
			var change row
			if err := json.Unmarshal(data, &change); err != nil {
				return cli.Errorf(cli.Server, "a change that is no JSON: %w", err)
			}
			if err := each(change); err != nil {
				return err
			}
			if seen++; seen == limit {
				return nil
			}
		}
	}
}

// nextEvent reads one event of a stream: its name and its data. Comments and other fields are passed over.
func nextEvent(in *bufio.Reader) (event string, data []byte, err error) {
	for {
		line, end, err := readLine(in)
		if err != nil {
			return "", nil, err
		}
		field, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case len(line) == 0 && event != "" && !end:
			return event, data, nil
		case len(line) == 0 && !end:
			data = nil // what has no name is none of this route's events
		case end:
			return "", nil, io.EOF
		case field == "event":
			event = value
		case field == "data":
			data = append(data, value...)
		}
		if len(data) > lineMax {
			return "", nil, fmt.Errorf("an event is longer than 64 MiB")
		}
	}
}
