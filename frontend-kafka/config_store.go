package frontendkafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine"
	"queen/engine/format"
)

// recorded is what was set of one resource, as the row holds it.
type recorded struct {
	V int `json:"v"`
	// Topic is the life of the queue that a topic's row belongs to: a topic that is made again starts clean.
	Topic string            `json:"topic,omitempty"`
	Set   map[string]string `json:"set"`

	at format.Place
}

const recordedVersion = 1

// Kinds of resources, as the names of rows begin.
const (
	ofTopic  = "topic/"
	ofGroup  = "group/"
	ofBroker = "broker/"
)

// decodeRecorded reads a row; one that a newer version wrote is refused.
func decodeRecorded(b []byte) (recorded, error) {
	var r recorded
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("a row of configuration does not decode: %w", err)
	}
	if r.V != recordedVersion {
		return r, fmt.Errorf("a row of configuration has version %d, and %d is known here", r.V, recordedVersion)
	}
	return r, nil
}

// recordedOf reads what was set of a resource; life is the topic's id, zero for others. A row of another life counts as
// none, but its place is kept: it is what a change goes over.
func (f *Frontend) recordedOf(t format.Tenant, name string, life format.UUID) (recorded, error) {
	row, ok := f.rows.AdminRow(t, format.AdminKafkaConfig, name)
	if !ok {
		return recorded{}, nil
	}
	r, err := decodeRecorded(row.Value)
	if err != nil {
		return recorded{}, err
	}
	r.at = row.At
	if r.Topic != lifeName(life) {
		r.Set = nil
	}
	return r, nil
}

func lifeName(life format.UUID) string {
	if life.IsZero() {
		return ""
	}
	return life.String()
}

// errChanged says that a row is not any more what a change was made of.
var errChanged = errors.New("the configuration was changed at the same moment")

// record writes what is set of a resource over what recordedOf read. Nothing set is no row.
func (f *Frontend) record(ctx context.Context, t format.Tenant, name string, life format.UUID, over format.Place, set map[string]string) error {
	if len(set) == 0 && over.IsZero() {
		return nil
	}
	value, err := json.Marshal(recorded{V: recordedVersion, Topic: lifeName(life), Set: set})
	if err != nil {
		return err
	}
	change := engine.AdminChange{Kind: format.AdminKafkaConfig, Name: name, Value: value, Delete: len(set) == 0, Guarded: true, At: over}
	applied, err := f.rows.SetAdmin(ctx, t, change)
	if errors.Is(err, &engine.Error{Code: engine.CodeTooLarge}) && f.sweepRecorded(ctx, t) {
		applied, err = f.rows.SetAdmin(ctx, t, change)
	}
	if err == nil && !applied {
		return errChanged
	}
	return err
}

// sweepRecorded removes rows of topics that are no more: their queues were deleted by others. It tells whether there
// were any.
func (f *Frontend) sweepRecorded(ctx context.Context, t format.Tenant) (any bool) {
	for after := ofTopic; ; {
		rows := f.rows.AdminRows(t, format.AdminKafkaConfig, after, 256)
		for _, row := range rows {
			after = row.Name
			name, ok := strings.CutPrefix(row.Name, ofTopic)
			if !ok {
				return any
			}
			r, err := decodeRecorded(row.Value)
			q, missing := f.engine.Catalog().Topic(ctx, engine.Caller{Tenant: t}, name)
			if err != nil || missing == nil && lifeName(q.Topic) == r.Topic {
				continue
			}
			gone, _ := f.rows.SetAdmin(ctx, t, engine.AdminChange{Kind: format.AdminKafkaConfig, Name: row.Name, Delete: true,
				Guarded: true, At: row.At})
			any = any || gone
		}
		if len(rows) == 0 {
			return any
		}
	}
}

// forgetTopic removes what was recorded of a topic that is no more, and not of the next of its name.
func (f *Frontend) forgetTopic(ctx context.Context, t format.Tenant, gone *topic) {
	name := ofTopic + gone.name
	row, ok := f.rows.AdminRow(t, format.AdminKafkaConfig, name)
	if !ok {
		return
	}
	if r, err := decodeRecorded(row.Value); err == nil && r.Topic == lifeName(gone.queue.Topic) {
		// A row that stays is ignored and swept later.
		_, _ = f.rows.SetAdmin(ctx, t, engine.AdminChange{Kind: format.AdminKafkaConfig, Name: name, Delete: true, Guarded: true, At: row.At})
	}
}

// topicSettings are what producers and readers of a topic must know of its configuration.
type topicSettings struct {
	// maxMessageBytes bounds a batch as it is sent.
	maxMessageBytes int
	// compact says that records need a key; appendTime that records get the time of their append.
	compact, appendTime bool
	// compactOnly says that nothing is removed by age either.
	compactOnly bool
}

var defaultSettings = topicSettings{maxMessageBytes: defaultMaxMessageBytes}

// settingsCache keeps parsed settings as of a generation of the administrative rows.
type settingsCache struct{ at atomic.Pointer[settingsOf] }

type settingsOf struct {
	generation uint64
	mu         sync.Mutex
	topics     map[settingsKey]*topicSettings // at most settingsMax
}

type settingsKey struct {
	tenant format.Tenant
	life   format.UUID
}

const settingsMax = 10_000

// settings are those of a topic: a look into a map unless a row changed.
func (f *Frontend) settings(who engine.Caller, t *topic) *topicSettings {
	generation := f.rows.AdminGeneration()
	s := f.cached.at.Load()
	if s == nil || s.generation != generation {
		s = &settingsOf{generation: generation, topics: map[settingsKey]*topicSettings{}}
		f.cached.at.Store(s)
	}
	key := settingsKey{who.Tenant, t.queue.Topic}
	s.mu.Lock()
	defer s.mu.Unlock()
	made, ok := s.topics[key]
	if !ok {
		made = f.parseSettings(who, t)
		if len(s.topics) < settingsMax {
			s.topics[key] = made
		}
	}
	if t.queue.Options.CompactKeys && !made.compact { // others had it compacted
		keyed := *made
		keyed.compact = true
		return &keyed
	}
	return made
}

func (f *Frontend) parseSettings(who engine.Caller, t *topic) *topicSettings {
	r, err := f.recordedOf(who.Tenant, ofTopic+t.name, t.queue.Topic)
	if err != nil || len(r.Set) == 0 {
		return &defaultSettings
	}
	s := defaultSettings
	if n, err := strconv.Atoi(r.Set[maxMessageBytes]); err == nil {
		s.maxMessageBytes = n
	}
	s.compact = compacts(r.Set)
	s.compactOnly = s.compact && !deletes(r.Set)
	s.appendTime = r.Set[timestampType] == "LogAppendTime"
	return &s
}

func compacts(set map[string]string) bool { return strings.Contains(set[cleanupPolicy], "compact") }

// groupSettings are what was configured of a group, over the defaults.
func (f *Frontend) groupSettings(who engine.Caller, group string) map[string]string {
	all := map[string]string{}
	for _, n := range groupConfigs {
		all[n.name] = n.def
	}
	if r, err := f.recordedOf(who.Tenant, ofGroup+group, format.UUID{}); err == nil {
		maps.Copy(all, r.Set)
	}
	return all
}

// effective is every name of a topic with its value; set says which were set by somebody.
func (f *Frontend) effective(t *topic, r recorded) (values map[string]string, set map[string]bool) {
	values, set = map[string]string{}, map[string]bool{}
	for _, n := range topicConfigs {
		values[n.name] = n.def
	}
	for name, v := range r.Set {
		values[name], set[name] = v, true
	}
	// What the queue does about age and size is the truth, whoever configured it.
	have := retainedBy(&t.queue.Options)
	told := func(name string, have int64) {
		switch {
		case have >= 0 && bound(values[name]) != have:
			values[name], set[name] = strconv.FormatInt(have, 10), true
		case have < 0 && set[name] && deletes(r.Set) && bound(values[name]) >= 0:
			values[name] = "-1"
			delete(set, name)
		}
	}
	told(retentionMs, have.ms)
	told(retentionBytes, have.bytes)
	tellCompaction(&t.queue.Options, values, set)
	return values, set
}

// deletes tells whether the policy removes records by age.
func deletes(set map[string]string) bool {
	v, ok := set[cleanupPolicy]
	return !ok || strings.Contains(v, "delete")
}

// bound is what a queue is told of a retention.ms or retention.bytes: at least 1; -1 for no bound.
func bound(value string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return max(n, 1)
}

// retained bounds what a partition keeps; -1 for no bound.
type retained struct{ ms, bytes int64 }

// retainedBy is what a queue's options say. Milliseconds count only while the seconds are what they are rounded up.
func retainedBy(o *format.QueueOptions) retained {
	r := retained{-1, -1}
	if o.RetentionEnabled && o.RetentionSeconds > 0 {
		r.ms = min(o.RetentionSeconds, math.MaxInt64/1000) * 1000
		if o.RetentionMs > 0 && wholeSeconds(o.RetentionMs) == o.RetentionSeconds {
			r.ms = o.RetentionMs
		}
	}
	if o.RetentionBytes > 0 {
		r.bytes = o.RetentionBytes
	}
	return r
}

// wholeSeconds rounds milliseconds up.
func wholeSeconds(ms int64) int64 { return (ms-1)/1000 + 1 }

// patch makes options of it.
func (r retained) patch() format.QueueOptions {
	o := format.QueueOptions{Set: format.OptRetentionEnabled | format.OptRetentionSeconds | format.OptRetentionMs |
		format.OptRetentionBytes, RetentionBytes: max(r.bytes, 0)}
	if r.ms >= 0 {
		o.RetentionEnabled, o.RetentionSeconds, o.RetentionMs = true, wholeSeconds(r.ms), r.ms
	}
	return o
}

// apply makes values the configuration of a topic: what the queue has an option for goes there, in one change before the
// row, which holds everything that was set.
func (f *Frontend) apply(ctx context.Context, who engine.Caller, t *topic, r recorded, set map[string]string) error {
	if patch := optionsOf(&t.queue.Options, r.Set, set); patch.Set != 0 {
		if _, err := f.engine.Catalog().Configure(ctx, who, engine.ConfigureRequest{Queue: t.name, Patch: patch,
			Guarded: true, Life: t.queue.ID}); err != nil {
			return err
		}
	}
	return f.record(ctx, who.Tenant, ofTopic+t.name, t.queue.Topic, r.at, set)
}

// optionsOf are the options of a queue that have to change from have, as it was with what was set before, for set.
func optionsOf(have *format.QueueOptions, before, set map[string]string) (patch format.QueueOptions) {
	want := retained{-1, -1}
	if deletes(set) {
		want = retained{bound(valueOr(set, retentionMs, "-1")), bound(valueOr(set, retentionBytes, "-1"))}
	}
	// What others configured of a topic that removes nothing for Kafka stays.
	if want != retainedBy(have) && (deletes(set) || deletes(before)) {
		patch = want.patch()
	}
	if rule := compactionOf(set); rule != compactedBy(have) {
		rule.patch(&patch)
	}
	return patch
}

// recordFirst writes what is set of a topic that was just made. What was left of one of the same name before is written over.
func (f *Frontend) recordFirst(ctx context.Context, t format.Tenant, made *topic, set map[string]string) (err error) {
	for range alterAttempts {
		var r recorded
		if r, err = f.recordedOf(t, ofTopic+made.name, made.queue.Topic); err == nil {
			err = f.record(ctx, t, ofTopic+made.name, made.queue.Topic, r.at, set)
		}
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return err
}

func valueOr(set map[string]string, name, def string) string {
	if v, ok := set[name]; ok {
		return v
	}
	return def
}

// checkTopicConfig tells what is wrong with a name and value of a topic.
func (c *conn) checkTopicConfig(name, value string) error {
	n := topicConfigs.find(name)
	if n == nil {
		return &fault{kerr.InvalidConfig, fmt.Sprintf("unknown topic configuration %.64q", name)}
	}
	if err := n.valid(value); err != nil {
		return &fault{kerr.InvalidConfig, err.Error()}
	}
	if name == minInsync {
		voters := len(c.cluster().voters)
		if v, _ := strconv.Atoi(strings.TrimSpace(value)); v > voters/2+1 {
			return &fault{kerr.InvalidConfig, fmt.Sprintf("%s %d is more than the majority of %d nodes", minInsync, v, voters)}
		}
	}
	return nil
}
