package contexts

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"queen/tools/cli"
	"queen/tools/remote"
)

// Modes of files: what others than the owner may do.
const (
	othersWrite = fs.FileMode(0o022)
	othersRead  = fs.FileMode(0o044)
)

// checkName is the row of the checklist that Check fills.
const checkName = "contexts"

// Check looks at the user's file and what it names. No file is no finding.
func Check(s cli.Streams) []Finding {
	path := remote.ContextsPath(s)
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	all := checkModes(path)
	file, err := remote.LoadContexts(s)
	if err != nil {
		return append(all, Finding{checkName, Critical, "The file of contexts can not be used", path, []string{err.Error()},
			"Mend it by hand, or move it away and make its contexts again with queen config set-context."})
	}
	if _, err := file.Get(""); err != nil {
		all = append(all, Finding{checkName, Critical, "The current context is not in the file", file.Current, []string{err.Error()},
			"Choose another with queen config use-context."})
	}
	for i := range file.Contexts {
		all = append(all, checkContext(s, &file.Contexts[i])...)
	}
	return all
}

// checkModes finds what others may do with the file and its directory.
func checkModes(path string) (all []Finding) {
	for _, p := range []string{filepath.Dir(path), path} {
		info, err := os.Stat(p)
		if err != nil {
			continue
		}
		mode := info.Mode().Perm()
		evidence := []string{fmt.Sprintf("mode %04o", mode)}
		switch {
		case mode&othersWrite != 0:
			all = append(all, Finding{checkName, Critical, "Others may change your contexts, which can name commands that you run", p,
				evidence, "chmod go-rwx it, and look at what it says."})
		case mode&othersRead != 0 && !info.IsDir():
			all = append(all, Finding{checkName, Warning, "Others may read your contexts", p, evidence, "chmod 600 it."})
		}
	}
	return all
}

// checkContext finds what is wrong with one context.
func checkContext(s cli.Streams, c *remote.Context) (all []Finding) {
	add := func(severity, title, next string, evidence ...string) {
		all = append(all, Finding{checkName, severity, title, c.Name, evidence, next})
	}
	for _, at := range [][2]string{{"url", c.URL}, {"mcp", c.MCP}} {
		u, err := url.Parse(at[1])
		switch {
		case at[0] == "mcp" && c.MCP == "": // the usual one, at the host of url
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			add(Critical, "The address of a context is none", "Give it with queen config set-context --"+at[0]+".", at[0]+" "+at[1])
		case u.Scheme == "http" && c.Token != "" && !loopback(u.Hostname()):
			add(Warning, "A token travels in the clear", "Use https, with --ca where the certificate is your own.", at[0]+" "+at[1])
		}
	}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		switch {
		case err != nil:
			add(Critical, "The authorities of a context can not be read", "Set the right file with --ca.", err.Error())
		case !x509.NewCertPool().AppendCertsFromPEM(pem):
			add(Critical, "There is no certificate in the authorities of a context", "Set the right file with --ca.", c.CA)
		}
	}
	return append(all, checkToken(s, c)...)
}

// checkToken looks at where a token is, without running anything for it.
func checkToken(s cli.Streams, c *remote.Context) []Finding {
	if name, ok := strings.CutPrefix(c.Token, "env:"); ok && s.Getenv(name) == "" {
		return []Finding{{checkName, Info, "The token of a context is not set", c.Name, []string{"environment " + name + " is empty"},
			"Set it before the context is used."}}
	}
	const unread = "The token of a context can not be read"
	if strings.HasPrefix(c.Token, "keyring:") {
		if err := remote.CheckKeyring(s); err != nil {
			return []Finding{{checkName, Warning, unread, c.Name, []string{err.Error()}, "Set another source with --token-from, or log in again."}}
		}
		return nil
	}
	path, ok := strings.CutPrefix(c.Token, "file://")
	if !ok {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return []Finding{{checkName, Warning, unread, c.Name, []string{err.Error()}, "Write the file, or set another source with --token-from."}}
	}
	if mode := info.Mode().Perm(); mode&(othersRead|othersWrite) != 0 {
		return []Finding{{checkName, Warning, "Others may read or change a token", path, []string{fmt.Sprintf("mode %04o", mode)},
			"chmod 600 it."}}
	}
	return nil
}

// loopback tells whether a host is this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
