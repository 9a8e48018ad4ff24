package frontendmcp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of subscriptions.
const (
	watchEvery = time.Second // a change is told once in that time at most
	maxWatched = 64          // resources of one stream
	maxStreams = 256         // streams of one node
)

// watchable are the templates of resources that can be subscribed to.
var watchable = []string{"queen://cluster", "queen://alarms", "queen://queues/{queue}", "queen://queues/{queue}/groups/{group}"}

// watcher looks at the resources that sessions of one server have subscribed to, while there are any.
type watcher struct {
	f      *Frontend
	server *mcp.Server
	mu     sync.Mutex
	// wanted counts the subscriptions of a URI; seen is what was told last of it.
	wanted map[string]int
	seen   map[string][32]byte
	runs   bool
}

// subscribe checks that a resource can be watched and begins to.
func (w *watcher) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	if req.Extra != nil && req.Extra.Header != nil && req.ProtocolVersion() < newEra {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "subscriptions over HTTP need revision " + newEra + ": this server keeps no sessions"}
	}
	id := *identityOf(ctx)
	id.inner, id.gone = true, nil // looking again costs the caller nothing, and goes on for other subscribers
	sum, err := w.f.look64(ctx, &id, req.Params.URI)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted[req.Params.URI]++
	if _, ok := w.seen[req.Params.URI]; !ok {
		w.seen[req.Params.URI] = sum
	}
	if !w.runs {
		w.runs = true
		go w.run(&id)
	}
	return nil
}

func (w *watcher) unsubscribe(_ context.Context, req *mcp.UnsubscribeRequest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wanted[req.Params.URI]--; w.wanted[req.Params.URI] <= 0 {
		delete(w.wanted, req.Params.URI)
		delete(w.seen, req.Params.URI)
	}
	return nil
}

// run looks until nobody wants to know or the node stops. All subscribers of a server are of one tenant and may read the
// same, so that id stands for each of them.
func (w *watcher) run(id *Identity) {
	timer := w.f.opts.Clock.NewTimer(watchEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C():
		case <-w.f.draining.Done():
			return
		}
		w.mu.Lock()
		uris := make([]string, 0, len(w.wanted))
		for uri := range w.wanted {
			uris = append(uris, uri)
		}
		if w.runs = len(uris) > 0; !w.runs {
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		for _, uri := range uris {
			w.tell(id, uri)
		}
		timer.Reset(watchEvery)
	}
}

// tell tells the subscribers of a resource when it has changed; one that can not be read any more has.
func (w *watcher) tell(id *Identity, uri string) {
	sum, err := w.f.look64(withIdentity(w.f.draining, id), id, uri)
	if err != nil {
		sum = sha256.Sum256([]byte(err.Error()))
	}
	w.mu.Lock()
	last, wanted := w.seen[uri]
	if wanted {
		w.seen[uri] = sum
	}
	w.mu.Unlock()
	if wanted && last != sum {
		_ = w.server.ResourceUpdated(w.f.draining, &mcp.ResourceUpdatedNotificationParams{URI: uri}) // sessions that are gone miss nothing
	}
}

// look64 sums up a resource without what changes by itself, such as ages and rates.
func (f *Frontend) look64(ctx context.Context, id *Identity, uri string) (sum [32]byte, err error) {
	for _, r := range live {
		args, ok := namesIn(r.uri, uri)
		if !ok || !slices.Contains(watchable, r.uri) {
			continue
		}
		t := registry()[slices.IndexFunc(registry(), func(t *tool) bool { return t.name == r.tool })]
		if !f.offers(f.viewOf(id), t) {
			break
		}
		body, err := t.read(f, withIdentity(ctx, id), args)
		if err != nil {
			return sum, mcp.ResourceNotFoundError(uri)
		}
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			return sum, err
		}
		text, err := json.Marshal(steady(v))
		return sha256.Sum256(text), err
	}
	return sum, mcp.ResourceNotFoundError(uri)
}

// steady leaves out the members of an answer that change although nothing happens.
func steady(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = steady(v[i])
		}
	case map[string]any:
		for k, x := range v {
			switch {
			case k == "as_of", k == "counted_at", k == "evidence", k == "applied", k == "durable", k == "disk_used_pct", k == "parked_pops",
				strings.HasSuffix(k, "_s"):
				delete(v, k)
			default:
				v[k] = steady(x)
			}
		}
	}
	return v
}

// listening bounds streams of notifications and ends them when the node stops.
func (f *Frontend) listening(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		p, ok := req.GetParams().(*mcp.SubscriptionsListenParams)
		if method != "subscriptions/listen" || !ok {
			return next(ctx, method, req)
		}
		if p.Notifications != nil && len(p.Notifications.ResourceSubscriptions) > maxWatched {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "a stream watches at most 64 resources"}
		}
		if f.streams.Add(1) > maxStreams {
			f.streams.Add(-1)
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many streams are open: try again later"}
		}
		defer f.streams.Add(-1)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(f.draining, cancel)()
		return next(ctx, method, req)
	}
}
