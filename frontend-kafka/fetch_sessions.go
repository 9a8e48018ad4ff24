package frontendkafka

import (
	"container/list"
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"

	"queen/engine"
)

// overContext ends waits before they begin.
var overContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

const (
	// sessionsMax bounds the sessions in use, over all connections.
	sessionsMax = 8192
	// sessionPartRoom is about what a partition of a session in use takes of memory, in bytes; sessionPartsMin are so many
	// that there is always room for.
	sessionPartRoom = 256
	sessionPartsMin = 4096
	// offeredShare is the part of what sessions in use may have that those have that are only offered.
	offeredShare = 4
	// waitingMax bounds the sessions that a connection may come back to and has not yet.
	waitingMax = 4
)

// fetchSessions are the sessions in use. When there is no room, those go that nobody used for sessionIdle, then the
// smallest, but only for larger ones. Of those that were offered only the partitions are counted: their connections keep
// them.
type fetchSessions struct {
	mu     sync.Mutex
	byID   map[int32]*fetchSession
	recent list.List // of *fetchSession, latest use first
	sized  [33]list.List
	// most bounds parts, the partitions of sessions in use, over all connections; its offeredShare bounds offered.
	most, parts, offered int
}

// sessionParts is how many partitions sessions may have in so many bytes.
func sessionParts(memory int64) int { return int(max(memory/sessionPartRoom, sessionPartsMin)) }

// offer gives a new session an id, 0 when there would be no room to keep it or to use it.
func (r *fetchSessions) offer(s *fetchSession, now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.offered+s.count > r.most/offeredShare || r.full(s.count) && !r.evictable(s.count, now) {
		return
	}
	r.offered += s.count
	s.offered = s.count
	for s.id == 0 || r.byID[s.id] != nil {
		s.id = 1 + rand.Int32N(math.MaxInt32)
	}
}

// withdraw forgets that sessions were offered.
func (r *fetchSessions) withdraw(all ...*fetchSession) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range all {
		r.offered -= s.offered
		s.offered = 0
	}
}

func (r *fetchSessions) full(count int) bool {
	return len(r.byID) >= sessionsMax || r.parts+count > r.most
}

// evictable guesses whether something would go for a session of count partitions.
func (r *fetchSessions) evictable(count int, now int64) bool {
	for b := range bits.Len(uint(count)) {
		if r.sized[b].Len() > 0 {
			return true
		}
	}
	e := r.recent.Back()
	return e != nil && now-e.Value.(*fetchSession).used >= sessionIdle.Microseconds()
}

// find looks a session up and notes its use.
func (r *fetchSessions) find(id int32, now int64) *fetchSession {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byID[id]
	if s != nil {
		s.used = now
		r.recent.MoveToFront(s.recent)
	}
	return s
}

// admit makes room for a session that is taken into use; false when there is none. The session is locked.
func (r *fetchSessions) admit(s *fetchSession, now int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.full(s.count) {
		if !r.evict(s.count, now) {
			return false
		}
	}
	if r.byID == nil {
		r.byID = map[int32]*fetchSession{}
	}
	if r.byID[s.id] != nil {
		return false
	}
	r.offered -= s.offered
	s.offered = 0
	r.byID[s.id] = s
	s.used, s.recent = now, r.recent.PushFront(s)
	r.place(s)
	return true
}

// place files a session under its size.
func (r *fetchSessions) place(s *fetchSession) {
	s.bucket, s.counted = bits.Len(uint(s.count)), s.count
	s.sized = r.sized[s.bucket].PushFront(s)
	r.parts += s.counted
}

func (r *fetchSessions) unplace(s *fetchSession) {
	r.sized[s.bucket].Remove(s.sized)
	r.parts -= s.counted
}

// resize files a session whose number of partitions changed. One that has grown beyond what there is room for ends:
// false. It is locked.
func (r *fetchSessions) resize(s *fetchSession, now int64) bool {
	if s.count == s.counted {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[s.id] != s {
		return true
	}
	grown := s.count > s.counted
	r.unplace(s)
	r.place(s)
	for grown && r.parts > r.most {
		if !r.evict(s.count, now) {
			r.drop(s)
			return false
		}
	}
	return true
}

// evict removes one session: the one whose last use is longest ago, if that is sessionIdle, or one smaller than count.
func (r *fetchSessions) evict(count int, now int64) bool {
	if e := r.recent.Back(); e != nil {
		if s := e.Value.(*fetchSession); now-s.used >= sessionIdle.Microseconds() && r.remove(s) {
			return true
		}
	}
	for b := range bits.Len(uint(count)) {
		for e := r.sized[b].Back(); e != nil; e = e.Prev() {
			if r.remove(e.Value.(*fetchSession)) {
				return true
			}
		}
	}
	return false
}

// remove ends a session unless a fetch of it is being answered.
func (r *fetchSessions) remove(s *fetchSession) bool {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	r.drop(s)
	return true
}

// drop ends a session, which is locked.
func (r *fetchSessions) drop(s *fetchSession) {
	if r.byID[s.id] == s {
		delete(r.byID, s.id)
		r.recent.Remove(s.recent)
		r.unplace(s)
	}
	s.close()
}

// end removes a caller's session by id.
func (r *fetchSessions) end(id int32, who engine.Caller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.byID[id]; s != nil && s.who == who {
		r.remove(s)
	}
}

// fetchMemory is what a connection keeps of its fetches.
type fetchMemory struct {
	// waiting are sessions that were offered, latest last; own those in use that were taken up here.
	waiting, own []*fetchSession
}

// offer keeps a session that the client may come back to. Without room for it, what was offered to the client before goes.
func (c *conn) offer(s *fetchSession) {
	m := &c.fetches
	for {
		if len(m.waiting) < waitingMax {
			if c.f.sessions.offer(s, c.f.opts.Clock.Mono()); s.id != 0 {
				m.waiting = append(m.waiting, s)
				return
			}
		}
		if len(m.waiting) == 0 {
			return
		}
		c.f.sessions.withdraw(m.waiting[0])
		m.waiting = slices.Delete(m.waiting, 0, 1)
	}
}

// waitingSession finds a session that was offered on this connection.
func (c *conn) waitingSession(id int32) *fetchSession {
	for _, s := range c.fetches.waiting {
		if s.id == id {
			return s
		}
	}
	return nil
}

// take puts an offered session into use.
func (c *conn) take(s *fetchSession) {
	m := &c.fetches
	m.waiting = slices.DeleteFunc(m.waiting, func(o *fetchSession) bool { return o == s })
	m.own = slices.DeleteFunc(m.own, func(o *fetchSession) bool { return o.gone() })
	m.own = append(m.own, s)
	s.open(c.f.engine)
}

// gone tells whether a session has ended; one that is busy has not.
func (s *fetchSession) gone() bool {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	return s.dead
}

// endSession ends a session that the client is done with.
func (c *conn) endSession(id int32) {
	m := &c.fetches
	m.waiting = slices.DeleteFunc(m.waiting, func(o *fetchSession) bool {
		if o.id == id {
			c.f.sessions.withdraw(o)
		}
		return o.id == id
	})
	c.f.sessions.end(id, c.caller())
}

// endSessions ends what was taken up on the connection, when that ends: clients begin anew on another one.
func (c *conn) endSessions() {
	c.f.sessions.withdraw(c.fetches.waiting...)
	c.f.sessions.mu.Lock()
	defer c.f.sessions.mu.Unlock()
	for _, s := range c.fetches.own {
		c.f.sessions.remove(s)
	}
	c.fetches = fetchMemory{}
}
