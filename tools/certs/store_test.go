package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// authority signs certificates.
type authority struct {
	*testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

var serial atomic.Int64

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: "ca"}, IsCA: true,
		NotBefore: start.Add(-time.Hour), NotAfter: start.Add(1000 * time.Hour), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{T: t, cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue makes a certificate that ends at a time.
func (a *authority) issue(name string, ends time.Time) (cert, key []byte) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(serial.Add(1)),
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}, NotBefore: start.Add(-time.Hour), NotAfter: ends,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, k.Public(), a.key)
	require.NoError(a, err)
	raw, err := x509.MarshalECPrivateKey(k)
	require.NoError(a, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}

type rig struct {
	*testing.T
	dir  string
	now  atomic.Int64
	told []error
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, dir: t.TempDir()}
	r.now.Store(start.Unix())
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) write(name string, data []byte) {
	require.NoError(r, os.WriteFile(r.path(name)+".new", data, 0o600))
	require.NoError(r, os.Rename(r.path(name)+".new", r.path(name)))
}

func (r *rig) options() Options {
	return Options{Cert: r.path("cert"), Key: r.path("key"), Now: func() time.Time { return time.Unix(r.now.Load(), 0) },
		Told: func(err error) { r.told = append(r.told, err) }}
}

// shake connects and returns the name in the server's certificate.
func (r *rig) shake(server, client *tls.Config) (name string, version uint16, err error) {
	// A pipe without a buffer would have a client that refuses and a server that goes on wait for each other.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r, err)
	defer func() { _ = listener.Close() }()
	go func() {
		left, err := listener.Accept()
		if err != nil {
			return
		}
		s := tls.Server(left, server)
		if s.Handshake() == nil {
			_, _ = s.Write([]byte("x"))
		}
		_ = left.Close()
	}()
	right, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(r, err)
	defer func() { _ = right.Close() }()
	c := tls.Client(right, client)
	if err = c.Handshake(); err != nil {
		return "", 0, err
	}
	// In TLS 1.3 the server judges the client's certificate after the client's side is done.
	if _, err = io.ReadFull(c, make([]byte, 1)); err != nil {
		return "", 0, err
	}
	state := c.ConnectionState()
	return state.PeerCertificates[0].Subject.CommonName, state.Version, nil
}

func (r *rig) client(a *authority) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, ServerName: "localhost", Time: func() time.Time { return start }}
}

// TestRenewal: the next handshake uses a renewed certificate, a broken one changes nothing, Reload does not wait.
func TestRenewal(t *testing.T) {
	r, ca := newRig(t), newAuthority(t)
	cert, key := ca.issue("first", start.Add(time.Hour))
	r.write("cert", cert)
	r.write("key", key)
	s, err := Open(r.options())
	require.NoError(t, err)
	require.Equal(t, start.Add(time.Hour), s.Ends().UTC())
	config := s.Config("http/1.1")
	serves := func(want string) {
		t.Helper()
		name, _, err := r.shake(config, r.client(ca))
		require.NoError(t, err)
		require.Equal(t, want, name)
	}
	serves("first")
	cert, key = ca.issue("second", start.Add(2*time.Hour))
	r.write("cert", cert)
	serves("first")
	r.now.Add(1) // the key is not there yet
	serves("first")
	require.Len(t, r.told, 1)
	require.ErrorContains(t, r.told[0], "private key does not match")
	r.write("key", key)
	r.now.Add(1)
	serves("second")
	require.Len(t, r.told, 2)
	require.NoError(t, r.told[1])
	cert, key = ca.issue("third", start.Add(2*time.Hour))
	r.write("cert", cert)
	r.write("key", key)
	require.NoError(t, s.Reload())
	serves("third")
}

// TestVersions: nothing older than TLS 1.2.
func TestVersions(t *testing.T) {
	r, ca := newRig(t), newAuthority(t)
	cert, key := ca.issue("queen", start.Add(time.Hour))
	r.write("cert", cert)
	r.write("key", key)
	s, err := Open(r.options())
	require.NoError(t, err)
	for version, ok := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		client := r.client(ca)
		client.MinVersion, client.MaxVersion = tls.VersionTLS10, version
		_, got, err := r.shake(s.Config(), client)
		if ok {
			require.NoError(t, err)
			require.Equal(t, version, got)
		} else {
			require.Error(t, err)
		}
	}
}

// TestCallersCertificates: with an authority callers must show a certificate of it, and of its successor after a change.
func TestCallersCertificates(t *testing.T) {
	r, ca, other := newRig(t), newAuthority(t), newAuthority(t)
	cert, key := ca.issue("queen", start.Add(time.Hour))
	r.write("cert", cert)
	r.write("key", key)
	r.write("clients", ca.pem)
	o := r.options()
	o.ClientCA = r.path("clients")
	s, err := Open(o)
	require.NoError(t, err)
	config := s.Config()
	config.Time = func() time.Time { return start }
	try := func(of *authority) error {
		client := r.client(ca)
		if of != nil {
			pair, err := tls.X509KeyPair(of.issue("app", start.Add(time.Hour)))
			require.NoError(t, err)
			client.Certificates = []tls.Certificate{pair}
		}
		_, _, err := r.shake(config, client)
		return err
	}
	require.NoError(t, try(ca))
	require.Error(t, try(other))
	require.Error(t, try(nil))
	r.write("clients", other.pem)
	r.now.Add(1)
	require.Error(t, try(ca))
	require.NoError(t, try(other))
	r.write("clients", slices.Concat([]byte("# both\n"), ca.pem, []byte("\n# the new one\n"), other.pem, []byte("\n")))
	r.now.Add(1)
	require.NoError(t, try(ca))
	require.NoError(t, try(other))
}

// TestPeers: both sides show a certificate of one authority and want one; after a change only those of its successor count, on both
// sides. Nothing older than TLS 1.3 is spoken.
func TestPeers(t *testing.T) {
	r, first, second := newRig(t), newAuthority(t), newAuthority(t)
	renew := func(a *authority, name string) {
		cert, key := a.issue(name, start.Add(time.Hour))
		r.write("cert", cert)
		r.write("key", key)
		r.write("nodes", a.pem)
	}
	renew(first, "one")
	o := r.options()
	o.ClientCA = r.path("nodes")
	s, err := Open(o)
	require.NoError(t, err)
	listener, to := s.Peers()
	listener.Time = func() time.Time { return start }
	serves := func(client *tls.Config) (string, error) {
		client.Time = listener.Time
		name, _, err := r.shake(listener, client)
		return name, err
	}
	former := to("localhost")
	name, err := serves(former)
	require.NoError(t, err)
	require.Equal(t, "one", name)
	_, err = serves(to("elsewhere"))
	require.ErrorContains(t, err, "elsewhere")
	older := to("localhost")
	older.MinVersion, older.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	_, err = serves(older)
	require.Error(t, err)

	renew(second, "two")
	r.now.Add(1)
	name, err = serves(to("localhost"))
	require.NoError(t, err)
	require.Equal(t, "two", name)
	_, err = serves(former)
	require.Error(t, err, "it trusts the former authority only")
	former.RootCAs = to("localhost").RootCAs
	_, err = serves(former)
	require.Error(t, err, "it shows a certificate of the former authority")
}

// TestPeersNames: of the certificates of the authority those are taken that bear one of the names.
func TestPeersNames(t *testing.T) {
	r, ca := newRig(t), newAuthority(t)
	cert, key := ca.issue("one", start.Add(time.Hour)) // for localhost
	r.write("cert", cert)
	r.write("key", key)
	r.write("nodes", ca.pem)
	o := r.options()
	o.ClientCA = r.path("nodes")
	s, err := Open(o)
	require.NoError(t, err)
	for _, c := range []struct {
		names []string
		taken bool
	}{{nil, true}, {[]string{"localhost"}, true}, {[]string{"node.internal", "localhost"}, true}, {[]string{"node.internal"}, false},
		{[]string{"one"}, false}, {[]string{"127.0.0.1"}, false}} {
		listener, to := s.Peers(c.names...)
		listener.Time = func() time.Time { return start }
		client := to("localhost")
		client.Time = listener.Time
		_, _, err := r.shake(listener, client)
		require.Equal(t, c.taken, err == nil, "%q: %v", c.names, err)
	}
}

// TestWrongFiles: each is named.
func TestWrongFiles(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.issue("queen", start.Add(time.Hour))
	old, oldKey := ca.issue("queen", start.Add(-time.Minute))
	_, otherKey := ca.issue("queen", start.Add(time.Hour))
	for i, c := range []struct {
		cert, key, clients []byte
		want               string
	}{
		{nil, key, nil, "cert"},
		{cert, nil, nil, "key"},
		{[]byte("x"), key, nil, "failed to find any PEM data"},
		{cert, []byte("x"), nil, "failed to find any PEM data"},
		{cert, otherKey, nil, "private key does not match"},
		{key, cert, nil, "cert and"},
		{old, oldKey, nil, "the certificate ended on 2026-12-01"},
		{cert, key, []byte("x"), "clients: no certificate in PEM"},
		{cert, key, ca.pem[:len(ca.pem)-9], "clients: no certificate in PEM"},
		{cert, key, slices.Concat(ca.pem, ca.pem[:len(ca.pem)-9]), "clients: 1 certificates are whole, 2 begin"},
		{cert, key, slices.Concat(ca.pem[:100], ca.pem[110:], ca.pem), "clients: "},
		{cert, key, slices.Concat(ca.pem, ca.pem[30:]), "clients: 1 certificates are whole, 1 begin and 2 end"},
		{cert, key, slices.Concat(ca.pem, key), "clients: block 2 is a EC PRIVATE KEY, want certificates only"},
		{cert, key, slices.Concat(ca.pem, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), "clients: certificate 2: "},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := newRig(t)
			for name, data := range map[string][]byte{"cert": c.cert, "key": c.key, "clients": c.clients} {
				if data != nil {
					r.write(name, data)
				}
			}
			o := r.options()
			if c.clients != nil {
				o.ClientCA = r.path("clients")
			}
			_, err := Open(o)
			require.ErrorContains(t, err, c.want)
		})
	}
}
