package wire

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// States of tcp(7) as TCP_INFO reports them.
const (
	tcpEstablished = 1
	tcpSynRecv     = 3
	tcpFinWait1    = 4
	tcpFinWait2    = 5
	tcpClose       = 7
)

// peerState reads the connection's TCP state. Our own FIN (a lingering close) does not make the peer look closed.
func peerState(fd int) peerCondition {
	// The state is the first byte of tcp_info; asking for four bytes of it spares the whole struct.
	info, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return peerReset
	}
	var head [4]byte
	binary.NativeEndian.PutUint32(head[:], uint32(info))
	switch head[0] {
	case tcpEstablished, tcpSynRecv, tcpFinWait1, tcpFinWait2:
		return peerOpen
	case tcpClose:
		return peerReset
	}
	return peerClosed
}

// unackedSeqs is the length of the send queue: bytes, and a FIN, that the peer's kernel has not acknowledged.
func unackedSeqs(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

func setUserTimeout(fd int, d time.Duration) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}
