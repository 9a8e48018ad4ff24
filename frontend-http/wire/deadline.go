package wire

import (
	"errors"
	"os"
	"sync"
	"time"
)

// deadline is the deadline of one direction of a connection. The request loop sets five for every request, most of them
// later than the one before, and each would move a timer of the runtime. Here they are noted; the connection is told of
// one that is earlier than what it was told before, and whoever meets one that fired too early tells it the one that is
// meant. So a connection under load is told of one in half a minute, and an idle one wakes once more than it would.
type deadline struct {
	tell func(time.Time) error // the connection's own method

	mu struct {
		sync.Mutex
		want, told time.Time // zero for none
	}
}

// set is the connection's SetReadDeadline or SetWriteDeadline. It does not notice that the connection is closed; the
// next read or write does.
func (d *deadline) set(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.want = t
	if t.IsZero() || !d.mu.told.IsZero() && !t.Before(d.mu.told) {
		return nil
	}
	d.mu.told = t
	return d.tell(t)
}

// early reports that err is a deadline that fired before the one that is meant, which is in force now.
func (d *deadline) early(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.mu.want.IsZero() && !time.Now().Before(d.mu.want) {
		return false
	}
	d.mu.told = d.mu.want
	return d.tell(d.mu.want) == nil
}
