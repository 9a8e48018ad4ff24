package client

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

func txCommand(s cli.Streams) *cobra.Command {
	var w writeOptions
	var file string
	cmd := &cobra.Command{Use: "tx", Short: "Acks, pushes, keys, timers and positions: all of them or none", Args: cobra.NoArgs,
		Long: `Carry out the transaction that is in --file or on standard input, as POST /api/v1/transaction takes it:

  {"operations": [{"type": "ack", ...}, {"type": "push", "items": [...]}], "kv": [...], "timers": [...]}

Exits 6 when it was rolled back, with the reason; then nothing of it took place.`}
	cmd.Flags().StringVarP(&file, "file", "f", "-", "the transaction; - is standard input")
	w.keyFlag(cmd)
	w.dryRunFlag(cmd)
	return command(s, cmd, "json", func(s *session, _ []string) error {
		text, err := s.document(nil, file)
		if err != nil {
			return err
		}
		var body row
		if err := json.Unmarshal(text, &body); err != nil {
			return cli.Errorf(cli.Usage, "a transaction is a JSON object: %w", err)
		}
		if w.dryRun {
			body.set("dryRun", true)
			return printer(s, rowColumns("operations", "kv", "timers", "positions")).One(body)
		}
		return s.transact(text, w.key)
	})
}

func (s *session) transact(body []byte, key string) error {
	answer, err := s.ask(request{method: http.MethodPost, path: "/api/v1/transaction", write: true, key: key,
		raw: body, contentType: "application/json"}, "success")
	if err != nil {
		return err
	}
	err = printer(s, rowColumns("transactionId", "success", "reason", "error", "results")).One(answer)
	if err != nil || answer.is("success") {
		return err
	}
	return cli.Errorf(cli.Partly, "rolled back, %s: %s", unquoted(answer["reason"]), unquoted(answer["error"]))
}
