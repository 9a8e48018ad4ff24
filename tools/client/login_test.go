package client

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"

	"queen/tools/cli"
)

// TestLoginIntoTheKeyring: with --keyring the token is in the keyring and in no file, and goes to the node from there; a login
// without it moves the token into a file, one with it back; logout forgets it in either place.
func TestLoginIntoTheKeyring(t *testing.T) {
	keyring.MockInit()
	sent := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"queues":0}`))
	}))
	defer server.Close()
	home := t.TempDir()
	queen := func(in string, args ...string) (code int, stdout, stderr string) {
		var out, errs strings.Builder
		s := cli.Streams{In: strings.NewReader(in), Out: &out, Err: &errs,
			Env: []string{"HOME=" + home, "DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere"}}
		root := tree(s)
		root.SetArgs(args)
		err := root.Execute()
		s.Complain(err, false)
		return cli.Code(err), out.String(), errs.String()
	}
	file := filepath.Join(home, ".config/queen/tokens/here")
	login := func(token, source string, flags ...string) {
		t.Helper()
		code, stdout, stderr := queen(token+"\n", append([]string{"auth", "login", "here", "--url", server.URL}, flags...)...)
		require.Equal(t, cli.Done, code, stderr)
		require.Contains(t, stdout, source)
		require.Equal(t, "Bearer "+token, sent)
		require.NotContains(t, stdout+stderr, token)
		code, stdout, _ = queen("", "auth", "token")
		require.Equal(t, cli.Done, code)
		require.Equal(t, token, strings.TrimSpace(stdout))
	}
	login("s3cret-1", "keyring:here", "--keyring")
	require.NoFileExists(t, file)
	config, err := os.ReadFile(filepath.Join(home, ".config/queen/config.yaml"))
	require.NoError(t, err)
	require.NotContains(t, string(config), "s3cret")

	login("s3cret-2", "file://"+file)
	_, err = keyring.Get("queen", "here")
	require.ErrorIs(t, err, keyring.ErrNotFound)
	login("s3cret-3", "keyring:here", "--keyring")
	require.NoFileExists(t, file)

	code, _, stderr := queen("", "auth", "logout", "here")
	require.Equal(t, cli.Done, code, stderr)
	_, err = keyring.Get("queen", "here")
	require.ErrorIs(t, err, keyring.ErrNotFound)
	code, _, _ = queen("", "auth", "logout", "here")
	require.Equal(t, cli.Nothing, code)

	sent = ""
	code, _, stderr = queen("s3cret-4\n", "auth", "login", "here", "--keyring", "--token-from", "env:TOKEN")
	require.Equal(t, cli.Usage, code)
	require.Contains(t, stderr, "--token-from")
	code, _, _ = queen("s3cret-4\n", "auth", "login", "", "--url", server.URL)
	require.Equal(t, cli.Usage, code)
	require.Empty(t, sent, "a call was made")
}
