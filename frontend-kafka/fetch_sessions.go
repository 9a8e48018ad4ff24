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
	// sessionsMax and sessionPartsMax bound the sessions in use and their partitions, over all connections.
	sessionsMax     = 8192
	sessionPartsMax = 2_000_000
	// waitingMax bounds the sessions that a connection may come back to and has not yet.
	waitingMax = 4
)

// fetchSessions are the sessions in use. When there is no room, those go that nobody used for sessionIdle, then the
// smallest, but only for larger ones.
type fetchSessions struct {
	mu     sync.Mutex
	byID   map[int32]*fetchSession
	recent list.List // of *fetchSession, latest use first
	sized  [33]list.List
	parts  int
}

// offer is an id for a new session, 0 when there would be no room to use it.
func (r *fetchSessions) offer(count int, now int64) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full(count) && !r.evictable(count, now) {
		return 0
	}
	for {
		if id := 1 + rand.Int32N(math.MaxInt32); r.byID[id] == nil {
			return id
		}
	}
}

func (r *fetchSessions) full(count int) bool {
	return len(r.byID) >= sessionsMax || r.parts+count > sessionPartsMax
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

// resize files a session whose number of partitions changed.
func (r *fetchSessions) resize(s *fetchSession) {
	if s.count == s.counted {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[s.id] == s {
		r.unplace(s)
		r.place(s)
	}
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
	if r.byID[s.id] == s {
		delete(r.byID, s.id)
		r.recent.Remove(s.recent)
		r.unplace(s)
	}
	s.close()
	return true
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

// remember keeps a session that the client may come back to.
func (c *conn) remember(s *fetchSession) {
	if s.id == 0 {
		return
	}
	m := &c.fetches
	if len(m.waiting) == waitingMax {
		m.waiting = slices.Delete(m.waiting, 0, 1)
	}
	m.waiting = append(m.waiting, s)
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
	m.waiting = slices.DeleteFunc(m.waiting, func(o *fetchSession) bool { return o.id == id })
	c.f.sessions.end(id, c.caller())
}

// endSessions ends what was taken up on the connection, when that ends: clients begin anew on another one.
func (c *conn) endSessions() {
	c.f.sessions.mu.Lock()
	defer c.f.sessions.mu.Unlock()
	for _, s := range c.fetches.own {
		c.f.sessions.remove(s)
	}
	c.fetches = fetchMemory{}
}
