package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Conn is one connection to a node, dialled when it is first needed and again after an error.
type Conn struct {
	addr    string
	all     []string // the nodes that Turn goes round; addr is all[at]
	at      int
	timeout time.Duration
	nc      net.Conn
	br      *bufio.Reader
	until   time.Time // the deadline that nc was told
	head    []byte    // of the request, and its body if that is small
	body    []byte    // of the request being built
	answer  []byte    // of the last answer

	// Tenant, when set, is whom the requests are for.
	Tenant string
	// Sent, when set, is called when a request has left whole and before its answer is read.
	Sent func()
	// Dialled counts the connections made: while it stays the same, answers come from one life of one node.
	Dialled int
}

// maxAnswer bounds what an answer may announce.
const maxAnswer = 256 << 20

// ErrUnanswered is joined into the error of a request that left, at least in part, and got no answer: whether the node
// carried it out is not known.
var ErrUnanswered = errors.New("client: the request got no answer")

// joinedBody is the largest body that is copied behind its header, so that both leave in one plain write.
const joinedBody = 4 << 10

// New returns a connection to host:port. An exchange is given up when it takes longer than timeout, or half of it more.
func New(addr string, timeout time.Duration) *Conn { return &Conn{addr: addr, timeout: timeout} }

// Among returns a connection to one of several nodes that serve the same: number at, counted round. Turn leads to the others.
func Among(addrs []string, at int, timeout time.Duration) *Conn {
	at %= len(addrs)
	return &Conn{addr: addrs[at], all: addrs, at: at, timeout: timeout}
}

// Turn hangs up and goes on to the next node. It returns false, with nothing done, when there is no other.
func (c *Conn) Turn() bool {
	if len(c.all) < 2 {
		return false
	}
	c.Close()
	c.at = (c.at + 1) % len(c.all)
	c.addr = c.all[c.at]
	return true
}

// Close hangs up; the next call dials again.
func (c *Conn) Close() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

// Answer is a status and a body, which is valid until the next call.
type Answer struct {
	Status     int
	Body       []byte
	RetryAfter time.Duration
}

// Err is nil for a status below 300, else an error that shows the start of the body.
func (a *Answer) Err() error {
	if a.Status < 300 {
		return nil
	}
	return fmt.Errorf("client: status %d: %.300s", a.Status, a.Body)
}

// Do sends a request and reads its answer. body may be nil.
func (c *Conn) Do(method, path string, body []byte) (Answer, error) {
	if c.nc == nil {
		nc, err := net.DialTimeout("tcp", c.addr, c.timeout)
		if err != nil {
			return Answer{}, fmt.Errorf("client: %w", err)
		}
		c.nc, c.br, c.until = nc, bufio.NewReaderSize(nc, 64<<10), time.Time{}
		c.Dialled++
	}
	a, err := c.exchange(method, path, body)
	if err != nil {
		c.Close()
		return Answer{}, errors.Join(ErrUnanswered, err)
	}
	return a, nil
}

func (c *Conn) exchange(method, path string, body []byte) (Answer, error) {
	if err := c.bound(); err != nil {
		return Answer{}, err
	}
	h := append(c.head[:0], method...)
	h = append(h, ' ')
	h = append(h, path...)
	h = append(h, " HTTP/1.1\r\nHost: "...)
	h = append(h, c.addr...)
	h = append(h, "\r\nContent-Type: application/json\r\n"...)
	if c.Tenant != "" {
		h = append(h, "X-Queen-Tenant: "...)
		h = append(h, c.Tenant...)
		h = append(h, "\r\n"...)
	}
	if method != "GET" {
		h = append(h, "Content-Length: "...)
		h = strconv.AppendInt(h, int64(len(body)), 10)
		h = append(h, "\r\n"...)
	}
	h = append(h, "\r\n"...)
	if len(body) <= joinedBody {
		h, body = append(h, body...), nil
	}
	c.head = h
	if err := c.write(body); err != nil {
		return Answer{}, err
	}
	if c.Sent != nil {
		c.Sent()
	}
	return c.read()
}

// bound sets the deadline of an exchange, unless the one that is set leaves it the time: moving it means moving two timers.
func (c *Conn) bound() error {
	now := time.Now()
	if c.until.Sub(now) >= c.timeout {
		return nil
	}
	c.until = now.Add(c.timeout + c.timeout/2)
	return c.nc.SetDeadline(c.until)
}

// write sends head and what of the body does not stand in it.
func (c *Conn) write(body []byte) (err error) {
	if len(body) == 0 {
		_, err = c.nc.Write(c.head)
		return err
	}
	out := net.Buffers{c.head, body}
	_, err = out.WriteTo(c.nc)
	return err
}

// read takes one answer off the connection.
func (c *Conn) read() (Answer, error) {
	line, err := c.line()
	if err != nil {
		return Answer{}, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return Answer{}, fmt.Errorf("client: status line %q", line)
	}
	a := Answer{}
	if a.Status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return Answer{}, fmt.Errorf("client: status line %q", line)
	}
	length, hangup := int64(0), false
	for {
		if line, err = c.line(); err != nil {
			return Answer{}, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil || length < 0 || length > maxAnswer {
				return Answer{}, fmt.Errorf("client: Content-Length %q", value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			return Answer{}, fmt.Errorf("client: Transfer-Encoding %q is not understood", value)
		case bytes.EqualFold(name, []byte("Retry-After")):
			seconds, _ := strconv.Atoi(string(value))
			a.RetryAfter = time.Duration(seconds) * time.Second
		case bytes.EqualFold(name, []byte("Connection")):
			hangup = bytes.EqualFold(value, []byte("close"))
		}
	}
	if int64(cap(c.answer)) < length {
		c.answer = make([]byte, length+length/4)
	}
	a.Body = c.answer[:length]
	if _, err := io.ReadFull(c.br, a.Body); err != nil {
		return Answer{}, err
	}
	if hangup {
		c.Close()
	}
	return a, nil
}

// line reads a header line without its end.
func (c *Conn) line() ([]byte, error) {
	line, err := c.br.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
