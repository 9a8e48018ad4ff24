package frontendkafka

import (
	"container/list"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
)

// fetchTopic is a topic of a fetch. Named by id, its name is "" until it is found.
type fetchTopic struct {
	name  string
	id    [16]byte
	byID  bool
	parts map[int32]*fetchPart // of a session that is in use
	// watched says that its partitions are known to the watcher.
	watched bool
	// What the last pass found.
	pass  uint64
	width int32
	fault *kerr.Error
}

// fetchPart is one partition that a client reads.
type fetchPart struct {
	topic                  *fetchTopic
	num                    int32
	offset                 int64
	maxBytes               int32
	leaderEpoch, lastEpoch int32
	// What the client was told last.
	hw, stable, start int64
	// res is what the answer in the making has of it.
	res *fetchResult
	// Neighbours in the ring of partitions that may have something; both nil outside of it.
	prev, next *fetchPart
}

// update takes over what a request says.
func (p *fetchPart) update(in *kmsg.FetchRequestTopicPartition) {
	p.offset, p.maxBytes = in.FetchOffset, in.PartitionMaxBytes
	p.leaderEpoch, p.lastEpoch = in.CurrentLeaderEpoch, in.LastFetchedEpoch
}

// news says that the client has to be told of the partition.
func (p *fetchPart) news() bool {
	r := p.res
	return r.code != 0 || r.bytes > 0 || r.diverges || r.hw != p.hw || r.stable != p.stable || r.start != p.start
}

// tell notes what the client is told.
func (p *fetchPart) tell() { p.hw, p.stable, p.start = p.res.hw, p.res.stable, p.res.start }

type topicKey struct {
	name string
	id   [16]byte
}

// fetchSession is what a node remembers of a client's fetches (KIP-227): its partitions, and which of them may have
// something to tell. Every fetch has one; most are forgotten with the answer. One that the client may come back to waits
// as it is, in its connection, and costs what its request did; when the client does come back it is taken into use, with
// maps and a watcher, and from then on a fetch costs as much as partitions changed.
//
// mu is held while a fetch is answered; everything but the registry's fields is under it.
type fetchSession struct {
	mu    sync.Mutex
	id    int32 // 0 of one that nobody can come back to
	epoch int32 // of the next request
	byIDs bool
	who   engine.Caller
	dead  bool

	list      []*fetchPart // in the order of the request, until it is taken into use
	topics    map[topicKey]*fetchTopic
	count     int
	committed bool
	ring      fetchPart // head of the ring
	watcher   engine.Watcher
	byRef     map[engine.PartitionRef]*fetchPart

	// The registry's.
	used            int64 // Mono of the last use
	recent          *list.Element
	sized           *list.Element
	bucket, counted int
	offered         int // partitions that count as offered
}

// newFetchSession takes the partitions of a full fetch.
func newFetchSession(req *kmsg.FetchRequest, who engine.Caller) *fetchSession {
	s := &fetchSession{who: who, byIDs: req.Version >= fetchIDs, epoch: 1}
	s.ring.prev, s.ring.next = &s.ring, &s.ring
	for i := range req.Topics {
		in := &req.Topics[i]
		t := &fetchTopic{name: in.Topic, id: in.TopicID, byID: s.byIDs}
		parts := make([]fetchPart, len(in.Partitions))
		for j := range in.Partitions {
			p := &parts[j]
			p.topic, p.num = t, in.Partitions[j].Partition
			p.hw, p.stable, p.start = -1, -1, -1
			p.update(&in.Partitions[j])
			s.list = append(s.list, p)
		}
	}
	s.count = len(s.list)
	return s
}

// session finds or makes the session of a request and locks it. full says that every partition is to be told.
func (c *conn) session(req *kmsg.FetchRequest) (s *fetchSession, full bool, code *kerr.Error) {
	id, epoch := req.SessionID, req.SessionEpoch
	if req.Version < 7 {
		id, epoch = 0, -1
	}
	if epoch > 0 {
		s, code = c.resume(req)
		return s, false, code
	}
	if id != 0 {
		c.endSession(id)
	}
	s = newFetchSession(req, c.caller())
	s.mu.Lock()
	if epoch == 0 && !longNames(req.Topics) {
		c.offer(s)
	}
	return s, true, nil
}

// resume takes up a session with an incremental request.
func (c *conn) resume(req *kmsg.FetchRequest) (*fetchSession, *kerr.Error) {
	s := c.waitingSession(req.SessionID)
	if s == nil {
		s = c.f.sessions.find(req.SessionID, c.f.opts.Clock.Mono())
	}
	if s == nil || s.who != c.caller() {
		return nil, kerr.FetchSessionIDNotFound
	}
	if !s.mu.TryLock() {
		return nil, kerr.InvalidFetchSessionEpoch // another request of the same epoch is being answered
	}
	code := s.accept(req)
	if code == nil && s.topics == nil && !c.f.sessions.admit(s, c.f.opts.Clock.Mono()) {
		code = kerr.FetchSessionIDNotFound // no room; the client starts anew
	}
	if code != nil {
		s.mu.Unlock()
		return nil, code
	}
	if s.topics == nil {
		c.take(s)
	}
	s.apply(req)
	if !c.f.sessions.resize(s, c.f.opts.Clock.Mono()) {
		s.mu.Unlock()
		return nil, kerr.FetchSessionIDNotFound // it grew too large; the client starts anew
	}
	return s, nil
}

// longNames tells whether some topic has a name that none can have.
func longNames(all []kmsg.FetchRequestTopic) bool {
	return slices.ContainsFunc(all, func(t kmsg.FetchRequestTopic) bool { return len(t.Topic) > topicNameMax })
}

// accept judges whether a request continues the session.
func (s *fetchSession) accept(req *kmsg.FetchRequest) *kerr.Error {
	switch {
	case s.dead:
		return kerr.FetchSessionIDNotFound
	case req.SessionEpoch != s.epoch:
		return kerr.InvalidFetchSessionEpoch
	case s.byIDs != (req.Version >= fetchIDs):
		return kerr.FetchSessionTopicIDError
	case longNames(req.Topics):
		return kerr.FetchSessionIDNotFound // not worth to be kept; without a session it is answered
	}
	if s.epoch == math.MaxInt32 {
		s.epoch = 0
	}
	s.epoch++
	return nil
}

// open takes a session into use: partitions become findable and watched. All may have changed since the full fetch.
func (s *fetchSession) open(e engine.Engine) {
	s.topics = map[topicKey]*fetchTopic{}
	list := s.list
	s.list, s.count = nil, 0
	for _, p := range list {
		t := s.topicOf(topicKey{p.topic.name, p.topic.id}, p.topic)
		if old := t.parts[p.num]; old != nil {
			s.drop(old)
		}
		p.topic, t.parts[p.num] = t, p
		s.count++
		s.keep(p)
	}
	s.watch(e)
}

// topicOf finds a topic, or takes fresh in.
func (s *fetchSession) topicOf(k topicKey, fresh *fetchTopic) *fetchTopic {
	if s.byIDs {
		k.name = ""
	}
	t := s.topics[k]
	if t == nil {
		t = fresh
		t.parts = map[int32]*fetchPart{}
		s.topics[k] = t
	}
	return t
}

// apply takes over what an incremental request adds, changes and forgets.
func (s *fetchSession) apply(req *kmsg.FetchRequest) {
	for i := range req.ForgottenTopics {
		in := &req.ForgottenTopics[i]
		k := topicKey{in.Topic, in.TopicID}
		t := s.topics[k]
		if t == nil {
			continue
		}
		for _, n := range in.Partitions {
			if p := t.parts[n]; p != nil {
				s.drop(p)
			}
		}
		if len(t.parts) == 0 {
			delete(s.topics, k)
		}
	}
	for i := range req.Topics {
		in := &req.Topics[i]
		if len(in.Partitions) == 0 {
			continue
		}
		t := s.topicOf(topicKey{in.Topic, in.TopicID}, &fetchTopic{name: in.Topic, id: in.TopicID, byID: s.byIDs})
		for j := range in.Partitions {
			n := in.Partitions[j].Partition
			p := t.parts[n]
			if p == nil {
				p = &fetchPart{topic: t, num: n, hw: -1, stable: -1, start: -1}
				t.parts[n] = p
				s.count++
				if t.watched {
					s.watchPart(p)
				}
			}
			p.update(&in.Partitions[j])
			s.keep(p)
		}
		s.named(t)
	}
}

// drop forgets a partition.
func (s *fetchSession) drop(p *fetchPart) {
	s.settle(p)
	delete(p.topic.parts, p.num)
	s.count--
	if p.topic.watched {
		ref := engine.PartitionRef{Queue: p.topic.name, Partition: partitionName(p.num)}
		if s.byRef[ref] == p {
			s.watcher.Remove(ref)
			delete(s.byRef, ref)
		}
	}
}

// watch begins to watch everything; false when that was so before.
func (s *fetchSession) watch(e engine.Engine) bool {
	if s.watcher != nil {
		return false
	}
	s.watcher = e.Watch(s.who)
	s.byRef = make(map[engine.PartitionRef]*fetchPart, s.count)
	for _, p := range s.all() {
		if p.topic.name != "" {
			p.topic.watched = true
			s.watchPart(p)
		}
	}
	return true
}

// unwatch ends the watch of a fetch that waited, unless the session is in use.
func (s *fetchSession) unwatch() {
	if s.watcher == nil || s.topics != nil {
		return
	}
	s.watcher.Close()
	s.watcher, s.byRef = nil, nil
	for _, p := range s.list {
		p.topic.watched = false
	}
}

// watchPart watches a partition; nothing ever changes in those of an internal topic.
func (s *fetchSession) watchPart(p *fetchPart) {
	if _, internal := internalTopic(p.topic.name); internal {
		return
	}
	ref := engine.PartitionRef{Queue: p.topic.name, Partition: partitionName(p.num)}
	s.byRef[ref] = p
	s.watcher.Add(ref)
}

// named watches the partitions of a topic whose name is known by now.
func (s *fetchSession) named(t *fetchTopic) {
	if s.watcher == nil || t.watched || t.name == "" {
		return
	}
	t.watched = true
	for _, p := range t.parts {
		s.watchPart(p)
	}
}

// all lists every partition.
func (s *fetchSession) all() []*fetchPart {
	if s.topics == nil {
		return s.list
	}
	out := make([]*fetchPart, 0, s.count)
	for _, t := range s.topics {
		for _, p := range t.parts {
			out = append(out, p)
		}
	}
	return out
}

// ready lists the partitions that may have something, the longest waiting first. What is committed may be of interest
// where nothing was before, so a change of the isolation level makes that all.
func (s *fetchSession) ready(committed bool) []*fetchPart {
	if s.topics == nil {
		s.committed = committed
		return s.list
	}
	if s.committed != committed {
		s.committed = committed
		for _, p := range s.all() {
			s.keep(p)
		}
	}
	if changes, err := s.watcher.Next(overContext); err == nil {
		s.changed(changes)
	}
	var out []*fetchPart
	for p := s.ring.next; p != &s.ring; p = p.next {
		out = append(out, p)
	}
	return out
}

// changed puts partitions that changed into the ring.
func (s *fetchSession) changed(changes []engine.Change) []*fetchPart {
	out := make([]*fetchPart, 0, len(changes))
	for i := range changes {
		if p := s.byRef[changes[i].PartitionRef]; p != nil {
			s.keep(p)
			out = append(out, p)
		}
	}
	return out
}

// keep leaves a partition in the ring, or puts it at its end.
func (s *fetchSession) keep(p *fetchPart) {
	if p.next == nil {
		last := s.ring.prev
		p.prev, p.next = last, &s.ring
		last.next, s.ring.prev = p, p
	}
}

// settle takes a partition out of the ring: it has nothing until it changes.
func (s *fetchSession) settle(p *fetchPart) {
	if p.next != nil {
		p.prev.next, p.next.prev = p.next, p.prev
		p.prev, p.next = nil, nil
	}
}

// rotate puts a partition at the end of the ring: others come first next time.
func (s *fetchSession) rotate(p *fetchPart) {
	s.settle(p)
	s.keep(p)
}

// close lets go of what the session holds elsewhere. mu is held.
func (s *fetchSession) close() {
	s.dead = true
	if s.watcher != nil {
		s.watcher.Close()
		s.watcher = nil
	}
	s.topics, s.byRef, s.list = nil, nil, nil
	s.ring.prev, s.ring.next = &s.ring, &s.ring
}

// sessionIdle is how long a session is kept against all others.
const sessionIdle = 2 * time.Minute
