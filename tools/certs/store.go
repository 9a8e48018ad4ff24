package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"queen/engine/auth/live"
)

// Options names the files, all in PEM.
type Options struct {
	// Cert is the certificate, followed by those that lead to its root; Key is its private key.
	Cert, Key string
	// ClientCA are the authorities of callers' certificates; empty asks callers for none.
	ClientCA string
	// Now is the time; required.
	Now func() time.Time
	// Told gets the outcome of a change; see live.Options.
	Told func(error)
}

// Store is the certificate in use.
type Store struct {
	files *live.Value[*material]
	asks  bool
}

// material is what one reading of the files gave.
type material struct {
	cert    tls.Certificate
	clients *x509.CertPool
}

// Open reads the files; an error names the one that is wrong.
func Open(o Options) (*Store, error) {
	paths := []string{o.Cert, o.Key}
	if o.ClientCA != "" {
		paths = append(paths, o.ClientCA)
	}
	files, err := live.Open(live.Options[*material]{Paths: paths, Now: o.Now, Changed: o.Told,
		Make: func(contents [][]byte) (*material, error) { return o.make(contents) }})
	if err != nil {
		return nil, err
	}
	return &Store{files: files, asks: o.ClientCA != ""}, nil
}

func (o Options) make(contents [][]byte) (*material, error) {
	cert, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", o.Cert, o.Key, err)
	}
	if cert.Leaf == nil {
		return nil, fmt.Errorf("%s: no certificate", o.Cert)
	}
	if now := o.Now(); now.After(cert.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s: the certificate ended on %s", o.Cert, cert.Leaf.NotAfter.Format(time.DateOnly))
	}
	m := &material{cert: cert}
	if o.ClientCA != "" {
		if m.clients, err = poolOf(contents[2]); err != nil {
			return nil, fmt.Errorf("%s: %w", o.ClientCA, err)
		}
	}
	return m, nil
}

// poolOf reads authorities. Each block has to be a certificate: one that was skipped, as the library does, would be missed only by the
// callers that show its certificates. Words between blocks are comments.
func poolOf(content []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for rest := content; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != certBlock {
			return nil, fmt.Errorf("block %d is a %s, want certificates only", n+1, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", n+1, err)
		}
		pool.AddCert(cert)
	}
	if n == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	// What is broken is no block, and stands between them or behind the last one.
	if begun, ended := bytes.Count(content, []byte("-----BEGIN")), bytes.Count(content, []byte("-----END")); begun != n || ended != n {
		return nil, fmt.Errorf("%d certificates are whole, %d begin and %d end", n, begun, ended)
	}
	return pool, nil
}

// certBlock is the type of a certificate's block.
const certBlock = "CERTIFICATE"

// Reload reads the files now.
func (s *Store) Reload() error { return s.files.Reload() }

// Config is for one listener; protocols are those of ALPN, none for a protocol that has no name there. It follows the
// files.
func (s *Store) Config(protocols ...string) *tls.Config {
	base := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.files.Get().cert, nil }}
	if !s.asks {
		return base
	}
	base.ClientAuth = tls.RequireAndVerifyClientCert
	// Tickets would let a connection skip an authority that has been withdrawn since.
	base.SessionTicketsDisabled = true
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := base.Clone()
		c.GetConfigForClient = nil
		c.ClientCAs = s.files.Get().clients
		return c, nil
	}
	return base
}

// Peers is for processes that show each other certificates of the same authorities, those of ClientCA, which is required: for a
// listener, and for a connection to a host. Both follow the files, and speak nothing older than TLS 1.3. Of who connects to the listener the
// certificate has to bear one of the names, where there are any: DNS names, wildcards in the certificate included, or IP addresses. Who connects
// holds that of the other end against the host.
func (s *Store) Peers(names ...string) (listener *tls.Config, to func(host string) *tls.Config) {
	listener = s.Config()
	listener.MinVersion = tls.VersionTLS13
	if len(names) > 0 {
		listener.VerifyConnection = func(c tls.ConnectionState) error { return bearsOne(c.PeerCertificates[0], names) }
	}
	return listener, func(host string) *tls.Config {
		m := s.files.Get()
		return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, RootCAs: m.clients, Certificates: []tls.Certificate{m.cert}}
	}
}

// bearsOne refuses a certificate that bears none of the names.
func bearsOne(cert *x509.Certificate, names []string) error {
	for _, name := range names {
		if cert.VerifyHostname(name) == nil {
			return nil
		}
	}
	return fmt.Errorf("the certificate of %q bears none of the names %q", cert.Subject, names)
}

// Ends is when the certificate in use ends.
func (s *Store) Ends() time.Time { return s.files.Get().cert.Leaf.NotAfter }
