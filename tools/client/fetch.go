package client

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// fetchEntry asks for the messages of a partition from an offset.
type fetchEntry struct {
	Queue     string `json:"queue"`
	Partition string `json:"partition"`
	Offset    uint64 `json:"offset"`
	MaxBytes  int    `json:"maxBytes,omitempty"`
}

// fetched is the answer to one fetchEntry.
type fetched struct {
	Error          string `json:"error"`
	HighWatermark  uint64 `json:"highWatermark"`
	LogStartOffset uint64 `json:"logStartOffset"`
	Partition      string `json:"partition"`
	Records        []struct {
		Offset        uint64
		TransactionID string
		Payload       json.RawMessage
		TS            string
		Encoding      string
		ContentType   string
		Headers       json.RawMessage
	} `json:"records"`
}

// messages are the records as Messages.
func (f *fetched) messages(queue string) []Message {
	out := make([]Message, len(f.Records))
	for i, r := range f.Records {
		out[i] = Message{Queue: queue, Partition: f.Partition, Offset: r.Offset, TransactionID: r.TransactionID,
			CreatedAt: r.TS, Data: r.Payload, Encoding: r.Encoding, ContentType: r.ContentType, Headers: r.Headers}
	}
	return out
}

// fetch reads by offset; wait parks until something is there.
func (s *session) fetch(entries []fetchEntry, wait time.Duration) ([]fetched, error) {
	var answer struct{ Entries []fetched }
	_, err := s.call(s.ctx, request{method: http.MethodPost, path: "/api/v1/fetch",
		body: map[string]any{"entries": entries, "maxWaitMs": wait.Milliseconds()}}, &answer)
	if err == nil && len(answer.Entries) != len(entries) {
		err = cli.Errorf(cli.Server, "%d answers for %d partitions", len(answer.Entries), len(entries))
	}
	return answer.Entries, err
}

func fetchCommand(s cli.Streams) *cobra.Command {
	var (
		entry   fetchEntry
		limit   int
		wait    time.Duration
		payload string
	)
	cmd := &cobra.Command{Use: "fetch QUEUE", Short: "Read messages of a partition by offset", Args: cobra.ExactArgs(1),
		Long: `Read messages of one partition from an offset on. No lease is taken and no cursor moves. Exits 4 when there is
nothing at or after the offset.`}
	f := cmd.Flags()
	f.StringVarP(&entry.Partition, "partition", "p", "Default", "the partition")
	f.Uint64Var(&entry.Offset, "offset", 0, "the first message")
	f.IntVarP(&limit, "limit", "n", 100, "messages at most")
	f.DurationVar(&wait, "wait", 0, "wait so long for a message")
	f.StringVar(&payload, "payload", "auto", "how payloads are printed: auto, json, utf8, base64, hex, none")
	return command(s, cmd, "ndjson", func(s *session, args []string) error {
		switch {
		case limit < 1:
			return cli.Errorf(cli.Usage, "--limit is at least 1")
		case wait < 0 || wait > 30*time.Second:
			return cli.Errorf(cli.Usage, "--wait %s: want 0 to 30s", wait)
		}
		if err := checkPayload(payload); err != nil {
			return err
		}
		entry.Queue = args[0]
		return s.fetchUpTo(entry, limit, wait, payload)
	})
}

// fetchUpTo reads answer after answer until limit messages or the end of the partition.
func (s *session) fetchUpTo(entry fetchEntry, limit int, wait time.Duration, payload string) error {
	out := printer(s, messageColumns)
	n := 0
	for n < limit {
		answers, err := s.fetch([]fetchEntry{entry}, wait)
		if err != nil {
			return err
		}
		a := &answers[0]
		if a.Error != "" {
			return a.refusal(entry)
		}
		messages := a.messages(entry.Queue)
		if len(messages) == 0 {
			break
		}
		for _, m := range messages[:min(len(messages), limit-n)] {
			m.show(payload)
			if err := out.Add(m); err != nil {
				return err
			}
			n++
		}
		entry.Offset, wait = messages[len(messages)-1].Offset+1, 0
	}
	if err := out.Close(); err != nil {
		return err
	}
	if n == 0 {
		return cli.Exit(cli.Nothing)
	}
	return nil
}

func (f *fetched) refusal(e fetchEntry) error {
	switch f.Error {
	case "UNKNOWN_TOPIC_OR_PARTITION":
		return cli.Errorf(cli.Usage, "there is no queue %s", e.Queue)
	case "OFFSET_OUT_OF_RANGE":
		return cli.Errorf(cli.Usage, "offset %d is out of range: the partition has %d to %d", e.Offset, f.LogStartOffset,
			f.HighWatermark)
	}
	return cli.Errorf(cli.Server, "partition %s: %s", e.Partition, f.Error)
}
