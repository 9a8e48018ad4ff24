package replication

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"

	"github.com/lni/dragonboat/v4/config"
	"golang.org/x/sys/unix"
)

// TestUnacknowledgedEnds: connections for raft's messages end when what was sent is not acknowledged.
func TestUnacknowledgedEnds(t *testing.T) {
	for _, secured := range []*TLS{nil, newAuthority(t).node("node")} {
		addr := freePair(t)
		o := Options{Node: 1, TLS: secured}.withDefaults()
		raft := transports{o, new(atomic.Pointer[transport])}.Create(config.NodeHostConfig{RaftAddress: addr}, nil, nil).(*transport)
		must(t, raft.Start())
		defer raft.Close()
		c, err := raft.dial(context.Background(), addr)
		must(t, err)
		defer raft.out.drop(c)
		if s, ok := c.(*tls.Conn); ok {
			c = s.NetConn()
		}
		tcp, err := c.(*net.TCPConn).SyscallConn()
		must(t, err)
		must(t, tcp.Control(func(fd uintptr) {
			got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			if err != nil || got != int(wireSilence.Milliseconds()) {
				t.Errorf("unacknowledged for %d ms: %v", got, err)
			}
		}))
	}
}
