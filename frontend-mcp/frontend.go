package frontendmcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/netutil"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/mask"
)

// Options says what a Frontend offers and to whom. The zero value of a field means its default.
type Options struct {
	// Engine answers the calls. nil refuses every tool, until Attach.
	Engine engine.Engine
	// Clock tells the time of answers, Rand makes secrets. Default: the system's.
	Clock clock.Clock
	Rand  clock.Rand
	// Version names the build. Default: "dev". Node names this node in answers. Default: "local".
	Version, Node string
	// Frontends are the names of those that the node runs. Default: not told.
	Frontends []string
	// Logger receives faults of ours and the audit of writes, never what messages say. Default: none.
	Logger *slog.Logger

	// Auth says who calls over HTTP. Default: nobody is asked and everybody may do what Mode allows.
	Auth auth.Authenticator
	// Tenancy reads the x-queen-tenant header, which narrows a principal to one of its tenants.
	Tenancy bool
	// Quotas hold tenants to their rate of requests. Default: no bound.
	Quotas *auth.Quotas
	// TLS is the certificate of the listener; nil speaks in the clear.
	TLS *tls.Config
	// PublicURL is how clients reach /mcp; it is what tokens are for. Default: what the request says.
	PublicURL string
	// Audiences are those of which Auth wants tokens to name one; where there are none, a token that names any must name
	// PublicURL. AuthorizationServers are the URLs of who issues tokens, for clients that look for one. Default: none.
	Audiences, AuthorizationServers []string
	// Hosts are the names, and Origins the origins of browsers, that a request may come with beside literal addresses,
	// localhost and PublicURL.
	Hosts, Origins []string

	// Mode is the most that any caller may do; default ModeRead.
	Mode Mode
	// Toolsets are those offered; default DefaultToolsets. Tools, when not empty, keeps only the tools named.
	Toolsets, Tools []string
	// ReadOnly leaves reading tools only, whatever Mode says.
	ReadOnly bool
	// RequireHuman refuses destructive tools to clients that can not ask a person.
	RequireHuman bool
	// Masks hide parts of payloads from everybody who asks here. Default: nothing is hidden.
	Masks *mask.Set
	// Pages are the documents that teaching tools and resources answer from. Default: none.
	Pages []Page
	// Search finds the sections of the pages that fit words best, most at most. Default: it finds nothing.
	Search func(words string, most int) []Section
	// Snippets are programs that the documents show and that tests run. Default: none.
	Snippets []Snippet
	// KafkaClients are the clients of Kafka that the documents know, Kafka where this node serves them. Default: none, nowhere.
	KafkaClients []KafkaClient
	Kafka        KafkaListener
	// Settings tells the node's settings with secrets masked. Default: none.
	Settings func() []Setting
	// Metrics count. Default: some that nobody renders.
	Metrics *Metrics
	// Extra adds to every server what tests of the protocol need. Default: nothing.
	Extra func(*mcp.Server)
	// OpenAPI is the description of the HTTP API, for a resource. Default: none.
	OpenAPI []byte
}

// Page is one document of the product, embedded at build.
type Page struct {
	// Name is the path of the page without its extension, such as "concepts".
	Name, Title, Summary string
	// Text is markdown.
	Text string
}

// Section is a part of a page under a heading.
type Section struct {
	Page, Title string
	// Text is markdown.
	Text string
}

// Setting is one setting of the node as it runs.
type Setting struct {
	Key, Value, Default, Source string
	Changed                     bool
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	if o.Rand == nil {
		o.Rand = clock.RealRand()
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Node == "" {
		o.Node = "local"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	if o.Mode == "" || o.ReadOnly {
		o.Mode = ModeRead
	}
	if len(o.Toolsets) == 0 {
		o.Toolsets = DefaultToolsets
	}
	return o
}

// Validate joins every problem of o: an unknown name is refused here, so that a slip does not leave a tool out.
func (o Options) Validate() error {
	var errs []error
	if o.Mode != "" && !slices.Contains(Modes, o.Mode) {
		errs = append(errs, fmt.Errorf("frontend-mcp: there is no mode %q: there are read, write, admin", o.Mode))
	}
	for _, name := range o.Toolsets {
		if !slices.Contains(KnownToolsets, name) {
			errs = append(errs, fmt.Errorf("frontend-mcp: there is no toolset %q: there are %s", name, strings.Join(KnownToolsets, ", ")))
		}
	}
	for _, name := range o.Tools {
		if !slices.ContainsFunc(registry(), func(t *tool) bool { return t.name == name }) {
			errs = append(errs, fmt.Errorf("frontend-mcp: there is no tool %q", name))
		}
	}
	return errors.Join(errs...)
}

// Frontend is the MCP server of a node.
type Frontend struct {
	opts    Options
	engine  atomic.Pointer[engineBox]
	handler http.Handler
	http    *http.Server
	schemas *mcp.SchemaCache
	sealer  *sealer
	rates   *rates
	taken   *taken

	// draining ends streams when Shutdown begins, stopping running calls when its time is over.
	draining, stopping context.Context
	drain, stop        context.CancelFunc
	streams            atomic.Int64 // of notifications

	mu struct {
		sync.Mutex
		servers map[view]*mcp.Server
	}
}

// engineBox makes an interface fit an atomic pointer.
type engineBox struct{ engine.Engine }

// Limits of the listener.
const (
	maxConns       = 1024
	maxBody        = 4 << 20
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// New builds a Frontend; Serve or ServerFor put it to work.
func New(o Options) (*Frontend, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	f := &Frontend{opts: o.withDefaults(), schemas: mcp.NewSchemaCache(), rates: newRates(), taken: newTaken()}
	f.mu.servers = map[view]*mcp.Server{}
	f.draining, f.drain = context.WithCancel(context.Background())
	f.stopping, f.stop = context.WithCancel(context.Background())
	var err error
	if f.sealer, err = newSealer(f.opts.Rand); err != nil {
		return nil, err
	}
	if o.Engine != nil {
		f.Attach(o.Engine)
	}
	f.handler = f.routes()
	f.http = &http.Server{Handler: f.handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, TLSConfig: f.opts.TLS, ErrorLog: slog.NewLogLogger(f.opts.Logger.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return f.stopping }}
	return f, nil
}

// Attach hands over the engine once it is open.
func (f *Frontend) Attach(e engine.Engine) {
	f.sealer.forget()
	f.engine.Store(&engineBox{e})
}

// attached is nil until Attach.
func (f *Frontend) attached() engine.Engine {
	if b := f.engine.Load(); b != nil {
		return b.Engine
	}
	return nil
}

// Handler is the HTTP side, for tests and for who has a listener of their own.
func (f *Frontend) Handler() http.Handler { return f.handler }

// Serve answers requests on a listener until Shutdown, which makes it return nil. It is called once and closes the
// listener.
func (f *Frontend) Serve(l net.Listener) error {
	l = netutil.LimitListener(l, maxConns)
	if f.opts.TLS != nil {
		l = tls.NewListener(l, f.opts.TLS)
	}
	if err := f.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops accepting and lets running calls end; what is left when ctx ends is cut.
func (f *Frontend) Shutdown(ctx context.Context) error {
	f.drain()
	err := f.http.Shutdown(ctx)
	f.stop()
	if err != nil {
		err = errors.Join(err, f.http.Close())
	}
	return err
}

// now is the calendar time of answers.
func (f *Frontend) now() format.Wall { return format.Wall(f.opts.Clock.Now()) }
