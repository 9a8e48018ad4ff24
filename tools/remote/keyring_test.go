package remote

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"

	"queen/tools/cli"
)

// onBus is an environment that says that there is a keyring to ask.
const onBus = "DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere"

// TestKeyring: what is kept in the keyring is read from the source that was told, under the name of its context only, and is gone
// when it is forgotten; what is not there, or refused, is an error that names another place and never the token.
func TestKeyring(t *testing.T) {
	keyring.MockInit()
	ctx, s := t.Context(), streams(t, nil, onBus)
	source, err := KeepInKeyring(ctx, s, "prod", "s3cret")
	require.NoError(t, err)
	require.Equal(t, "keyring:prod", source)
	require.NoError(t, CheckTokenSource(source))
	token, err := ReadToken(ctx, s, source)
	require.NoError(t, err)
	require.Equal(t, "s3cret", token)
	_, err = ReadToken(ctx, s, "keyring:dev")
	require.Equal(t, cli.Auth, cli.Code(err))
	require.ErrorContains(t, err, "no entry of service queen and user name dev")
	require.Equal(t, cli.Usage, cli.Code(CheckTokenSource("keyring:")))

	file, err := KeepToken(s, "prod", "older")
	require.NoError(t, err)
	require.NoError(t, ForgetToken(ctx, s, "prod", file, source), "the token moved into the keyring")
	_, err = ReadToken(ctx, s, file)
	require.Error(t, err)
	for _, other := range []string{"", "env:TOKEN", "keyring:dev", file} { // sources that are not the entry of the context
		require.NoError(t, ForgetToken(ctx, s, "prod", other, ""))
		_, err = ReadToken(ctx, s, source)
		require.NoError(t, err, other)
	}
	_, err = KeepToken(s, "prod", "newer")
	require.NoError(t, err)
	require.NoError(t, ForgetToken(ctx, s, "prod", source, file), "the token moved into a file")
	_, err = ReadToken(ctx, s, source)
	require.Error(t, err)
	token, err = ReadToken(ctx, s, file)
	require.NoError(t, err)
	require.Equal(t, "newer", token)
	require.NoError(t, ForgetToken(ctx, s, "prod", source, ""), "what is gone is forgotten")
	require.NoFileExists(t, file[len("file://"):])

	keyring.MockInitWithError(errors.New("the collection is locked"))
	for _, call := range []func() error{
		func() error { _, err := KeepInKeyring(ctx, s, "prod", "s3cret"); return err },
		func() error { _, err := ReadToken(ctx, s, source); return err },
		func() error { return ForgetToken(ctx, s, "prod", source, "") },
	} {
		err := call()
		require.ErrorContains(t, err, "the collection is locked")
		require.ErrorContains(t, err, "file://PATH")
		require.NotContains(t, err.Error(), "s3cret")
	}
}

// TestNoKeyring: where nothing leads to a keyring the library, which would start one, is not asked.
func TestNoKeyring(t *testing.T) {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		t.Skip("there is always one")
	}
	keyring.MockInit()
	require.NoError(t, keyring.Set(keyringService, "prod", "s3cret"))
	dir := t.TempDir()
	s := streams(t, nil, "XDG_RUNTIME_DIR="+dir)
	_, err := ReadToken(t.Context(), s, "keyring:prod")
	require.Equal(t, cli.Auth, cli.Code(err))
	require.ErrorContains(t, err, "there is no keyring here")
	require.ErrorContains(t, err, "file://PATH")
	_, err = KeepInKeyring(t.Context(), s, "dev", "s3cret")
	require.Equal(t, cli.Usage, cli.Code(err))
	_, err = keyring.Get(keyringService, "dev")
	require.ErrorIs(t, err, keyring.ErrNotFound)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bus"), nil, 0o600))
	token, err := ReadToken(t.Context(), s, "keyring:prod")
	require.NoError(t, err)
	require.Equal(t, "s3cret", token)
}

// TestKeyringIsInterrupted: a keyring that waits for a person does not hold up an interrupt.
func TestKeyringIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked, locked := make(chan struct{}), make(chan struct{})
	defer close(locked)
	go func() {
		<-asked
		cancel()
	}()
	_, err := askKeyring(ctx, streams(t, nil, onBus), func() (string, error) {
		close(asked)
		<-locked
		return "s3cret", nil
	})
	require.Equal(t, cli.Interrupted, cli.Code(err))
}
