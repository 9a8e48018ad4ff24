package remote

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"queen/tools/cli"
)

// Context is a node that the user gave a name.
type Context struct {
	Name string `json:"name"`
	// URL is the address of the HTTP API.
	URL string `json:"url"`
	// MCP is the address of the MCP server; "" is the usual one at the host of URL.
	MCP string `json:"mcp,omitempty"`
	// Token is where the token is, as of ReadToken: never the token itself. "" for none.
	Token string `json:"token,omitempty"`
	// CA is a PEM file of authorities for https; "" leaves it to the system's.
	CA string `json:"ca,omitempty"`
}

// MCPURL is the address of the MCP server of a context.
func (c *Context) MCPURL() string {
	u, err := url.Parse(c.URL)
	if c.MCP != "" || err != nil {
		return c.MCP
	}
	at := url.URL{Scheme: u.Scheme, Host: net.JoinHostPort(u.Hostname(), "6633"), Path: "/mcp"}
	return at.String()
}

// Contexts are the contexts of the user's file.
type Contexts struct {
	// Current is the name of the context that is used where none is named; "" for none.
	Current  string    `json:"current,omitempty"`
	Contexts []Context `json:"contexts,omitempty"`
}

// ContextsPath is the user's file: $XDG_CONFIG_HOME/queen/config.yaml, else ~/.config/queen/config.yaml; "" without a home.
func ContextsPath(s cli.Streams) string {
	dir := s.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := s.Getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "queen", "config.yaml")
}

// LoadContexts reads the user's file; a missing one has no contexts. An unknown key is refused.
func LoadContexts(s cli.Streams) (*Contexts, error) {
	c := &Contexts{}
	path := ContextsPath(s)
	if path == "" {
		return c, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = yaml.UnmarshalStrict(b, c)
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "%s: %w", path, err)
	}
	return c, nil
}

func (c *Contexts) check() error {
	seen := map[string]bool{}
	for _, x := range c.Contexts {
		if x.Name == "" || seen[x.Name] || strings.ContainsFunc(x.Name, func(r rune) bool { return r < ' ' }) {
			return errors.New("every context has a name of its own")
		}
		seen[x.Name] = true
		if x.Token != "" {
			if err := CheckTokenSource(x.Token); err != nil {
				return errors.Join(errors.New("context "+x.Name), err)
			}
		}
	}
	return nil
}

// Get finds a context by its name, which must be there; "" is the current one, nil when there is none.
func (c *Contexts) Get(name string) (*Context, error) {
	if name == "" {
		name = c.Current
	}
	if name == "" {
		return nil, nil
	}
	for i := range c.Contexts {
		if c.Contexts[i].Name == name {
			return &c.Contexts[i], nil
		}
	}
	return nil, cli.Errorf(cli.Usage, "there is no context %s", name)
}

// Put adds a context or replaces the one of its name.
func (c *Contexts) Put(x Context) {
	if i := c.index(x.Name); i >= 0 {
		c.Contexts[i] = x
		return
	}
	c.Contexts = append(c.Contexts, x)
}

// Delete takes a context out and tells whether it was there. The current one leaves none.
func (c *Contexts) Delete(name string) bool {
	i := c.index(name)
	if i < 0 {
		return false
	}
	c.Contexts = slices.Delete(c.Contexts, i, i+1)
	if c.Current == name {
		c.Current = ""
	}
	return true
}

func (c *Contexts) index(name string) int {
	return slices.IndexFunc(c.Contexts, func(x Context) bool { return x.Name == name })
}

// Save writes the user's file, readable by the user only, whole or not at all.
func (c *Contexts) Save(s cli.Streams) error {
	path := ContextsPath(s)
	if path == "" {
		return noHome()
	}
	if err := c.check(); err != nil {
		return cli.Errorf(cli.Usage, "%w", err)
	}
	b, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	return writePrivate(path, b)
}

// writePrivate writes a file that the user only can read, whole or not at all.
func writePrivate(path string, b []byte) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err != nil {
		return cli.Errorf(cli.Usage, "%w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return cli.Errorf(cli.Usage, "%w", err)
	}
	defer os.Remove(f.Name()) // which is gone by then, unless something failed
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return cli.Errorf(cli.Usage, "%w", err)
	}
	return nil
}

// tokenFile is the file in which a login keeps the token of a context.
func tokenFile(s cli.Streams, context string) (string, error) {
	of := ContextsPath(s)
	if of == "" {
		return "", noHome()
	}
	path, err := filepath.Abs(filepath.Join(filepath.Dir(of), "tokens", url.PathEscape(context)))
	if err != nil {
		return "", cli.Errorf(cli.Usage, "%w", err)
	}
	return path, nil
}

// KeepToken writes the token of a context to its file and tells the source to name it by.
func KeepToken(s cli.Streams, context, token string) (source string, err error) {
	path, err := tokenFile(s, context)
	if err != nil {
		return "", err
	}
	return "file://" + path, writePrivate(path, []byte(token+"\n"))
}

func noHome() error {
	return cli.Errorf(cli.Usage, "no HOME and no XDG_CONFIG_HOME: there is no place for contexts")
}

// ContextNames are the names of the contexts, none when the file can not be read: what completion offers.
func ContextNames(s cli.Streams) (names []string) {
	c, err := LoadContexts(s)
	if err != nil {
		return nil
	}
	for _, x := range c.Contexts {
		names = append(names, x.Name)
	}
	return names
}
