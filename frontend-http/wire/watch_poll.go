//go:build unix && !linux

package wire

import (
	"sync"
	"syscall"
	"time"
)

// pollInterval is how often parked connections are looked at on systems without EPOLLRDHUP.
const pollInterval = 200 * time.Millisecond

// watcher is the developer build's stand-in for the epoll watcher: it peeks at every parked connection five times a
// second. It does not see a close that hides behind unread bytes (a pipelined request, a TLS close_notify).
type watcher struct {
	stop chan struct{}
	done chan struct{}

	mu struct {
		sync.Mutex
		closed bool
		next   uint64
		parked map[uint64]park
	}
}

type park struct {
	fd   int
	fire func()
}

func newWatcher() (*watcher, error) {
	w := &watcher{stop: make(chan struct{}), done: make(chan struct{})}
	w.mu.next = 1
	w.mu.parked = make(map[uint64]park)
	go w.run()
	return w, nil
}

// add does not watch for bytes to read: who wants to know of them keeps a goroutine reading.
func (w *watcher) add(fd int, input bool, fire func()) (key uint64, err error) {
	if input {
		return 0, syscall.ENOTSUP
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed {
		return 0, syscall.EBADF
	}
	key = w.mu.next
	w.mu.next++
	w.mu.parked[key] = park{fd: fd, fire: fire}
	return key, nil
}

func (w *watcher) remove(_ int, key uint64) (fire func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fire = w.mu.parked[key].fire
	delete(w.mu.parked, key)
	return fire
}

func (w *watcher) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.parked)
}

func (w *watcher) run() {
	defer close(w.done)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			for _, fire := range w.gone() {
				fire()
			}
		}
	}
}

// gone collects the parks whose peer left. The lock is held over the peeks, so no descriptor is closed beneath them.
func (w *watcher) gone() (fires []func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, p := range w.mu.parked {
		if peerState(p.fd) != peerOpen {
			fires = append(fires, p.fire)
			delete(w.mu.parked, key)
		}
	}
	return fires
}

func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.mu.closed {
		w.mu.closed = true
		close(w.stop)
	}
}
