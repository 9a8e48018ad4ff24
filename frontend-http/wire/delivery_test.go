//go:build linux

package wire

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
)

// The rules on their own, without sockets.
func TestVerdictRules(t *testing.T) {
	reset := fmt.Errorf("read: %w", syscall.ECONNRESET)
	early, late := 10*time.Millisecond, 2*time.Second
	for _, tc := range []struct {
		name    string
		n       int
		err     error
		since   time.Duration
		unacked int
		peer    peerCondition
		read    verdict
		atClose verdict
	}{
		{"next request", 10, nil, early, 0, peerOpen, delivered, delivered},
		{"next request before the acknowledgement", 10, nil, early, 5, peerOpen, undecided, delivered},
		{"pipelined bytes, then a close", 10, nil, early, 5, peerClosed, undecided, failed},
		{"pipelined bytes, then a reset", 10, nil, early, 0, peerReset, failed, failed},
		{"pipelined bytes, then a late reset", 10, nil, late, 0, peerReset, delivered, delivered},
		{"close, all acknowledged", 0, io.EOF, early, 0, peerClosed, delivered, delivered},
		{"close, unacknowledged", 0, io.EOF, late, 1, peerClosed, failed, failed},
		{"reset at once", 0, reset, early, 0, peerReset, failed, failed},
		{"reset long after", 0, reset, late, 0, peerReset, delivered, delivered},
		{"reset long after, unacknowledged", 0, reset, late, 1, peerReset, failed, failed},
		{"peer vanished", 0, syscall.ETIMEDOUT, late, 7, peerReset, failed, failed},
		{"idle timeout", 0, os.ErrDeadlineExceeded, late, 0, peerOpen, delivered, delivered},
		{"idle timeout, unacknowledged", 0, os.ErrDeadlineExceeded, late, 7, peerOpen, failed, delivered},
		{"closed by us", 0, net.ErrClosed, early, 7, peerOpen, undecided, delivered},
	} {
		s := sight{written: true, sinceWrite: tc.since, window: time.Second, unacked: tc.unacked, peer: tc.peer}
		if got := s.afterRead(tc.n, tc.err); got != tc.read {
			t.Errorf("%s: after read %d, want %d", tc.name, got, tc.read)
		}
		if got := s.atClose(); got != tc.atClose {
			t.Errorf("%s: at close %d, want %d", tc.name, got, tc.atClose)
		}
		s.written = false
		if got := s.afterRead(tc.n, tc.err); got != undecided {
			t.Errorf("%s: nothing written, after read %d", tc.name, got)
		}
		if got := s.atClose(); got != failed {
			t.Errorf("%s: nothing written, at close %d", tc.name, got)
		}
	}
}

func TestOwnFINIsNotAnUnacknowledgedByte(t *testing.T) {
	for _, tc := range []struct {
		seqs int
		fin  bool
		want int
	}{{0, false, 0}, {1, false, 1}, {0, true, 0}, {1, true, 0}, {8, true, 7}} {
		if got := unackedBytes(tc.seqs, tc.fin); got != tc.want {
			t.Errorf("%d in the queue, FIN sent %v: %d bytes, want %d", tc.seqs, tc.fin, got, tc.want)
		}
	}
}

// claims is a server whose answers carry claims.
type claims struct {
	*harness
	entered chan *Conn    // a handler runs
	answer  chan struct{} // lets it answer
	verdict chan bool
}

const bigAnswer = 16 << 20 // more than any socket buffer takes

func startClaims(t *testing.T, lo Options, so ServerOptions) *claims {
	s := &claims{entered: make(chan *Conn, 1), answer: make(chan struct{}), verdict: make(chan bool, 4)}
	s.harness = start(t, lo, so, func(app *fiber.App) {
		app.Get("/claim", func(c *fiber.Ctx) error {
			conn := From(c.Context())
			s.entered <- conn
			<-s.answer
			conn.Deliver(func(ok bool) { s.verdict <- ok })
			return c.SendString(strings.Repeat("m", max(1, c.QueryInt("n"))))
		})
		app.Get("/ok", func(c *fiber.Ctx) error { return c.SendString("ok") })
	})
	return s
}

// ask sends a claim and waits for its handler; before runs while the handler waits, then it answers.
func (s *claims) ask(c *client, request string, before func(conn *Conn)) {
	s.t.Helper()
	c.send(request)
	conn := await(s.t, s.entered, "the handler")
	if before != nil {
		before(conn)
	}
	s.answer <- struct{}{}
}

func (s *claims) expect(want bool) {
	s.t.Helper()
	if got := await(s.t, s.verdict, "the verdict"); got != want {
		s.t.Errorf("verdict %v, want %v", got, want)
	}
}

func TestDeliveryVerdictsOnTheWire(t *testing.T) {
	claim, big := get("/claim"), get(fmt.Sprintf("/claim?n=%d", bigAnswer))
	last := "GET /claim HTTP/1.1\r\nHost: q\r\nConnection: close\r\n\r\n"
	left := func(leave func(*client), c *client) func(*Conn) {
		return func(conn *Conn) {
			leave(c)
			until(t, "the kernel knows", func() bool { return !conn.Alive() })
		}
	}
	for _, tc := range []struct {
		name string
		want bool
		run  func(s *claims, c *client)
	}{
		{"next request", true, func(s *claims, c *client) {
			s.ask(c, claim, nil)
			c.expect(200, "m")
			c.send(get("/ok"))
		}},
		{"read, then close", true, func(s *claims, c *client) {
			s.ask(c, claim, nil)
			c.expect(200, "m")
			c.fin()
		}},
		{"closed before the answer", false, func(s *claims, c *client) { s.ask(c, claim, left((*client).fin, c)) }},
		{"reset before the answer", false, func(s *claims, c *client) { s.ask(c, claim, left((*client).rst, c)) }},
		{"half-closed, but reads", true, func(s *claims, c *client) {
			s.ask(c, claim, left((*client).half, c))
			c.expect(200, "m")
		}},
		{"closed without reading it all", false, func(s *claims, c *client) {
			s.ask(c, claim, nil)
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			c.fin()
		}},
		{"closed in the middle of a big answer", false, func(s *claims, c *client) {
			s.ask(c, big, nil)
			if _, err := io.ReadFull(c, make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
			c.fin()
		}},
		{"never reads a big answer", false, func(s *claims, c *client) { s.ask(c, big, nil) }},
		{"pipelined, reads both", true, func(s *claims, c *client) {
			s.ask(c, claim+get("/ok"), nil)
			c.expect(200, "m")
			c.expect(200, "ok")
			c.fin()
		}},
		{"pipelined later, then reset before the answer", false, func(s *claims, c *client) {
			s.ask(c, claim, func(conn *Conn) {
				c.send(get("/ok"))
				left((*client).rst, c)(conn)
			})
		}},
		{"last request, read and closed", true, func(s *claims, c *client) {
			s.ask(c, last, nil)
			c.expect(200, "m")
			c.expectClosed()
			c.fin()
		}},
		{"last request, closed before the answer", false, func(s *claims, c *client) {
			s.ask(c, last, left((*client).fin, c))
		}},
		{"last request, reset instead of read", false, func(s *claims, c *client) {
			s.ask(c, last, nil)
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			c.rst()
		}},
		{"closed by force with nothing written", false, func(s *claims, c *client) {
			s.ask(c, claim, func(conn *Conn) { _ = conn.closeNow() })
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := startClaims(t, Options{ResetWindow: patience}, ServerOptions{WriteTimeout: 300 * time.Millisecond})
			tc.run(s, s.dial())
			s.expect(tc.want)
			s.shutdown(patience)
			if len(s.verdict) > 0 {
				t.Error("settled twice")
			}
			if n := s.ln.Metrics().DeliveriesFailed; (n == 1) == tc.want {
				t.Errorf("%d failed deliveries counted", n)
			}
		})
	}
}

// One answer is observed per connection; a second one ends the first's observation, and a closed connection fails it.
func TestDeliverySettlesOnce(t *testing.T) {
	var got []string
	note := func(name string) func(bool) { return func(ok bool) { got = append(got, fmt.Sprint(name, ok)) } }
	done := make(chan struct{})
	h := start(t, Options{}, ServerOptions{}, func(app *fiber.App) {
		app.Get("/", func(c *fiber.Ctx) error {
			defer close(done)
			conn := From(c.Context())
			conn.Deliver(note("first "))
			conn.Deliver(note("second "))
			_ = conn.closeNow()
			conn.Deliver(note("third "))
			return nil
		})
	})
	h.dial().send(get("/"))
	await(t, done, "the handler")
	h.shutdown(patience)
	if s := strings.Join(got, ", "); s != "first true, second false, third false" {
		t.Errorf("settled: %s", s)
	}
}

// A shutdown closes idle connections: the answers they received stay delivered.
func TestIdleConnectionAtShutdownKeepsItsVerdict(t *testing.T) {
	s := startClaims(t, Options{}, ServerOptions{})
	c := s.dial()
	s.ask(c, get("/claim"), nil)
	c.expect(200, "m")
	if forced := s.shutdown(patience); forced != 0 {
		t.Errorf("%d connections forced", forced)
	}
	s.expect(true)
	c.expectClosed()
}

var (
	raceSeed   = flag.Uint64("race.seed", 0, "seed of the delivery race; 0 takes the time")
	raceRounds = flag.Int("race.rounds", 600, "rounds of the delivery race")
)

// Clients give up at about the moment their answer is sent. Whatever the interleaving, an answer must be called failed
// exactly when the client did not get all of it, and a client that left early must be noticed before the claim.
func TestDeliveryRace(t *testing.T) {
	seed := *raceSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	var outcomes sync.Map // id -> chan string
	h := start(t, Options{ResetWindow: patience}, ServerOptions{}, func(app *fiber.App) {
		app.Get("/claim", func(c *fiber.Ctx) error {
			v, _ := outcomes.Load(c.QueryInt("id"))
			out, conn := v.(chan string), From(c.Context())
			gone, unpark := conn.Park()
			defer unpark()
			timer := time.NewTimer(2 * time.Millisecond)
			defer timer.Stop()
			select {
			case <-gone:
				out <- "gone while parked"
				return nil
			case <-timer.C:
			}
			if !conn.Alive() {
				out <- "gone at the last look"
				return nil
			}
			conn.Deliver(func(ok bool) { out <- fmt.Sprint("delivered ", ok) })
			return c.Send(bytes.Repeat([]byte("m"), c.QueryInt("n")))
		})
	})
	var counts struct {
		sync.Mutex
		of map[string]int
	}
	counts.of = make(map[string]int)
	var next atomic.Int64
	var wg sync.WaitGroup
	for worker := range 8 {
		rng := rand.New(rand.NewPCG(seed, uint64(worker)))
		wg.Go(func() {
			for id := next.Add(1); id <= int64(*raceRounds); id = next.Add(1) {
				out := make(chan string, 2)
				outcomes.Store(int(id), out)
				got := raceRound(t, h, rng, id)
				outcome := await(t, out, "the outcome")
				outcomes.Delete(int(id))
				if want := outcome == "delivered true"; got != want {
					t.Errorf("round %d: client got the answer: %v, server says: %s", id, got, outcome)
				}
				counts.Lock()
				counts.of[outcome]++
				counts.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("outcomes: %v", counts.of)
	if len(counts.of) < 3 {
		t.Errorf("the race met only %v", counts.of)
	}
}

// raceRound asks, gives up after a random time, and reports whether the whole answer had come.
func raceRound(t *testing.T, h *harness, rng *rand.Rand, id int64) (got bool) {
	nc, err := net.Dial("tcp", h.ln.Addr().String())
	if err != nil {
		t.Error(err)
		return false
	}
	defer func() { _ = nc.Close() }()
	size := []int{300, 400 << 10}[rng.IntN(2)]
	header := []string{"", "Connection: close\r\n"}[rng.IntN(2)]
	reset := rng.IntN(2) == 0
	wait := time.Millisecond + time.Duration(rng.Int64N(int64(3*time.Millisecond)))
	if _, err := fmt.Fprintf(nc, "GET /claim?id=%d&n=%d HTTP/1.1\r\nHost: q\r\n%s\r\n", id, size, header); err != nil {
		t.Error(err)
		return false
	}
	_ = nc.SetReadDeadline(time.Now().Add(wait))
	body, err := readBody(nc)
	if err == nil && len(body) == size {
		return true
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("round %d: %v", id, err)
	}
	if reset {
		_ = nc.(*net.TCPConn).SetLinger(0)
	}
	return false
}

func readBody(nc net.Conn) ([]byte, error) {
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(res.Body)
}
