package replication

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path"
	"testing"
	"time"

	"queen/engine/format"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
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

// node makes the files of a node on loopback.
func (a *authority) node(name string) *TLS {
	key := a.newKey()
	a.write(name+".pem", "CERTIFICATE", a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		KeyUsage: x509.KeyUsageDigitalSignature}, key, a.cert))
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".key", "EC PRIVATE KEY", raw)
	v := &TLS{CA: path.Join(a.dir, "ca.pem"), Cert: path.Join(a.dir, name+".pem"), Key: path.Join(a.dir, name+".key")}
	cert, err := tls.LoadX509KeyPair(v.Cert, v.Key)
	if err != nil {
		a.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	v.Config = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert}
	return v
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
	other := newAuthority(t).node("stranger")
	other.Config.RootCAs = files.Config.RootCAs // it trusts the node, the node not it
	if _, err := query(ctx, c.peers[1], other, askReport, 0, 1, ""); err == nil {
		t.Error("a stranger was answered")
	}
}
