package frontendmcp

import (
	"cmp"
	"strings"

	"queen/engine"
	"queen/engine/diagnosis"
	"queen/engine/format"
	"queen/engine/stats"
)

type sample struct {
	Name  string  `json:"name"`
	Kind  string  `json:"kind" jsonschema:"counter, since the node started, or gauge"`
	Unit  string  `json:"unit,omitempty"`
	Value float64 `json:"value"`
}

type point struct {
	At        string `json:"at"`
	Pushed    uint64 `json:"pushed"`
	Delivered uint64 `json:"delivered"`
	Acked     uint64 `json:"acked"`
	Failed    uint64 `json:"failed" jsonschema:"acks that told a failure"`
}

type metricsArgs struct {
	Family  string `json:"family,omitempty" jsonschema:"beginning of the names to show"`
	Queue   string `json:"queue,omitempty" jsonschema:"its activity instead of the tenant's"`
	WindowS int    `json:"window_s,omitempty" jsonschema:"how far back the series goes, 60 to 3600; default 900"`
}

type metricsResult struct {
	Meta
	Samples []sample `json:"samples" jsonschema:"of this node, of all tenants"`
	Series  []point  `json:"series" jsonschema:"by the minute; empty when it is not counted"`
}

func nodeTools() []*tool {
	return []*tool{
		row(tool{name: "metrics_read", title: "Read metrics", toolset: "cluster",
			text: "Counters and gauges of the node, and what a queue or the tenant did by the minute."}, metricsRead),
		row(tool{name: "storage_stat", title: "Storage", toolset: "storage",
			text: "Segments, bytes and disk of the node; with queue, what that queue retains."}, storageStat),
		row(tool{name: "config_show", title: "Show settings", toolset: "cluster",
			text: "The node's settings, with secrets masked and where each comes from."}, configShow),
	}
}

func metricsRead(c *call, in metricsArgs) (out metricsResult, err error) {
	window, err := oneOf("window_s", in.WindowS, 900, 60, 3600)
	if err != nil {
		return out, err
	}
	id := format.QueueID(0)
	if in.Queue != "" {
		q, err := c.engine.Catalog().Queue(c.ctx, c.caller, in.Queue)
		if err != nil {
			return out, err
		}
		id = q.ID
	}
	st := c.engine.Inspect().Stats()
	out.Meta, out.Samples, out.Series = c.meta(), []sample{}, []point{}
	for _, s := range samplesOf(&st) {
		if strings.HasPrefix(s.Name, in.Family) {
			out.Samples = append(out.Samples, s)
		}
	}
	if ops, ok := engine.OperationsOf(c.engine); ok {
		now := c.f.now()
		points, _ := ops.Activity(c.caller, id, now-format.Wall(window)*1e6, now)
		for i := range points {
			p := &points[i]
			out.Series = append(out.Series, point{timeText(p.At), p.Counts[stats.PushMessages], p.Counts[stats.PopMessages],
				p.Counts[stats.AckSuccess], p.Counts[stats.AckFailed]})
		}
	}
	out.Series = out.Series[max(0, len(out.Series)-120):]
	all := len(out.Samples)
	out.Samples, _ = fit(c, out.Samples)
	c.cut(&out.Meta, all-len(out.Samples), "name a family")
	points := len(out.Series)
	out.Series, _ = fit(c, out.Series)
	c.cut(&out.Meta, points-len(out.Series), "ask for a shorter window_s")
	return out, nil
}

// samplesOf names the node's counters as its metrics do.
func samplesOf(s *engine.Stats) []sample {
	n := func(name, kind, unit string, v uint64) sample { return sample{name, kind, unit, float64(v)} }
	return []sample{
		n("acked_total", "counter", "messages", s.Acked), n("checkpoint_bytes", "gauge", "bytes", s.CheckpointBytes),
		n("dead_lettered_total", "counter", "messages", s.DeadLettered), n("delivered_bytes_total", "counter", "bytes", s.DeliveredBytes),
		n("delivered_total", "counter", "messages", s.DeliveredMessages), n("disk_free_bytes", "gauge", "bytes", s.DiskFree),
		n("disk_total_bytes", "gauge", "bytes", s.DiskTotal), n("duplicates_total", "counter", "messages", s.Duplicates),
		n("entries_total", "counter", "", s.Entries), n("flushes_total", "counter", "", s.Flushes), n("groups", "gauge", "", s.Groups),
		n("handed_back_total", "counter", "messages", s.HandedBack), n("kv_reads_total", "counter", "", s.KVReads),
		n("kv_rows", "gauge", "", s.KVRows), n("kv_writes_total", "counter", "", s.KVWrites), n("leases", "gauge", "", s.LiveLeases),
		n("log_bytes", "gauge", "bytes", s.LogBytes), n("nacked_total", "counter", "messages", s.Nacked),
		n("overloaded_total", "counter", "", s.Overloaded), n("parked_pops", "gauge", "", uint64(max(s.Parked, 0))),
		n("partitions", "gauge", "", s.Partitions), n("pushed_bytes_total", "counter", "bytes", s.PushedBytes),
		n("pushed_total", "counter", "messages", s.Pushed), n("queues", "gauge", "", s.Queues), n("redriven_total", "counter", "messages", s.Redriven),
		n("refused_total", "counter", "messages", s.Refused), n("rolled_back_total", "counter", "", s.RolledBack),
		n("segments", "gauge", "", s.Segments), n("storage_refused_total", "counter", "", s.StorageRefused),
		n("timers_fired_total", "counter", "", s.TimersFired), n("timers_pending", "gauge", "", s.TimersPending),
		n("transactions_total", "counter", "", s.Transactions), n("write_inflight_bytes", "gauge", "bytes", uint64(max(s.InflightWriteBytes, 0))),
	}
}

type storageArgs struct {
	Queue string `json:"queue,omitempty"`
}

type storageResult struct {
	Meta
	Segments        uint64   `json:"segments" jsonschema:"of the log"`
	LogBytes        uint64   `json:"log_bytes"`
	BulkSegments    uint64   `json:"bulk_segments" jsonschema:"those that live messages were moved to"`
	BulkBytes       uint64   `json:"bulk_bytes"`
	DeadBytes       *uint64  `json:"dead_bytes" jsonschema:"of closed segments: what holds nothing that is needed; null before they were looked at"`
	DeadAt          *string  `json:"dead_counted_at" jsonschema:"when they were"`
	CheckpointBytes uint64   `json:"checkpoint_bytes"`
	DiskTotal       *uint64  `json:"disk_total_bytes"`
	DiskFree        *uint64  `json:"disk_free_bytes"`
	DiskUsedPct     *float64 `json:"disk_used_pct"`
	Full            bool     `json:"storage_full"`
	Queue           *struct {
		Name     string `json:"name"`
		Messages uint64 `json:"messages"`
		Bytes    uint64 `json:"retained_bytes"`
	} `json:"queue"`
}

func storageStat(c *call, in storageArgs) (out storageResult, err error) {
	st, err := c.engine.Status(c.ctx)
	if err != nil {
		return out, err
	}
	s := c.engine.Inspect().Stats()
	out.Meta, out.Segments, out.LogBytes, out.CheckpointBytes, out.Full = c.meta(), s.Segments, s.LogBytes, s.CheckpointBytes, st.StorageFull
	out.BulkSegments, out.BulkBytes = s.Bulks, s.BulkBytes
	if out.DeadAt = maybeTime(s.DeadAt); out.DeadAt != nil {
		out.DeadBytes = &s.DeadBytes
	}
	if out.DiskUsedPct = diagnosis.DiskUsed(&s); out.DiskUsedPct != nil {
		out.DiskTotal, out.DiskFree = &s.DiskTotal, &s.DiskFree
	}
	if in.Queue == "" {
		return out, nil
	}
	q, err := c.engine.Catalog().Queue(c.ctx, c.caller, in.Queue)
	if err != nil {
		return out, err
	}
	out.Untrusted = true
	out.Queue = &struct {
		Name     string `json:"name"`
		Messages uint64 `json:"messages"`
		Bytes    uint64 `json:"retained_bytes"`
	}{q.Name, q.Messages, q.RetainedBytes}
	return out, nil
}

type configArgs struct {
	ChangedOnly bool `json:"changed_only,omitempty"`
}

type settingRow struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Source  string `json:"source"`
	Changed bool   `json:"changed"`
}

type configResult struct {
	Meta
	Settings []settingRow `json:"settings"`
}

func configShow(c *call, in configArgs) (out configResult, err error) {
	out.Meta, out.Settings = c.meta(), []settingRow{}
	if c.f.opts.Settings == nil {
		return out, &toolError{Code: "not_found", Message: "the settings of this node are not at hand"}
	}
	for _, s := range c.f.opts.Settings() {
		if s.Changed || !in.ChangedOnly {
			out.Settings = append(out.Settings, settingRow{s.Key, s.Value, s.Default, cmp.Or(s.Source, "default"), s.Changed})
		}
	}
	all := len(out.Settings)
	out.Settings, _ = fit(c, out.Settings)
	c.cut(&out.Meta, all-len(out.Settings), "ask for changed_only")
	return out, nil
}
