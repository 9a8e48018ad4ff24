package frontendkafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/frontend-kafka/groups"
)

// Listener is one bound address with what its clients are told and asked for.
type Listener struct {
	// Listener accepts the connections; required. Shutdown closes it.
	Listener net.Listener
	// Name is for logs and metrics: PLAINTEXT, SASL_SSL.
	Name string
	// Advertised is the host:port that its clients are told to connect to; default the bound address.
	Advertised string
	// TLS is the certificate; nil speaks in the clear.
	TLS *tls.Config
	// SASL are the mechanisms that clients may authenticate with, and must when there are any.
	SASL []Mechanism

	host string
	port int32
}

// Options says what a Frontend serves and where. The zero value of a field means its default.
type Options struct {
	Listeners []Listener
	// Engine answers the calls; nil until Attach. Until then connections are accepted and their requests wait.
	Engine engine.Engine
	// Rows keep what no queue has room for: SCRAM users, quotas, recorded topic configuration. They come with Attach.
	Rows engine.AdminStore
	// Clock tells the time; default the system's.
	Clock clock.Clock
	// Logger gets one line for every connection that this side ends for a reason; default none.
	Logger *slog.Logger
	// Auth judges the credentials of SASL PLAIN; nil takes none.
	Auth auth.Authenticator
	// Quotas hold tenants to their plans; nil bounds nothing.
	Quotas *auth.Quotas
	// Dir is what the data directory is called in DescribeLogDirs; default "queen".
	Dir string
	// ScramRoles are what users of SCRAM may do; default auth.ReadWrite.
	ScramRoles auth.Roles
	// NodeID is this node's number; default 1. ClusterID is what clients are told; default "queen".
	NodeID    int32
	ClusterID string
	// Clustered says that this is a node of a cluster: it tells the others where its listeners are, by replicated rows,
	// and its clients where those of the others are. Default: it is alone.
	Clustered bool
	// Nodes are the members of the cluster, true for those that answered when they were last asked; a nil map says that
	// they are not known. A member that has not answered for 10 s is no longer told of, and the row of a node that is no
	// member is removed. It must not wait. Default: every node that has a row is there.
	Nodes func() map[int32]bool
	// Rack is where this node stands, as clients are told; default nowhere. None is sent to read from a node that does not lead.
	Rack string
	// Brokers, for tests, are the nodes of the cluster and the number of the one that leads; nil is this node alone. It is called
	// often and must not wait.
	Brokers func() (all []Broker, leader int32)
	// Version of the build, for DescribeConfigs; default "dev".
	Version string
	// Partitions is the width of topics that name none, 1 to MaxPartitions; default 16. MaxPartitions bounds the width of
	// any; default 1,000,000.
	Partitions, MaxPartitions int32
	// NoAutoCreate keeps Metadata from creating topics.
	NoAutoCreate bool
	// MaxConns bounds open connections of all listeners; the next is closed. Default 4096.
	MaxConns int
	// MaxFrame bounds a request in bytes; default 100 MiB.
	MaxFrame int
	// Memory bounds the bytes of requests that were read and not yet answered, as many of records in answers that are not
	// yet written, as many of answers that list partitions, and as many of the partitions of fetch sessions, over all
	// connections; default 256 MiB. One of each always fits, and every fetch gets a little.
	Memory int64
	// LagMax is how far consumers that take what they can get should fall behind at most: from half of it on producers make way,
	// which then wait between requests, and write about a quarter of what they wrote at least. Default 1 s; below 0 producers never wait.
	LagMax time.Duration
	// Coalesce is how many produce requests of one connection may become one append; 1 to 64, default 5.
	Coalesce int
	// IdleTimeout ends a silent connection, FrameTimeout one that sent half a frame; defaults 10 min and 30 s. A client
	// that must authenticate has FrameTimeout for that, too.
	IdleTimeout, FrameTimeout time.Duration
	// Groups bounds what members of consumer groups may ask for.
	Groups GroupLimits
	// TxnTimeoutMax bounds transaction.timeout.ms; default 1 h.
	TxnTimeoutMax time.Duration
}

// GroupLimits bounds consumer groups of the classic protocol.
type GroupLimits struct {
	// JoinDelay is how long the first join of an empty group waits for others; 0 is not at all.
	JoinDelay time.Duration
	// SessionMin and SessionMax bound session.timeout.ms; defaults 6 s and 30 min.
	SessionMin, SessionMax time.Duration
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.NodeID, 1)
	setDefault(&o.ScramRoles, auth.ReadWrite)
	setDefault(&o.ClusterID, "queen")
	setDefault(&o.Dir, "queen")
	setDefault(&o.Version, "dev")
	setDefault(&o.MaxPartitions, 1_000_000)
	setDefault(&o.Partitions, min(16, o.MaxPartitions))
	setDefault(&o.MaxConns, 4096)
	setDefault(&o.MaxFrame, 100<<20)
	setDefault(&o.Memory, 256<<20)
	setDefault(&o.LagMax, time.Second)
	setDefault(&o.Coalesce, 5)
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.FrameTimeout, 30*time.Second)
	setDefault(&o.Groups.SessionMin, 6*time.Second)
	setDefault(&o.Groups.SessionMax, 30*time.Minute)
	setDefault(&o.TxnTimeoutMax, time.Hour)
	return o
}

// setDefault replaces a zero value.
func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Frontend serves Kafka clients.
type Frontend struct {
	opts    Options
	table   map[int16]*api
	metrics *metrics
	budget  budget
	// listings is what answers share that list very many partitions.
	listings    *purse
	listingWait time.Duration
	cached      settingsCache
	members     heldCache
	txns        txnCounts
	quotas      quotas
	paces       paces
	// widening orders changes of topics' widths.
	widening sync.Mutex
	// decoy makes salts of users that are not there; hashing bounds how many passwords are hashed at a time.
	decoy   [32]byte
	hashing chan struct{}

	// attached is closed when there is an engine.
	attached  chan struct{}
	engine    engine.Engine
	rows      engine.AdminStore
	groups    *groups.Manager
	attaching sync.Once
	timing    sync.WaitGroup

	// stopping ends parked calls when Shutdown begins; ended cuts running ones short.
	stopping, ended context.Context
	stop, end       context.CancelFunc
	conns           connSet
	accepting       sync.WaitGroup
	placed          brokersCache
	// seenNodes is who is there as watchNodes saw it last; nil before, and where nobody says so.
	seenNodes atomic.Pointer[nodes]
	parked    atomic.Int64

	sessions  fetchSessions
	answers   answers
	fetchPass atomic.Uint64
}

// New builds a Frontend; Serve starts it.
func New(o Options) (*Frontend, error) {
	o = o.withDefaults()
	if len(o.Listeners) == 0 {
		return nil, errors.New("frontend-kafka: Listeners is empty")
	}
	if o.Partitions < 1 || o.Partitions > o.MaxPartitions {
		return nil, fmt.Errorf("frontend-kafka: Partitions %d is not 1 to %d", o.Partitions, o.MaxPartitions)
	}
	for i := range o.Listeners {
		if err := o.Listeners[i].prepare(); err != nil {
			return nil, err
		}
	}
	f := &Frontend{opts: o, attached: make(chan struct{}), budget: newBudget(max(o.Memory, int64(o.MaxFrame))),
		listings: newPurse(o.Memory), listingWait: listingWait, decoy: newDecoy(), hashing: make(chan struct{}, hashers())}
	f.stopping, f.stop = context.WithCancel(context.Background())
	f.ended, f.end = context.WithCancel(context.Background())
	f.conns.open = map[*conn]struct{}{}
	f.paces.byTenant, f.paces.clock = map[format.Tenant]*pace{}, o.Clock.Mono
	f.txns.most, f.sessions.most = txnPartsMost, sessionParts(o.Memory)
	f.table = byKey(table())
	f.metrics = newMetrics(f)
	if o.Engine != nil {
		f.Attach(o.Engine, o.Rows)
	}
	return f, nil
}

// prepare splits the advertised address.
func (l *Listener) prepare() error {
	if l.Listener == nil {
		return errors.New("frontend-kafka: a listener is missing")
	}
	setDefault(&l.Advertised, l.Listener.Addr().String())
	setDefault(&l.Name, "PLAINTEXT")
	host, port, err := net.SplitHostPort(l.Advertised)
	if err != nil {
		return fmt.Errorf("frontend-kafka: advertised address %q: %w", l.Advertised, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || n == 0 {
		return fmt.Errorf("frontend-kafka: advertised address %q: want host:port", l.Advertised)
	}
	l.host, l.port = host, int32(n)
	return nil
}

// Attach hands over the engine once it is open. It is called once.
func (f *Frontend) Attach(e engine.Engine, rows engine.AdminStore) {
	if s, ok := e.(*shared); ok {
		e = s.Engine
	}
	f.attaching.Do(func() {
		f.engine, f.rows = e, rows
		f.startGroups()
		if f.opts.Clustered {
			f.timing.Go(f.announce)
			if f.opts.Nodes != nil {
				f.timing.Go(f.watchNodes)
			}
		}
		close(f.attached)
	})
}

// Serve accepts connections until Shutdown, which makes it return nil. It is called once.
func (f *Frontend) Serve() error {
	errs := make(chan error, len(f.opts.Listeners))
	for i := range f.opts.Listeners {
		l := &f.opts.Listeners[i]
		f.accepting.Go(func() { errs <- f.accept(l) })
	}
	f.accepting.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// Shutdown stops accepting, answers parked calls with what there is, lets running requests end and closes what is left
// when ctx ends; it returns how many connections were closed by force.
func (f *Frontend) Shutdown(ctx context.Context) (forced int) {
	f.stop()
	for i := range f.opts.Listeners {
		_ = f.opts.Listeners[i].Listener.Close()
	}
	f.conns.drain()
	done := make(chan struct{})
	go func() {
		f.conns.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		f.end()
		forced = f.conns.cut()
		<-done
	}
	f.end()
	f.timing.Wait()
	return forced
}

// now is the calendar time of answers.
func (f *Frontend) now() format.Wall { return format.Wall(f.opts.Clock.Now()) }
