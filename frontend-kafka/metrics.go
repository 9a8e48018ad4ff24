package frontendkafka

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// durationBuckets are 0.5 ms to 10 s, as of the other frontends.
var durationBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// metrics is what the frontend counts. Label values come from the table and from the listeners' names.
type metrics struct {
	connections         *prometheus.CounterVec
	unauthenticated     *prometheus.CounterVec
	refused             prometheus.Counter
	received, sent      prometheus.Counter
	requests            *prometheus.HistogramVec
	open, parkedFetches prometheus.GaugeFunc
	heldBack            prometheus.Counter
	lateConsumers       prometheus.GaugeFunc
	// byKey holds the observer of each key, made when it is first needed.
	byKey [128]atomic.Pointer[prometheus.Observer]
}

func newMetrics(f *Frontend) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &metrics{
		connections: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "queen_kafka_connections_total",
			Help: "Accepted connections of Kafka clients."}, []string{"listener"}),
		unauthenticated: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "queen_kafka_authentication_failures_total",
			Help: "Credentials of Kafka clients that were refused."}, []string{"listener"}),
		refused:  counter("queen_kafka_connections_refused_total", "Connections closed because there were too many."),
		received: counter("queen_kafka_received_bytes_total", "Bytes of requests of Kafka clients."),
		sent:     counter("queen_kafka_sent_bytes_total", "Bytes of answers to Kafka clients."),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "queen_kafka_request_duration_seconds",
			Help: "Duration of requests of Kafka clients, waits included.", Buckets: durationBuckets}, []string{"api"}),
		open: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "queen_kafka_connections",
			Help: "Open connections of Kafka clients."}, func() float64 { return float64(f.conns.len()) }),
		parkedFetches: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "queen_kafka_parked_fetches",
			Help: "Fetches that wait for records."}, func() float64 { return float64(f.parked.Load()) }),
		heldBack: counter("queen_kafka_produce_held_back_seconds_total",
			"For how long producers were held back, all of them together, while consumers fell behind."),
		lateConsumers: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "queen_kafka_late_consumers",
			Help: "Connections of consumers that take what they can get and are further behind than half of kafka.consumer.lag."},
			func() float64 { return float64(f.paces.late()) }),
	}
}

// served counts an answered request.
func (m *metrics) served(key int16, micros int64) {
	slot := &m.byKey[key]
	o := slot.Load()
	if o == nil {
		made := m.requests.WithLabelValues(kmsg.NameForKey(key))
		o = &made
		slot.Store(o)
	}
	(*o).Observe(float64(micros) / 1e6)
}

// Collectors are the frontend's metrics, for the registry of the process.
func (f *Frontend) Collectors() []prometheus.Collector {
	m := f.metrics
	return []prometheus.Collector{m.connections, m.unauthenticated, m.refused, m.received, m.sent, m.requests, m.open, m.parkedFetches,
		m.heldBack, m.lateConsumers}
}
