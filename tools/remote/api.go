package remote

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

// API calls a node.
type API struct {
	URL   string
	token string
	http  *http.Client
}

// Request is one call.
type Request struct {
	Method, Path string
	// Body is sent as JSON, unless ContentType says what Raw is.
	Body        any
	Raw         []byte
	ContentType string
	// Write says that a lost answer leaves open whether it was carried out.
	Write bool
	// Key is the Idempotency-Key: the node answers a repetition as it answered the first call.
	Key string
	// Accept is the media type wanted; "" leaves it to the node.
	Accept string
	// Header is sent beside what the other members say; may be nil.
	Header http.Header
	// AnyStatus takes every status for an answer, as where a 503 tells what is missing.
	AnyStatus bool
}

// Refusal is an answer that refuses a call. It is inside of a *cli.Error, for errors.As.
type Refusal struct {
	Status int
	Code   string
	Text   string
}

func (r *Refusal) Error() string {
	text := r.Text
	if r.Code != "" && !strings.Contains(text, r.Code) {
		text += " (" + r.Code + ")"
	}
	return fmt.Sprintf("the node answered %d: %s", r.Status, text)
}

// Members are what an error printed as JSON has beside its text.
func (r *Refusal) Members() map[string]any {
	m := map[string]any{"status": r.Status}
	if r.Code != "" {
		m["code"] = r.Code
	}
	return m
}

// Status is the status of a refusal; 0 for any other error.
func Status(err error) int {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Status
	}
	return 0
}

// Call sends r and reads its JSON answer into out; found is false for 204 and for an answer without a body. Errors have
// their exit code: Server, Auth, Usage, OutcomeUnknown, Interrupted.
func (a *API) Call(ctx context.Context, r Request, out any) (found bool, err error) {
	answer, err := a.Bytes(ctx, r)
	if err != nil || len(answer) == 0 {
		return false, err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return false, a.Stranger(err.Error())
	}
	return true, nil
}

// Bytes is Call for an answer that is no JSON. It is at most 1 GiB.
func (a *API) Bytes(ctx context.Context, r Request) ([]byte, error) {
	res, err := a.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerMax))
	if err != nil {
		return nil, a.lost(ctx, r, err)
	}
	return answer, nil
}

// Open is Call for an answer that comes over time: the caller reads and closes its body.
func (a *API) Open(ctx context.Context, r Request) (*http.Response, error) {
	body, contentType, err := r.bytes()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, strings.TrimRight(a.URL, "/")+r.Path, bytes.NewReader(body))
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "--url %s: %w", a.URL, err)
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", contentType)
	for name, value := range map[string]string{"Accept": r.Accept, "Idempotency-Key": r.Key} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	res, err := a.http.Do(req)
	if err != nil {
		return nil, a.lost(ctx, r, err)
	}
	if res.StatusCode < 300 || r.AnyStatus {
		return res, nil
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerMax))
	if err != nil {
		return nil, a.lost(ctx, r, err)
	}
	return nil, classify(r, res.StatusCode, answer)
}

func (r *Request) bytes() (body []byte, contentType string, err error) {
	if r.ContentType != "" {
		return r.Raw, r.ContentType, nil
	}
	if r.Body == nil {
		return nil, "application/json", nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // payloads are stored as they were typed
	err = e.Encode(r.Body)
	return b.Bytes(), "application/json", err
}

// Stranger is the error of an answer that no node gives.
func (a *API) Stranger(what string) error {
	return cli.Errorf(cli.Server, "%s answered something else than this API: %s", a.URL, what)
}

// lost is the error of a call without an answer. A call whose connection was never made has done nothing.
func (a *API) lost(ctx context.Context, r Request, err error) error {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		if ctx.Err() != nil {
			return cli.Exit(cli.Interrupted)
		}
		return cli.Errorf(cli.Server, "no node answers at %s (%w): is \"queen serve\" running?", a.URL, op.Err)
	case r.Write:
		return cli.Errorf(cli.OutcomeUnknown, "the answer was lost, the call may have been carried out: %w", err)
	case ctx.Err() != nil:
		return cli.Exit(cli.Interrupted)
	}
	return cli.Errorf(cli.Server, "%s: %w", a.URL, err)
}

// openCodes are the refusals of a write that leave open whether it was carried out.
var openCodes = []string{"timeout", "outcome_unknown", "retry", "kv_timeout", "kv_retry", "timers_timeout", "timers_retry"}

// classify gives a refusal its exit code.
func classify(r Request, status int, answer []byte) error {
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
	refused := &Refusal{Status: status, Code: body.Code, Text: body.Error}
	code := cli.Server
	switch {
	case body.Code == "timers_horizon": // 403, and about the call all the same
		code = cli.Usage
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		code = cli.Auth
	case r.Write && slices.Contains(openCodes, body.Code):
		code = cli.OutcomeUnknown
	case status < 500 && status != http.StatusTooManyRequests:
		code = cli.Usage
	}
	return &cli.Error{Code: code, Err: refused}
}
