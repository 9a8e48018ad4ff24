package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"queen/tools/cli"
)

const (
	// lineMax bounds a line of standard input: the largest body that a node takes by default.
	lineMax = 64 << 20
	// Lines of standard input travel together up to these, or as soon as no more are waiting.
	pushItemsMax = 1000
	pushBytesMax = 4 << 20
)

// pushItem is a message on its way in. raw is set for bytes that are not JSON.
type pushItem struct {
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition,omitempty"`
	TransactionID string          `json:"transactionId"`
	Payload       json.RawMessage `json:"payload"`
	raw           []byte
}

// pushed is the verdict on one message. Status is queued, duplicate, error, or unknown when the answer was lost.
type pushed struct {
	Queue         string  `json:"queue"`
	Partition     string  `json:"partition"`
	TransactionID string  `json:"transactionId"`
	Status        string  `json:"status"`
	Offset        *uint64 `json:"offset,omitempty"`
	MessageID     string  `json:"messageId,omitempty"`
	Error         string  `json:"error,omitempty"`
}

var pushedColumns = []cli.Column[pushed]{
	{Head: "partition", Cell: func(r pushed) string { return r.Partition }},
	{Head: "status", Cell: func(r pushed) string { return r.Status }},
	{Head: "offset", Cell: func(r pushed) string {
		if r.Offset == nil {
			return "-"
		}
		return strconv.FormatUint(*r.Offset, 10)
	}},
	{Head: "transaction id", Cell: func(r pushed) string { return r.TransactionID }},
	{Head: "error", Cell: func(r pushed) string { return r.Error }},
}

// pusher runs one push command.
type pusher struct {
	*session
	queue, partition, transaction, payload string
	wrapped, dryRun                        bool

	out *cli.Printer[pushed]
	// taken counts the messages of the input, all those that were sent.
	taken, all, failed int
}

func pushCommand(s cli.Streams) *cobra.Command {
	p := pusher{}
	cmd := &cobra.Command{Use: "push QUEUE [PAYLOAD...]", Short: "Push messages",
		Long: `Push each PAYLOAD as a message, or each line of standard input when there is none.

With --wrapped a line is a JSON object with "payload" (or "data") and optionally "partition", "transactionId" and
"encoding":"base64", which is what pop, fetch and tail print.`,
		Args: cobra.MinimumNArgs(1)}
	f := cmd.Flags()
	f.StringVarP(&p.partition, "partition", "p", "Default", "the partition: the entity that the messages are about")
	f.StringVar(&p.transaction, "transaction-id", "", "the id that makes a repetition a duplicate; for one message")
	f.StringVar(&p.payload, "payload", "auto", "how payloads are written: auto, json, utf8, base64, hex, none")
	f.BoolVar(&p.wrapped, "wrapped", false, "lines are JSON objects with payload, partition and transactionId")
	f.BoolVar(&p.dryRun, "dry-run", false, "print what would be pushed")
	return command(s, cmd, "ndjson", func(s *session, args []string) error {
		p.session, p.queue, p.out = s, args[0], printer(s, pushedColumns)
		return p.run(args[1:])
	})
}

func (p *pusher) run(args []string) error {
	if err := checkPayload(p.payload); err != nil {
		return err
	}
	if p.transaction != "" && len(args) != 1 {
		return cli.Errorf(cli.Usage, "--transaction-id is for one message: give one PAYLOAD")
	}
	err := p.read(args)
	if closed := p.out.Close(); err == nil {
		err = closed
	}
	switch {
	case err != nil:
		return err
	case p.all == 0:
		return cli.Exit(cli.Nothing)
	case p.failed > 0:
		return cli.Exit(cli.Partly)
	}
	return nil
}

func (p *pusher) read(args []string) error {
	if len(args) > 0 {
		var items []pushItem
		for _, a := range args {
			item, err := p.item([]byte(a))
			if err != nil {
				return err
			}
			items = append(items, item)
		}
		return p.send(items)
	}
	in := bufio.NewReaderSize(p.input(), 1<<20)
	var items []pushItem
	size := 0
	for {
		line, end, err := readLine(in)
		if err != nil {
			return p.badInput(err)
		}
		if len(line) > 0 {
			item, err := p.item(line)
			if err != nil {
				return errors.Join(err, p.send(items))
			}
			items, size = append(items, item), size+len(line)
		}
		if end || in.Buffered() == 0 || len(items) == pushItemsMax || size >= pushBytesMax {
			if err := p.send(items); err != nil || end {
				return err
			}
			items, size = nil, 0
		}
	}
}

// readLine reads a line without its end.
func readLine(in *bufio.Reader) (line []byte, end bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > lineMax:
			return nil, true, errors.New("a line is longer than 64 MiB")
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), false, nil
		case errors.Is(err, io.EOF):
			return bytes.TrimRight(line, "\r\n"), true, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, true, err
		}
	}
}

// item reads one message of the command line or of standard input.
func (p *pusher) item(text []byte) (pushItem, error) {
	item := pushItem{Queue: p.queue, Partition: p.partition, TransactionID: p.transaction}
	p.taken++
	var err error
	if p.wrapped {
		err = item.unwrap(text)
	} else {
		item.Payload, item.raw, err = readPayload(p.payload, text)
	}
	if err != nil {
		return item, cli.Errorf(cli.Usage, "message %d: %w", p.taken, err)
	}
	if item.TransactionID == "" {
		item.TransactionID = uuid.Must(uuid.NewV7()).String()
	}
	return item, nil
}

func (i *pushItem) unwrap(text []byte) error {
	var w struct {
		Partition, TransactionID, Encoding string
		Payload, Data                      json.RawMessage
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	if w.Payload == nil {
		w.Payload = w.Data
	}
	if w.Payload == nil {
		return errors.New("a wrapped message needs payload or data")
	}
	if w.Partition != "" {
		i.Partition = w.Partition
	}
	if w.TransactionID != "" {
		i.TransactionID = w.TransactionID
	}
	if w.Encoding == "" {
		i.Payload = w.Payload
		return nil
	}
	var encoded string
	if err := json.Unmarshal(w.Payload, &encoded); err != nil {
		return errors.New("a payload with an encoding must be a string")
	}
	if err := checkPayload(w.Encoding); err != nil {
		return err
	}
	var err error
	i.Payload, i.raw, err = readPayload(w.Encoding, []byte(encoded))
	return err
}

// send pushes items in order: JSON ones together, bytes one by one on their own route.
func (p *pusher) send(items []pushItem) error {
	for len(items) > 0 {
		n := 0
		for n < len(items) && items[n].raw == nil {
			n++
		}
		var err error
		if n > 0 {
			err = p.call(items[:n], request{method: http.MethodPost, path: "/api/v1/push", write: true,
				body: map[string]any{"items": items[:n]}})
		} else {
			n = 1
			err = p.call(items[:1], items[0].rawRequest())
		}
		if err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

func (i *pushItem) rawRequest() request {
	q := url.Values{"queue": {i.Queue}, "partition": {i.Partition}, "transactionId": {i.TransactionID}}
	return request{method: http.MethodPost, path: "/api/v1/push/raw?" + q.Encode(), write: true,
		raw: i.raw, contentType: "application/octet-stream"}
}

func (p *pusher) call(items []pushItem, r request) error {
	var answer []struct {
		MessageID string  `json:"message_id"`
		Status    string  `json:"status"`
		Offset    *uint64 `json:"offset"`
		Error     string  `json:"error"`
	}
	p.all += len(items)
	if p.dryRun {
		return p.report(items, func(int, *pushed) string { return "planned" })
	}
	_, err := p.api.call(p.ctx, r, &answer)
	switch {
	case cli.Code(err) == cli.OutcomeUnknown:
		return errors.Join(p.report(items, func(int, *pushed) string { return "unknown" }), err)
	case err != nil:
		return err
	case len(answer) != len(items):
		return cli.Errorf(cli.Server, "%d verdicts for %d messages", len(answer), len(items))
	}
	return p.report(items, func(i int, row *pushed) string {
		a := answer[i]
		row.Offset, row.MessageID, row.Error = a.Offset, a.MessageID, a.Error
		if a.Status != "queued" && a.Status != "duplicate" {
			p.failed++
		}
		return a.Status
	})
}

func (p *pusher) report(items []pushItem, verdict func(int, *pushed) string) error {
	for i, item := range items {
		row := pushed{Queue: item.Queue, Partition: item.Partition, TransactionID: item.TransactionID}
		row.Status = verdict(i, &row)
		if err := p.out.Add(row); err != nil {
			return err
		}
	}
	return nil
}
