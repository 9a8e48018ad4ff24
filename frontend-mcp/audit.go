package frontendmcp

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"time"

	"queen/engine"
	"queen/engine/diagnosis"
	"queen/engine/format"
)

// Where records of what was done are kept, in the tenant of who did it.
const (
	AuditQueue     = diagnosis.AuditQueue
	auditPartition = "mcp"
)

// auditQueueKept is the refusal of a call that would write, erase or hide records of what was done.
var auditQueueKept = &toolError{Code: "audit_queue", Message: "the queue queen.audit holds the records of calls: no tool writes to it or changes it",
	Field: "queue", Hint: "message_peek, message_search and queen audit list read it"}

// keepsAudit refuses calls of writing tools that name the audit queue: who is recorded must not write the records, empty or
// configure their queue, create it with options under which they go, or move those who read them past them.
func (c *call) keepsAudit(in any) error {
	if c.tool.readOnly() {
		return nil
	}
	if v := reflect.ValueOf(in).FieldByName("Queue"); v.IsValid() && v.String() == AuditQueue {
		return auditQueueKept
	}
	return nil
}

// keepsAuditLetters refuses ids of dead letters of the audit queue: a replay would record again what was done once.
func (c *call) keepsAuditLetters(ids []format.DeadLetterID) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := c.engine.Catalog().DeadLetters(c.ctx, c.caller, engine.DeadLetterFilter{Queue: AuditQueue, Limit: maxScan})
	if slices.ContainsFunc(rows, func(d engine.DeadLetter) bool { return slices.Contains(ids, d.ID) }) {
		return auditQueueKept
	}
	return err
}

// auditRecord is one call of a tool that writes. Arguments are told by their digest: they may hold payloads.
type auditRecord struct {
	At      string `json:"at"`
	Subject string `json:"subject"`
	Tenant  string `json:"tenant"`
	Client  string `json:"client"`
	Tool    string `json:"tool"`
	Args    string `json:"arguments_sha256"`
	Verdict string `json:"verdict"` // planned, done, or the code of a refusal
	TraceID string `json:"traceparent,omitempty"`
}

// finished is implemented by answers that tell whether something was done.
type finished interface{ isDone() bool }

func (p Planned) isDone() bool { return p.Done }

// judge records what became of a call that writes: in the log, and where something was or may have been done, in the
// audit queue. A record that can not be written does not undo what was done.
func (c *call) judge(out any, err error) {
	if c.tool.readOnly() {
		return
	}
	verdict, changed := "done", true
	var refusal *toolError
	switch plan, ok := out.(finished); {
	case errors.As(asToolErrorOrNil(err), &refusal):
		verdict, changed = refusal.Code, refusal.Outcome == outcomeNames[engine.OutcomeUnknown] || refusal.Outcome == outcomeNames[engine.OutcomeApplied]
	case ok && !plan.isDone():
		verdict, changed = "planned", false
	}
	r := auditRecord{At: timeText(c.f.now()), Subject: c.id.subject(), Tenant: c.id.Tenant.String(), Tool: c.tool.name,
		Args: hex.EncodeToString(digestOf(c.req.Params.Arguments)), Verdict: verdict}
	if info := c.req.ClientInfo(); info != nil {
		r.Client = clip(info.Name, 64) + " " + clip(info.Version, 32)
	}
	if parent, ok := c.req.Params.Meta["traceparent"].(string); ok {
		r.TraceID = clip(parent, 64)
	}
	c.f.opts.Logger.Info("a client called a tool that writes", "event", "mcp_audit", "subject", r.Subject, "tenant", r.Tenant,
		"client", r.Client, "tool", r.Tool, "arguments_sha256", r.Args, "verdict", r.Verdict)
	if !changed {
		return
	}
	text, err := json.Marshal(r)
	if err != nil {
		return
	}
	// The caller may be gone; the record is written all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), 5*time.Second)
	defer cancel()
	if _, err := c.engine.Do(ctx, c.caller, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: AuditQueue, Partition: auditPartition,
		Messages: []engine.Message{{Payload: text}}}}}); err != nil {
		c.f.opts.Logger.Error("the audit record was not written", "event", "mcp_audit_lost", "tool", r.Tool, "err", err)
	}
}

func asToolErrorOrNil(err error) error {
	if err == nil {
		return nil
	}
	return asToolError(err, nil)
}

// clip cuts what a client says about itself to printable ASCII of a length.
func clip(s string, n int) string {
	out := make([]byte, 0, min(len(s), n))
	for _, r := range s {
		if len(out) == n {
			break
		}
		if r < ' ' || r > '~' {
			r = '?'
		}
		out = append(out, byte(r))
	}
	return string(out)
}
