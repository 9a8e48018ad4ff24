package frontendkafka

import "sync"

const (
	// framesMax and framesBytes bound what one connection has sent and not yet been answered; one frame always fits.
	framesMax   = 64
	framesBytes = 16 << 20
)

// frame is one request as it was read, without its length. charged is what it holds of the budget.
type frame struct {
	bytes   []byte
	charged charge
}

// key is the API key; false for a frame that is too short to have one.
func (f frame) key() (int16, bool) {
	if len(f.bytes) < 2 {
		return 0, false
	}
	return int16(f.bytes[0])<<8 | int16(f.bytes[1]), true
}

// inbox holds the frames of a connection between the goroutine that reads and the one that handles.
type inbox struct {
	mu     sync.Mutex
	frames []frame
	bytes  int
	busy   bool // a frame was taken and the next not yet asked for
	paused bool // nothing more is to be read
	closed bool
	// some and room wake the one goroutine on each side.
	some, room chan struct{}
}

func newInbox() *inbox {
	return &inbox{some: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait returns when there is room for another frame; false when stop ends first.
func (b *inbox) wait(stop <-chan struct{}) bool {
	return b.await(stop, func() bool { return len(b.frames) < framesMax && b.bytes < framesBytes && !b.paused })
}

// waitIdle returns when nothing waits and nothing is being handled; false when stop ends first.
func (b *inbox) waitIdle(stop <-chan struct{}) bool {
	return b.await(stop, func() bool { return !b.busy && len(b.frames) == 0 })
}

// await is for the goroutine that reads.
func (b *inbox) await(stop <-chan struct{}, ok func() bool) bool {
	for {
		b.mu.Lock()
		done := ok()
		b.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-b.room:
		case <-stop:
			return false
		}
	}
}

func (b *inbox) put(f frame) {
	b.mu.Lock()
	b.frames = append(b.frames, f)
	b.bytes += len(f.bytes)
	b.mu.Unlock()
	signal(b.some)
}

// pause keeps the next frame from being read, or lets it.
func (b *inbox) pause(on bool) {
	b.mu.Lock()
	b.paused = on
	b.mu.Unlock()
	signal(b.room)
}

// close says that nothing more will come.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	signal(b.some)
}

// take waits for the next frame; false when there is none and will be none.
func (b *inbox) take() (frame, bool) {
	for {
		if f, ok, closed := b.next(nil); ok || closed {
			return f, ok
		}
		<-b.some
	}
}

// takeIf takes the next frame if it is there and match likes it.
func (b *inbox) takeIf(match func(frame) bool) (frame, bool) {
	f, ok, _ := b.next(match)
	return f, ok
}

func (b *inbox) next(match func(frame) bool) (f frame, ok, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if match == nil {
		b.busy = len(b.frames) > 0
	}
	if len(b.frames) == 0 {
		signal(b.room) // who waits for quiet looks
		return frame{}, false, b.closed
	}
	f = b.frames[0]
	if match != nil && !match(f) {
		return frame{}, false, false
	}
	b.frames[0] = frame{}
	b.frames = b.frames[1:]
	b.bytes -= len(f.bytes)
	signal(b.room)
	return f, true, false
}

// idle tells whether nothing waits and nothing is being handled.
func (b *inbox) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.busy && len(b.frames) == 0
}

func (b *inbox) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.frames) == 0
}
