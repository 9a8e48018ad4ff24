package frontendhttp

import (
	"context"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"queen/engine"
	"queen/engine/format"
)

// otherLabel collects what is above a label's cap.
const otherLabel = "_other"

// family is one row of the metric table: a name, what it means, its labels, and what kind it is.
type metricFamily struct {
	name, help string
	labels     []string
	kind       prometheus.ValueType
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// metricTable is every family read from the engine at a scrape.
var metricTable = []metricFamily{
	{"queen_build_info", "The build, always 1.", []string{"version", "commit", "go"}, gauge},
	{"queen_start_time_seconds", "When the frontend was built, seconds since the epoch.", nil, gauge},
	{"queen_messages_total", "Messages by what happened to them.", []string{"op"}, counter},
	{"queen_message_bytes_total", "Payload bytes pushed (in) and delivered (out).", []string{"direction"}, counter},
	{"queen_longpoll_parked", "Requests waiting for messages.", []string{"frontend"}, gauge},
	{"queen_admission_inflight_bytes", "Bytes of writes between admission and apply.", nil, gauge},
	{"queen_admission_refused_total", "Writes refused before they reached the log.", []string{"reason"}, counter},
	{"queen_quota_refused_total", "What tenants' plans refused, or would refuse in shadow.", []string{"limit"}, counter},
	{"queen_raft_index", "Positions in the log.", []string{"kind"}, gauge},
	{"queen_raft_term", "The current term.", nil, gauge},
	{"queen_raft_is_leader", "1 on the leader.", nil, gauge},
	{"queen_raft_group_leader", "1 on the node that leads the raft group.", []string{"group"}, gauge},
	{"queen_raft_group_term", "The raft group's current term.", []string{"group"}, gauge},
	{"queen_raft_group_index", "Positions in the raft group's log: what is committed as far as the node knows, and what it has applied.",
		[]string{"group", "kind"}, gauge},
	{"queen_raft_group_writable", "1 where a write of a tenant of the raft group would commit.", []string{"group"}, gauge},
	{"queen_cluster_members", "Members of the cluster by how they answer this node, itself included; port_silent ones run.", []string{"state"}, gauge},
	{"queen_raft_commit_duration_seconds", "From proposal to apply.", nil, gauge},
	{"queen_fsync_duration_seconds", "Flushes of the log.", []string{"file"}, gauge},
	{"queen_segments", "Segment files.", []string{"state"}, gauge},
	{"queen_storage_bytes", "Bytes on disk.", []string{"kind"}, gauge},
	{"queen_disk_free_ratio", "Free share of the data directory's file system.", nil, gauge},
	{"queen_storage_full", "1 while writes that grow storage are refused.", nil, gauge},
	{"queen_queue_messages", "Retained messages, as of the last sweep.", []string{"queue"}, gauge},
	{"queen_dlq_messages", "Dead letters.", []string{"queue"}, gauge},
	{"queen_group_lag_messages", "Messages a consumer group has before it.", []string{"queue", "group"}, gauge},
	{"queen_group_oldest_unacked_age_seconds", "Age of a group's oldest unconsumed message.",
		[]string{"queue", "group"}, gauge},
	{"queen_group_leases", "Live leases of a consumer group.", []string{"queue", "group"}, gauge},
	// Names that upstream's dashboards read, from the same counters.
	{"queen_uptime_seconds", "Seconds since the frontend was built.", nil, gauge},
	{"queen_process_resident_memory_bytes", "Resident memory.", nil, gauge},
	{"queen_dlq_depth_by_queue", "Dead letters; same as queen_dlq_messages.", []string{"queue"}, gauge},
	{"queen_queue_pop_lag_milliseconds", "Age of the oldest message of a delivery, over the last minute.",
		[]string{"stat"}, gauge},
	{"queen_raft_storage_full", "Same as queen_storage_full.", nil, gauge},
	{"queen_ephemeral_bytes", "Memory that ephemeral queues take.", nil, gauge},
	{"queen_ephemeral_queues", "Ephemeral queues in memory.", nil, gauge},
	{"queen_ephemeral_parked", "Pops that wait on ephemeral queues.", nil, gauge},
	{"queen_ephemeral_messages_total", "Messages of ephemeral queues, by what happened.", []string{"what"}, counter},
	{"queen_ephemeral_dropped_total", "Ephemeral messages that nobody consumed, by cause.", []string{"cause"}, counter},
	{"queen_locks_ops_total", "Acquires and renewals of locks.", []string{"outcome"}, counter},
	{"queen_timer_lateness_seconds", "From when a timer was due to when it fired.", nil, gauge},
	{"queen_timer_oldest_overdue_seconds", "How long the timer that is most overdue waits to fire; 0 when none is.", nil, gauge},
}

// engineCollector reads the engine at each scrape: counters, health, and per queue and group what the last sweep
// found. It does no work per partition.
type engineCollector struct {
	f     *Frontend
	descs map[string]*prometheus.Desc
	kinds map[string]prometheus.ValueType
	// tenant is whose queues and groups are shown; named is false when those of nobody are.
	tenant format.Tenant
	named  bool
}

// of is the same for one reader.
func (e *engineCollector) of(t format.Tenant, named bool) *engineCollector {
	mine := *e
	mine.tenant, mine.named = t, named
	return &mine
}

func newEngineCollector(f *Frontend) *engineCollector {
	e := &engineCollector{f: f, descs: map[string]*prometheus.Desc{}, kinds: map[string]prometheus.ValueType{}}
	for _, m := range metricTable {
		e.descs[m.name] = prometheus.NewDesc(m.name, m.help, m.labels, nil)
		e.kinds[m.name] = m.kind
	}
	return e
}

// Describe is part of prometheus.Collector.
func (e *engineCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metricTable {
		ch <- e.descs[m.name]
	}
}

// scrape is one Collect under way.
type scrape struct {
	*engineCollector
	ch chan<- prometheus.Metric
}

func (s scrape) value(name string, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(s.descs[name], s.kinds[name], v, labels...)
}

// Collect is part of prometheus.Collector.
func (e *engineCollector) Collect(ch chan<- prometheus.Metric) {
	s, f := scrape{e, ch}, e.f
	uptime := float64(f.uptime()) / 1e6
	s.value("queen_build_info", 1, f.opts.Version, f.opts.Commit, runtime.Version())
	s.value("queen_start_time_seconds", float64(f.now())/1e6-uptime)
	s.value("queen_uptime_seconds", uptime)
	s.value("queen_process_resident_memory_bytes", float64(residentBytes()))
	s.value("queen_longpoll_parked", float64(f.parked.Load()), "http")
	if avg, most, ok := f.metrics.lag.read(int64(f.now())); ok {
		s.value("queen_queue_pop_lag_milliseconds", float64(avg)/1e3, "avg")
		s.value("queen_queue_pop_lag_milliseconds", float64(most)/1e3, "max")
	}
	f.opts.Quotas.Refused(func(limit string, n uint64) { s.value("queen_quota_refused_total", float64(n), limit) })
	eng := f.attached()
	if eng == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.stats(eng.Inspect().Stats())
	s.ephemeral(eng.Ephemeral().System())
	if st, err := eng.Status(ctx); err == nil {
		s.status(&st)
	}
	if m, ok := engine.MembershipOf(eng); ok {
		s.members(m.Members())
	}
	if !e.named {
		return
	}
	caller := engine.Caller{Tenant: e.tenant}
	shown := s.queues(ctx, eng, caller)
	if groups, err := eng.Catalog().Groups(ctx, caller); err == nil {
		s.groups(groups, shown)
	}
}

func (s scrape) stats(st engine.Stats) {
	for op, n := range map[string]uint64{"push": st.Pushed, "duplicate": st.Duplicates, "deliver": st.DeliveredMessages,
		"ack": st.Acked, "nack": st.Nacked, "dlq": st.DeadLettered, "replay": st.Redriven} {
		s.value("queen_messages_total", float64(n), op)
	}
	s.value("queen_message_bytes_total", float64(st.PushedBytes), "in")
	s.value("queen_message_bytes_total", float64(st.DeliveredBytes), "out")
	s.value("queen_admission_inflight_bytes", float64(st.InflightWriteBytes))
	s.value("queen_admission_refused_total", float64(st.Overloaded), "overloaded")
	s.value("queen_admission_refused_total", float64(st.StorageRefused), "storage_full")
	s.value("queen_locks_ops_total", float64(st.LocksGranted), "granted")
	s.value("queen_locks_ops_total", float64(st.LocksRefused), "refused")
	s.value("queen_segments", float64(st.Segments), "all")
	s.value("queen_storage_bytes", float64(st.LogBytes), "log")
	s.value("queen_storage_bytes", float64(st.CheckpointBytes), "store")
	if st.DiskTotal > 0 {
		s.value("queen_disk_free_ratio", float64(st.DiskFree)/float64(st.DiskTotal))
	}
	s.ch <- prometheus.MustNewConstSummary(s.descs["queen_fsync_duration_seconds"], st.Flushes,
		float64(st.FlushMicros)/1e6, nil, "log")
	s.histogram("queen_raft_commit_duration_seconds", &st.CommitMicros, 5, 25) // 32 us to 34 s
	s.histogram("queen_timer_lateness_seconds", &st.TimerLateMicros, 10, 30)   // 1 ms to 18 minutes: a stop makes many late
	s.value("queen_timer_oldest_overdue_seconds", float64(st.TimerOldestLateMicros)/1e6)
}

// histogram turns powers of two of microseconds into buckets, from 2^low to 2^high: count i is of those of i bits, so below
// 2^i.
func (s scrape) histogram(name string, h *engine.Histogram, low, high int) {
	buckets, total := map[float64]uint64{}, uint64(0)
	for i, n := range h.Counts {
		total += n
		if i >= low && i <= high {
			buckets[float64(uint64(1)<<i)/1e6] = total
		}
	}
	s.ch <- prometheus.MustNewConstHistogram(s.descs[name], total, float64(h.Sum)/1e6, buckets)
}

func (s scrape) status(st *engine.Status) {
	s.value("queen_raft_index", float64(st.Applied), "applied")
	s.value("queen_raft_index", float64(st.Durable), "durable")
	s.value("queen_raft_term", float64(st.Term))
	s.value("queen_raft_is_leader", oneIf(st.Role == "leader"))
	s.value("queen_storage_full", oneIf(st.StorageFull))
	s.value("queen_raft_storage_full", oneIf(st.StorageFull))
	for _, g := range st.RaftGroups() {
		name := strconv.Itoa(int(g.Group))
		s.value("queen_raft_group_leader", oneIf(g.Role == "leader"), name)
		s.value("queen_raft_group_term", float64(g.Term), name)
		s.value("queen_raft_group_index", float64(g.Applied), name, "applied")
		s.value("queen_raft_group_index", float64(g.Commit), name, "committed")
		s.value("queen_raft_group_writable", oneIf(g.CanWrite), name)
	}
}

func (s scrape) members(all []engine.Member) {
	count := map[string]int{"answers": 0, "silent": 0, "port_silent": 0}
	for i := range all {
		count[all[i].Reach()]++
	}
	for state, n := range count {
		s.value("queen_cluster_members", float64(n), state)
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// queues renders the first queues by name and the rest of the tenant's totals as one; it returns which are shown.
func (s scrape) queues(ctx context.Context, eng engine.Engine, c engine.Caller) map[string]bool {
	shown := map[string]bool{}
	rows, next, err := eng.Catalog().Queues(ctx, c, engine.Page{Limit: s.f.opts.LabeledQueues})
	if err != nil {
		return shown
	}
	var messages, dead uint64
	for i := range rows {
		q := &rows[i]
		shown[q.Name] = true
		messages += q.Messages
		dead += q.DeadLetters
		s.queue(q.Name, q.Messages, q.DeadLetters)
	}
	if next == "" {
		return shown
	}
	if all, err := eng.Inspect().Overview(ctx, c); err == nil {
		s.queue(otherLabel, all.Total-min(messages, all.Total), all.DeadLetters-min(dead, all.DeadLetters))
	}
	return shown
}

func (s scrape) queue(name string, messages, dead uint64) {
	s.value("queen_queue_messages", float64(messages), name)
	s.value("queen_dlq_messages", float64(dead), name)
	s.value("queen_dlq_depth_by_queue", float64(dead), name)
}

// groupKey is a pair of label values.
type groupKey struct{ queue, group string }

type groupSum struct {
	lag, leases uint64
	oldest      format.Wall
}

// groups renders one series per (queue, group) below the caps of both labels.
func (s scrape) groups(rows []engine.GroupInfo, shown map[string]bool) {
	names, sums := map[string]bool{}, map[groupKey]groupSum{}
	for i := range rows {
		g := &rows[i]
		k := groupKey{g.Queue, g.Name}
		if !shown[k.queue] {
			k.queue = otherLabel
		}
		if !names[k.group] && len(names) >= s.f.opts.LabeledQueues {
			k.group = otherLabel
		}
		names[k.group] = true
		sum := sums[k]
		sum.lag += g.Lag
		sum.leases += g.Leases
		if g.OldestLagAt != 0 && (sum.oldest == 0 || g.OldestLagAt < sum.oldest) {
			sum.oldest = g.OldestLagAt
		}
		sums[k] = sum
	}
	now := s.f.now()
	for k, sum := range sums {
		s.value("queen_group_lag_messages", float64(sum.lag), k.queue, k.group)
		s.value("queen_group_leases", float64(sum.leases), k.queue, k.group)
		s.value("queen_group_oldest_unacked_age_seconds", float64(age(now, sum.oldest)), k.queue, k.group)
	}
}
