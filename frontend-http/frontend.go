package frontendhttp

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/mask"
	"queen/frontend-http/wire"
)

// Options says what a Frontend serves and where. The zero value of a field means its default.
type Options struct {
	// Listener accepts the connections; required. Shutdown also ends it.
	Listener *wire.Listener
	// Server sets limits of bodies, headers and times; see wire.ServerOptions.
	Server wire.ServerOptions
	// Engine answers the calls. nil serves health only, until Attach.
	Engine engine.Engine
	// Starting describes the start-up while there is no engine yet, for /readyz. Default: no details.
	Starting func() (phase string, progress float64)
	// Clock tells the time of answers and metrics. Default: the system's clock.
	Clock clock.Clock
	// Version and Commit name the build. Default: "dev" and "unknown".
	Version, Commit string
	// Logger receives faults of ours, never anything per message. Default: none.
	Logger *slog.Logger
	// Auth says who calls. It also limits the bodies of callers it does not know, in place of Server's hooks. Default:
	// nobody is asked and everybody may do everything.
	Auth auth.Authenticator
	// SkipPaths are not asked for a credential although Auth is set: exact paths, and prefixes, which end in a slash and
	// are longer than one. Only the metrics need an entry, the other public routes are open anyway. Default: none.
	SkipPaths []string
	// Tenancy reads the x-queen-tenant header, which narrows a principal to one of its tenants. Without Auth it is
	// believed when it comes from one of TrustedProxies and refused from everybody else. Default: a request is for the
	// principal's own tenant, without Auth for the default one.
	Tenancy        bool
	TrustedProxies []netip.Prefix
	// Quotas hold tenants to their plans: the rate of requests here, and of KV and timer calls. What else a plan bounds is
	// up to the Engine (engine.Limit). Default: no bound.
	Quotas *auth.Quotas
	// ManyTenants says that callers may be of several tenants: metrics then name queues and groups only to a caller who
	// is known, and only its own.
	ManyTenants bool
	// LabeledQueues caps the values of the queue label of metrics, and those of the group label; what is above it is
	// counted under "_other". Default 200.
	LabeledQueues int
	// Collectors are metrics of the process that others count, rendered with this frontend's own. Default: none.
	Collectors []prometheus.Collector
	// Masks hide parts of payloads from who looks at messages: on the routes that list messages, dead letters and timers from everybody, on
	// reads by offset from who asks for it and from who may not consume. Default: nothing is hidden.
	Masks *mask.Set
	// Docs finds the files under /docs. Default: there are none.
	Docs Docs
	// Streams sets the limits of streams; see StreamOptions.
	Streams StreamOptions
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Commit == "" {
		o.Commit = "unknown"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.LabeledQueues <= 0 {
		o.LabeledQueues = 200
	}
	o.Streams = o.Streams.withDefaults()
	return o
}

// Validate joins every problem of o.
func (o Options) Validate() error {
	if o.Listener == nil {
		return errors.New("frontend-http: Listener is missing")
	}
	return nil
}

// Frontend serves the native HTTP API.
type Frontend struct {
	opts    Options
	server  *wire.Server
	engine  atomic.Pointer[engineBox]
	metrics *metrics
	openAPI []byte
	start   int64 // clock.Mono at New

	// stopping ends parked calls when Shutdown begins.
	stopping context.Context
	stop     context.CancelFunc
	// parked counts the requests that wait inside the engine.
	parked atomic.Int64
	calls  sync.Pool // of *call
	bodies sync.Pool // of *pushBody
	acks   sync.Pool // of *ackBody
	txns   sync.Pool // of *transaction
	// writing ends pushes, acks and transactions that take too long.
	writing deadlines
}

// engineBox makes an interface fit an atomic pointer.
type engineBox struct{ engine.Engine }

// New builds a Frontend with all its routes; Serve starts it.
func New(o Options) (*Frontend, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	f := &Frontend{opts: o, start: o.Clock.Mono(), writing: deadlines{after: writeDeadline}}
	f.stopping, f.stop = context.WithCancel(context.Background())
	f.calls.New = func() any { return new(call) }
	f.bodies.New = func() any { return newPushBody() }
	f.acks.New = func() any { return new(ackBody) }
	f.txns.New = func() any { return new(transaction) }
	if o.Engine != nil {
		f.Attach(o.Engine)
	}
	routes := table()
	doc, err := openAPI(routes, o.Version)
	if err != nil {
		return nil, err
	}
	f.openAPI = doc
	f.metrics = newMetrics(f, routes)
	if o.Auth != nil {
		o.Server.BodyLimitOf, o.Server.BodyRefused = f.bodyLimit, f.bodyRefused
	}
	f.server = wire.NewServer(o.Listener, o.Server)
	f.register(routes)
	return f, nil
}

// Attach hands over the engine once it is open; until then every call but health is answered 503.
func (f *Frontend) Attach(e engine.Engine) { f.engine.Store(&engineBox{e}) }

// attached is nil until Attach.
func (f *Frontend) attached() engine.Engine {
	if b := f.engine.Load(); b != nil {
		return b.Engine
	}
	return nil
}

// Serve answers requests until Shutdown, which makes it return nil. It is called once.
func (f *Frontend) Serve() error { return f.server.Serve() }

// Shutdown stops accepting, answers parked calls with nothing, lets running requests end and closes what is left
// when ctx ends; it returns how many connections were closed by force.
func (f *Frontend) Shutdown(ctx context.Context) (forced int, err error) {
	f.stop()
	return f.server.Shutdown(ctx)
}

// now is the calendar time of answers.
func (f *Frontend) now() format.Wall { return format.Wall(f.opts.Clock.Now()) }
