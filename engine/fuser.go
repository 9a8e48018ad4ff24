package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"queen/engine/format"
	"queen/engine/logstore"
)

// Bounds of an entry (engine design section 3): the fuser stops adding at entryBytes; while
// consumers wait an entry holds at most pushBytesBusy of pushes.
const (
	entryBytes    = 4 << 20
	pushBytesBusy = 96 << 10
	entryOrdinals = 1 << 20
	// entryRoom is the part of the largest entry, one in entryRoom, that is left to its head and to pops that
	// ride in it.
	entryRoom = 8
	// quietEntries is for how many entries after the last consumption pushes stay within pushBytesBusy: a
	// worker that is away with its messages comes back soon, and would wait behind a large entry and its
	// apply. Measured at twice the capacity, consumers got 12 % of what producers did without this.
	quietEntries   = 256
	entryByteLimit = 96 << 20
	// originPart is what the Origin in front of an entry may take for one call of another node.
	originPart = 32
)

// class orders submissions inside an entry: what consumers do goes first, so that producers can
// never starve them.
type class uint8

const (
	consumption class = iota // acks, releases, extends, pops, administration
	writing                  // pushes and other commands that grow storage
	classes
)

// submission is what one call contributes to an entry.
type submission struct {
	// buf belongs to the caller until submit, then to the proposing goroutine, which takes it away once the
	// entry is built; count is how many commands it held.
	buf   *format.CommandBuf
	count int
	class class
	// alone asks for an entry of its own (Mark, Genesis, Term).
	alone bool
	// queues are the queues its appends name, for pops that ride behind them.
	queues []queueName
	// applied, when set, runs in the apply goroutine before the next entry is applied, instead of
	// done being closed. It must not block.
	applied func(s *submission)

	state  atomic.Uint32 // waiting, taken or withdrawn
	done   chan struct{}
	flight *flight
	first  int // number of its first command in the entry
	err    *Error

	// settles are looks to be taken right after commands of it were applied.
	settles []settle
	// ordinal is the entry's first ordinal that is the submission's; head counts the commands in front of its
	// own, which bracket them.
	ordinal format.Ordinal
	head    int
	// local submissions are the node's own upkeep, and given up when it does not lead.
	local bool
	// from says whose call it is; zero for this node's.
	from contributor
	// again says that the verdicts are those of an earlier call.
	again bool
}

const (
	subWaiting uint32 = iota
	subTaken
	subWithdrawn
)

// contributor names a call of another node.
type contributor struct {
	node    format.Replica
	request uint64
	epoch   format.Term // for which it was handed over
}

// items are the verdicts about the submission's commands; valid once it is done.
func (s *submission) items() []format.Result {
	return s.flight.results.Items[s.first+s.head : s.first+s.count]
}

// brackets are the verdicts about the commands in front.
func (s *submission) brackets() []format.Result {
	return s.flight.results.Items[s.first : s.first+s.head]
}

// settle is a look to be taken when the command at an ordinal, counted from the submission's first, was
// applied.
type settle struct {
	at   format.Ordinal
	look *kvLook
}

type queueName struct {
	tenant format.Tenant
	queue  string
}

func newSubmission(c class) *submission {
	return &submission{buf: commandBufs.Get().(*format.CommandBuf), class: c, done: make(chan struct{})}
}

// commandBufs recycles the buffers that callers encode into: growing fresh ones cost a fifth of the
// processor time of a push.
var commandBufs = sync.Pool{New: func() any { return &format.CommandBuf{} }}

// pooledBytes bounds what a recycled buffer may hold on to.
const pooledBytes = 1 << 20

// recycle takes the buffer of a submission whose entry is written, or that is not submitted.
func (s *submission) recycle() {
	b := s.buf
	s.buf = nil
	if cap(b.Payload)+cap(b.Commands)+cap(b.IDs) <= pooledBytes {
		b.Reset()
		commandBufs.Put(b)
	}
}

// size is the bytes the submission adds to an entry.
func (s *submission) size() int {
	return len(s.buf.Commands) + len(s.buf.IDs) + len(s.buf.Payload)
}

// finish completes the submission: err is set, or its flight holds the verdicts.
func (s *submission) finish(err *Error) {
	s.err = err
	if s.applied != nil {
		s.applied(s)
		return
	}
	close(s.done)
}

// fuser packs the commands of all callers into entries: whoever waits while an entry is being
// written shares the next one, its write and its flush.
//
// One goroutine at a time proposes: a call that finds nobody proposing does it itself, once, and leaves what
// came meanwhile to the proposing goroutine, which goes on until nothing waits. Waking that goroutine and being woken by
// apply are two thirds of what a single push takes beside its flush.
//
// INVARIANT: something waits only while somebody proposes or the proposing goroutine was woken (mu.led).
type fuser struct {
	mu struct {
		sync.Mutex
		pending [classes][]*submission
		closed  bool
		halted  bool // nothing is proposed any more
		led     bool // somebody proposes, or is woken to do so
		// quiet counts the entries since one held consumption, up to quietEntries.
		quiet int
	}
	wake chan struct{} // gives led to the proposing goroutine
	// most bounds one submission, full is where an entry is not added to any more, room is what riders may add:
	// the log takes no larger entry (small segments).
	most, full, room int
	// ordinals bounds those of one submission: an Origin may come in front of them.
	ordinals format.Ordinal
}

func newFuser(log *logstore.Store) *fuser {
	largest := int(log.MaxEntry())
	f := &fuser{wake: make(chan struct{}, 1), room: largest/entryRoom - format.EntryFixedHead,
		ordinals: format.MaxOrdinals - 1}
	f.most = min(largest-largest/entryRoom, entryByteLimit)
	f.full = min(entryBytes, f.most)
	f.mu.quiet = quietEntries
	return f
}

// tooLarge refuses what no entry can hold.
func (f *fuser) tooLarge() *Error {
	return &Error{Code: CodeTooLarge, Field: "payload", Limit: fmt.Sprintf("%d bytes per call", f.most),
		Message: "the call is larger than an entry may be"}
}

// holds refuses a submission that no entry can hold.
func (f *fuser) holds(s *submission) *Error {
	switch {
	case s.size() > f.most:
		return f.tooLarge()
	case s.buf.Ordinals > f.ordinals:
		return &Error{Code: CodeTooLarge, Field: "operations", Limit: fmt.Sprintf("%d messages and ops per call", f.ordinals),
			Message: "the call holds more than an entry may"}
	}
	return nil
}

// submit queues submissions; lead says that the caller is the one who proposes now, which only one that asks for it may
// become. After close it finishes them with CodeClosed at once, and what no entry can hold with CodeTooLarge.
func (f *fuser) submit(mayLead bool, subs ...*submission) (lead bool) {
	for i, s := range subs {
		if err := f.holds(s); err != nil {
			s.finish(err)
			return len(subs) > 1 && f.submit(mayLead, slices.Delete(slices.Clone(subs), i, i+1)...)
		}
	}
	f.mu.Lock()
	if f.mu.closed {
		f.mu.Unlock()
		for _, s := range subs {
			s.finish(errClosed())
		}
		return false
	}
	for _, s := range subs {
		f.mu.pending[s.class] = append(f.mu.pending[s.class], s)
	}
	led := f.mu.led
	f.mu.led = true
	f.mu.Unlock()
	if !led && !mayLead {
		f.wake <- struct{}{}
	}
	return !led && mayLead
}

// yield ends leading: what waits is the proposing goroutine's.
func (f *fuser) yield() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.led = f.waitingLocked() || f.mu.closed; f.mu.led {
		f.wake <- struct{}{}
	}
}

func (f *fuser) waitingLocked() bool {
	for _, q := range f.mu.pending {
		if len(q) > 0 {
			return true
		}
	}
	return false
}

// withdraw takes back a submission that is in no entry yet; false when it is too late.
func (s *submission) withdraw() bool { return s.state.CompareAndSwap(subWaiting, subWithdrawn) }

// rest ends leading when nothing waits and reports that; closed says that nothing will.
func (f *fuser) rest() (idle, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waitingLocked() && !f.mu.halted {
		return false, false
	}
	f.mu.led = f.mu.closed
	return true, f.mu.closed
}

// halt ends it all: who leads has failed, nobody proposes any more, and the proposing goroutine ends.
func (f *fuser) halt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.closed, f.mu.halted = true, true
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take removes and returns the submissions of the next entry, nil when none wait.
func (f *fuser) take() []*submission {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*submission
	size, ordinals, foreign := 0, 0, 0 // foreign are calls of other nodes
	for c := range f.mu.pending {
		limit := f.full
		if class(c) == writing && (len(out) > 0 || f.mu.quiet < quietEntries) {
			limit = min(f.full, size+pushBytesBusy)
		}
		queue := f.mu.pending[c]
		n := 0
		for ; n < len(queue); n++ {
			s := queue[n]
			if len(out) > 0 && (s.alone || size+s.size() > limit || ordinals+int(s.buf.Ordinals) > entryOrdinals) {
				break
			}
			if s.from.node != 0 {
				if foreign == format.MaxOriginParts {
					break
				}
				foreign++
				size += originPart
			}
			if !s.state.CompareAndSwap(subWaiting, subTaken) {
				continue // withdrawn by its caller
			}
			out = append(out, s)
			size += s.size()
			ordinals += int(s.buf.Ordinals)
			if s.alone {
				n++
				break
			}
		}
		clear(queue[:n])
		if n == len(queue) {
			f.mu.pending[c] = queue[:0]
		} else {
			f.mu.pending[c] = queue[n:]
		}
		if len(out) > 0 && out[len(out)-1].alone {
			break
		}
	}
	if len(out) > 0 {
		if f.mu.quiet = min(f.mu.quiet+1, quietEntries); out[0].class == consumption && !out[0].alone {
			f.mu.quiet = 0
		}
	}
	return out
}

// requeue puts submissions that are in no entry in front of those that wait; after close they are answered.
func (f *fuser) requeue(subs []*submission) {
	if len(subs) == 0 {
		return
	}
	f.mu.Lock()
	if f.mu.closed {
		f.mu.Unlock()
		for _, s := range subs {
			s.finish(errClosed())
		}
		return
	}
	for _, s := range slices.Backward(subs) {
		s.state.Store(subWaiting)
		f.mu.pending[s.class] = slices.Insert(f.mu.pending[s.class], 0, s)
	}
	led := f.mu.led
	f.mu.led = true
	f.mu.Unlock()
	if !led {
		f.wake <- struct{}{}
	}
}

// drain takes what waits out of a closed fuser.
func (f *fuser) drain() (subs []*submission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c, queue := range f.mu.pending {
		for _, s := range queue {
			if s.state.CompareAndSwap(subWaiting, subTaken) {
				subs = append(subs, s)
			}
		}
		f.mu.pending[c] = nil
	}
	return subs
}

// close refuses what comes from now on; what is queued is still taken.
func (f *fuser) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed = true; !f.mu.led {
		f.mu.led = true
		f.wake <- struct{}{}
	}
}
