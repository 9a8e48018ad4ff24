package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Rate is how much a tenant may do: Per a second, and Burst at once. Per 0 is no bound; Burst 0 is as much as one second
// gives.
type Rate struct{ Per, Burst float64 }

// burst is what a full bucket holds, at least one.
func (r Rate) burst() float64 {
	if r.Burst > 0 {
		return max(r.Burst, 1)
	}
	return max(r.Per, 1)
}

// Plan bounds what a tenant may do on one node. A zero is no bound.
type Plan struct {
	// Rates holds one Rate per Bucket.
	Rates [buckets]Rate
	// Queues bounds the queues of the tenant, PartitionsPerQueue the partitions of each.
	Queues, PartitionsPerQueue int
	// ParkedPops bounds the pops that may be waiting at a time.
	ParkedPops int
	// PayloadBytes bounds one message, BatchItems the messages of one push.
	PayloadBytes int64
	BatchItems   int
	// Shadow counts what would be refused and refuses nothing, sizes apart (S-ten-7).
	Shadow bool
}

// Bucket is what a rate counts.
type Bucket uint8

// The buckets. A transaction takes from Messages only.
const (
	Requests  Bucket = iota // calls
	Messages                // messages pushed
	KVWrites                // KV calls that write, timer calls that schedule
	KVReads                 // other KV calls
	Ephemeral               // messages pushed to ephemeral queues
	buckets
)

// Names of buckets and of bounds, as metrics and refusals tell them.
var bucketNames = [buckets]string{"requests", "messages", "kv_write", "kv_read", "ephemeral"}

func (b Bucket) String() string { return bucketNames[b] }

// UpstreamPlan is the name of the plan with the figures that Queen MQ documents for its tenants.
const UpstreamPlan = "upstream"

var upstreamPlan = Plan{Rates: [buckets]Rate{KVWrites: {100, 200}, KVReads: {200, 400}, Ephemeral: {5000, 10_000}}}

// planFile is the YAML of plans.
type planFile struct {
	Plans   map[string]planEntry `yaml:"plans"`
	Tenants map[string]string    `yaml:"tenants"`
}

type planEntry struct {
	RequestsPerSecond  float64 `yaml:"requests_per_second"`
	RequestsBurst      float64 `yaml:"requests_burst"`
	MessagesPerSecond  float64 `yaml:"messages_per_second"`
	MessagesBurst      float64 `yaml:"messages_burst"`
	KVWritesPerSecond  float64 `yaml:"kv_writes_per_second"`
	KVWritesBurst      float64 `yaml:"kv_writes_burst"`
	KVReadsPerSecond   float64 `yaml:"kv_reads_per_second"`
	KVReadsBurst       float64 `yaml:"kv_reads_burst"`
	EphemeralPerSecond float64 `yaml:"ephemeral_messages_per_second"`
	EphemeralBurst     float64 `yaml:"ephemeral_messages_burst"`
	Queues             int     `yaml:"queues"`
	PartitionsPerQueue int     `yaml:"partitions_per_queue"`
	ParkedPops         int     `yaml:"parked_pops"`
	PayloadBytes       int64   `yaml:"payload_bytes"`
	BatchItems         int     `yaml:"batch_items"`
	Shadow             bool    `yaml:"shadow"`
}

func (e *planEntry) plan() (*Plan, error) {
	p := &Plan{Queues: e.Queues, PartitionsPerQueue: e.PartitionsPerQueue, ParkedPops: e.ParkedPops,
		PayloadBytes: e.PayloadBytes, BatchItems: e.BatchItems, Shadow: e.Shadow}
	p.Rates = [buckets]Rate{Requests: {e.RequestsPerSecond, e.RequestsBurst}, Messages: {e.MessagesPerSecond, e.MessagesBurst},
		KVWrites: {e.KVWritesPerSecond, e.KVWritesBurst}, KVReads: {e.KVReadsPerSecond, e.KVReadsBurst},
		Ephemeral: {e.EphemeralPerSecond, e.EphemeralBurst}}
	for b, r := range p.Rates {
		switch {
		case !(r.Per >= 0 && r.Per <= 1e12 && r.Burst >= 0 && r.Burst <= 1e12): // also false for what is no number
			return nil, fmt.Errorf("%s: a rate and its burst are from 0 to 1e12", bucketNames[b])
		case r.Per == 0 && r.Burst > 0:
			return nil, fmt.Errorf("%s: a burst does nothing without a rate", bucketNames[b])
		}
	}
	if e.Queues < 0 || e.PartitionsPerQueue < 0 || e.ParkedPops < 0 || e.PayloadBytes < 0 || e.BatchItems < 0 {
		return nil, errors.New("a bound is negative")
	}
	return p, nil
}

// Plans says which tenant has which plan.
type Plans struct {
	otherwise *Plan // of tenants that are not listed; nil is none
	tenants   map[Tenant]*Plan
}

// tenantsMax bounds the tenants of a file.
const tenantsMax = 1_000_000

// ParsePlans reads a plan file, which may be empty. otherwise is the name of the plan of tenants that it does not list:
// one of the file, UpstreamPlan, or "" for none.
func ParsePlans(data []byte, otherwise string) (*Plans, error) {
	var f planFile
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if len(f.Tenants) > tenantsMax {
		return nil, fmt.Errorf("%d tenants, at most %d", len(f.Tenants), tenantsMax)
	}
	named := map[string]*Plan{UpstreamPlan: &upstreamPlan}
	for _, name := range slices.Sorted(maps.Keys(f.Plans)) {
		e := f.Plans[name]
		p, err := e.plan()
		switch {
		case err != nil:
			return nil, fmt.Errorf("plan %s: %w", name, err)
		case name == UpstreamPlan:
			return nil, fmt.Errorf("plan %s: the name is that of a plan with fixed figures", name)
		}
		named[name] = p
	}
	ps := &Plans{tenants: make(map[Tenant]*Plan, len(f.Tenants))}
	for _, id := range slices.Sorted(maps.Keys(f.Tenants)) {
		t, ok := ParseTenant(id)
		p := named[f.Tenants[id]]
		switch {
		case !ok:
			return nil, fmt.Errorf("tenant %q: want a UUID", id)
		case p == nil:
			return nil, fmt.Errorf("tenant %s: there is no plan %q", id, f.Tenants[id])
		}
		ps.tenants[t] = p
	}
	if ps.otherwise = named[otherwise]; ps.otherwise == nil && otherwise != "" {
		return nil, fmt.Errorf("there is no plan %q", otherwise)
	}
	return ps, nil
}

// of is the plan of a tenant, nil for none.
func (ps *Plans) of(t Tenant) *Plan {
	if p, ok := ps.tenants[t]; ok {
		return p
	}
	return ps.otherwise
}
