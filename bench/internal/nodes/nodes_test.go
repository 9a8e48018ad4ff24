package nodes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/bench/internal/node"
)

// TestLinks: what a node sends arrives until its link is cut, then nothing does and nobody is told, and once it is mended the connection
// that lost something ends and another one carries. The same for the answers of the other node.
func TestLinks(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	c := &Cluster{slots: []*slot{{}, {index: 1}}, links: [][]link{make([]link, 2), make([]link, 2)}}
	c.slots[0].process.Store(int64(os.Getpid())) // this process is the first node
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	newRelay(c, l, 1, echo.Addr().String())
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	passes := func(conn net.Conn) {
		t.Helper()
		_, err := io.WriteString(conn, "hello")
		require.NoError(t, err)
		b := make([]byte, 5)
		_, err = io.ReadFull(conn, b)
		require.NoError(t, err)
		require.Equal(t, "hello", string(b))
	}
	lost := func(l *link, n int64) {
		t.Helper()
		require.Eventually(t, func() bool { return l.lost.Load() == n }, time.Minute, time.Millisecond)
	}
	ended := func(conn net.Conn) {
		t.Helper()
		_, err := conn.Read(make([]byte, 1))
		require.Error(t, err)
	}
	for i, cut := range []*link{&c.links[0][1], &c.links[1][0]} {
		conn, other := dial(), dial()
		passes(conn)
		passes(other)
		cut.cut()
		cut.cut()
		_, err := io.WriteString(conn, "gone")
		require.NoError(t, err)
		lost(cut, 4)
		cut.mend(false)
		require.True(t, cut.off.Load(), "%d: it was cut twice", i)
		fresh := dial()
		_, err = io.WriteString(fresh, "gone too")
		require.NoError(t, err)
		lost(cut, 12)
		cut.mend(false)
		ended(conn)
		ended(fresh)
		passes(other)
		passes(dial())
	}
}

// TestSight: terms that changed count for all, what was seen of nodes for those that were struck.
func TestSight(t *testing.T) {
	var term atomic.Int64
	term.Store(3)
	serve := func(role, why string) *slot {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"raft":{"role":"follower","term":1,"apply":{"failure":%s},"groups":[{"group":1,"role":"follower","leader":2,"term":1},
				{"group":2,"role":%q,"leader":null,"term":%d}]}}`, why, role, term.Load())
		}))
		t.Cleanup(srv.Close)
		s := &slot{http: strings.TrimPrefix(srv.URL, "http://")}
		s.running.Store(&node.Node{})
		return s
	}
	c := &Cluster{o: Options{Groups: 2}, slots: []*slot{serve("leader", "null"), serve("candidate", "null"), serve("follower", `"no majority"`)}}
	c.mu.terms = map[int]uint64{}
	require.Equal(t, -1, c.ledLast(2))
	require.Equal(t, 0, c.Leader(2))
	require.Equal(t, 0, c.ledLast(2))
	require.Equal(t, -1, c.ledLast(1), "nobody leads it")
	s := c.watch()
	term.Store(5)
	require.Eventually(t, func() bool { return c.Terms()[2] == 5 }, time.Minute, time.Millisecond)
	s.end()
	quick := func(bits []string) []string {
		return slices.DeleteFunc(bits, func(bit string) bool { return strings.Contains(bit, "did not answer") }) // a busy machine
	}
	require.Equal(t, []string{"group 2: term 3 -> 5"}, s.newTerms())
	require.Equal(t, []string{"node 2 found no leader", "node 3: no majority"}, quick(s.of([]int{2, 1, 2})))
	require.Empty(t, quick(s.of([]int{0})))
	require.Empty(t, s.of(nil), "nobody was struck")
	calm := c.watch()
	calm.end()
	require.Empty(t, calm.newTerms(), "nothing happened")
}

// TestProof: of kinds that are done together each is proved by what it did itself, and a new term proves a transfer only.
func TestProof(t *testing.T) {
	c := &Cluster{o: Options{Groups: 1}}
	s := &sight{c: c, terms: map[int]uint64{1: 3}, now: map[int]uint64{1: 4}, nodes: []seen{{away: time.Second}, {}, {why: "no majority"}}}
	const terms = "group 1: term 3 -> 4"
	for _, p := range []struct {
		kinds  string
		hits   []hit
		bit    string
		bitten []string
	}{
		{"kill", []hit{{struck: []int{0}}}, "node 1 did not answer for 1.0 s; " + terms, []string{"kill"}},
		{"clock", []hit{{struck: []int{1}}}, terms, nil},
		{"clock", []hit{{struck: []int{1}, bits: []string{"it told"}}}, "it told; " + terms, []string{"clock"}},
		{"transfer", []hit{{}}, terms, []string{"transfer"}},
		{"kill+clock", []hit{{struck: []int{0}}, {struck: []int{1}}}, "node 1 did not answer for 1.0 s; " + terms, []string{"kill"}},
		{"kill+killany", []hit{{struck: []int{0}}, {spared: true}}, "node 1 did not answer for 1.0 s; " + terms, []string{"kill"}},
		{"mute", []hit{{spared: true, bits: []string{"x"}}}, "", nil},
		{"pause+mute", []hit{{struck: []int{2}}, {struck: []int{2}, bits: []string{"5 bytes"}}}, "node 3: no majority; 5 bytes; " + terms,
			[]string{"pause", "mute"}},
	} {
		d := Done{Kind: p.kinds}
		d.prove(strings.Split(p.kinds, "+"), p.hits, s)
		require.Equal(t, p.bit, d.Bit, p.kinds)
		require.Equal(t, p.bitten, d.Bitten, p.kinds)
	}
}

// TestHarm: names that are none are refused, nothing does nothing, and a plague ends with its context.
func TestHarm(t *testing.T) {
	c := &Cluster{}
	r := rand.New(rand.NewPCG(1, 2))
	_, err := c.Harm("kill+rain", r, 0)
	require.ErrorContains(t, err, `"rain"`)
	d, err := c.Harm("none", r, 0)
	require.NoError(t, err)
	require.Equal(t, Done{Kind: "none", What: "nothing"}, d)
	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	all, err := c.Plague(ctx, []string{"none"}, 0, 0, 1, writer(func(b []byte) {
		if out.Write(b); bytes.Count(out.Bytes(), []byte("\n")) >= 3 {
			cancel()
		}
	}))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 3)
	require.Contains(t, out.String(), "none: nothing; nothing shows that it bit\n")
	_, err = New(Options{Nodes: 3, Kinds: []string{"kill", "upgrade"}})
	require.ErrorContains(t, err, "upgrade")
	_, err = New(Options{Nodes: 10})
	require.ErrorContains(t, err, "1 to 9")
}

type writer func(b []byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// TestRing: of five nodes each hears two, of three one pair is cut, both ways.
func TestRing(t *testing.T) {
	for nodes, want := range map[int]int{3: 2, 4: 4, 5: 10} {
		cut := apart(rand.New(rand.NewPCG(1, uint64(nodes))).Perm(nodes))
		cuts := 0
		for from := range nodes {
			heard := 0
			for to := range nodes {
				switch {
				case from == to:
				case cut(from, to):
					cuts++
					require.True(t, cut(to, from))
				default:
					heard++
				}
			}
			require.Positive(t, heard)
			require.LessOrEqual(t, heard, 2)
		}
		require.Equal(t, want, cuts)
	}
}
