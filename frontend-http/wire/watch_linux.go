package wire

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// watcher tells parked handlers that their peer went away. One epoll instance serves the whole listener: a parked
// descriptor is registered for EPOLLRDHUP, one shot, and costs nothing while it is quiet. Asking for data (EPOLLIN)
// instead would be wrong: a pipelined request or a TLS close_notify hides the FIN behind unread bytes. A stream that
// awaits its client's words asks for both.
//
// Registrations are known to the kernel by a key that is never reused, not by descriptor, so an event that was already
// on its way when the park ended finds nothing.
type watcher struct {
	epfd, wakefd int
	done         chan struct{}

	mu struct {
		sync.Mutex
		closed bool
		next   uint64
		parked map[uint64]func() // key to fire; bounded by the number of connections
	}
}

// wakeKey marks the event descriptor that ends the loop; park keys start above it.
const wakeKey = 0

func newWatcher() (*watcher, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	wakefd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epfd)
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	w := &watcher{epfd: epfd, wakefd: wakefd, done: make(chan struct{})}
	w.mu.next = wakeKey + 1
	w.mu.parked = make(map[uint64]func())
	if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, wakefd, event(unix.EPOLLIN, wakeKey)); err != nil {
		_ = unix.Close(wakefd)
		_ = unix.Close(epfd)
		return nil, fmt.Errorf("watch eventfd: %w", err)
	}
	go w.run()
	return w, nil
}

// event packs the key into the 64 bits the kernel hands back.
func event(events uint32, key uint64) *unix.EpollEvent {
	return &unix.EpollEvent{Events: events, Fd: int32(uint32(key)), Pad: int32(uint32(key >> 32))}
}

func keyOf(e *unix.EpollEvent) uint64 { return uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32 }

// add registers fd for the peer's departure, and with input for bytes to read as well. fire runs on the watcher's
// goroutine, at most once. The caller keeps fd open until remove returns.
func (w *watcher) add(fd int, input bool, fire func()) (key uint64, err error) {
	events := uint32(unix.EPOLLRDHUP | unix.EPOLLONESHOT)
	if input {
		events |= unix.EPOLLIN
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed {
		return 0, unix.EBADF
	}
	key = w.mu.next
	w.mu.next++
	// An event of a peer that is already gone may come before this returns; the loop then waits for mu.
	if err := unix.EpollCtl(w.epfd, unix.EPOLL_CTL_ADD, fd, event(events, key)); err != nil {
		return 0, err
	}
	w.mu.parked[key] = fire
	return key, nil
}

// remove ends a registration and returns its fire when that has not run and now never will.
func (w *watcher) remove(fd int, key uint64) (fire func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fire = w.mu.parked[key]
	delete(w.mu.parked, key)
	if !w.mu.closed {
		// One shot leaves a fired registration in place, disabled: it has to be deleted all the same.
		_ = unix.EpollCtl(w.epfd, unix.EPOLL_CTL_DEL, fd, nil)
	}
	return fire
}

func (w *watcher) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.parked)
}

// run hands events to their parks until close.
func (w *watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(w.epfd, events, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return // only a closed epoll descriptor, and close waits for this loop before closing it
		}
		for i := range events[:n] {
			key := keyOf(&events[i])
			if key == wakeKey {
				return
			}
			if fire := w.take(key); fire != nil {
				fire()
			}
		}
	}
}

func (w *watcher) take(key uint64) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	fire := w.mu.parked[key]
	delete(w.mu.parked, key)
	return fire
}

// close ends the loop and frees the descriptors. Parks that are left never fire; the connections they belong to have
// been closed, which fired them.
func (w *watcher) close() {
	w.mu.Lock()
	if w.mu.closed {
		w.mu.Unlock()
		return
	}
	w.mu.closed = true
	w.mu.Unlock()
	one := [8]byte{0: 1, 7: 1} // any non-zero counter, in either byte order
	_, _ = unix.Write(w.wakefd, one[:])
	<-w.done
	_ = unix.Close(w.wakefd)
	_ = unix.Close(w.epfd)
}
