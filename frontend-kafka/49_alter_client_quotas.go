package frontendkafka

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

// AlterClientQuotas, 0 to 1: sets and removes quotas. The rates of bytes hold on every node; the other quotas of
// Kafka are not built, and refused: nobody is told of a bound that does not hold.
func alterQuotasAPI() *api {
	return &api{key: 49, min: 0, max: 1, level: auth.LevelAdmin, handle: alterQuotas, refuse: func(r *request, code int16) kmsg.Response {
		resp := r.req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
		for _, e := range r.req.(*kmsg.AlterClientQuotasRequest).Entries {
			resp.Entries = append(resp.Entries, quotaAnswer(&e, code, nil))
		}
		return resp
	}}
}

// quotaAnswer is the answer about one entry.
func quotaAnswer(e *kmsg.AlterClientQuotasRequestEntry, code int16, text *string) kmsg.AlterClientQuotasResponseEntry {
	row := kmsg.NewAlterClientQuotasResponseEntry()
	row.ErrorCode, row.ErrorMessage = code, text
	for _, n := range e.Entity {
		row.Entity = append(row.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: n.Type, Name: n.Name})
	}
	return row
}

func alterQuotas(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AlterClientQuotasRequest)
	resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	ctx, cancel := within(ctx, 0)
	defer cancel()
	for i := range req.Entries {
		err := c.alterQuota(ctx, &req.Entries[i], req.ValidateOnly)
		resp.Entries = append(resp.Entries, quotaAnswer(&req.Entries[i], controllerCode(err), textOf(err)))
	}
	return resp, nil
}

func (c *conn) alterQuota(ctx context.Context, asked *kmsg.AlterClientQuotasRequestEntry, validate bool) error {
	var e entity
	for _, n := range asked.Entity {
		part := quotaName{kind: n.Type, rest: n.Name == nil}
		if n.Name != nil {
			part.name = *n.Name
		}
		e = append(e, part)
	}
	if err := e.check(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, op := range asked.Ops {
		if seen[op.Key] {
			return &fault{kerr.InvalidRequest, fmt.Sprintf("%.64q is there more than once", op.Key)}
		}
		seen[op.Key] = true
		_, ofAddress := e.part(quotaIP)
		value := op.Value
		if op.Remove {
			value = 1
		}
		if err := checkQuota(op.Key, value, ofAddress); err != nil {
			return err
		}
		if !op.Remove && op.Key != producerRate && op.Key != consumerRate {
			return &fault{kerr.InvalidRequest, fmt.Sprintf("quota %s is not enforced here: %s and %s are", op.Key, producerRate, consumerRate)}
		}
	}
	if validate {
		return nil
	}
	who, name := c.caller().Tenant, e.row()
	for range alterAttempts {
		q := quotaRow{V: quotaVersion}
		if row, ok := c.f.rows.AdminRow(who, format.AdminKafkaQuota, name); ok {
			var err error
			if q, err = decodeQuota(row.Value); err != nil {
				return err
			}
			q.at = row.At
		}
		if q.Set == nil {
			q.Set = map[string]float64{}
		}
		for _, op := range asked.Ops {
			if delete(q.Set, op.Key); !op.Remove {
				q.Set[op.Key] = op.Value
			}
		}
		value, err := json.Marshal(q)
		if err != nil {
			return err
		}
		applied, err := c.f.rows.SetAdmin(ctx, who, engine.AdminChange{Kind: format.AdminKafkaQuota, Name: name, Value: value,
			Delete: len(q.Set) == 0, Guarded: true, At: q.at})
		if err != nil || applied {
			return err
		}
	}
	return errChanged
}
