package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writeCertificate replaces a certificate and its key; the certificate signs itself.
func writeCertificate(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	require.NoError(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for file, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: raw}} {
		path := filepath.Join(dir, file)
		require.NoError(t, os.WriteFile(path+".new", pem.EncodeToMemory(block), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
}

// TestTLSOfANode: a real node speaks TLS only, and uses a renewed certificate without a restart: by itself, and at once
// after SIGHUP. A connection that is open goes on.
func TestTLSOfANode(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir, "first")
	n := runNode(t, t.TempDir(), nil, "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	addr := strings.TrimPrefix(n.url, "http://")
	served := func() string {
		c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	require.Equal(t, "first", served())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ready := func() {
		t.Helper()
		res, err := client.Get("https://" + addr + "/readyz")
		require.NoError(t, err)
		_ = res.Body.Close()
		require.Equal(t, 200, res.StatusCode)
	}
	ready()
	_, err := http.Get("http://" + addr + "/readyz")
	require.Error(t, err)

	writeCertificate(t, dir, "second")
	require.Eventually(t, func() bool { return served() == "second" }, patience, tick)
	writeCertificate(t, dir, "third")
	require.NoError(t, n.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return served() == "third" }, patience, tick)
	ready()
	require.Zero(t, n.stop(syscall.SIGTERM))
}
