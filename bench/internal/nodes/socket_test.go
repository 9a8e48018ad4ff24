package nodes

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// connected is one connection over loopback, both ends.
func connected(t *testing.T) (dialed, accepted *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	d, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	a, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { d.Close(); a.Close() })
	return d.(*net.TCPConn), a.(*net.TCPConn)
}

// TestInode: the kernel names the very socket of one end of a connection, and of none that is not there.
func TestInode(t *testing.T) {
	for range 3 {
		dialed, accepted := connected(t)
		f, err := dialed.File() // another descriptor of the same socket
		require.NoError(t, err)
		defer f.Close()
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(int(f.Fd()), &st))
		got, err := inodeOf(accepted.RemoteAddr().(*net.TCPAddr), accepted.LocalAddr().(*net.TCPAddr))
		require.NoError(t, err)
		require.EqualValues(t, st.Ino, got)
	}
	_, err := inodeOf(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2})
	require.Error(t, err)
}

// TestOwner: a connection of this process is that of the slot that it runs in.
func TestOwner(t *testing.T) {
	c := &Cluster{slots: []*slot{{}, {}}}
	_, accepted := connected(t)
	require.Equal(t, -1, c.owner(accepted))
	c.slots[1].process.Store(int64(os.Getpid()))
	require.Equal(t, 1, c.owner(accepted))
}
