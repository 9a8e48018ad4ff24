package frontendkafka

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// retainEvery is the pause between passes that hold topics to their retention.bytes.
const retainEvery = time.Minute

// ofRetention begins the names of rows, of the system's tenant, that remember which tenants have ever set a retention.bytes: a
// pass looks at those and at the default tenant.
const ofRetention = "retention/"

// keepBytes is the retention.bytes that was set; false when partitions may be of any size.
func keepBytes(set map[string]string) (uint64, bool) {
	n, err := strconv.ParseInt(set[retentionBytes], 10, 64)
	return uint64(max(n, 1)), err == nil && n >= 0 && deletes(set)
}

// remember notes that a tenant has a retention.bytes.
func (f *Frontend) remember(ctx context.Context, t format.Tenant, set map[string]string) error {
	if _, ok := keepBytes(set); !ok || t == format.DefaultTenant {
		return nil
	}
	name := ofRetention + t.String()
	if _, ok := f.rows.AdminRow(format.SystemTenant, format.AdminKafkaConfig, name); ok {
		return nil
	}
	_, err := f.rows.SetAdmin(ctx, format.SystemTenant, engine.AdminChange{Kind: format.AdminKafkaConfig, Name: name,
		Value: []byte(`{"v":1,"set":{}}`)})
	return err
}

// retain runs passes until the node stops. Of a cluster only the node that leads does it.
func (f *Frontend) retain() {
	t := f.opts.Clock.NewTimer(retainEvery)
	defer t.Stop()
	for {
		select {
		case <-f.stopping.Done():
			return
		case <-t.C():
		}
		if s, err := f.engine.Status(f.stopping); err == nil && s.CanWrite && s.Leader == s.Node {
			if err := f.retainPass(f.stopping); err != nil && f.stopping.Err() == nil {
				f.opts.Logger.Warn("kafka: retention.bytes could not be enforced everywhere", "err", err)
			}
		}
		t.Reset(retainEvery)
	}
}

// retainPass removes what topics hold beyond their retention.bytes.
func (f *Frontend) retainPass(ctx context.Context) error {
	tenants := []format.Tenant{format.DefaultTenant}
	for after := ofRetention; ; {
		rows := f.rows.AdminRows(format.SystemTenant, format.AdminKafkaConfig, after, 256)
		for _, row := range rows {
			after = row.Name
			name, ok := strings.CutPrefix(row.Name, ofRetention)
			if t, valid := format.ParseUUID(name); ok && valid {
				tenants = append(tenants, t)
			}
		}
		if len(rows) == 0 {
			break
		}
	}
	var errs []error
	for _, t := range tenants {
		errs = append(errs, f.retainTenant(ctx, engine.Caller{Tenant: t}))
	}
	return errors.Join(errs...)
}

func (f *Frontend) retainTenant(ctx context.Context, who engine.Caller) error {
	var errs []error
	for after := ofTopic; ; {
		rows := f.rows.AdminRows(who.Tenant, format.AdminKafkaConfig, after, 256)
		for _, row := range rows {
			after = row.Name
			name, ok := strings.CutPrefix(row.Name, ofTopic)
			r, err := decodeRecorded(row.Value)
			keep, bounded := keepBytes(r.Set)
			if !ok || err != nil || !bounded {
				continue
			}
			if t, err := f.topic(ctx, who, name); err == nil && lifeName(t.queue.Topic) == r.Topic {
				errs = append(errs, f.retainTopic(ctx, who, t, keep))
			}
		}
		if len(rows) == 0 || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}

// retainTopic moves log starts up to where partitions still hold keep bytes: the frame that reaches over the bound stays.
func (f *Frontend) retainTopic(ctx context.Context, who engine.Caller, t *topic, keep uint64) error {
	var at []engine.FetchAt
	for n := range t.width {
		size, err := f.engine.Inspect().PartitionSize(ctx, who, t.name, partitionName(n), keep)
		if err == nil && size.Bytes >= keep && size.From > 0 {
			at = append(at, engine.FetchAt{Queue: t.name, Partition: partitionName(n), Offset: size.From})
		}
	}
	if len(at) == 0 {
		return nil
	}
	_, err := f.engine.Records().DeleteRecords(ctx, who, at)
	return err
}
