package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"queen/bench/internal/client"
)

// Place is one node or a cluster.
type Place interface {
	// Addrs are where clients go. They stay as they are over restarts.
	Addrs() []string
	// Tenant is whom clients are of, "" for nobody in particular.
	Tenant() string
	// Patience is how long a client waits for an answer before it takes it as lost.
	Patience() time.Duration
	// Stop drains every node. One that does not exit with 0 is an error.
	Stop() error
	// LogTail is the end of what the nodes wrote.
	LogTail() string
}

// Conn is the connection of client number i: clients begin on different nodes.
func Conn(p Place, i int) *client.Conn {
	c := client.Among(p.Addrs(), i, p.Patience())
	c.Tenant = p.Tenant()
	return c
}

// Again reports that an answer's status asks to try again.
func Again(status int) bool { return status == 503 || status == 429 }

// Elsewhere turns to the next node if there is one, and rests before the next try.
func Elsewhere(ctx context.Context, c *client.Conn) error {
	rest := 2 * time.Millisecond
	if c.Turn() {
		rest = 20 * time.Millisecond // there may be no leader, and then no node takes anything
	}
	return Pause(ctx, rest)
}

// Ask sends a request until it is answered with something else than to try again. It is for what may be done twice.
func Ask(ctx context.Context, c *client.Conn, method, path string, body []byte) (client.Answer, error) {
	for {
		a, err := c.Do(method, path, body)
		if err == nil && !Again(a.Status) {
			return a, nil
		}
		if err := Elsewhere(ctx, c); err != nil {
			return client.Answer{}, err
		}
	}
}

// Pause waits.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Together runs functions at once. The first error ends the others and is returned.
func Together(ctx context.Context, all ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, f := range all {
		running.Go(func() {
			if errs[i] = f(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}

// newTimed is out with the time since now in front of what each call writes, in seconds.
func newTimed(out io.Writer) io.Writer { return &timed{out: out, begin: time.Now()} }

type timed struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
}

// Write implements io.Writer.
func (t *timed) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := fmt.Fprintf(t.out, "%9.3f %s", time.Since(t.begin).Seconds(), line)
	return len(line), err
}
