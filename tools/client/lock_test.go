package client

import (
	"net/http"
	"testing"

	"queen/tools/cli"
)

// TestPermits: keys beside the permits are left out, and what the value of a permit lacks is null.
func TestPermits(t *testing.T) {
	const page = `{"rows":[{"key":"a#0","value":{"owner":"x","since":"2026-01-01T00:00:00Z"},"version":7,"updatedAt":null,"expiresAt":null},` +
		`{"key":"b#12","value":{},"version":8},{"key":"plain","value":{}},{"key":"c#x","value":{}},{"key":"d#0","value":"text"}],"nextAfter":null}`
	const want = `{"expiresAt":null,"name":"a","owner":"x","renewedAt":null,"since":"2026-01-01T00:00:00Z","slot":0,"token":7}` + "\n" +
		`{"expiresAt":null,"name":"b","owner":null,"renewedAt":null,"since":null,"slot":12,"token":8}` + "\n"
	code, stdout, stderr := execute(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page)) }, "", "lock", "list")
	if code != cli.Done || stdout != want || stderr != "" {
		t.Errorf("exit %d, said %q:\n%s", code, stderr, stdout)
	}
}
