package replication

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"queen/engine/clock"
)

// handshakes has who connects to a port show who it is, and tells of those that are refused.
type handshakes struct {
	port  string
	log   *slog.Logger
	clock clock.Clock

	mu     sync.Mutex
	quiet  int64 // monotonic time until which nothing is told
	untold int   // refused since something was
}

// toldEvery bounds what is told: a node whose certificate does not fit tries again every second.
const toldEvery = 10 * time.Second

// shake ends the handshake of a connection within a time.
func (h *handshakes) shake(c *tls.Conn, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := c.HandshakeContext(ctx)
	if err != nil {
		h.refused(c.RemoteAddr(), err)
	}
	return err
}

// refused tells of a handshake that failed, but not of one that did not begin: somebody looked whether the port is open.
func (h *handshakes) refused(from net.Addr, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Mono()
	if now < h.quiet {
		h.untold++
		return
	}
	h.log.Warn("who connected to a port of nodes did not get through the handshake: certificates of nodes need one authority, and a name of "+
		"peer.names where that is set", "port", h.port, "from", from, "err", err, "others", h.untold)
	h.quiet, h.untold = now+toldEvery.Microseconds(), 0
}
