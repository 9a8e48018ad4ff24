package client

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

func txCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	var file string
	cmd := &cobra.Command{Use: "tx", Short: "Acks, pushes, keys, timers and positions: all of them or none", Args: cobra.NoArgs,
		Long: `Carry out the transaction that is in --file or on standard input, as POST /api/v1/transaction takes it:

  {"operations": [{"type": "ack", ...}, {"type": "push", "items": [...]}], "kv": [...], "timers": [...]}

Exits 6 when it was rolled back, with the reason; then nothing of it took place.`}
	cmd.Flags().StringVarP(&file, "file", "f", "-", "the transaction; - is standard input")
	w.KeyFlag(cmd)
	w.DryRunFlag(cmd)
	columns := []string{"=transactionId", "success", "reason", "error", "results", "operations", "kv", "timers", "positions", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], _ []string) error {
		text, err := s.document(nil, file)
		if err != nil {
			return err
		}
		var body row
		if err := json.Unmarshal(text, &body); err != nil {
			return cli.Errorf(cli.Usage, "a transaction is a JSON object: %w", err)
		}
		if w.DryRun {
			return planned(out, body)
		}
		return s.transact(out, text, w.Key)
	})
}

func (s *session) transact(out *cli.Printer[row], body []byte, key string) error {
	answer, err := s.Ask(request{Method: http.MethodPost, Path: "/api/v1/transaction", Write: true, Key: key,
		Raw: body, ContentType: "application/json"}, "success")
	if err != nil {
		return err
	}
	if err := out.One(answer); err != nil || answer.Is("success") {
		return err
	}
	return cli.Errorf(cli.Partly, "rolled back, %s: %s", answer.Text("reason"), answer.Text("error"))
}
