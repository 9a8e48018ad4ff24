package frontendhttp

import (
	"context"
	"time"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/stats"
)

const minuteMicros = format.Wall(time.Minute / time.Microsecond)

func analyticsRoutes() []*route {
	window := []param{{Name: "from", Type: "string", About: "ISO-8601, default an hour before to."},
		{Name: "to", Type: "string", About: "Default now."}, {Name: "queue", Type: "string"},
		{Name: "namespace", Type: "string"}, {Name: "task", Type: "string"}}
	return []*route{
		{Method: "GET", Path: "/api/v1/status/analytics", Access: readOnly, Mark: operator,
			Summary:  "Messages pushed over time, of the last two hours at most.",
			Query:    append([]param{{Name: "interval", Type: "string", About: "minute (default), hour or day."}}, window...),
			Response: "StatusAnalytics", Status: 200, Handle: statusAnalytics},
		{Method: "GET", Path: "/api/v1/analytics/queue-ops", Access: readOnly, Mark: operator,
			Summary: "What was done to each queue over time, of the last two hours at most. What is not measured is null; " +
				"queues that are not counted do not appear.",
			Query: window, Response: "QueueOps", Status: 200, Handle: queueOps},
		{Method: "GET", Path: "/api/v1/analytics/queue-lag", Access: readOnly, Mark: operator,
			Summary: "How old messages were when they were delivered, by queue and time, of the last two hours at most. " +
				"Where nothing was delivered there is no point.",
			Query: window, Response: "QueueLag", Status: 200, Handle: queueLag},
		{Method: "GET", Path: "/api/v1/analytics/workload", Access: readOnly, Mark: operator,
			Summary:  "The same by namespace, task or queue.",
			Query:    append([]param{{Name: "groupBy", Type: "string", About: "namespace, task or queue (default)."}}, window...),
			Response: "Workload", Status: 200, Handle: workload},
	}
}

// history is the time that a call about history asks for, and which queues.
type history struct {
	from, to               format.Wall
	width                  format.Wall // of a bucket
	queue, namespace, task string
}

// window reads the query.
func (c *call) window() (w history, err error) {
	q := c.query()
	w = history{from: q.instant("from"), to: q.instant("to"), queue: q.text("queue"), namespace: q.text("namespace"), task: q.text("task")}
	if w.to == 0 {
		w.to = format.Wall(c.f.opts.Clock.Now())
	}
	if w.from == 0 {
		w.from = w.to - 60*minuteMicros
	}
	switch {
	case q.err != nil:
		return w, q.err
	case w.from < 0 || w.from > w.to:
		return w, badRequest("from must not be after to")
	}
	w.width = bucketWidth(w.to-w.from) * minuteMicros
	return w, nil
}

// bucketWidth is the minutes of a bucket by the length of the window (http-api 19).
func bucketWidth(length format.Wall) format.Wall {
	const hour = 60 * minuteMicros
	switch {
	case length <= hour:
		return 1
	case length <= 6*hour:
		return 5
	case length <= 24*hour:
		return 15
	case length <= 7*24*hour:
		return 60
	}
	return 360
}

func (w *history) everything() bool { return w.queue == "" && w.namespace == "" && w.task == "" }

func (w *history) takes(q *engine.QueueInfo) bool {
	return (w.queue == "" || w.queue == q.Name) && (w.namespace == "" || w.namespace == q.Options.Namespace) &&
		(w.task == "" || w.task == q.Options.Task)
}

// buckets adds up minutes.
type buckets struct {
	first, width format.Wall
	rows         []stats.Counts
}

// add takes points in the order of their time.
func (b *buckets) add(points []engine.ActivityPoint) {
	for i := range points {
		at := points[i].At - points[i].At%b.width
		if len(b.rows) == 0 {
			b.first = at
		}
		for at < b.first {
			b.first -= b.width
			b.rows = append([]stats.Counts{{}}, b.rows...)
		}
		n := int((at - b.first) / b.width)
		for len(b.rows) <= n {
			b.rows = append(b.rows, stats.Counts{})
		}
		b.rows[n].Add(&points[i].Counts)
	}
}

// activity adds up what the queues of a window did, by the name that label gives them; false when it takes none.
func (c *call) activity(ctx context.Context, ops engine.Operations, w *history, label func(*engine.QueueInfo) (string, bool)) (
	names []string, all map[string]*buckets, err error,
) {
	all = map[string]*buckets{}
	err = c.queues(ctx, func(q *engine.QueueInfo) {
		name, ok := label(q)
		if !ok || !w.takes(q) {
			return
		}
		points, ok := ops.Activity(c.caller, q.ID, w.from, w.to)
		if !ok {
			return
		}
		b := all[name]
		if b == nil {
			b = &buckets{width: w.width}
			all[name], names = b, append(names, name)
		}
		b.add(points)
	})
	return names, all, err
}

// total is what the window's queues did together: the tenant's own series where no queue is chosen.
func (c *call) total(ctx context.Context, ops engine.Operations, w *history) (b buckets, err error) {
	b.width = w.width
	if w.everything() {
		points, _ := ops.Activity(c.caller, 0, w.from, w.to)
		b.add(points)
		return b, nil
	}
	_, all, err := c.activity(ctx, ops, w, func(*engine.QueueInfo) (string, bool) { return "", true })
	if one := all[""]; one != nil {
		b = *one
	}
	return b, err
}

// statusAnalytics answers GET /api/v1/status/analytics.
func statusAnalytics(c *call) error {
	w, err := c.window()
	if err != nil {
		return err
	}
	q := c.query()
	interval := q.text("interval")
	if interval == "" {
		interval = "minute"
	}
	minutes, ok := map[string]format.Wall{"minute": 1, "hour": 60, "day": 24 * 60}[interval]
	if q.err != nil || !ok {
		return badRequest("interval must be minute, hour or day")
	}
	w.width = minutes * minuteMicros
	ops, err := c.operations()
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	b, err := c.total(ctx, ops, &w)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{').key("dataPoints").open('[')
	for i := range b.rows {
		o.open('{')
		o.time("timestamp", b.first+format.Wall(i)*b.width)
		o.count("messages", b.rows[i][stats.PushMessages])
		o.close('}')
	}
	o.close(']')
	o.str("interval", interval)
	o.time("from", w.from)
	o.time("to", w.to)
	o.close('}')
	c.send(200, o.b)
	return nil
}

// queueOps answers GET /api/v1/analytics/queue-ops.
func queueOps(c *call) error {
	return c.operationsOver("queueName", "queues", func(q *engine.QueueInfo) (string, bool) { return q.Name, true }, "")
}

// queueLag answers GET /api/v1/analytics/queue-lag with a bare array.
func queueLag(c *call) error {
	w, err := c.window()
	if err != nil {
		return err
	}
	ops, err := c.operations()
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	names, all, err := c.activity(ctx, ops, &w, func(q *engine.QueueInfo) (string, bool) { return q.Name, true })
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('[')
	for _, name := range names {
		b := all[name]
		for i := range b.rows {
			if b.rows[i][stats.PopMessages] == 0 {
				continue
			}
			o.open('{')
			o.str("queueName", name)
			o.count("popCount", b.rows[i][stats.PopMessages])
			o.popLag(&b.rows[i])
			o.num("bucketMinutes", int64(w.width/minuteMicros))
			o.time("bucketTime", b.first+format.Wall(i)*b.width)
			o.close('}')
		}
	}
	o.close(']')
	c.send(200, o.b)
	return nil
}

// popLag writes how old messages were when they were delivered; null where none was.
func (o *out) popLag(n *stats.Counts) {
	if n[stats.PopMessages] == 0 {
		o.null("avgLagMs")
		o.null("maxLagMs")
		return
	}
	o.float("avgLagMs", float64(n[stats.PopLag])/float64(n[stats.PopMessages])/1000)
	o.float("maxLagMs", float64(n[stats.PopLagMax])/1000)
}

// workload answers GET /api/v1/analytics/workload.
func workload(c *call) error {
	q := c.query()
	by := q.text("groupBy")
	if q.err != nil {
		return q.err
	}
	label := map[string]func(*engine.QueueInfo) string{"namespace": namespaceOf, "task": taskOf,
		"": func(q *engine.QueueInfo) string { return q.Name }}
	label["queue"] = label[""]
	of := label[by]
	if of == nil {
		return &refusal{status: 400, text: "bad groupBy"}
	}
	if by == "" {
		by = "queue"
	}
	return c.operationsOver("group", "groups", func(q *engine.QueueInfo) (string, bool) { return of(q), true }, by)
}

func (c *call) operationsOver(member, list string, label func(*engine.QueueInfo) (string, bool), by string) error {
	w, err := c.window()
	if err != nil {
		return err
	}
	ops, err := c.operations()
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(readDeadline)
	defer cancel()
	names, all, err := c.activity(ctx, ops, &w, label)
	if err != nil {
		return err
	}
	o := out{c.buffer()}
	o.open('{')
	o.timeRange(&w)
	if by != "" {
		o.str("groupBy", by)
	}
	o.key("series").open('[')
	for _, name := range names {
		b := all[name]
		for i := range b.rows {
			o.open('{')
			o.time("bucket", b.first+format.Wall(i)*b.width)
			o.str(member, name)
			o.operations(&b.rows[i], b.width)
			o.close('}')
		}
	}
	o.close(']').key(list).open('[')
	for _, name := range names {
		o.text(name)
	}
	o.close(']').close('}')
	c.send(200, o.b)
	return nil
}

func (o *out) timeRange(w *history) {
	o.key("timeRange").open('{')
	o.time("from", w.from)
	o.time("to", w.to)
	o.close('}')
	o.num("bucketMinutes", int64(w.width/minuteMicros))
}

// operations writes what one bucket counts; what nobody measures is null.
func (o *out) operations(n *stats.Counts, width format.Wall) {
	o.count("pushRequests", n[stats.PushRequests])
	o.count("pushMessages", n[stats.PushMessages])
	o.count("pushBytes", n[stats.PushBytes])
	o.count("popMessages", n[stats.PopMessages])
	o.count("popEmpty", n[stats.PopEmpty])
	o.count("ackRequests", n[stats.AckRequests])
	o.count("ackSuccess", n[stats.AckSuccess])
	o.count("ackFailed", n[stats.AckFailed])
	for _, none := range []string{"transactions", "partitionsCreated", "partitionsDeleted", "partitionCount"} {
		o.null(none)
	}
	o.popLag(n)
	o.null("parkedCount")
	seconds := float64(width) / 1e6
	o.float("pushPerSecond", float64(n[stats.PushMessages])/seconds)
	o.float("popPerSecond", float64(n[stats.PopMessages])/seconds)
	o.float("ackPerSecond", float64(n[stats.AckSuccess]+n[stats.AckFailed])/seconds)
	o.float("emptyPerSecond", float64(n[stats.PopEmpty])/seconds)
}
