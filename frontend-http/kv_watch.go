package frontendhttp

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"queen/engine"
	"queen/engine/auth"
)

func watchRoutes() []*route {
	return []*route{{Method: "GET", Path: "/api/v1/kv/watch", Access: readOnly, Mark: additional,
		Summary: "Follow a prefix of a namespace as an event stream: events change (KVChange; its id is the version) and " +
			"lost, after which deletions before the next change may be missing and live rows are not.",
		Query: []param{
			{Name: "ns", Type: "string", Required: true, About: "The namespace."},
			{Name: "prefix", Type: "string", About: "Default: all keys."},
			{Name: "fromVersion", Type: "integer", About: "Send first what is newer than this version; 0 or absent means " +
				"from now on. The header Last-Event-ID stands in for it when it is absent."},
		},
		Response: "Events", Status: 200, Events: watchEvents, Errors: familyKV, Handle: kvWatch}}
}

// kvWatch answers GET /api/v1/kv/watch.
func kvWatch(c *call) error {
	w, err := c.watchRequest()
	if err != nil {
		return err
	}
	if err := c.charge(auth.KVReads, 1); err != nil {
		return err
	}
	// Opened before the stream is, so that a refusal is still an answer and nothing that is written after the client has
	// seen the answer's head is missed.
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	changes, err := c.engine.Keyed().WatchKV(ctx, c.caller, w)
	if err != nil {
		return err
	}
	c.streamEvents(func(s *events) {
		defer changes.Close()
		s.watch(changes)
	})
	return nil
}

// watchRequest reads the query; all strings are copies.
func (c *call) watchRequest() (w engine.KVWatch, err error) {
	q := c.query()
	w.Namespace, w.Prefix = q.text("ns"), q.text("prefix")
	switch {
	case q.err != nil:
		return w, q.err
	case !validNamespace(w.Namespace):
		return w, kvBad("kv_bad_namespace", "ns must match ^[a-z0-9][a-z0-9._-]{0,63}$")
	case len(w.Prefix) > engine.MaxKVKey:
		return w, kvBad("kv_bad_key", "prefix exceeds 512 bytes")
	case strings.IndexByte(w.Prefix, 0) >= 0:
		return w, kvBad("kv_bad_key", "prefix must not contain NUL")
	}
	from, field := string(c.ctx.QueryArgs().Peek("fromVersion")), "fromVersion"
	if !q.has("fromVersion") {
		from, field = string(c.ctx.Request.Header.Peek("Last-Event-ID")), "header Last-Event-ID"
		if from == "" {
			return w, nil
		}
	}
	if w.From, err = strconv.ParseUint(from, 10, 64); err != nil {
		return w, kvBad("kv_bad_version", field+" must be a version: an integer of 0 or more")
	}
	return w, nil
}

// watch writes changes until the stream ends.
func (s *events) watch(changes engine.KVWatcher) {
	for s.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(s.ctx, s.f.opts.Streams.Heartbeat)
		list, lost, err := changes.Next(ctx)
		rested := ctx.Err() != nil
		cancel()
		switch {
		case s.ctx.Err() != nil:
			return
		case err != nil && rested && restful(err):
			if s.beat() != nil {
				return
			}
			continue
		case err != nil:
			_ = s.fail("/api/v1/kv/watch", err)
			return
		}
		if s.changes(list, lost) != nil {
			return
		}
	}
}

// restful says that a wait ended without a fault.
func restful(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || asEngineError(err).Code == engine.CodeTimeout
}

// changes writes what one Next brought, lost first.
func (s *events) changes(list []engine.KVChange, lost bool) error {
	p := writeBuffers.Get().(*[]byte)
	b := (*p)[:0]
	defer func() { putBuffer(p, b) }()
	if lost {
		b = append(b, "event: lost\ndata: {}\n\n"...)
	}
	for i := range list {
		c := &list[i]
		b = append(b, "event: change\nid: "...)
		b = strconv.AppendUint(b, c.Row.Version, 10)
		b = append(b, "\ndata: "...)
		from := len(b)
		o := out{append(b, '{')}
		o.str("key", c.Row.Key)
		if !c.Deleted {
			o.raw("value", c.Row.Value)
		}
		o.count("version", c.Row.Version)
		o.time("expiresAt", c.Row.Expires)
		o.bool("deleted", c.Deleted)
		o.close('}')
		b = o.b
		oneLine(b[from:])
		b = append(b, '\n', '\n')
	}
	if len(b) == 0 {
		return nil
	}
	return s.send(b)
}
