package replication

import (
	"bufio"
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

// transport carries raft's messages. It speaks the wire of the library's own one, so that nodes with either understand each other, and differs in
// two things: certificates are taken from TLS at each handshake, so that a renewed one counts without a restart, and what is sent to a node goes
// by way of an outbox (outbox.go), which outlives the end of a connection.
//
// A message is {magic 2 bytes, kind u16, length u64, crc32 of the 18 bytes from kind on with 0 for itself u32, crc32 of the body u32}, big
// endian, and its body. Where nodes authenticate each other the last one is 0: TLS keeps the body. Two zero bytes in place of the magic ask
// whether all of an image has come, and are answered by the same.
type transport struct {
	tls        *TLS // nil speaks in the clear
	tick       time.Duration
	handshakes handshakes
	listen     string
	messages   raftio.MessageHandler
	chunks     raftio.ChunkHandler
	admit      func(*pb.MessageBatch) bool
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
	// keptMessage bounds the buffer that a connection keeps, wireAhead what is read ahead, wirePiece what is written under one deadline.
	keptMessage = 2 << 20
	wireAhead   = 32 << 10
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
	t := &transport{tls: f.o.TLS, tick: f.o.Tick, listen: c.GetListenAddress(), messages: messages, chunks: chunks}
	t.handshakes.port, t.handshakes.log, t.handshakes.clock = t.listen, f.o.Log, f.o.Clock
	t.admit = func(*pb.MessageBatch) bool { return true }
	if h := f.o.shared; h != nil {
		t.admit = h.addresses.admit
	}
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
			if t.tls != nil {
				c = tls.Server(c, t.tls.Listener)
			}
			t.done.Add(1)
			go t.serve(c)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(pause) // out of descriptors: they come back
		}
	}
}

// serve hands the library what comes over a connection until that breaks; raft repairs what is lost with it.
func (t *transport) serve(c net.Conn) {
	defer t.done.Done()
	if !t.in.keep(c) {
		c.Close()
		return
	}
	defer t.in.drop(c)
	var err error
	if s, secured := c.(*tls.Conn); secured {
		err = t.handshakes.shake(s, handshakeWithin)
	}
	steady := &steadyConn{c, wireSilence}
	r := bufio.NewReaderSize(steady, wireAhead)
	var buf []byte
	for err == nil {
		var first [1]byte
		from := io.Reader(r)
		if r.Buffered() == 0 {
			_ = c.SetReadDeadline(time.Time{}) // between messages it may be silent
			from = c
		}
		if _, err = io.ReadFull(from, first[:]); err == nil {
			buf, err = t.take(steady, r, first[0], buf)
		}
	}
}

// take reads the message that begins with a byte, and hands it over. The library copies what it keeps.
func (t *transport) take(c io.Writer, r io.Reader, first byte, buf []byte) ([]byte, error) {
	kind, body, err := readMessage(r, first, buf, t.tls == nil)
	switch {
	case err != nil:
		return nil, err
	case kind == 0:
		_, err = c.Write(wireEnd[:])
	case kind == wireRaft:
		var b pb.MessageBatch
		if err = b.Unmarshal(body); err == nil && t.admit(&b) {
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

// readMessage reads the rest of a message, whose body is summed where sums says so; kind 0 stands for the question whether all has come.
func readMessage(r io.Reader, first byte, buf []byte, sums bool) (kind uint16, body []byte, err error) {
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
	body = buf[:n]
	if _, err = io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	if want := be.Uint32(h[14:]); sums && crc32.ChecksumIEEE(body) != want {
		return 0, nil, fmt.Errorf("replication: the body of a message of %d bytes has the checksum %#x, want %#x", n, crc32.ChecksumIEEE(body), want)
	}
	return kind, body, nil
}

// appendMessage makes a message of at most size bytes, in buf if that has room.
func appendMessage(buf []byte, kind uint16, m pb.Marshaler, size int, sums bool) []byte {
	const head = wireMagicSize + wireHeadSize
	if cap(buf) < head+size {
		buf = make([]byte, head+size)
	}
	buf = buf[:head+size]
	buf = buf[:head+len(pb.MustMarshalTo(m, buf[head:]))]
	copy(buf, wireMagic[:])
	h, be := buf[wireMagicSize:head], binary.BigEndian
	clear(h)
	be.PutUint16(h, kind)
	be.PutUint64(h[2:], uint64(len(buf)-head))
	if sums {
		be.PutUint32(h[14:], crc32.ChecksumIEEE(buf[head:]))
	}
	be.PutUint32(h[10:], crc32.ChecksumIEEE(h))
	return buf
}

// writeMessage writes one to a connection that takes some of it all the while.
func writeMessage(c net.Conn, message []byte) error {
	for len(message) > 0 {
		n := min(len(message), wirePiece)
		_ = c.SetWriteDeadline(time.Now().Add(wireSilence))
		if _, err := c.Write(message[:n]); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// GetConnection implements raftio.ITransport. It does not dial: its first message does.
func (t *transport) GetConnection(ctx context.Context, target string) (raftio.IConnection, error) {
	o := &outbox{to: target, log: t.handshakes.log, clock: t.handshakes.clock, tick: t.tick, sums: t.tls == nil, kept: &t.out}
	o.dial = func() (net.Conn, error) { return t.dial(ctx, target) }
	return o, nil
}

// GetSnapshotConnection implements raftio.ITransport.
func (t *transport) GetSnapshotConnection(context.Context, string) (raftio.ISnapshotConnection, error) {
	return noImages{}, nil
}

// noImages takes the pieces of images, which hold nothing here (SaveSnapshot), and sends none.
type noImages struct{}

// Close implements raftio.ISnapshotConnection.
func (noImages) Close() {}

// SendChunk implements raftio.ISnapshotConnection.
func (noImages) SendChunk(pb.Chunk) error { return nil }

// dial connects to a node. What it returns is among t.out, which drops it.
func (t *transport) dial(ctx context.Context, target string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: dialWithin, Control: endUnacknowledged}).DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, err
	}
	if t.tls == nil {
		t.out.keep(c)
		return c, nil
	}
	s := tls.Client(c, t.tls.clientConfig(target))
	t.out.keep(s)
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	if err := s.HandshakeContext(ctx); err != nil {
		t.out.drop(s)
		return nil, err
	}
	return s, nil
}
