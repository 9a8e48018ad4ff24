package ops

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// Commands are the commands of this package; version is that of the program, which doctor compares with the node's.
func Commands(s cli.Streams, version string) []*cobra.Command {
	return []*cobra.Command{statusCommand(s), pingCommand(s), topCommand(s), lagCommand(s), doctorCommand(s, version),
		applyCommand(s), diffCommand(s), exportCommand(s), metricsCommand(s), auditCommand(s), benchCommand(s)}
}

// get reads one answer.
func get(c *remote.Conn, path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	found, err := c.Call(c.Ctx, remote.Request{Method: http.MethodGet, Path: path}, out)
	if err == nil && !found {
		err = cli.Errorf(cli.Server, "%s%s answered nothing", c.URL, path)
	}
	return err
}

// expect refuses an answer without a list that every node sends, be it empty.
func expect[R any](c *remote.Conn, list []R, member string) error {
	if list == nil {
		return stranger(c, member)
	}
	return nil
}

// stranger is the error of an answer that no node gives.
func stranger(c *remote.Conn, member string) error {
	return cli.Errorf(cli.Server, "%s answered something else than this API: there is no %s", c.URL, member)
}

// every calls f at once and then again and again, until it wants no more, fails, or the command is interrupted.
func every(ctx context.Context, interval time.Duration, f func() (more bool, err error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if more, err := f(); err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return cli.Exit(cli.Interrupted)
		case <-tick.C:
		}
	}
}

// interval checks a flag that says how often.
func interval(flag string, d time.Duration) error {
	if d < 10*time.Millisecond {
		return cli.Errorf(cli.Usage, "--%s %v: want at least 10ms", flag, d)
	}
	return nil
}

// text is what is known, or a dash.
func text[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func rate(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// rateOf is a rate that may be unknown.
func rateOf(v *float64) string {
	if v == nil {
		return "-"
	}
	return rate(*v)
}

// seconds is an age for people.
func seconds(n int64) string { return (time.Duration(n) * time.Second).String() }
