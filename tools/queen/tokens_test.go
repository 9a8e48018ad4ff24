package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// publicPEM writes public keys the way an issuer hands them out.
func publicPEM(t *testing.T, keys ...any) []byte {
	t.Helper()
	var text bytes.Buffer
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		require.NoError(t, err)
		require.NoError(t, pem.Encode(&text, &pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	}
	return text.Bytes()
}

// TestTokensOfANode: a real node beyond loopback takes tokens of the keys that it was given, as a file or in a setting,
// for what their roles allow; one that is over, that another key signed, or that signs with a public key is refused.
func TestTokensOfANode(t *testing.T) {
	secret, otherSecret := []byte("a secret of more than thirty-two bytes"), []byte("another one of more than thirty-two bytes")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	otherRSA, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	_, otherEd, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	rsaPEM := publicPEM(t, rsaKey.Public())
	type signer struct {
		method     jwt.SigningMethod
		key, wrong any
	}
	hs, rs, ed := signer{jwt.SigningMethodHS256, secret, otherSecret}, signer{jwt.SigningMethodRS256, rsaKey, otherRSA},
		signer{jwt.SigningMethodEdDSA, edKey, otherEd}
	for _, c := range []struct {
		name           string
		env, args      []string
		takes, refuses []signer
	}{
		{"shared secret in a file", nil, []string{"--jwt-secret-file", file("secret", append(secret, '\n'))},
			[]signer{hs}, []signer{rs, ed}},
		{"RSA key in a file", nil, []string{"--jwt-public-key", file("rsa.pem", rsaPEM)},
			[]signer{rs}, []signer{hs, ed, {jwt.SigningMethodHS256, rsaPEM, nil}}},
		{"both keys in the environment", []string{"JWT_PUBLIC_KEY=" + strings.ReplaceAll(string(publicPEM(t, rsaKey.Public(), edPublic)), "\n", `\n`)},
			nil, []signer{rs, ed}, []signer{hs}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := runNode(t, t.TempDir(), c.env, append([]string{"--http", "0.0.0.0:0", "--jwt-enabled"}, c.args...)...)
			n.url = strings.Replace(n.url, "[::]", "127.0.0.1", 1)
			now := time.Now()
			var all []string
			token := func(m jwt.SigningMethod, key any, role string, ends time.Time) string {
				s, err := jwt.NewWithClaims(m, jwt.MapClaims{"sub": "worker", "role": role, "exp": ends.Unix()}).SignedString(key)
				require.NoError(t, err)
				all = append(all, s)
				return s
			}
			push := func(token string) int {
				return n.as(token, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`)
			}
			later := now.Add(time.Hour)
			require.Equal(t, 401, push(""))
			require.Equal(t, 200, n.as("", "GET", "/livez", ""))
			for _, s := range c.takes {
				alg := s.method.Alg()
				good := token(s.method, s.key, "read-write", later)
				require.Equal(t, 201, push(good), alg)
				require.Equal(t, 403, n.as(good, "DELETE", "/api/v1/resources/queues/q", ""), alg)
				require.Equal(t, 403, push(token(s.method, s.key, "read-only", later)), alg)
				require.Equal(t, 401, push(token(s.method, s.key, "read-write", now.Add(-time.Hour))), alg)
				require.Equal(t, 401, push(token(s.method, s.wrong, "read-write", later)), alg)
				require.Equal(t, 401, push(good[:strings.LastIndexByte(good, '.')+1]), alg)
			}
			for _, s := range c.refuses {
				require.Equal(t, 401, push(token(s.method, s.key, "admin", later)), s.method.Alg())
			}
			require.Equal(t, 401, push(token(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "admin", later)))
			require.Zero(t, n.stop(syscall.SIGTERM))
			for _, s := range append(all, string(secret)) {
				require.NotContains(t, n.log(), s)
			}
		})
	}
}
