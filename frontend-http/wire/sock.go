package wire

// peerCondition is what the kernel knows about the other end of a connection.
type peerCondition int

const (
	peerOpen   peerCondition = iota // sending and, as far as we know, reading
	peerClosed                      // it sent FIN: closed, or half-closed, which counts as gone
	peerReset                       // it sent RST, or the kernel gave up on it
)
