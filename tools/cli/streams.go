package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
)

// Streams are what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Env is the environment as os.Environ gives it.
	Env []string
}

// Process are the streams of this process.
func Process() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ()}
}

// Getenv is the value of a name, "" when it is not set.
func (s Streams) Getenv(name string) string {
	for _, pair := range s.Env {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// Terminal tells whether a stream is one.
func Terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Complain prints an error on standard error: its lines, or JSON of one line, which has what a method Members() of the error
// tells beside error and exit.
func (s Streams) Complain(err error, asJSON bool) {
	if err == nil || Silent(err) {
		return
	}
	if asJSON {
		members := map[string]any{}
		var more interface{ Members() map[string]any }
		if errors.As(err, &more) {
			members = more.Members()
		}
		members["error"], members["exit"] = err.Error(), Code(err)
		line, _ := json.Marshal(members) // strings and numbers marshal
		fmt.Fprintf(s.Err, "%s\n", line)
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(s.Err, "queen: %s\n", line)
	}
}
