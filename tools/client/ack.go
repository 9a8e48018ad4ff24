package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// ackMax is how many messages of standard input travel in one call.
const ackMax = 10_000

var ackStatuses = []string{"completed", "retry", "failed", "dlq"}

// ackItem is what settles one message.
type ackItem struct {
	TransactionID string  `json:"transactionId,omitempty"`
	Offset        *uint64 `json:"offset,omitempty"`
	PartitionID   string  `json:"partitionId"`
	Status        string  `json:"status"`
	LeaseID       string  `json:"leaseId,omitempty"`
	Error         string  `json:"error,omitempty"`
}

// acked is the verdict on one message.
type acked struct {
	PartitionID   string `json:"partitionId"`
	TransactionID string `json:"transactionId"`
	Success       bool   `json:"success"`
	Error         string `json:"error,omitempty"`
	LeaseReleased bool   `json:"leaseReleased"`
	DLQ           bool   `json:"dlq"`
	Noop          bool   `json:"noop"`
}

var ackedColumns = []cli.Column[acked]{
	{Head: "partition id", Cell: func(r acked) string { return r.PartitionID }},
	{Head: "transaction id", Cell: func(r acked) string { return r.TransactionID }},
	{Head: "success", Cell: func(r acked) string { return strconv.FormatBool(r.Success) }},
	{Head: "lease released", Cell: func(r acked) string { return strconv.FormatBool(r.LeaseReleased) }},
	{Head: "dlq", Cell: func(r acked) string { return strconv.FormatBool(r.DLQ) }},
	{Head: "error", Cell: func(r acked) string { return r.Error }},
}

// acker runs one ack command.
type acker struct {
	*session
	item   ackItem
	offset int64
	group  string

	out         *cli.Printer[acked]
	all, failed int
}

func ackCommand(s cli.Streams) *cobra.Command {
	a := acker{}
	cmd := &cobra.Command{Use: "ack", Short: "Settle messages", Args: cobra.NoArgs,
		Long: `Settle the message that the flags name, or those on standard input as pop prints them:

  queen pop orders --group billing | queen ack
  queen pop orders --group billing | queen ack --status failed --error "no such customer"

Settling a message as completed settles all before it in its partition. Exits 6 when any was refused.`}
	f := cmd.Flags()
	f.StringVarP(&a.group, "group", "g", "", "the consumer group; default: as in the input, else queue mode")
	f.StringVar(&a.item.PartitionID, "partition-id", "", "partitionId of the message")
	f.StringVar(&a.item.TransactionID, "transaction-id", "", "transactionId of the message")
	f.Int64Var(&a.offset, "offset", -1, "offset of the message, instead of its transactionId")
	f.StringVar(&a.item.LeaseID, "lease", "", "leaseId: refuses the ack when the lease is over")
	f.StringVar(&a.item.Status, "status", "completed", strings.Join(ackStatuses, ", "))
	f.StringVar(&a.item.Error, "error", "", "reason, kept with a dead letter")
	return command(s, cmd, "ndjson", func(s *session, _ []string) error {
		a.session, a.out = s, printer(s, ackedColumns)
		return a.run()
	})
}

func (a *acker) run() error {
	if !slices.Contains(ackStatuses, a.item.Status) {
		return cli.Errorf(cli.Usage, "--status %s: there are %s", a.item.Status, strings.Join(ackStatuses, ", "))
	}
	byFlags := a.item.PartitionID != "" || a.item.TransactionID != "" || a.offset >= 0
	var err error
	switch {
	case byFlags && (a.item.PartitionID == "" || (a.item.TransactionID == "") == (a.offset < 0)):
		return cli.Errorf(cli.Usage, "a message is named by --partition-id and either --transaction-id or --offset")
	case byFlags:
		if a.offset >= 0 {
			offset := uint64(a.offset)
			a.item.Offset = &offset
		}
		err = a.send(a.group, []ackItem{a.item})
	default:
		err = a.readAll()
	}
	if closed := a.out.Close(); err == nil {
		err = closed
	}
	switch {
	case err != nil:
		return err
	case a.all == 0:
		return cli.Exit(cli.Nothing)
	case a.failed > 0:
		return cli.Exit(cli.Partly)
	}
	return nil
}

// readAll settles what is on standard input. One call is of one group.
func (a *acker) readAll() error {
	in := bufio.NewReaderSize(a.input(), 1<<20)
	var items []ackItem
	group := a.group
	for {
		line, end, err := readLine(in)
		if err != nil {
			return a.badInput(err)
		}
		var m Message
		if len(line) > 0 {
			if err := json.Unmarshal(line, &m); err != nil || m.PartitionID == "" || m.TransactionID == "" {
				bad := cli.Errorf(cli.Usage, "message %d: want a line as pop prints it, with partitionId and transactionId",
					a.all+len(items)+1)
				return errors.Join(bad, a.send(group, items))
			}
			if a.group != "" {
				m.ConsumerGroup = a.group
			}
		}
		if end || len(items) == ackMax || len(items) > 0 && m.ConsumerGroup != group {
			if err := a.send(group, items); err != nil {
				return err
			}
			items = nil
		}
		if len(line) > 0 {
			group = m.ConsumerGroup
			items = append(items, ackItem{TransactionID: m.TransactionID, PartitionID: m.PartitionID,
				Status: a.item.Status, LeaseID: m.LeaseID, Error: a.item.Error})
		}
		if end {
			return a.send(group, items)
		}
	}
}

func (a *acker) send(group string, items []ackItem) error {
	if len(items) == 0 {
		return nil
	}
	a.all += len(items)
	body := map[string]any{"acknowledgments": items}
	if group != "" {
		body["consumerGroup"] = group
	}
	var answer []acked
	_, err := a.api.call(a.ctx, request{method: http.MethodPost, path: "/api/v1/ack/batch", write: true, body: body}, &answer)
	if err != nil {
		return err
	}
	if len(answer) != len(items) {
		return cli.Errorf(cli.Server, "%d verdicts for %d messages", len(answer), len(items))
	}
	for i, row := range answer {
		row.PartitionID = items[i].PartitionID
		if !row.Success {
			a.failed++
		}
		if err := a.out.Add(row); err != nil {
			return err
		}
	}
	return nil
}
