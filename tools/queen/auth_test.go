package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/auth"
	"queen/engine/clock"
)

// tick is how often a condition that another process brings about is looked at.
const tick = 5 * time.Millisecond

// as calls a node with a credential and returns the status.
func (p *process) as(secret, method, path, body string) int {
	p.t.Helper()
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	require.NoError(p.t, err)
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(p.t, err)
	_ = res.Body.Close()
	return res.StatusCode
}

// TestKeysOfANode: a real node beyond loopback asks for a key, takes one that is added, and forgets one that is taken
// out when it is told to; neither key is ever in its log.
func TestKeysOfANode(t *testing.T) {
	key, hash := auth.NewKey(clock.RealRand().Fill)
	later, laterHash := auth.NewKey(clock.RealRand().Fill)
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write := func(hashes ...string) {
		text := "keys:\n"
		for i, h := range hashes {
			text += fmt.Sprintf("  - {name: app%d, hash: %q, roles: [read-write]}\n", i, h)
		}
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
	write(hash)
	n := runNode(t, t.TempDir(), nil, "--http", "0.0.0.0:0", "--auth-keys", path)
	n.url = strings.Replace(n.url, "[::]", "127.0.0.1", 1)
	const push = `{"items":[{"queue":"q","payload":1}]}`
	require.Equal(t, 401, n.as("", "POST", "/api/v1/push", push))
	require.Equal(t, 401, n.as(later, "POST", "/api/v1/push", push))
	require.Equal(t, 201, n.as(key, "POST", "/api/v1/push", push))
	require.Equal(t, 403, n.as(key, "DELETE", "/api/v1/resources/queues/q", ""))
	require.Equal(t, 200, n.as("", "GET", "/livez", ""))

	write(laterHash)
	require.NoError(t, n.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return n.as(later, "POST", "/api/v1/push", push) == 201 }, patience, tick)
	require.Equal(t, 401, n.as(key, "POST", "/api/v1/push", push))
	require.Zero(t, n.stop(syscall.SIGTERM))
	require.NotContains(t, n.log(), key)
	require.NotContains(t, n.log(), later)
	require.Contains(t, n.log(), "event=reloaded setting=auth.keys")
}
