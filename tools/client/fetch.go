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
		PayloadMasked bool
	} `json:"records"`
}

// messages are the records as Messages.
func (f *fetched) messages(queue string) []Message {
	out := make([]Message, len(f.Records))
	for i, r := range f.Records {
		out[i] = Message{Queue: queue, Partition: f.Partition, Offset: r.Offset, TransactionID: r.TransactionID,
			CreatedAt: r.TS, Data: r.Payload, Encoding: r.Encoding, ContentType: r.ContentType, Headers: r.Headers, PayloadMasked: r.PayloadMasked}
	}
	return out
}

// fetch reads by offset, as who looks: what the node's operator hides is left out. wait parks until something is there.
func (s *session) fetch(entries []fetchEntry, wait time.Duration) ([]fetched, error) {
	var answer struct{ Entries []fetched }
	_, err := s.call(request{Method: http.MethodPost, Path: "/api/v1/fetch",
		Body: map[string]any{"entries": entries, "maxWaitMs": wait.Milliseconds(), "masked": true}}, &answer)
	if err == nil && len(answer.Entries) != len(entries) {
		err = cli.Errorf(cli.Server, "%d answers for %d partitions", len(answer.Entries), len(entries))
	}
	return answer.Entries, err
}

func fetchCommand(s cli.Streams) *cobra.Command {
	var (
		entry fetchEntry
		limit int
		wait  time.Duration
		from  string
	)
	cmd := &cobra.Command{Use: "fetch QUEUE", Short: "Read messages of a partition by offset", Args: cobra.ExactArgs(1),
		Long: `Read messages of one partition from an offset on. No lease is taken and no cursor moves. Exits 4 when there is
nothing at or after the offset.`, ValidArgsFunction: arguments(completeQueue(s))}
	f := cmd.Flags()
	f.StringVarP(&entry.Partition, "partition", "p", "Default", "the partition")
	f.Uint64Var(&entry.Offset, "offset", 0, "the first message")
	f.StringVar(&from, "from", "", "the first message at or after a time, instead of --offset: "+instantHelp)
	f.IntVarP(&limit, "limit", "n", 100, "messages at most")
	f.DurationVar(&wait, "wait", 0, "wait so long for a message")
	cmd.MarkFlagsMutuallyExclusive("offset", "from")
	return messageCommand(s, cmd, messageColumns, func(s *session, out *messages, args []string) error {
		switch {
		case limit < 1:
			return cli.Errorf(cli.Usage, "--limit is at least 1")
		case wait < 0 || wait > 30*time.Second:
			return cli.Errorf(cli.Usage, "--wait %s: want 0 to 30s", wait)
		}
		entry.Queue = args[0]
		if from != "" {
			at, err := cli.ParseInstant("from", from)
			if err != nil {
				return err
			}
			offsets, err := s.offsetsAt(entry.Queue, []string{entry.Partition}, at)
			if err != nil {
				return err
			}
			entry.Offset = offsets[0]
		}
		_, err := s.fetchUpTo(entry, limit, wait, out)
		return out.end(err)
	})
}

// fetchUpTo reads answer after answer until limit messages or the end of the partition, and tells how many it were.
func (s *session) fetchUpTo(entry fetchEntry, limit int, wait time.Duration, out *messages) (n int, err error) {
	for n < limit {
		answers, err := s.fetch([]fetchEntry{entry}, wait)
		if err != nil {
			return n, err
		}
		a := &answers[0]
		if a.Error != "" {
			return n, a.refusal(entry)
		}
		messages := a.messages(entry.Queue)
		if len(messages) == 0 {
			break
		}
		for _, m := range messages[:min(len(messages), limit-n)] {
			if err := out.add(m); err != nil {
				return n, err
			}
			n++
		}
		entry.Offset, wait = messages[len(messages)-1].Offset+1, 0
	}
	return n, nil
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

// offsetAt is an answer about one partition.
type offsetAt struct {
	Error          string
	Offset         *uint64
	HighWatermark  uint64
	LogStartOffset uint64
}

// offsetsAt are the offsets of the first messages at or after an instant, the end where there is none.
func (s *session) offsetsAt(queue string, partitions []string, at cli.Instant) ([]uint64, error) {
	entries := make([]map[string]any, len(partitions))
	for i, p := range partitions {
		entries[i] = map[string]any{"queue": queue, "partition": p, "timestamp": at.Time.Format(time.RFC3339Nano)}
	}
	var answer struct{ Entries []offsetAt }
	r := request{Method: http.MethodPost, Path: "/api/v1/fetch/offsets", Body: map[string]any{"entries": entries}}
	if _, err := s.call(r, &answer); err != nil {
		return nil, err
	}
	if len(answer.Entries) != len(partitions) {
		return nil, cli.Errorf(cli.Server, "%d answers for %d partitions", len(answer.Entries), len(partitions))
	}
	offsets := make([]uint64, len(partitions))
	for i, a := range answer.Entries {
		switch {
		case a.Error != "":
			return nil, (&fetched{Error: a.Error}).refusal(fetchEntry{Queue: queue, Partition: partitions[i]})
		case at.Beginning:
			offsets[i] = a.LogStartOffset
		case at.End || a.Offset == nil:
			offsets[i] = a.HighWatermark
		default:
			offsets[i] = *a.Offset
		}
	}
	return offsets, nil
}
