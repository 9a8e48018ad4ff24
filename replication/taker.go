package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/zeebo/xxh3"

	"queen/engine/clock"
	"queen/engine/format"
)

// taker reads a tape of another node, over one connection after another. What it gives out has come whole; the last piece it gives
// out only when the sum of all bytes is right.
type taker struct {
	ctx   context.Context
	log   *slog.Logger
	clock clock.Clock
	// of is the node it is asked of, deployment the number of the cluster, 0 for unknown.
	of         format.Replica
	deployment uint64
	// dial asks for the tape: where it broke off, or "" for a new one. Its answer is still to be read.
	dial func(where string) (net.Conn, error)
	rest func(tries int) bool // pauses before a try; false when there is to be none

	conn   net.Conn
	number uint64
	at     uint64 // bytes that came
	sum    *xxh3.Hasher
	tries  int   // how often it was asked for again since a piece came
	broke  int64 // monotonic time at which it first broke off since

	out   []byte // what is given out
	given []byte // the memory of that
	held  []byte // the piece behind it, held back
	whole bool

	mu struct {
		sync.Mutex
		conn   net.Conn // over which pieces come
		at     uint64   // that was confirmed last
		repeat clock.Timer
	}
}

const (
	// takerWithin is for how long a tape is asked for again before another node is, or the same one for a new tape: nearly as long
	// as it is kept there.
	takerWithin = tapeWait - 20*time.Second
	// takerTries is how often it is asked for again where nobody listens: that node has ended most likely, and its copies with it.
	takerTries = 8
	// takerRepeat is how often what came is confirmed again while no more is read: keys that are put in order take their time, and
	// who sends gives up on a node that is silent.
	takerRepeat = 10 * time.Second
)

var (
	// errOther: not the node that was asked answers, or not with the copy that broke off.
	errOther = errors.New("replication: another copy answers than was asked for")
	errAway  = errors.New("replication: what goes on broke off at once, for too long")
)

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
			r.tries = 0
			return piece, nil
		}
		if errors.Is(err, errSum) || r.ctx.Err() != nil {
			return nil, err
		}
		if r.tries == 0 {
			r.broke = r.clock.Mono()
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
		r.confirms(nil, r.at)
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
	r.confirms(r.conn, r.at)
	_ = writeNumber(c, r.at) // a connection that is broken breaks the next read
	return buf, nil
}

// confirms notes what is to be confirmed again, over which connection; nil for none.
func (r *taker) confirms(c net.Conn, at uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.conn, r.mu.at = c, at
}

// confirmAgain shows who sends that this node is there.
func (r *taker) confirmAgain() {
	r.mu.Lock()
	c, at := r.mu.conn, r.mu.at
	r.mu.Unlock()
	if c != nil {
		_ = writeNumber(&steadyConn{c, pullSilence}, at) // a connection that is broken breaks the next read
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.repeat != nil {
		r.mu.repeat.Reset(takerRepeat)
	}
}

// goOn asks the node for where it broke off, again and again for a while. A refusal is final: the tape is not there any more.
func (r *taker) goOn() error {
	err := errAway
	for time.Duration(r.clock.Mono()-r.broke)*time.Microsecond < takerWithin {
		if !r.rest(r.tries) {
			return errEnded
		}
		r.tries++
		var refused refusal
		if err = r.open(fmt.Sprintf("%d %d", r.number, r.at)); err == nil || errors.As(err, &refused) || errors.Is(err, errOther) ||
			errors.Is(err, syscall.ECONNREFUSED) && r.tries >= takerTries {
			return err
		}
	}
	return err
}

// open connects, and reads what comes before the tape.
func (r *taker) open(where string) error {
	r.leave()
	c, err := r.dial(where)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(r.ctx, func() { c.Close() })
	r.conn = &stoppedConn{c, stop}
	answer, err := readAnswer(c)
	if err != nil {
		return err
	}
	number, err := readNumber(&steadyConn{c, pullSilence})
	switch {
	case err != nil:
		return err
	case answer.Node != uint64(r.of):
		return fmt.Errorf("%w: node %d answers, and node %d was asked", errOther, answer.Node, r.of)
	case isOther(r.deployment, &answer):
		return fmt.Errorf("%w: the address of node %d %w", errOther, r.of, errForeign)
	case r.number != 0 && r.number != number:
		return fmt.Errorf("%w: copy %x answers, and copy %x was asked for", errOther, number, r.number)
	}
	r.number = number
	r.confirms(r.conn, r.at)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.repeat == nil {
		r.mu.repeat = r.clock.AfterFunc(takerRepeat, r.confirmAgain)
	}
	return nil
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

// leave closes the connection.
func (r *taker) leave() {
	if r.conn != nil {
		r.confirms(nil, r.at)
		r.conn.Close()
	}
}

func (r *taker) close() {
	r.leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.repeat != nil {
		r.mu.repeat.Stop()
		r.mu.repeat = nil
	}
}

// takerPause is how long a try waits.
func takerPause(tries int) time.Duration { return min(10*pause<<min(tries, 10), 2*time.Second) }
