package remote

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// DefaultURL is where a node listens unless it is told otherwise.
const DefaultURL = "http://127.0.0.1:6632"

// Connection are the flags that say which node, and as whom: flags > environment > context.
type Connection struct{ url, context, token, ca string }

// Flags adds --url, --context, --token-from and --ca.
func (c *Connection) Flags(s cli.Streams, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.url, "url", "", "the node's address; also QUEEN_URL; default: that of the context, else "+DefaultURL)
	f.StringVar(&c.context, "context", "", "a context of the user's file; also QUEEN_CONTEXT; default: its current one")
	f.StringVar(&c.token, "token-from", "", "where the token is: "+TokenSources+"; default: QUEEN_TOKEN, else the context's")
	f.StringVar(&c.ca, "ca", "", "PEM file of the authorities that certificates of https come from; also QUEEN_CA")
	_ = cmd.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return ContextNames(s), cobra.ShellCompDirectiveNoFileComp
	})
}

// Target is what a connection comes to.
type Target struct {
	URL, CA string
	// Context is the context that the URL is from; "" when it is from elsewhere.
	Context string
	// TokenFrom is where the token is, as of --token-from; "" for none or QUEEN_TOKEN.
	TokenFrom string
	token     string
}

// Resolve finds the node without calling anybody. A context named by flag wins over the environment; what a context holds
// beside its address is used with that address only.
func (c *Connection) Resolve(s cli.Streams) (*Target, error) {
	t := &Target{URL: c.url, CA: c.ca, TokenFrom: c.token}
	named := c.context
	if named == "" {
		named = s.Getenv("QUEEN_CONTEXT")
	}
	if t.URL == "" && c.context == "" {
		t.URL = s.Getenv("QUEEN_URL")
	}
	var file *Contexts
	var err error
	if t.URL == "" || named != "" { // else no file can matter
		if file, err = LoadContexts(s); err != nil {
			return nil, err
		}
		context, err := file.Get(named)
		if err != nil {
			return nil, err
		}
		if context != nil && (t.URL == "" || t.URL == context.URL) {
			t.take(context, c.context != "" || s.Getenv("QUEEN_TOKEN") == "")
		}
	}
	if t.URL == "" {
		t.URL = DefaultURL
	}
	if t.CA == "" {
		t.CA = s.Getenv("QUEEN_CA")
	}
	if t.TokenFrom == "" {
		t.token = s.Getenv("QUEEN_TOKEN")
	}
	return t, CheckURL(t.URL)
}

// CheckURL refuses what can be no address of a node.
func CheckURL(text string) error {
	if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return cli.Errorf(cli.Usage, "--url %s: want http://HOST:PORT", text)
	}
	return nil
}

func (t *Target) take(c *Context, token bool) {
	t.URL, t.Context = c.URL, c.Name
	if t.CA == "" {
		t.CA = c.CA
	}
	if t.TokenFrom == "" && token {
		t.TokenFrom = c.Token
	}
}

// Connect makes the API of the node that the flags, the environment and the context come to.
func (c *Connection) Connect(inv *cli.Invocation) (*API, error) {
	t, err := c.Resolve(inv.Streams)
	if err != nil {
		return nil, err
	}
	token, err := t.Token(inv)
	if err != nil {
		return nil, err
	}
	return NewAPI(t, token)
}

// Token reads the token of a target; "" is none.
func (t *Target) Token(inv *cli.Invocation) (string, error) {
	if t.TokenFrom == "" {
		return t.token, nil
	}
	return ReadToken(inv.Ctx, inv.Streams, t.TokenFrom)
}

// NewAPI calls the node of a target with a token; "" is none.
func NewAPI(t *Target, token string) (*API, error) {
	transport, err := Transport(t.CA)
	if err != nil {
		return nil, err
	}
	transport.IdleConnTimeout = 30 * time.Second
	transport.MaxIdleConnsPerHost = 512 // all calls go to one host, some commands make as many at a time
	transport.MaxIdleConns = 512
	return &API{URL: t.URL, token: token, http: &http.Client{Transport: transport}}, nil
}

// Transport checks certificates against a PEM file of authorities; "" leaves it to the system's.
func Transport(ca string) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone() // it is one unless this process replaced it, which none does
	if ca == "" {
		return transport, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "--ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, cli.Errorf(cli.Usage, "--ca %s: there is no certificate in it", ca)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return transport, nil
}
