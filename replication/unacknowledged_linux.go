package replication

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// endUnacknowledged has a connection end when what was written to it is not acknowledged within wireSilence. The machine would repeat it
// for a quarter of an hour, while raft's messages, which nobody answers on the same connection, go nowhere.
func endUnacknowledged(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(wireSilence.Milliseconds()))
	})
	return errors.Join(err, set)
}
