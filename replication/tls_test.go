package replication

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"queen/engine/format"
	"queen/tools/certs"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	// looked is the time at which files are looked at again, in seconds.
	looked atomic.Int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key = a.newKey()
	raw := a.sign(&x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nodes"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, a.key, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", raw)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(c *x509.Certificate, key *ecdsa.PrivateKey, parent *x509.Certificate) []byte {
	c.NotBefore, c.NotAfter = time.Unix(0, 0), time.Unix(1<<33, 0)
	if parent == nil {
		parent = c
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return raw
}

func (a *authority) write(name, kind string, raw []byte) {
	if err := os.WriteFile(path.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue writes the files of a node on loopback.
func (a *authority) issue(name string) {
	key := a.newKey()
	a.write(name+".pem", "CERTIFICATE", a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		KeyUsage: x509.KeyUsageDigitalSignature}, key, a.cert))
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".key", "EC PRIVATE KEY", raw)
}

// node makes a node on loopback, whose files are looked at again when looked moves.
func (a *authority) node(name string) *TLS {
	a.issue(name)
	s, err := certs.Open(certs.Options{Cert: path.Join(a.dir, name+".pem"), Key: path.Join(a.dir, name+".key"),
		ClientCA: path.Join(a.dir, "ca.pem"), Now: func() time.Time { return time.Unix(a.looked.Load(), 0) },
		Told: func(err error) {
			if err != nil {
				a.t.Error(err)
			}
		}})
	if err != nil {
		a.t.Fatal(err)
	}
	v := &TLS{}
	v.Listener, v.To = s.Peers()
	return v
}

// trusts has the nodes of an authority trust several, once their files are looked at again.
func (a *authority) trusts(all ...*authority) {
	var raw []byte
	for _, of := range all {
		raw = append(raw, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: of.cert.Raw})...)
	}
	if err := os.WriteFile(path.Join(a.dir, "ca.pem"), raw, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// TestNodesAuthenticate: with certificates of one authority nodes form a cluster and hand calls over; who shows none, or one
// of another authority, is told nothing.
func TestNodesAuthenticate(t *testing.T) {
	files := newAuthority(t).node("node")
	c := &testCluster{t: t, dir: t.TempDir(), peers: map[format.Replica]string{1: freePair(t), 2: freePair(t), 3: freePair(t)}, tls: files}
	c.begin(1, 2, 3)
	c.leader()
	ctx := context.Background()
	for _, n := range c.nodes {
		if _, err := push(ctx, n, "q", "p", "", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := query(ctx, c.peers[1], files, askReport, 0, 1, ""); err != nil {
		t.Errorf("a tool with the certificate: %v", err)
	}
	if _, err := query(ctx, c.peers[1], nil, askReport, 0, 1, ""); err == nil {
		t.Error("a tool without a certificate was answered")
	}
	if _, err := query(ctx, c.peers[1], newAuthority(t).node("stranger").trusting(files), askReport, 0, 1, ""); err == nil {
		t.Error("a stranger was answered")
	}
}

// trusting takes other nodes for genuine as another one does, and shows its own certificate.
func (t *TLS) trusting(as *TLS) *TLS {
	return &TLS{To: func(host string) *tls.Config {
		c := t.To(host)
		c.RootCAs = as.To(host).RootCAs
		return c
	}}
}

// TestRenewedCertificates: nodes that run change to another authority without a restart: first they trust both, then they show
// certificates of the new one, then they trust that one only. At each step a node that starts anew is reached by the others, which
// took the change, at both ports, and calls go on; at the end who shows a certificate of the former authority is refused at both.
func TestRenewedCertificates(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	files := a.node("node")
	former := files.To("127.0.0.1")
	c := &testCluster{t: t, dir: t.TempDir(), peers: map[format.Replica]string{1: freePair(t), 2: freePair(t), 3: freePair(t)}, tls: files}
	c.begin(1, 2, 3)
	ctx := context.Background()
	next := format.Offset(0)
	for i, step := range []func(){
		func() { a.trusts(a, b) },
		func() { b.dir = a.dir; b.issue("node") },
		func() { a.trusts(b) },
	} {
		step()
		a.looked.Add(1)
		node := format.Replica(i + 1)
		c.stop(node)
		c.start(node)
		for _, n := range c.nodes {
			if at, err := push(ctx, n, "q", "p", "", "x"); err != nil || at != next {
				t.Fatalf("step %d: a push is at %d, not %d: %v", i, at, next, err)
			}
			next++
		}
	}
	if cert, err := raftAnswers(c.peers[1], files.To("127.0.0.1")); err != nil || cert.CheckSignatureFrom(b.cert) != nil {
		t.Errorf("the raft port shows %v: %v", cert, err)
	}
	former.RootCAs = files.To("127.0.0.1").RootCAs
	if _, err := raftAnswers(c.peers[1], former); err == nil {
		t.Error("the raft port took a certificate of the former authority")
	}
	if _, err := query(ctx, c.peers[1], files, askReport, 0, 1, ""); err != nil {
		t.Errorf("the port above: %v", err)
	}
	if _, err := query(ctx, c.peers[1], &TLS{To: func(string) *tls.Config { return former }}, askReport, 0, 1, ""); err == nil {
		t.Error("the port above took a certificate of the former authority")
	}
}

// TestWithdrawnAuthority: nodes that run end their connections with one whose certificate comes from an authority which they do not trust any
// more: it hears of nobody that leads. They go on.
func TestWithdrawnAuthority(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	a.trusts(a, b)
	b.trusts(a, b)
	c := &testCluster{t: t, dir: t.TempDir(), peers: map[format.Replica]string{1: freePair(t), 2: freePair(t), 3: freePair(t)}, tls: a.node("node")}
	c.begin(1, 2, 3)
	c.stop(3)
	c.tls = b.node("node")
	c.start(3)
	ctx := context.Background()
	for _, node := range []format.Replica{1, 2, 3} {
		if _, err := push(ctx, c.nodes[node], "q", "p", "", "x"); err != nil {
			t.Fatal(err)
		}
	}
	a.trusts(a)
	a.looked.Add(1)
	c.until("node 3 is cut off", func() bool { return !c.status(3).Quorum })
	for _, node := range []format.Replica{1, 2} {
		if _, err := push(ctx, c.nodes[node], "q", "p", "", "x"); err != nil {
			t.Error(err)
		}
	}
}

// TestJudgedTwice: connections are judged when the authorities have changed, once more in the round after, and else not. At first all are new.
func TestJudgedTwice(t *testing.T) {
	var w withdrawn
	first, second := x509.NewCertPool(), x509.NewCertPool()
	for i, round := range []struct {
		by   *x509.CertPool
		want bool
	}{{first, true}, {first, true}, {first, false}, {second, true}, {second, true}, {second, false}, {first, true}, {second, true}, {second, true},
		{second, false}} {
		if got := w.due(round.by); got != round.want {
			t.Errorf("round %d: %v", i, got)
		}
	}
}

// TestQuestionEndsInTheHandshake: a question to a node that swallows what it is sent ends with its context.
func TestQuestionEndsInTheHandshake(t *testing.T) {
	addr := freePair(t)
	side, err := sideAddress(addr)
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", side)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		c, err := silent.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.ReadFull(c, make([]byte, 1)) // the handshake has begun
		cancel()
		_, _ = io.Copy(io.Discard, c) // until the other end closes
	}()
	if _, err := query(ctx, addr, newAuthority(t).node("node"), askReport, 0, 1, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("it came to %v", err)
	}
}

// raftAnswers asks a raft port whether all has come, and returns the certificate that it shows.
func raftAnswers(addr string, config *tls.Config) (*x509.Certificate, error) {
	c, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := c.Write(wireEnd[:]); err != nil {
		return nil, err
	}
	var got [wireMagicSize]byte
	if _, err := io.ReadFull(c, got[:]); err != nil {
		return nil, err
	}
	if got != wireEnd {
		return nil, fmt.Errorf("answered by %x", got)
	}
	return c.ConnectionState().PeerCertificates[0], nil
}

// spoken is a message of the library's.
type spoken []byte

func (s spoken) Marshal() ([]byte, error)        { return s, nil }
func (s spoken) MarshalTo(b []byte) (int, error) { return copy(b, s), nil }

// TestWireIsTheLibrarys: a message is byte for byte what the library's own transport makes of it, which nodes of another version may
// run, with and without TLS; one with a changed head, and one that is not whole, is refused, and one with a changed body where nothing else
// keeps it.
func TestWireIsTheLibrarys(t *testing.T) {
	body := spoken("abc")
	for sums, hexed := range map[bool]string{
		false: "ae7d" + "0064" + "0000000000000003" + "5e7b8349" + "00000000" + "616263",
		true:  "ae7d" + "0064" + "0000000000000003" + "3ac2b83e" + "352441c2" + "616263",
	} {
		want, err := hex.DecodeString(hexed)
		must(t, err)
		if got := appendMessage(nil, wireRaft, body, len(body)+3, sums); !bytes.Equal(got, want) {
			t.Errorf("%x, want %x", got, want)
		}
		read := func(b []byte) (uint16, []byte, error) { return readMessage(bytes.NewReader(b[1:]), b[0], nil, sums) }
		if kind, got, err := read(want); err != nil || kind != wireRaft || !bytes.Equal(got, body) {
			t.Errorf("read as kind %d, %x: %v", kind, got, err)
		}
		for i := range want {
			b := bytes.Clone(want)
			b[i] ^= 1
			if _, _, err := read(b); err == nil && (sums || i < len(want)-len(body)) {
				t.Errorf("byte %d was changed, and the message was taken", i)
			}
		}
		if _, _, err := read(want[:len(want)-1]); err == nil {
			t.Error("a message was taken that is not whole")
		}
	}
}
