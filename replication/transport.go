package replication

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"
)

// transport carries raft's messages where nodes authenticate each other. The library has one of its own, which reads the files of its
// listener once: a renewed certificate would count after a restart. This one takes certificates from TLS at each handshake. Both
// speak one wire, so nodes with either understand each other.
//
// A message is {magic 2 bytes, kind u16, length u64, crc32 of the 18 bytes from kind on with 0 for itself u32, 0 u32}, big endian, and
// its body. Two zero bytes in place of the magic ask whether all of an image has come, and are answered by the same.
type transport struct {
	tls        *TLS
	handshakes handshakes
	listen     string
	messages   raftio.MessageHandler
	chunks     raftio.ChunkHandler
	listener   net.Listener
	in, out    conns // opened by others, and to others
	done       sync.WaitGroup
}

const (
	wireMagicSize = 2
	wireHeadSize  = 18
	wireRaft      = 100
	wireChunk     = 200
	// maxMessage is above what the library puts into one: 64 MiB, or one entry and what it comes with.
	maxMessage = 256 << 20
	// keptMessage bounds the buffer that a connection keeps, wirePiece what is written under one deadline.
	keptMessage = 2 << 20
	wirePiece   = 1 << 20
	// wireSilence is how long a message that has begun may stand still, handshakeWithin how long a peer may take to show who it is.
	wireSilence     = 5 * time.Second
	handshakeWithin = 5 * time.Second
)

var wireMagic, wireEnd = [wireMagicSize]byte{0xae, 0x7d}, [wireMagicSize]byte{}

// transports makes them for the library; made is the newest.
type transports struct {
	o    Options
	made *atomic.Pointer[transport]
}

// Create implements config.TransportFactory.
func (f transports) Create(c config.NodeHostConfig, messages raftio.MessageHandler, chunks raftio.ChunkHandler) raftio.ITransport {
	t := &transport{tls: f.o.TLS, listen: c.GetListenAddress(), messages: messages, chunks: chunks}
	t.handshakes.port, t.handshakes.log, t.handshakes.clock = t.listen, f.o.Log, f.o.Clock
	f.made.Store(t)
	return t
}

// Validate implements config.TransportFactory.
func (transports) Validate(addr string) bool {
	_, err := sideAddress(addr)
	return err == nil
}

// Name implements raftio.ITransport.
func (t *transport) Name() string { return "queen" }

// Start implements raftio.ITransport.
func (t *transport) Start() (err error) {
	if t.listener, err = net.Listen("tcp", t.listen); err != nil {
		return err
	}
	t.done.Add(1)
	go t.accept()
	return nil
}

// Close implements raftio.ITransport. Connections to others are the library's to close.
func (t *transport) Close() error {
	if t.listener == nil {
		return nil
	}
	err := t.listener.Close()
	t.in.close()
	t.done.Wait()
	return err
}

func (t *transport) accept() {
	defer t.done.Done()
	for {
		c, err := t.listener.Accept()
		switch {
		case err == nil:
			t.done.Add(1)
			go t.serve(tls.Server(c, t.tls.Listener))
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(pause) // out of descriptors: they come back
		}
	}
}

// serve hands the library what comes over a connection until that breaks; raft repairs what is lost with it.
func (t *transport) serve(c *tls.Conn) {
	defer t.done.Done()
	if !t.in.keep(c) {
		c.Close()
		return
	}
	defer t.in.drop(c)
	err := t.handshakes.shake(c, handshakeWithin)
	var buf []byte
	for err == nil {
		var first [1]byte
		_ = c.SetReadDeadline(time.Time{}) // between messages it may be silent
		if _, err = io.ReadFull(c, first[:]); err == nil {
			buf, err = t.take(&steadyConn{c, wireSilence}, first[0], buf)
		}
	}
}

// take reads the message that begins with a byte, and hands it over. The library copies what it keeps.
func (t *transport) take(c net.Conn, first byte, buf []byte) ([]byte, error) {
	kind, body, err := readMessage(c, first, buf)
	switch {
	case err != nil:
		return nil, err
	case kind == 0:
		_, err = c.Write(wireEnd[:])
	case kind == wireRaft:
		var b pb.MessageBatch
		if err = b.Unmarshal(body); err == nil {
			t.messages(b)
		}
	default:
		var k pb.Chunk
		if err = k.Unmarshal(body); err == nil && !t.chunks(k) {
			err = errors.New("replication: a piece of an image was refused")
		}
	}
	if cap(body) > keptMessage {
		body = nil
	}
	return body, err
}

// readMessage reads the rest of a message; kind 0 stands for the question whether all has come.
func readMessage(r io.Reader, first byte, buf []byte) (kind uint16, body []byte, err error) {
	var head [wireMagicSize + wireHeadSize]byte
	head[0] = first
	if _, err := io.ReadFull(r, head[1:wireMagicSize]); err != nil {
		return 0, nil, err
	}
	switch [wireMagicSize]byte(head[:wireMagicSize]) {
	case wireEnd:
		return 0, buf, nil
	case wireMagic:
	default:
		return 0, nil, fmt.Errorf("replication: a message that begins with %x", head[:wireMagicSize])
	}
	h := head[wireMagicSize:]
	if _, err := io.ReadFull(r, h); err != nil {
		return 0, nil, err
	}
	be := binary.BigEndian
	sum := be.Uint32(h[10:])
	be.PutUint32(h[10:], 0)
	kind, n := be.Uint16(h), be.Uint64(h[2:])
	if crc32.ChecksumIEEE(h) != sum || kind != wireRaft && kind != wireChunk || n == 0 || n > maxMessage {
		return 0, nil, fmt.Errorf("replication: a message of kind %d and %d bytes, at most %d, with the checksum %#x", kind, n, maxMessage, sum)
	}
	if n > uint64(cap(buf)) {
		buf = make([]byte, n)
	}
	_, err = io.ReadFull(r, buf[:n])
	return kind, buf[:n], err
}

// wireConn is a connection to another node.
type wireConn struct {
	c    net.Conn
	kept *conns // that drops it
	buf  []byte
}

// GetConnection implements raftio.ITransport.
func (t *transport) GetConnection(ctx context.Context, target string) (raftio.IConnection, error) {
	c, err := t.dial(ctx, target)
	if err != nil {
		return nil, err // not a nil connection, which would be one
	}
	return c, nil
}

// GetSnapshotConnection implements raftio.ITransport.
func (t *transport) GetSnapshotConnection(ctx context.Context, target string) (raftio.ISnapshotConnection, error) {
	c, err := t.dial(ctx, target)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (t *transport) dial(ctx context.Context, target string) (*wireConn, error) {
	c, err := (&net.Dialer{Timeout: dialWithin, Control: endUnacknowledged}).DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, err
	}
	s := tls.Client(c, t.tls.clientConfig(target))
	t.out.keep(s)
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	if err := s.HandshakeContext(ctx); err != nil {
		t.out.drop(s)
		return nil, err
	}
	return &wireConn{c: s, kept: &t.out}, nil
}

// Close implements raftio.IConnection and raftio.ISnapshotConnection.
func (w *wireConn) Close() { w.kept.drop(w.c) }

// SendMessageBatch implements raftio.IConnection.
func (w *wireConn) SendMessageBatch(b pb.MessageBatch) error {
	return w.send(wireRaft, &b, b.SizeUpperLimit())
}

// SendChunk implements raftio.ISnapshotConnection.
func (w *wireConn) SendChunk(k pb.Chunk) error { return w.send(wireChunk, &k, k.Size()) }

// send writes a message of at most size bytes.
func (w *wireConn) send(kind uint16, m pb.Marshaler, size int) error {
	const head = wireMagicSize + wireHeadSize
	b := w.buf
	if cap(b) < head+size {
		b = make([]byte, head+size)
	}
	b = b[:head+size]
	if cap(b) <= keptMessage {
		w.buf = b
	}
	b = b[:head+len(pb.MustMarshalTo(m, b[head:]))]
	copy(b, wireMagic[:])
	h, be := b[wireMagicSize:head], binary.BigEndian
	clear(h)
	be.PutUint16(h, kind)
	be.PutUint64(h[2:], uint64(len(b)-head))
	be.PutUint32(h[10:], crc32.ChecksumIEEE(h))
	for len(b) > 0 {
		n := min(len(b), wirePiece)
		_ = w.c.SetWriteDeadline(time.Now().Add(wireSilence))
		if _, err := w.c.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
