package ceiling

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionsMax bounds the sessions; who comes later fetches without one.
const sessionsMax = 1000

// session is what one consumer follows.
type session struct {
	id, epoch int32 // id 0 is answered: a session of this one request
	watches   map[place]*watch
	// due holds the watches that may have something to answer, each once.
	due []*watch
	// served was answered last; what its consumer does not move on is due again.
	served []*watch
	wake   chan struct{} // holds one token when due may have grown
}

type place struct {
	topic string
	index int32
}

// watch is a partition in a session.
type watch struct {
	session *session
	place   place
	p       *partition // nil when there is no such partition
	offset  int64
	limit   int32
	queued  bool
	// fresh ones are answered whatever they hold, as the first answer of a session names everything asked for.
	fresh bool
	gone  bool
}

// mark makes a watch due. The store's lock is held.
func (s *session) mark(w *watch) {
	if w.queued || w.gone {
		return
	}
	w.queued = true
	s.due = append(s.due, w)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// has says whether there is something to answer.
func (w *watch) has() bool {
	return w.fresh || w.p == nil || w.p.next != w.offset
}

func (s *Server) fetch(req *kmsg.FetchRequest) kmsg.Response {
	st := &s.store
	st.mu.Lock()
	sess, code := st.session(req)
	if code != 0 {
		st.mu.Unlock()
		resp := kmsg.NewFetchResponse()
		resp.ErrorCode = code
		return &resp
	}
	resp := sess.collect(int(req.MaxBytes))
	st.mu.Unlock()
	if sess.id == 0 {
		defer st.leave(sess)
	}
	if len(resp.Topics) > 0 || req.MaxWaitMillis <= 0 {
		return resp
	}
	timer := time.NewTimer(time.Duration(req.MaxWaitMillis) * time.Millisecond)
	defer timer.Stop()
	for len(resp.Topics) == 0 {
		select {
		case <-sess.wake:
		case <-timer.C:
			return resp
		case <-s.stop:
			return resp
		}
		st.mu.Lock()
		resp = sess.collect(int(req.MaxBytes))
		st.mu.Unlock()
	}
	return resp
}

// session finds or makes the session of a request and brings it up to date. The lock is held.
func (st *store) session(req *kmsg.FetchRequest) (*session, int16) {
	if req.SessionEpoch <= 0 {
		if old := st.sessions[req.SessionID]; old != nil {
			st.end(old)
		}
		s := &session{watches: map[place]*watch{}, wake: make(chan struct{}, 1)}
		if req.SessionEpoch == 0 && len(st.sessions) < sessionsMax {
			st.lastID++
			s.id = st.lastID
			st.sessions[s.id] = s
		}
		st.follow(s, req)
		return s, 0
	}
	s := st.sessions[req.SessionID]
	if s == nil {
		return nil, errSessionNotFound
	}
	if req.SessionEpoch != s.epoch+1 {
		return nil, errInvalidSessionEpoch
	}
	s.epoch++
	for _, t := range req.ForgottenTopics {
		for _, index := range t.Partitions {
			st.forget(s, place{t.Topic, index})
		}
	}
	st.follow(s, req)
	for _, w := range s.served {
		if w.has() {
			s.mark(w)
		}
	}
	s.served = s.served[:0]
	return s, 0
}

// follow takes over the partitions that a request names. The lock is held.
func (st *store) follow(s *session, req *kmsg.FetchRequest) {
	for _, t := range req.Topics {
		for _, rp := range t.Partitions {
			at := place{t.Topic, rp.Partition}
			w := s.watches[at]
			if w == nil {
				w = &watch{session: s, place: at, p: st.at(at.topic, at.index), fresh: true}
				s.watches[at] = w
				if w.p != nil {
					w.p.watchers = append(w.p.watchers, w)
				}
			}
			w.offset, w.limit = rp.FetchOffset, rp.PartitionMaxBytes
			if w.has() {
				s.mark(w)
			}
		}
	}
}

// forget takes a partition out of a session. The lock is held.
func (st *store) forget(s *session, at place) {
	w := s.watches[at]
	if w == nil {
		return
	}
	delete(s.watches, at)
	w.gone = true
	if w.p == nil {
		return
	}
	for i, other := range w.p.watchers {
		if other == w {
			w.p.watchers = append(w.p.watchers[:i], w.p.watchers[i+1:]...)
			break
		}
	}
}

// end forgets a session. The lock is held.
func (st *store) end(s *session) {
	for at := range s.watches {
		st.forget(s, at)
	}
	delete(st.sessions, s.id)
}

// leave ends the session of one request.
func (st *store) leave(s *session) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.end(s)
}

// collect takes what is due, at most limit bytes after the first batch. The lock is held.
func (s *session) collect(limit int) *kmsg.FetchResponse {
	resp := kmsg.NewFetchResponse()
	resp.SessionID = s.id
	n, taken := 0, 0
	for _, w := range s.due {
		if n >= limit {
			break
		}
		taken++
		w.queued = false
		if w.gone || !w.has() {
			continue
		}
		w.fresh = false
		s.served = append(s.served, w)
		if last := len(resp.Topics) - 1; last < 0 || resp.Topics[last].Topic != w.place.topic {
			t := kmsg.NewFetchResponseTopic()
			t.Topic = w.place.topic
			resp.Topics = append(resp.Topics, t)
		}
		t := &resp.Topics[len(resp.Topics)-1]
		p := w.answer(min(int(w.limit), limit-n))
		n += len(p.RecordBatches)
		t.Partitions = append(t.Partitions, p)
	}
	s.due = append(s.due[:0], s.due[taken:]...)
	return &resp
}

func (w *watch) answer(limit int) kmsg.FetchResponseTopicPartition {
	out := kmsg.NewFetchResponseTopicPartition()
	out.Partition = w.place.index
	out.RecordBatches = []byte{}
	switch {
	case w.p == nil:
		out.ErrorCode, out.HighWatermark = errUnknownTopic, -1
		return out
	case w.offset < w.p.first() || w.offset > w.p.next:
		out.ErrorCode = errOffsetOutOfRange
	default:
		out.RecordBatches = w.p.read(nil, w.offset, limit)
	}
	out.HighWatermark, out.LastStableOffset, out.LogStartOffset = w.p.next, w.p.next, w.p.first()
	return out
}
