package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"queen/engine/auth"
	"queen/tools/config"
)

// fileRefresh is how often a key set in a file is looked at; one that is fetched has a setting.
const fileRefresh = 5 * time.Second

// secretBytesMin is what a shared secret should have: the size of the smallest digest it is used with.
const secretBytesMin = 32

// openAuth makes what judges callers; nil when nobody is asked. The caller closes it.
func openAuth(c *config.Config, log *slog.Logger) (*auth.Chain, error) {
	if !c.Authenticates() {
		return nil, nil
	}
	a := &auth.Chain{}
	if c.AuthKeys != "" {
		keys, err := auth.OpenKeys(c.AuthKeys, time.Now, told(log, "auth.keys"))
		if err != nil {
			return nil, fmt.Errorf("auth.keys: %w", err)
		}
		a.Keys = keys
	}
	if c.JWTEnabled {
		tokens, err := openTokens(c, log)
		if err != nil {
			return nil, err
		}
		a.Tokens = tokens
	}
	return a, nil
}

// told logs what became of a setting whose file or source changed.
func told(log *slog.Logger, setting string) func(error) {
	return func(err error) {
		if err != nil {
			log.Warn("what was read before stays", "event", "reload_failed", "setting", setting, "err", err)
			return
		}
		log.Info("read again", "event", "reloaded", "setting", setting)
	}
}

func openTokens(c *config.Config, log *slog.Logger) (*auth.Tokens, error) {
	o := auth.TokenOptions{Algorithms: c.JWTAlgorithms, Issuer: c.JWTIssuer, Audience: c.JWTAudience,
		Leeway: c.JWTClockSkew, AllowNoExpiry: c.JWTAllowNoExpiry, RolesClaim: c.JWTRolesClaim,
		RolesArrayClaim: c.JWTRolesArrayClaim, TenantClaim: c.JWTTenantClaim, RoleNames: map[string]auth.Roles{},
		Secret: []byte(c.JWTSecret), Now: time.Now}
	for name, role := range map[*string]auth.Roles{&c.JWTRoleAdmin: auth.Admin, &c.JWTRoleReadWrite: auth.ReadWrite,
		&c.JWTRoleReadOnly: auth.ReadOnly, &c.JWTRoleWriteOnly: auth.WriteOnly} {
		if *name == "" {
			return nil, errors.New("jwt.role: an empty name would be everybody's")
		}
		o.RoleNames[*name] |= role
	}
	var err error
	if c.JWTSecretFile != "" {
		if o.Secret, err = readSecret(c.JWTSecretFile); err != nil {
			return nil, fmt.Errorf("jwt.secret.file: %w", err)
		}
	}
	if n := len(o.Secret); n > 0 && n < secretBytesMin {
		log.Warn("the shared secret of tokens is short enough to be guessed", "event", "jwt_secret_short", "bytes", n,
			"want", secretBytesMin)
	}
	o.PublicKeys = []byte(strings.ReplaceAll(c.JWTPublicKey, `\n`, "\n"))
	if len(o.PublicKeys) > 0 && !bytes.Contains(o.PublicKeys, []byte("-----BEGIN")) {
		if o.PublicKeys, err = os.ReadFile(c.JWTPublicKey); err != nil {
			return nil, fmt.Errorf("jwt.public.key: %w", err)
		}
	}
	if c.JWTKeySet != "" {
		if o.KeySet, err = openKeySet(c, log); err != nil {
			return nil, err
		}
	}
	tokens, err := auth.NewTokens(o)
	if err != nil {
		return nil, fmt.Errorf("jwt: %w", err)
	}
	return tokens, nil
}

// openKeySet fetches the keys of tokens once. A file must be good; an issuer that does not answer must not keep the
// node down, so it is asked again when a token comes.
func openKeySet(c *config.Config, log *slog.Logger) (*auth.KeySet, error) {
	o := auth.KeySetOptions{Refresh: c.JWTKeySetRefresh, Timeout: c.JWTKeySetTimeout, Now: time.Now,
		Told: told(log, "jwt.jwks.url")}
	remote := strings.HasPrefix(c.JWTKeySet, "https://") || strings.HasPrefix(c.JWTKeySet, "http://")
	if remote {
		o.Fetch = fetchURL(c.JWTKeySet, &http.Client{CheckRedirect: sameSafety})
	} else {
		o.Refresh, o.Pause = fileRefresh, time.Second
		o.Fetch = func(context.Context) ([]byte, error) { return os.ReadFile(c.JWTKeySet) }
	}
	set := auth.NewKeySet(o)
	if err := set.First(context.Background()); err != nil && !remote {
		set.Close()
		return nil, fmt.Errorf("jwt.jwks.url: %w", err)
	}
	return set, nil
}

// fetchURL fetches a key set over HTTP.
func fetchURL(url string, client *http.Client) auth.Fetch {
	return func(ctx context.Context) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/json")
		res, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answered %s", url, res.Status)
		}
		return io.ReadAll(io.LimitReader(res.Body, auth.KeySetBytes+1))
	}
}

// sameSafety keeps a redirect from leading out of https.
func sameSafety(req *http.Request, via []*http.Request) error {
	if len(via) >= 5 {
		return errors.New("too many redirects")
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("a redirect to %s leaves https", req.URL.Host)
	}
	return nil
}

// readSecret reads a secret from a file, without the newline that editors put at its end.
func readSecret(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if data = bytes.TrimRight(data, "\r\n"); len(data) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	return data, nil
}
