package ops

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// pong is one answer.
type pong struct {
	URL    string  `json:"url"`
	N      int     `json:"n"`
	Ready  *bool   `json:"ready"`
	Why    *string `json:"why"`
	Millis float64 `json:"millis"`
}

var pongColumns = []cli.Column[pong]{
	{Head: "url", Cell: func(p pong) string { return p.URL }, Key: true},
	{Head: "n", Cell: func(p pong) string { return count(uint64(p.N)) }},
	{Head: "ready", Cell: func(p pong) string { return text(p.Ready) }, Help: "null unless --ready asks for it"},
	{Head: "millis", Cell: func(p pong) string { return rate(p.Millis) }, Help: "until the answer was there"},
	{Head: "why", Cell: func(p pong) string { return text(p.Why) }},
}

func pingCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "ping", Short: "Ask whether a node is there", Args: cobra.NoArgs,
		Long: `Ask whether a node's process turns; with --ready whether it can commit, too. Needs no credential. Exits 2 when nobody
answers within --timeout, 5 when it answers that it is not ready.`}
	times := cmd.Flags().IntP("count", "n", 1, "how often")
	ready := cmd.Flags().Bool("ready", false, "ask whether it can commit")
	pause := cmd.Flags().Duration("interval", time.Second, "time between two")
	timeout := cmd.Flags().Duration("timeout", 5*time.Second, "how long to wait for each answer")
	return remote.Command(s, cmd, "ndjson", pongColumns, func(c *remote.Conn, out *cli.Printer[pong], _ []string) error {
		if err := interval("interval", *pause); err != nil {
			return err
		}
		if *times < 1 {
			return cli.Errorf(cli.Usage, "--count %d: want at least 1", *times)
		}
		n, allReady := 0, true
		err := every(c.Ctx, *pause, func() (bool, error) {
			n++
			p, err := ping(c, n, *ready, *timeout)
			if err != nil {
				return false, err
			}
			allReady = allReady && (p.Ready == nil || *p.Ready)
			return n < *times, out.Add(p)
		})
		if err == nil && !allReady {
			err = cli.Exit(cli.Findings)
		}
		return err
	})
}

// ping asks once.
func ping(c *remote.Conn, n int, ready bool, timeout time.Duration) (pong, error) {
	ctx, cancel := context.WithTimeout(c.Ctx, timeout)
	defer cancel()
	p, path := pong{URL: c.URL, N: n}, "/livez"
	if ready {
		path = "/readyz"
	}
	var answer struct {
		Status string
		Ready  *bool
		Why    *string
	}
	begun := time.Now()
	_, err := c.Call(ctx, remote.Request{Method: http.MethodGet, Path: path, AnyStatus: ready}, &answer)
	p.Millis = float64(time.Since(begun).Microseconds()) / 1000
	if err != nil {
		if ctx.Err() != nil && c.Ctx.Err() == nil {
			return p, cli.Errorf(cli.Server, "%s does not answer within %v", c.URL, timeout)
		}
		return p, err
	}
	if answer.Status == "" || ready && answer.Ready == nil {
		return p, stranger(c, "status")
	}
	p.Ready, p.Why = answer.Ready, answer.Why
	return p, nil
}
