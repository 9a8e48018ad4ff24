package remote

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"

	"queen/tools/cli"
)

// tokenMax bounds a token.
const tokenMax = 64 << 10

// TokenSources are the places that a token can be in, for the words of commands.
const TokenSources = "env:NAME, keyring:NAME, file://PATH or exec:COMMAND"

// CheckTokenSource refuses what ReadToken could not read.
func CheckTokenSource(source string) error {
	for _, kind := range []string{"env:", "keyring:", "file://", "exec:"} {
		if rest, ok := strings.CutPrefix(source, kind); ok && rest != "" {
			return nil
		}
	}
	return cli.Errorf(cli.Usage, "the source of a token is "+TokenSources)
}

// ReadToken reads a token from its source: env:NAME, keyring:NAME, file://PATH, or exec:COMMAND, a command line of the shell
// whose standard output is the token. The token is in no error.
func ReadToken(ctx context.Context, s cli.Streams, source string) (string, error) {
	if err := CheckTokenSource(source); err != nil {
		return "", err
	}
	var token []byte
	var err error
	kind, what, _ := strings.Cut(source, ":")
	switch kind {
	case "env":
		token = []byte(s.Getenv(what))
	case "keyring":
		var text string
		text, err = readKeyring(ctx, s, what)
		token = []byte(text)
	case "file":
		token, err = readFile(strings.TrimPrefix(what, "//"))
	default:
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, "sh", "-c", what)
		cmd.Env, cmd.Stdout, cmd.Stderr = s.Env, &out, s.Err
		err = cmd.Run()
		token = out.Bytes()
	}
	if ctx.Err() != nil {
		return "", cli.Exit(cli.Interrupted)
	}
	if err != nil {
		return "", cli.Errorf(cli.Auth, "token from %s: %w", source, err)
	}
	text, err := CheckToken(token)
	if err != nil {
		return "", cli.Errorf(cli.Auth, "token from %s: %w", source, err)
	}
	return text, nil
}

// CheckToken takes the spaces around a token away and refuses what can be none.
func CheckToken(b []byte) (string, error) {
	text := strings.TrimSpace(string(b))
	if text == "" || len(text) > tokenMax || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", cli.Errorf(cli.Usage, "want one word of ASCII, of at most 64 KiB")
	}
	return text, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, tokenMax+2))
}
