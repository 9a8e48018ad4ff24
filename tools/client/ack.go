package client

import (
	"cmp"
	"encoding/json"
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
	DryRun        bool   `json:"dryRun,omitempty"`
}

var ackedColumns = []cli.Column[acked]{
	{Head: "partition id", Cell: func(r acked) string { return r.PartitionID }},
	{Head: "transaction id", Key: true, Cell: func(r acked) string { return r.TransactionID }},
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
	dryRun bool

	out         *cli.Printer[acked]
	all, failed int
	// items are those of the input that were not sent yet, all of the group of.
	items []ackItem
	of    string
}

func ackCommand(s cli.Streams) *cobra.Command {
	a := acker{}
	var w cli.Write
	cmd := &cobra.Command{Use: "ack", Short: "Settle messages", Args: cobra.NoArgs,
		Long: `Settle the message that the flags name, or those on standard input as pop prints them:

  queen pop orders --group billing | queen ack
  queen pop orders --group billing | queen ack --status failed --error "no such customer"

Settling a message as completed settles all before it in its partition. Exits 6 when any was refused.`}
	f := cmd.Flags()
	groupFlag(s, cmd, &a.group, "the consumer group; default: as in the input, else queue mode")
	f.StringVar(&a.item.PartitionID, "partition-id", "", "partitionId of the message")
	f.StringVar(&a.item.TransactionID, "transaction-id", "", "transactionId of the message")
	f.Int64Var(&a.offset, "offset", -1, "offset of the message, instead of its transactionId")
	f.StringVar(&a.item.LeaseID, "lease", "", "leaseId: refuses the ack when the lease is over")
	f.StringVar(&a.item.Status, "status", "completed", strings.Join(ackStatuses, ", "))
	f.StringVar(&a.item.Error, "error", "", "reason, kept with a dead letter")
	w.DryRunFlag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(ackStatuses, cobra.ShellCompDirectiveNoFileComp))
	return command(s, cmd, "ndjson", ackedColumns, func(s *session, out *cli.Printer[acked], _ []string) error {
		a.session, a.out, a.dryRun = s, out, w.DryRun
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
		a.of, a.items = a.group, []ackItem{a.item}
	default:
		err = a.objects(a.take)
	}
	if err = a.alsoSend(err, a.send); err != nil {
		return err
	}
	switch {
	case a.all == 0:
		return cli.Exit(cli.Nothing)
	case a.failed > 0:
		return cli.Exit(cli.Partly)
	}
	return nil
}

// take reads a message of the input. One call is of one group.
func (a *acker) take(value json.RawMessage, _ bool) error {
	var m Message
	if value == nil || json.Unmarshal(value, &m) != nil || m.PartitionID == "" || m.TransactionID == "" {
		return cli.Errorf(cli.Usage, "message %d: want a line as pop prints it, with partitionId and transactionId",
			a.all+len(a.items)+1)
	}
	group := cmp.Or(a.group, m.ConsumerGroup)
	if len(a.items) == ackMax || len(a.items) > 0 && group != a.of {
		if err := a.send(); err != nil {
			return err
		}
	}
	a.of = group
	a.items = append(a.items, ackItem{TransactionID: m.TransactionID, PartitionID: m.PartitionID,
		Status: a.item.Status, LeaseID: m.LeaseID, Error: a.item.Error})
	return nil
}

// send settles what was taken.
func (a *acker) send() error {
	items := a.items
	a.items = nil
	if len(items) == 0 {
		return nil
	}
	a.all += len(items)
	if a.dryRun {
		for _, i := range items {
			if err := a.out.Add(acked{PartitionID: i.PartitionID, TransactionID: i.TransactionID, DryRun: true}); err != nil {
				return err
			}
		}
		return nil
	}
	body := map[string]any{"acknowledgments": items}
	if a.of != "" {
		body["consumerGroup"] = a.of
	}
	var answer []acked
	r := request{Method: http.MethodPost, Path: "/api/v1/ack/batch", Write: true, Body: body}
	if _, err := a.call(r, &answer); err != nil {
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
