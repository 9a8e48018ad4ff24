package frontendhttp

import (
	"bytes"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"queen/engine/format"
)

// durationBuckets are 0.5 ms to 10 s.
var durationBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// metrics is what the frontend counts itself, and the registry of everything it renders. Label values come from the
// table of routes and from fixed lists; queue and group are capped (engineCollector).
type metrics struct {
	registry   *prometheus.Registry
	engine     *engineCollector
	durations  *prometheus.HistogramVec
	operations *prometheus.HistogramVec
	requests   atomic.Uint64
	// routes holds the observers of each route, made when they are first needed.
	routes []routeObservers
	lag    popLag
}

// routeObservers has one slot per class of status: 1xx, 2xx, ... 5xx.
type routeObservers struct {
	classes [5]atomic.Pointer[observers]
}

type observers struct{ request, operation prometheus.Observer }

func newMetrics(f *Frontend, routes []*route) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), routes: make([]routeObservers, len(routes))}
	m.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "http_server_request_duration_seconds",
		Help: "Duration of HTTP requests, waits of long polls included.", Buckets: durationBuckets},
		[]string{"route", "method", "status_class"})
	m.operations = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "queen_operation_duration_seconds",
		Help: "Duration of broker operations; calls that waited on purpose are left out.", Buckets: durationBuckets,
		NativeHistogramBucketFactor: 1.2, NativeHistogramMaxBucketNumber: 100},
		[]string{"op", "frontend", "outcome"})
	m.registry.MustRegister(m.durations, m.operations, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(f.opts.Collectors...)
	m.engine = newEngineCollector(f)
	return m
}

// gather renders everything for one reader: names of queues and groups are those of a tenant, or left out.
func (m *metrics) gather(t format.Tenant, named bool) ([]*dto.MetricFamily, error) {
	own := prometheus.NewRegistry()
	if err := own.Register(m.engine.of(t, named)); err != nil {
		return nil, err
	}
	return prometheus.Gatherers{m.registry, own}.Gather()
}

// outcomes names a class of status.
var outcomes = [5]string{"ok", "ok", "ok", "refused", "error"}

// observe counts one answered request.
func (m *metrics) observe(c *call, micros int64) {
	m.requests.Add(1)
	class := min(max(c.ctx.Response.StatusCode()/100, 1), 5) - 1
	slot := &m.routes[c.route.number].classes[class]
	o := slot.Load()
	if o == nil {
		o = m.observersOf(c.route, class)
		slot.Store(o)
	}
	o.request.Observe(float64(micros) / 1e6)
	if o.operation != nil && !c.unmeasured {
		o.operation.Observe(float64(micros) / 1e6)
	}
}

func (m *metrics) observersOf(r *route, class int) *observers {
	path := r.Path
	if r.Handle == nil {
		path = "not_built"
	}
	o := &observers{request: m.durations.WithLabelValues(path, r.Method, strconv.Itoa(class+1)+"xx")}
	if r.Op != "" {
		o.operation = m.operations.WithLabelValues(r.Op, "http", outcomes[class])
	}
	return o
}

// delivered notes how old the oldest message of a delivery was.
func (m *metrics) delivered(now, oldest format.Wall) {
	if oldest != 0 {
		m.lag.note(int64(now), max(int64(now-oldest), 0))
	}
}

const (
	lagSlots = 6
	lagSlot  = 10_000_000 // microseconds of wall time
)

// popLag keeps how old messages were when they were delivered, over the last minute.
type popLag struct {
	mu struct {
		sync.Mutex
		slots [lagSlots]lagSlotSum
	}
}

type lagSlotSum struct{ id, count, sum, max int64 }

func (l *popLag) note(now, lag int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := now / lagSlot
	s := &l.mu.slots[uint64(id)%lagSlots]
	if s.id != id {
		*s = lagSlotSum{id: id}
	}
	s.count++
	s.sum += lag
	s.max = max(s.max, lag)
}

// read is in microseconds; ok is false when nothing was delivered in the last minute.
func (l *popLag) read(now int64) (avg, most int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var count, sum int64
	for _, s := range l.mu.slots {
		if s.count > 0 && now/lagSlot-s.id < lagSlots {
			count += s.count
			sum += s.sum
			most = max(most, s.max)
		}
	}
	if count == 0 {
		return 0, 0, false
	}
	return sum / count, most, true
}

// metricsJSON answers JSON unless Accept names a text format.
func metricsJSON(c *call) error {
	accept := strings.ToLower(string(c.ctx.Request.Header.Peek("Accept")))
	if strings.Contains(accept, "openmetrics") {
		return c.metricsAs(expfmt.NegotiateAccept(http.Header{"Accept": {accept}}, expfmt.DefaultOpenMetricsAcceptedFormats()...))
	}
	if strings.Contains(accept, "text/plain") {
		return metricsText(c)
	}
	var pushed uint64
	if c.engine != nil {
		pushed = c.engine.Inspect().Stats().Pushed
	}
	user, system := cpuMicros()
	o := out{c.buffer()}
	o.open('{')
	o.num("uptime", c.f.uptime()/1e6)
	o.key("requests").rate(c.f.metrics.requests.Load())
	o.key("messages").rate(pushed)
	o.key("memory").open('{')
	o.num("rss", residentBytes())
	for _, zero := range []string{"heapTotal", "heapUsed", "external", "arrayBuffers"} {
		o.num(zero, 0)
	}
	o.close('}').key("cpu").open('{')
	o.num("user", user)
	o.num("system", system)
	o.close('}').close('}')
	c.send(200, o.b)
	return nil
}

// rate writes a total; the rate beside it is for readers to compute.
func (o *out) rate(total uint64) {
	o.open('{')
	o.count("total", total)
	o.num("rate", 0)
	o.close('}')
}

// metricsText is always text.
func metricsText(c *call) error { return c.metricsAs(expfmt.NewFormat(expfmt.TypeTextPlain)) }

func (c *call) metricsAs(f expfmt.Format) error {
	families, err := c.f.metrics.gather(c.caller.Tenant, c.known || !c.f.opts.ManyTenants)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	enc := expfmt.NewEncoder(&buf, f)
	for _, family := range families {
		if err := enc.Encode(family); err != nil {
			return err
		}
	}
	if closer, ok := enc.(expfmt.Closer); ok {
		if err := closer.Close(); err != nil {
			return err
		}
	}
	c.ctx.Response.Header.Set("Cache-Control", "no-cache")
	c.send(200, append(c.buffer(), buf.Bytes()...))
	kind := string(f)
	if f.FormatType() == expfmt.TypeTextPlain {
		kind = "text/plain; version=0.0.4; charset=utf-8"
	}
	c.ctx.SetContentType(kind)
	return nil
}

// uptime is microseconds since New.
func (f *Frontend) uptime() int64 { return f.opts.Clock.Mono() - f.start }

// residentBytes is 0 where the system does not tell.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

func cpuMicros() (user, system int64) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return u.Utime.Nano() / 1000, u.Stime.Nano() / 1000
}
