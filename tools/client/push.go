package client

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"queen/tools/cli"
)

const (
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
	contentType   string
	header        http.Header
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
	{Head: "queue", Wide: true, Cell: func(r pushed) string { return r.Queue }},
	{Head: "partition", Cell: func(r pushed) string { return r.Partition }},
	{Head: "status", Cell: func(r pushed) string { return r.Status }},
	{Head: "offset", Cell: func(r pushed) string {
		if r.Offset == nil {
			return "-"
		}
		return strconv.FormatUint(*r.Offset, 10)
	}},
	{Head: "transaction id", Key: true, Cell: func(r pushed) string { return r.TransactionID }},
	{Head: "error", Cell: func(r pushed) string { return r.Error }},
}

// pusher runs one push command.
type pusher struct {
	*session
	queue, partition, transaction, payload string
	wrapped                                bool
	w                                      cli.Write

	out *cli.Printer[pushed]
	// batch is what was taken of the input and not sent, and bytes its size.
	batch []pushItem
	bytes int
	// taken counts the messages of the input, all those that were sent.
	taken, all, failed int
}

func pushCommand(s cli.Streams) *cobra.Command {
	p := pusher{}
	cmd := &cobra.Command{Use: "push QUEUE [PAYLOAD...]", Short: "Push messages",
		Long: `Push each PAYLOAD as a message, or each line of standard input when there is none.

With --wrapped the input is JSON objects with "payload" (or "data") and optionally "partition", "transactionId",
"encoding":"base64", "contentType" and "headers", which is what pop, peek, fetch and tail print with -o json or ndjson. A
payload that is JSON loses the spaces between its parts; printed with --payload base64, it keeps every byte.`,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: arguments(completeQueue(s))}
	f := cmd.Flags()
	f.StringVarP(&p.partition, "partition", "p", "Default", "the partition: the entity that the messages are about")
	f.StringVar(&p.transaction, "transaction-id", "", "the id that makes a repetition a duplicate; for one message")
	f.StringVar(&p.payload, "payload", "auto", "how payloads are written: auto, json, utf8, base64, hex, none")
	f.BoolVar(&p.wrapped, "wrapped", false, "messages are JSON objects with payload, partition and transactionId")
	p.w.DryRunFlag(cmd)
	completePayload(cmd)
	return command(s, cmd, "ndjson", pushedColumns, func(s *session, out *cli.Printer[pushed], args []string) error {
		p.session, p.queue, p.out = s, args[0], out
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
	if err := p.read(args); err != nil {
		return err
	}
	switch {
	case p.all == 0:
		return cli.Exit(cli.Nothing)
	case p.failed > 0:
		return cli.Exit(cli.Partly)
	}
	return nil
}

func (p *pusher) read(args []string) (err error) {
	if len(args) > 0 {
		for _, a := range args {
			item, err := p.item([]byte(a))
			if err != nil {
				return err
			}
			p.batch = append(p.batch, item)
		}
		return p.send()
	}
	if p.wrapped {
		err = p.objects(func(value json.RawMessage, waits bool) error { return p.take(value, waits) })
	} else {
		err = p.lines(p.take)
	}
	return p.alsoSend(err, p.send)
}

// take reads a message of the input, and pushes what it has so far when it is enough, or when no more has come yet.
func (p *pusher) take(text []byte, waits bool) error {
	item, err := p.item(text)
	if err != nil {
		return err
	}
	p.batch, p.bytes = append(p.batch, item), p.bytes+len(text)
	if waits || len(p.batch) == pushItemsMax || p.bytes >= pushBytesMax {
		return p.send()
	}
	return nil
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

// wrapped is a message in an object.
type wrappedMessage struct {
	Partition, TransactionID, Encoding, ContentType string
	Payload, Data                                   json.RawMessage
	Headers                                         []messageHeader
	PayloadMasked                                   bool
}

// messageHeader is a header as messages are printed with it.
type messageHeader struct{ Name, Value, Encoding string }

func (i *pushItem) unwrap(text []byte) error {
	var w wrappedMessage
	if len(text) == 0 {
		return errors.New("not JSON")
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	if w.PayloadMasked {
		return errors.New("parts of its payload are hidden (payloadMasked): what is pushed would lack them")
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
	if err := i.setHeaders(w.Headers); err != nil {
		return err
	}
	i.contentType = w.ContentType
	if w.Encoding == "" {
		var compact bytes.Buffer // -o json indents what it nests
		if err := json.Compact(&compact, w.Payload); err != nil {
			return err
		}
		i.Payload, w.Payload = compact.Bytes(), compact.Bytes()
		if i.header != nil || w.ContentType != "" { // which only the route of bytes takes
			i.raw = w.Payload
			i.contentType = cmp.Or(w.ContentType, jsonType)
		}
		return nil
	}
	var encoded string
	if err := json.Unmarshal(w.Payload, &encoded); err != nil {
		return errors.New("a payload with an encoding must be a string")
	}
	if err := checkPayload(w.Encoding); err != nil {
		return err
	}
	if w.Encoding == "utf8" && w.ContentType != "" {
		i.raw = []byte(encoded)
		return nil
	}
	var err error
	i.Payload, i.raw, err = readPayload(w.Encoding, []byte(encoded))
	if i.raw == nil && i.header != nil {
		i.raw, i.contentType = i.Payload, jsonType
	}
	return err
}

// setHeaders turns headers into those of the route of bytes: names and values percent-encoded.
func (i *pushItem) setHeaders(headers []messageHeader) error {
	for _, h := range headers {
		value := []byte(h.Value)
		switch h.Encoding {
		case "":
		case "base64":
			var err error
			if value, err = base64.StdEncoding.DecodeString(h.Value); err != nil {
				return fmt.Errorf("header %s: %w", h.Name, err)
			}
		default:
			return fmt.Errorf("header %s: unknown encoding %s", h.Name, h.Encoding)
		}
		if i.header == nil {
			i.header = http.Header{}
		}
		name := "Queen-H-" + percent([]byte(h.Name))
		i.header[name] = append(i.header[name], percent(value))
	}
	return nil
}

// percent keeps lower-case letters, digits and -._~ and writes every other byte as %XX, so that it survives in a header.
func percent(text []byte) string {
	var b strings.Builder
	for _, c := range text {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// send pushes what was taken, in order: JSON messages together, bytes one by one on their own route.
func (p *pusher) send() error {
	items := p.batch
	p.batch, p.bytes = nil, 0
	for len(items) > 0 {
		n := 0
		for n < len(items) && items[n].raw == nil {
			n++
		}
		var err error
		if n > 0 {
			err = p.push(items[:n], request{Method: http.MethodPost, Path: "/api/v1/push", Write: true,
				Body: map[string]any{"items": items[:n]}})
		} else {
			n = 1
			err = p.push(items[:1], items[0].rawRequest())
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
	return request{Method: http.MethodPost, Path: "/api/v1/push/raw?" + q.Encode(), Write: true,
		Raw: i.raw, ContentType: cmp.Or(i.contentType, "application/octet-stream"), Header: i.header}
}

func (p *pusher) push(items []pushItem, r request) error {
	var answer []struct {
		MessageID string  `json:"message_id"`
		Status    string  `json:"status"`
		Offset    *uint64 `json:"offset"`
		Error     string  `json:"error"`
	}
	p.all += len(items)
	if p.w.DryRun {
		return p.report(items, func(int, *pushed) string { return "planned" })
	}
	_, err := p.call(r, &answer)
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
