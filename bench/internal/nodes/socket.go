package nodes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
)

// Words of Linux's netlink family that tells of sockets.
const (
	netlinkSockDiag  = 4
	sockDiagByFamily = 20
	diagRequest      = syscall.NLMSG_HDRLEN + 56
	// inodeAt is where an answer has the inode: behind the header, four bytes, the two addresses and four numbers.
	inodeAt = syscall.NLMSG_HDRLEN + 4 + 48 + 16
)

// inodeOf asks the kernel for the socket of this machine that is bound to at and connected to the other address.
func inodeOf(at, to *net.TCPAddr) (uint32, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, netlinkSockDiag)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	src, dst := at.IP.To4(), to.IP.To4()
	if src == nil || dst == nil {
		return 0, fmt.Errorf("nodes: %v and %v are not both addresses of IPv4", at, to)
	}
	q := make([]byte, diagRequest)
	ne, be := binary.NativeEndian, binary.BigEndian
	ne.PutUint32(q[0:], diagRequest)
	ne.PutUint16(q[4:], sockDiagByFamily)
	ne.PutUint16(q[6:], syscall.NLM_F_REQUEST)
	d := q[syscall.NLMSG_HDRLEN:]
	d[0], d[1] = syscall.AF_INET, syscall.IPPROTO_TCP
	ne.PutUint32(d[4:], ^uint32(0)) // in any state
	be.PutUint16(d[8:], uint16(at.Port))
	be.PutUint16(d[10:], uint16(to.Port))
	copy(d[12:], src)
	copy(d[28:], dst)
	ne.PutUint64(d[48:], ^uint64(0)) // no cookie
	if err := syscall.Sendto(fd, q, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, answer, 0) // the kernel has answered when the question is sent
	if err != nil {
		return 0, err
	}
	if n < inodeAt+4 || ne.Uint16(answer[4:]) != sockDiagByFamily {
		return 0, errors.New("nodes: there is no such connection")
	}
	return ne.Uint32(answer[inodeAt:]), nil
}

// Ports for nodes and relays: below those that the system gives to outgoing connections, and others than those for clients.
const (
	minPort = 10_000
	maxPort = 20_000
)

// ports hands out pairs, so that what is down for a moment finds its own free again.
var ports struct {
	sync.Mutex
	next int
}

// pair listens on two neighbouring free ports of loopback.
func pair() (a, b net.Listener, port int, err error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = minPort + 2*rand.IntN((maxPort-minPort)/2)
	}
	for range (maxPort - minPort) / 2 {
		if port, ports.next = ports.next, ports.next+2; ports.next >= maxPort {
			ports.next = minPort
		}
		if a, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
			continue
		}
		if b, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1)); err == nil {
			return a, b, port, nil
		}
		a.Close()
	}
	return nil, nil, 0, fmt.Errorf("nodes: no two free ports from %d to %d: %w", minPort, maxPort, err)
}
