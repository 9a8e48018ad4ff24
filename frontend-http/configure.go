package frontendhttp

import (
	"encoding/json"
	"fmt"

	"queen/engine"
)

// configure answers POST /api/v1/configure (S-cfg-1). Options stand in "options" or at the top level; those in
// "options" win.
func configure(c *call) error {
	var in map[string]json.RawMessage
	if err := c.decode(&in); err != nil {
		return err
	}
	r, err := configureRequest(in)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(writeDeadline)
	defer cancel()
	info, err := c.engine.Catalog().Configure(ctx, c.caller, r)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.bool("configured", true)
	o.id("queueId", uint64(info.ID))
	o.null("partitionId")
	o.str("queue", info.Name)
	o.str("namespace", info.Options.Namespace)
	o.str("task", info.Options.Task)
	o.str("storage", "segments")
	o.key("options").options(&info.Options, false)
	o.close('}')
	c.send(200, o.b)
	return nil
}

func configureRequest(in map[string]json.RawMessage) (r engine.ConfigureRequest, err error) {
	raw, ok := in["queue"]
	if !ok || isNull(raw) || json.Unmarshal(raw, &r.Queue) != nil {
		return r, badRequest("queue must be a string")
	}
	if r.Replace, err = replaceMode(in["mode"]); err != nil {
		return r, err
	}
	merged := map[string]json.RawMessage{}
	for k, v := range in {
		if k != "options" {
			merged[k] = v
		}
	}
	for _, label := range []string{"namespace", "task"} { // clients send null or "" beside the options for "not set"
		if raw := merged[label]; isNull(raw) || string(raw) == `""` {
			delete(merged, label)
		}
	}
	if raw, ok := in["options"]; ok && !isNull(raw) {
		var inner map[string]json.RawMessage
		if json.Unmarshal(raw, &inner) != nil {
			return r, badRequest("options must be an object")
		}
		for k, v := range inner {
			merged[k] = v
		}
	}
	if r.Reset, err = readOptions(merged, &r.Patch); err != nil {
		return r, err
	}
	return r, checkNames(len(r.Queue), 0)
}

func replaceMode(raw json.RawMessage) (bool, error) {
	switch string(raw) {
	case "", "null", `"merge"`:
		return false, nil
	case `"replace"`:
		return true, nil
	}
	const shown = 64
	if len(raw) > shown {
		raw = raw[:shown]
	}
	return false, &refusal{status: 400, code: "bad_request", field: "mode",
		text: fmt.Sprintf(`mode must be "merge" or "replace", got %s`, raw)}
}
