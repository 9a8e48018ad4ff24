package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"queen/tools/cli"
)

// answerMax bounds what is read of one answer.
const answerMax = 1 << 30

// api calls a node.
type api struct {
	url, token string
	http       *http.Client
}

// request is one call. write says that a lost answer leaves open whether it was carried out.
type request struct {
	method, path string
	body         any
	raw          []byte
	contentType  string
	write        bool
	// key is the Idempotency-Key: the node answers a repetition as it answered the first call.
	key string
}

// refusal is an answer that refuses a call.
type refusal struct {
	Status int
	Code   string
	Text   string
}

func (r *refusal) Error() string {
	text := r.Text
	if r.Code != "" && !strings.Contains(text, r.Code) {
		text += " (" + r.Code + ")"
	}
	return fmt.Sprintf("the node answered %d: %s", r.Status, text)
}

// call sends r and reads its JSON answer into out; found is false for 204 and for an answer without a body.
func (a *api) call(ctx context.Context, r request, out any) (found bool, err error) {
	body, err := r.bytes()
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, r.method, strings.TrimRight(a.url, "/")+r.path, bytes.NewReader(body))
	if err != nil {
		return false, cli.Errorf(cli.Usage, "--url %s: %w", a.url, err)
	}
	req.Header.Set("Content-Type", r.contentType)
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	res, err := a.http.Do(req)
	if err != nil {
		return false, a.lost(ctx, r, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerMax))
	if err != nil {
		return false, a.lost(ctx, r, err)
	}
	if res.StatusCode >= 300 {
		return false, classify(r, res.StatusCode, answer)
	}
	if len(answer) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return false, cli.Errorf(cli.Server, "%s answered something else than this API: %w", a.url, err)
	}
	return true, nil
}

func (r *request) bytes() ([]byte, error) {
	if r.contentType != "" {
		return r.raw, nil
	}
	r.contentType = "application/json"
	if r.body == nil {
		return nil, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // payloads are stored as they were typed
	err := e.Encode(r.body)
	return b.Bytes(), err
}

// lost is the error of a call without an answer. A call whose connection was never made has done nothing.
func (a *api) lost(ctx context.Context, r request, err error) error {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return cli.Errorf(cli.Server, "no node answers at %s (%w): is \"queen serve\" running?", a.url, op.Err)
	case r.write:
		return cli.Errorf(cli.OutcomeUnknown, "the answer was lost, the call may have been carried out: %w", err)
	case ctx.Err() != nil:
		return cli.Exit(cli.Interrupted)
	}
	return cli.Errorf(cli.Server, "%s: %w", a.url, err)
}

// openCodes are the refusals of a write that leave open whether it was carried out.
var openCodes = []string{"timeout", "outcome_unknown", "retry", "kv_timeout", "kv_retry", "timers_timeout", "timers_retry"}

// classify gives a refusal its exit code.
func classify(r request, status int, answer []byte) error {
	var body struct{ Error, Code, Reason, Detail string }
	if json.Unmarshal(answer, &body) != nil || body.Error == "" {
		body.Error = strings.TrimSpace(string(answer[:min(len(answer), 200)]))
	}
	if body.Error == "" {
		body.Error = http.StatusText(status)
	}
	if body.Reason != "" { // keys, locks and timers have their words in detail, transactions in error
		body.Code = body.Reason
		if body.Detail != "" {
			body.Error = body.Detail
		}
	}
	refused := &refusal{Status: status, Code: body.Code, Text: body.Error}
	code := cli.Server
	switch {
	case body.Code == "timers_horizon": // 403, and about the call all the same
		code = cli.Usage
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		code = cli.Auth
	case r.write && slices.Contains(openCodes, body.Code):
		code = cli.OutcomeUnknown
	case status < 500 && status != http.StatusTooManyRequests:
		code = cli.Usage
	}
	return &cli.Error{Code: code, Err: refused}
}

// status is the status of a refusal; 0 for any other error.
func status(err error) int {
	var r *refusal
	if errors.As(err, &r) {
		return r.Status
	}
	return 0
}
