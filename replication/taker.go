package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/zeebo/xxh3"
)

// taker reads a tape of another node, over one connection after another. What it gives out has come whole; the last piece it gives
// out only when the sum of all bytes is right.
type taker struct {
	ctx context.Context
	log *slog.Logger
	// dial asks for the tape: where it broke off, or "" for a new one. Its answer is still to be read.
	dial func(where string) (net.Conn, error)
	rest func(tries int) bool // pauses before a try; false when there is to be none

	conn   net.Conn
	number uint64
	at     uint64 // bytes that came
	sum    *xxh3.Hasher
	broken int // how often it broke off since a piece came

	out   []byte // what is given out
	given []byte // the memory of that
	held  []byte // the piece behind it, held back
	whole bool
}

// takerTries is how often a tape is asked for again before another node is, or the same one for a new tape.
const takerTries = 8

// errSum: the bytes that came are not those that were sent.
var errSum = errors.New("replication: the sum of the copy is not that of what was sent")

// Read implements io.Reader.
func (r *taker) Read(b []byte) (int, error) {
	for len(r.out) == 0 {
		if r.whole && r.held == nil {
			return 0, io.EOF
		}
		var next []byte
		if !r.whole {
			var err error
			if next, err = r.receive(r.given); err != nil {
				return 0, err
			}
			if next == nil { // the end
				r.whole = true
			}
		}
		r.given, r.held = r.held, next
		r.out = r.given
	}
	n := copy(b, r.out)
	r.out = r.out[n:]
	return n, nil
}

// receive returns the next piece, in buf if it fits, nil at the end.
func (r *taker) receive(buf []byte) ([]byte, error) {
	for {
		piece, err := r.piece(buf)
		if err == nil {
			r.broken = 0
			return piece, nil
		}
		if r.broken++; errors.Is(err, errSum) || r.ctx.Err() != nil || r.broken > takerTries {
			return nil, err
		}
		r.log.Info("a copy of another node's state broke off, and is to go on", "bytes", r.at, "err", err)
		if again := r.goOn(); again != nil {
			return nil, errors.Join(err, again)
		}
	}
}

// piece reads one from the connection, and confirms it.
func (r *taker) piece(buf []byte) ([]byte, error) {
	c := &steadyConn{r.conn, pullSilence}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > tapePiece {
		return nil, fmt.Errorf("replication: a piece of a copy of %d bytes, at most %d", n, tapePiece)
	}
	if n == 0 {
		var sum [16]byte
		if _, err := io.ReadFull(c, sum[:]); err != nil {
			return nil, err
		}
		if sum != r.sum.Sum128().Bytes() {
			return nil, errSum
		}
		_ = writeNumber(c, tapeTaken) // else the other node waits for a while
		return nil, nil
	}
	if int(n) > cap(buf) {
		buf = make([]byte, tapePiece)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(c, buf); err != nil {
		return nil, err
	}
	_, _ = r.sum.Write(buf) // to memory
	r.at += uint64(n)
	_ = writeNumber(c, r.at) // a connection that is broken breaks the next read
	return buf, nil
}

// goOn asks the node for where it broke off, again and again for a while. A refusal is final: the tape is not there any more.
func (r *taker) goOn() (err error) {
	for tries := range takerTries {
		if !r.rest(tries) {
			return errEnded
		}
		var refused refusal
		if err = r.open(fmt.Sprintf("%d %d", r.number, r.at)); err == nil || errors.As(err, &refused) {
			return err
		}
	}
	return err
}

// open connects, and reads what comes before the tape.
func (r *taker) open(where string) error {
	r.close()
	c, err := r.dial(where)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(r.ctx, func() { c.Close() })
	r.conn = &stoppedConn{c, stop}
	if _, err := readAnswer(c); err != nil {
		return err
	}
	number, err := readNumber(&steadyConn{c, pullSilence})
	if r.number == 0 {
		r.number = number
	}
	return err
}

// stoppedConn is not closed by the end of a context any more once it is closed.
type stoppedConn struct {
	net.Conn
	stop func() bool
}

// Close implements net.Conn.
func (c *stoppedConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

func (r *taker) close() {
	if r.conn != nil {
		r.conn.Close()
	}
}

// takerPause is how long a try waits.
func takerPause(tries int) time.Duration { return min(10*pause<<tries, 2*time.Second) }
