package main

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/seal"
)

// TestEncryptionOfANode kills a real node with -9 between configure and push, and takes its key away and gives it back
// over restarts and by a rotated file.
func TestEncryptionOfANode(t *testing.T) {
	dir, ring := t.TempDir(), filepath.Join(t.TempDir(), "ring.yaml")
	key := func(n byte) string {
		return "  - {id: " + string('0'+n) + ", key: " + strings.Repeat(hex.EncodeToString([]byte{n, 0xa5}), seal.KeyBytes/2) + "}\n"
	}
	write := func(text string) {
		require.NoError(t, os.WriteFile(ring+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(ring+".new", ring))
	}
	write("keys:\n" + key(1))
	n := runNode(t, dir, nil, "--encryption-keyring", ring)
	n.must(200, "POST", "/api/v1/configure", map[string]any{"queue": "q", "options": map[string]any{"encryptionEnabled": true}}, nil)
	n.kill()

	var verdicts []struct{ Status, Error string }
	push := func(id string) string {
		t.Helper()
		n.must(201, "POST", "/api/v1/push", map[string]any{"items": []any{map[string]any{"queue": "q", "partition": "p",
			"transactionId": id, "payload": "secret " + id}}}, &verdicts)
		return verdicts[0].Status
	}
	n = runNode(t, dir, nil)
	require.Equal(t, "error", push("a"))
	require.Contains(t, verdicts[0].Error, "encryption_unavailable")
	n.kill()

	n = runNode(t, dir, nil, "--encryption-keyring", ring)
	require.Equal(t, "queued", push("a"))
	write("keys:\n" + key(1) + key(2))
	require.NoError(t, n.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return strings.Contains(n.log(), "event=reloaded setting=encryption.keyring") }, patience, tick)
	require.Equal(t, "queued", push("b"))
	n.kill()

	write("keys:\n" + key(2))
	n = runNode(t, dir, nil, "--encryption-keyring", ring)
	status, body := n.call("GET", "/api/v1/pop/queue/q?consumerGroup=g&subscriptionMode=all", nil)
	require.Equal(t, 409, status, "%s", body)
	require.Contains(t, string(body), "the key 1 is not loaded")
	status, body = n.call("POST", "/api/v1/fetch", map[string]any{"entries": []any{
		map[string]any{"queue": "q", "partition": "p", "offset": 0}, map[string]any{"queue": "q", "partition": "p", "offset": 1}}})
	require.Equal(t, 200, status)
	require.Contains(t, string(body), "ENCRYPTION_UNAVAILABLE")
	require.Contains(t, string(body), "secret b")
	require.NotContains(t, string(body), "secret a")
	n.kill()

	write("keys:\n" + key(1) + key(2))
	n = runNode(t, dir, nil, "--encryption-keyring", ring)
	var all popped
	n.must(200, "GET", "/api/v1/pop/queue/q?consumerGroup=g&subscriptionMode=all", nil, &all)
	require.Len(t, all.Messages, 2)
	require.Equal(t, "a", all.Messages[0].TransactionID)
	require.Equal(t, 1, all.Messages[0].DeliveryAttempt)
	require.Zero(t, n.stop(syscall.SIGTERM))

	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NotContains(t, string(data), "secret a", path)
		require.NotContains(t, string(data), "secret b", path)
		return err
	}))
}
