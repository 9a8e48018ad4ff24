package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/zalando/go-keyring"

	"queen/tools/cli"
)

// keyringService is what entries of ours are stored under in the keyring of the user's system, beside a name.
const keyringService = "queen"

// elsewhere is what helps where there is no keyring.
const elsewhere = "auth login without --keyring keeps a token in a file that only you can read; file://PATH and exec:COMMAND name other places"

// keyringSource names the entry that a login makes for a context.
func keyringSource(context string) string { return "keyring:" + context }

// CheckKeyring tells why there is no keyring, without asking one. Beside macOS and Windows it is behind the bus of the user's
// session; where there is no bus the library would start one, which outlives the command.
func CheckKeyring(s cli.Streams) error {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" || s.Getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return nil
	}
	if dir := s.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "bus")); err == nil {
			return nil
		}
	}
	return cli.Errorf(cli.Usage, "there is no keyring here: no session bus (DBUS_SESSION_BUS_ADDRESS) leads to one; "+elsewhere)
}

// askKeyring calls the keyring. It may ask the person at the screen to unlock it, which can take for ever: an interrupt ends
// the wait. keyring.ErrNotFound is returned as it is.
func askKeyring(ctx context.Context, s cli.Streams, call func() (string, error)) (string, error) {
	if err := CheckKeyring(s); err != nil {
		return "", err
	}
	type answer struct {
		token string
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		token, err := call()
		got <- answer{token, err}
	}()
	select {
	case a := <-got:
		if a.err != nil && !errors.Is(a.err, keyring.ErrNotFound) {
			return "", cli.Errorf(cli.Usage, "the keyring can not be used: %w; "+elsewhere, a.err)
		}
		return a.token, a.err
	case <-ctx.Done():
		return "", cli.Exit(cli.Interrupted)
	}
}

// readKeyring reads an entry.
func readKeyring(ctx context.Context, s cli.Streams, name string) (string, error) {
	token, err := askKeyring(ctx, s, func() (string, error) { return keyring.Get(keyringService, name) })
	if errors.Is(err, keyring.ErrNotFound) {
		return "", fmt.Errorf("the keyring has no entry of service %s and user name %s: auth login --keyring makes one for a context", keyringService, name)
	}
	return token, err
}

// KeepInKeyring stores the token of a context in the keyring and tells the source to name it by.
func KeepInKeyring(ctx context.Context, s cli.Streams, context, token string) (source string, err error) {
	_, err = askKeyring(ctx, s, func() (string, error) { return "", keyring.Set(keyringService, context, token) })
	return keyringSource(context), err
}

// ForgetToken removes what logins kept for a context: its file, and its entry of the keyring where source, which the context
// named, is that. What stands at keep, where a new login keeps the token, stays; "" keeps nothing.
func ForgetToken(ctx context.Context, s cli.Streams, context, source, keep string) error {
	file, err := tokenFile(s, context)
	if err != nil {
		return err
	}
	if keep != "file://"+file {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return cli.Errorf(cli.Usage, "%w", err)
		}
	}
	if source != keyringSource(context) || keep == source {
		return nil
	}
	_, err = askKeyring(ctx, s, func() (string, error) { return "", keyring.Delete(keyringService, context) })
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}
