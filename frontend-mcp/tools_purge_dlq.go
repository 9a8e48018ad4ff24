package frontendmcp

import (
	"encoding/hex"

	"queen/engine"
	"queen/engine/format"
)

// maxPurge bounds the dead letters that one call removes one by one.
const maxPurge = 100

// dlqPurge removes dead letters: all of a queue or of one of its groups at once, chosen ones by the address of their message.
// The engine knows no smaller piece than a message: what several consumer groups gave up goes for all of them.
func dlqPurge(c *call, in dlqWriteArgs) (out dlqWriteResult, err error) {
	out.Verdicts = []verdictRow{}
	ids, err := in.ids()
	if err != nil {
		return out, err
	}
	if err := c.keepsAuditLetters(ids); err != nil {
		return out, err
	}
	target, name := in.target()
	p := Plan{Action: "purge dead letters", Target: target, Effects: []string{"They can not be replayed any more."}}
	if len(ids) == 0 && in.ErrorContains == "" {
		return c.purgeAll(&in, name, p)
	}
	chosen, more, err := c.chosen(&in, ids)
	if err != nil {
		return out, err
	}
	letters, err := c.addressed(chosen)
	if err != nil {
		return out, err
	}
	p.Counts = map[string]uint64{"dead_letters": letters}
	p.Effects = append(p.Effects, "A message that several consumer groups gave up goes for all of them.")
	asked, err := c.confirm(in.Confirming, []any{in.IDs, in.Queue, in.Group, in.ErrorContains}, name, p)
	if err != nil || asked != nil {
		out.Planned = orNone(asked)
		return out, err
	}
	removed := uint64(0)
	gone := map[string]bool{}
	for i := range chosen {
		d := &chosen[i]
		v := verdictRow{ID: hex.EncodeToString(d.ID[:]), Verdict: "removed"}
		if at := addressOf(d); !gone[at] && d.PartitionID != 0 {
			n, err := c.engine.Catalog().DeleteDeadLetters(c.ctx, c.caller, d.PartitionID, d.Message.TransactionID)
			if err != nil {
				return out, err
			}
			removed, gone[at] = removed+n, n > 0
		}
		if !gone[addressOf(d)] {
			v.Verdict = "gone"
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	out.Planned = c.doneWith(map[string]uint64{"dead_letters": removed})
	if more {
		c.cut(&out.Meta, -1, "call again with the same arguments for the next 100")
	}
	return out, nil
}

// purgeAll removes all dead letters of a queue, or of one group on it.
func (c *call) purgeAll(in *dlqWriteArgs, name string, p Plan) (out dlqWriteResult, err error) {
	out.Verdicts = []verdictRow{}
	if p.Counts, err = c.letters(in, 0); err != nil {
		return out, err
	}
	asked, err := c.confirm(in.Confirming, []any{in.IDs, in.Queue, in.Group, in.ErrorContains}, name, p)
	if err != nil || asked != nil {
		out.Planned = orNone(asked)
		return out, err
	}
	var group *string
	if in.Group != "" {
		group = &in.Group
	}
	n, err := c.engine.Catalog().Purge(c.ctx, c.caller, in.Queue, group)
	if err != nil {
		return out, err
	}
	out.Planned = c.doneWith(map[string]uint64{"dead_letters": n})
	return out, nil
}

// addressOf is what DeleteDeadLetters goes by.
func addressOf(d *engine.DeadLetter) string {
	return digits(uint64(d.PartitionID)) + "/" + d.Message.TransactionID
}

// chosen are the dead letters that a call names, those that are not there without a partition; more says that a filter fits
// further ones.
func (c *call) chosen(in *dlqWriteArgs, ids []format.DeadLetterID) (out []engine.DeadLetter, more bool, err error) {
	if len(ids) == 0 {
		if _, err := c.engine.Catalog().Queue(c.ctx, c.caller, in.Queue); err != nil {
			return nil, false, err
		}
		out, err = c.engine.Catalog().DeadLetters(c.ctx, c.caller, engine.DeadLetterFilter{Queue: in.Queue, Group: in.Group,
			Error: in.ErrorContains, Limit: maxPurge + 1})
		return out[:min(len(out), maxPurge)], len(out) > maxPurge, err
	}
	at := map[format.DeadLetterID]*engine.DeadLetter{}
	for skip := 0; len(at) < len(ids) && skip < maxScan; skip += 1000 {
		rows, err := c.engine.Catalog().DeadLetters(c.ctx, c.caller, engine.DeadLetterFilter{Skip: skip, Limit: 1000})
		if err != nil {
			return nil, false, err
		}
		c.notify(float64(skip), maxScan)
		for i := range rows {
			for _, id := range ids {
				if rows[i].ID == id {
					at[id] = &rows[i]
				}
			}
		}
		if len(rows) < 1000 {
			break
		}
	}
	for _, id := range ids {
		d := engine.DeadLetter{ID: id}
		if found := at[id]; found != nil {
			d = *found
		}
		out = append(out, d)
	}
	return out, false, nil
}

// addressed counts the dead letters at the addresses of chosen ones, those of other groups too.
func (c *call) addressed(chosen []engine.DeadLetter) (n uint64, err error) {
	looked := map[string]bool{}
	for i := range chosen {
		d := &chosen[i]
		if d.PartitionID == 0 || looked[addressOf(d)] {
			continue
		}
		looked[addressOf(d)] = true
		rows, err := c.engine.Catalog().DeadLetters(c.ctx, c.caller, engine.DeadLetterFilter{Queue: d.Queue, Partition: d.Partition, Limit: 1000})
		if err != nil {
			return 0, err
		}
		for k := range rows {
			if addressOf(&rows[k]) == addressOf(d) {
				n++
			}
		}
	}
	return n, nil
}
