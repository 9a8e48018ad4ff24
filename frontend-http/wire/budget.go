package wire

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// smallBody is what a request may have without asking the budget; the number of connections bounds these.
	smallBody = 64 << 10
	// keptBody is the largest body buffer that fasthttp may keep for the next request or answer.
	keptBody = 1 << 20
)

// bodyBudget bounds the memory of all bodies at once. fasthttp allocates a body by its announced length, before a byte
// of it has come, so a few hundred headers could otherwise reserve all of the machine's memory.
//
// A request takes its share when its header is known and gives it back when its handler has returned. Shares are known
// by the header's address, which is all that the server shows at the first of these moments. Some broken requests are
// dropped by fasthttp without a word; their shares lapse with their read deadline.
type bodyBudget struct {
	shares atomic.Int64 // len(mu.held), so that requests without a share need no lock

	mu struct {
		sync.Mutex
		free int
		held map[*fasthttp.RequestHeader]share
	}
}

type share struct {
	bytes   int
	short   bool      // less than the request may need: too large a body means overload, not 413
	expires time.Time // when the body can no longer be arriving; zero while the handler runs
}

func newBodyBudget(bytes int) *bodyBudget {
	b := new(bodyBudget)
	b.mu.free = bytes
	b.mu.held = make(map[*fasthttp.RequestHeader]share)
	return b
}

// take reserves for a body of exactly want bytes and returns want, or a limit that refuses it.
func (b *bodyBudget) take(h *fasthttp.RequestHeader, want int, expires time.Time) (limit int) {
	if want <= smallBody {
		return want
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropLocked(h)
	b.sweepLocked(want)
	if want > b.mu.free {
		b.holdLocked(h, share{short: true, expires: expires})
		return 1
	}
	b.holdLocked(h, share{bytes: want, expires: expires})
	return want
}

// takeUpTo reserves for a body of unknown length and returns its limit: most, as long as the budget is not tight, and
// a quarter of what is left when it is, so that short chunked bodies still pass.
func (b *bodyBudget) takeUpTo(h *fasthttp.RequestHeader, most int, expires time.Time) (limit int) {
	if most <= smallBody {
		return most
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropLocked(h)
	b.sweepLocked(4 * most)
	granted := min(most, b.mu.free/4)
	b.holdLocked(h, share{bytes: granted, short: granted < most, expires: expires})
	return max(granted, smallBody)
}

// running notes that the body is complete: the share now lasts until release.
func (b *bodyBudget) running(h *fasthttp.RequestHeader) {
	if b.shares.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, ok := b.mu.held[h]; ok {
		s.expires = time.Time{}
		b.mu.held[h] = s
	}
}

// isShort reports a share that can not hold the announced body.
func (b *bodyBudget) isShort(h *fasthttp.RequestHeader) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.mu.held[h]
	return s.short && s.bytes == 0
}

// release gives the share back, if there is one, and reports whether it was short.
func (b *bodyBudget) release(h *fasthttp.RequestHeader) (short bool) {
	if b.shares.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropLocked(h)
}

func (b *bodyBudget) holdLocked(h *fasthttp.RequestHeader, s share) {
	b.mu.held[h] = s
	b.mu.free -= s.bytes
	b.shares.Store(int64(len(b.mu.held)))
}

func (b *bodyBudget) dropLocked(h *fasthttp.RequestHeader) (short bool) {
	s, ok := b.mu.held[h]
	if !ok {
		return false
	}
	delete(b.mu.held, h)
	b.mu.free += s.bytes
	b.shares.Store(int64(len(b.mu.held)))
	return s.short
}

// sweepLocked reclaims lapsed shares when less than want is free.
func (b *bodyBudget) sweepLocked(want int) {
	if want <= b.mu.free {
		return
	}
	now := time.Now()
	for h, s := range b.mu.held {
		if !s.expires.IsZero() && now.After(s.expires) {
			b.dropLocked(h)
		}
	}
}
