package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// streams are those of a user with these contexts, and with this environment beside the home.
func streams(t *testing.T, c *Contexts, env ...string) cli.Streams {
	t.Helper()
	s := cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Env: append([]string{"HOME=" + t.TempDir()}, env...)}
	if c != nil {
		require.NoError(t, c.Save(s))
	}
	return s
}

var twoContexts = &Contexts{Current: "dev", Contexts: []Context{
	{Name: "dev", URL: "http://dev:1", Token: "env:DEV_TOKEN"},
	{Name: "prod", URL: "https://prod:1", Token: "env:PROD_TOKEN", CA: "prod.pem"},
}}

// TestPrecedence: flags win over the environment, the environment over the context; and a context's token goes to no other
// node.
func TestPrecedence(t *testing.T) {
	prod := Target{URL: "https://prod:1", CA: "prod.pem", Context: "prod", TokenFrom: "env:PROD_TOKEN"}
	for name, c := range map[string]struct {
		file  *Contexts
		env   []string
		flags []string
		want  Target
	}{
		"nothing":                  {want: Target{URL: DefaultURL}},
		"environment":              {env: []string{"QUEEN_URL=http://e:1", "QUEEN_TOKEN=t"}, want: Target{URL: "http://e:1", token: "t"}},
		"current context":          {file: twoContexts, want: Target{URL: "http://dev:1", Context: "dev", TokenFrom: "env:DEV_TOKEN"}},
		"environment over context": {file: twoContexts, env: []string{"QUEEN_URL=http://e:1"}, want: Target{URL: "http://e:1"}},
		"named by environment":     {file: twoContexts, env: []string{"QUEEN_CONTEXT=prod"}, want: prod},
		"token of the environment": {file: twoContexts, env: []string{"QUEEN_TOKEN=t"}, want: Target{URL: "http://dev:1", Context: "dev", token: "t"}},
		"flag over both": {file: twoContexts, env: []string{"QUEEN_URL=http://e:1"},
			flags: []string{"--url", "http://f:1"}, want: Target{URL: "http://f:1"}},
		"named by flag": {file: twoContexts, env: []string{"QUEEN_URL=http://e:1", "QUEEN_TOKEN=t"},
			flags: []string{"--context", "prod"}, want: prod},
		"no token to another node":    {file: twoContexts, flags: []string{"--context", "prod", "--url", "http://f:1"}, want: Target{URL: "http://f:1"}},
		"its own address is no other": {file: twoContexts, flags: []string{"--context", "prod", "--url", "https://prod:1"}, want: prod},
		"token and authority by flags": {file: twoContexts, flags: []string{"--token-from", "env:X", "--ca", "x.pem", "--context", "prod"},
			want: Target{URL: "https://prod:1", CA: "x.pem", Context: "prod", TokenFrom: "env:X"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := streams(t, c.file, c.env...)
			var conn Connection
			cmd := &cobra.Command{}
			conn.Flags(s, cmd)
			require.NoError(t, cmd.ParseFlags(c.flags))
			got, err := conn.Resolve(s)
			require.NoError(t, err)
			require.Equal(t, c.want, *got)
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	for name, flags := range map[string][]string{"unknown context": {"--context", "other"}, "no address": {"--url", "nowhere"},
		"another protocol": {"--url", "ftp://x"}} {
		s := streams(t, twoContexts)
		var conn Connection
		cmd := &cobra.Command{}
		conn.Flags(s, cmd)
		require.NoError(t, cmd.ParseFlags(flags))
		_, err := conn.Resolve(s)
		require.Equal(t, cli.Usage, cli.Code(err), name)
	}
}

// TestTokens reads tokens from every source, and tells none of them in an error.
func TestTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(" s3cret\n"), 0o600))
	s := streams(t, nil, "TOKEN=s3cret", "PATH="+os.Getenv("PATH"), "BAD=two words s3cret")
	for _, c := range []struct {
		source string
		code   int
	}{
		{"env:TOKEN", 0}, {"file://" + file, 0}, {"exec:echo s3cret", 0}, {"exec:echo s3cret; exit 1", cli.Auth}, {"exec:true", cli.Auth},
		{"env:NONE", cli.Auth}, {"env:BAD", cli.Auth}, {"file:///no/such/file", cli.Auth}, {"s3cret", cli.Usage}, {"env:", cli.Usage},
		{"exec:yes s3cret | head -c 100000", cli.Auth},
	} {
		token, err := ReadToken(context.Background(), s, c.source)
		require.Equal(t, c.code, cli.Code(err), c.source)
		if err == nil {
			require.Equal(t, "s3cret", token)
			continue
		}
		require.NotContains(t, strings.ReplaceAll(err.Error(), c.source, ""), "s3cret")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := ReadToken(ctx, s, "exec:cat /dev/zero")
	require.Equal(t, cli.Interrupted, cli.Code(err))
}

// TestContextsFile: what is saved is read again, only the user can read it, and a file that says something else is refused.
func TestContextsFile(t *testing.T) {
	s := streams(t, twoContexts)
	got, err := LoadContexts(s)
	require.NoError(t, err)
	require.Equal(t, twoContexts, got)
	info, err := os.Stat(ContextsPath(s))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.True(t, got.Delete("dev"))
	require.False(t, got.Delete("dev"))
	require.Empty(t, got.Current)
	for _, text := range []string{"contexts: [{name: a, colour: blue}]", "contexts: [{url: 'http://x'}]", "contexts: [{name: a}, {name: a}]",
		"contexts: [{name: a, token: literal}]", "x: 1", ":"} {
		require.NoError(t, os.WriteFile(ContextsPath(s), []byte(text), 0o600))
		_, err := LoadContexts(s)
		require.Equal(t, cli.Usage, cli.Code(err), text)
		require.NotContains(t, err.Error(), "literal")
		require.Empty(t, ContextNames(s), text)
	}
	require.Error(t, (&Contexts{}).Save(cli.Streams{}), "no home")
}

// TestCalls: what goes over the wire of a call.
func TestCalls(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	a, err := NewAPI(&Target{URL: server.URL + "/"}, "t")
	require.NoError(t, err)
	found, err := a.Call(context.Background(), Request{Method: "POST", Path: "/x", Raw: []byte("b"), ContentType: "text/plain", Key: "k",
		Accept: "a/b", Header: http.Header{"Queen-H-a": {"1", "2"}}}, nil)
	require.NoError(t, err)
	require.False(t, found)
	require.Equal(t, "/x", got.URL.Path)
	for name, want := range map[string]string{"Authorization": "Bearer t", "Idempotency-Key": "k", "Accept": "a/b", "Content-Type": "text/plain"} {
		require.Equal(t, want, got.Header.Get(name))
	}
	require.Equal(t, []string{"1", "2"}, got.Header["Queen-H-A"])
	_, err = NewAPI(&Target{CA: "/no/such/file"}, "")
	require.Equal(t, cli.Usage, cli.Code(err))
}

// TestComplete offers what begins with the word; a node that does not answer in time, and none at all, offer nothing.
func TestComplete(t *testing.T) {
	silent := make(chan struct{})
	defer close(silent)
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want []string
	}{
		"names":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`["ab","ac","b"]`)) }, []string{"ab", "ac"}},
		"refusal": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, nil},
		"silence": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-silent:
			case <-r.Context().Done():
			}
		}, nil},
	} {
		server := httptest.NewServer(c.h)
		var errs strings.Builder
		s := cli.Streams{Err: &errs, Env: []string{"QUEEN_URL=" + server.URL}}
		cmd := &cobra.Command{}
		new(Connection).Flags(s, cmd)
		words, directive := Complete(s, func(ctx context.Context, a *API) (list []string, err error) {
			_, ok := ctx.Deadline()
			require.True(t, ok, "a shell waits for this")
			_, err = a.Call(ctx, Request{Method: "GET", Path: "/"}, &list)
			return list, err
		})(cmd, nil, "a")
		require.Equal(t, c.want, words, name)
		require.Equal(t, cobra.ShellCompDirectiveNoFileComp, directive)
		require.Empty(t, errs.String())
		server.CloseClientConnections()
		server.Close()
	}
}

// TestMembers: an error printed as JSON tells status and code of the node.
func TestMembers(t *testing.T) {
	err := classify(Request{}, 404, []byte(`{"error":"no","code":"unknown_queue"}`))
	require.Equal(t, 404, Status(err))
	require.Zero(t, Status(errors.New("x")))
	var said strings.Builder
	cli.Streams{Err: &said}.Complain(err, true)
	require.JSONEq(t, `{"error":"the node answered 404: no (unknown_queue)","exit":1,"status":404,"code":"unknown_queue"}`, said.String())
}
