package frontendkafka

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine"
	"queen/engine/format"
	"queen/frontend-kafka/groups"
)

// startGroups begins to coordinate consumer groups.
func (f *Frontend) startGroups() {
	f.groups = groups.New(groups.Options{Store: groupStore{f}, Topics: groupTopics{f}, Clock: f.opts.Clock, Logger: f.opts.Logger,
		Owns: func(k groups.Key) bool { return f.coordinates(k.Tenant) }, ConsumerTimes: f.consumerTimes,
		Memory: f.opts.Memory, JoinDelay: f.opts.Groups.JoinDelay, SessionMin: f.opts.Groups.SessionMin, SessionMax: f.opts.Groups.SessionMax})
	f.timing.Go(func() { f.groups.Run(f.ended) })
	f.timing.Go(func() { f.every(leadEvery, f.groups.LetGo) })
	// Apart from that: reading rows may wait for a leader, and who waits for an answer must not.
	var seen map[format.Tenant]lookedAt
	f.timing.Go(func() { f.every(leadEvery, func() { seen = f.takeOver(seen) }) })
}

// consumerTimes are what was configured of a group of KIP-848.
func (f *Frontend) consumerTimes(k groups.Key) (session, heartbeat time.Duration) {
	set := f.groupSettings(engine.Caller{Tenant: k.Tenant}, k.Group)
	millis := func(name string) time.Duration {
		n, err := strconv.ParseInt(set[name], 10, 32)
		if err != nil {
			return 0
		}
		return time.Duration(n) * time.Millisecond
	}
	return millis("consumer.session.timeout.ms"), millis("consumer.heartbeat.interval.ms")
}

// coordinates tells whether this node coordinates the groups of a tenant: in a cluster the one that leads there does, where
// positions are committed anyway. Rows are fenced, so one that errs about it does no harm.
func (f *Frontend) coordinates(t format.Tenant) bool {
	switch {
	case f.opts.Brokers != nil:
		_, leader := f.opts.Brokers()
		return leader == f.opts.NodeID
	case f.opts.Clustered:
		return f.leader(t) == f.opts.NodeID
	}
	return true
}

// groupKey names a group of the client's tenant; the code is that of a node that does not coordinate it.
func (c *conn) groupKey(group string) (groups.Key, int16) {
	k := groups.Key{Tenant: c.caller().Tenant, Group: group}
	if !c.f.coordinates(k.Tenant) {
		return k, kerr.NotCoordinator.Code
	}
	return k, 0
}

// member is who the groups package is told.
func (c *conn) member(r *request) groups.Client {
	host, _, err := net.SplitHostPort(c.raw.RemoteAddr().String())
	if err != nil {
		host = "unknown"
	}
	return groups.Client{ID: r.client, Host: "/" + host}
}

// await waits for an answer that comes when others have done their part. A node that stops sends its clients to look for
// another coordinator: stopped is their answer. Answers to earlier requests are written before the wait.
func await[T any](c *conn, answer <-chan T, stopped func() T) (T, error) {
	var none T
	select {
	case a := <-answer:
		return a, nil
	default:
	}
	if err := c.flush(); err != nil {
		return none, err
	}
	select {
	case a := <-answer:
		return a, nil
	case <-c.waiting.Done():
		if c.f.stopping.Err() != nil {
			return stopped(), nil
		}
		return none, errHungUp
	}
}

// groupCode is the code of an error about a group: requests about groups have a closed set of codes.
func groupCode(err error) int16 {
	var e *engine.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return kerr.CoordinatorNotAvailable.Code
	case !errors.As(err, &e) || e == nil:
		return codeOf(err)
	}
	switch e.Code {
	case engine.CodeNoLeader, engine.CodeClosed:
		return kerr.NotCoordinator.Code
	case engine.CodeGone:
		return kerr.NotCoordinator.Code
	case engine.CodeOverloaded, engine.CodeRetry, engine.CodeTimeout, engine.CodeOutcomeUnknown, engine.CodePaused, engine.CodeRateLimited,
		engine.CodeStorageFull, engine.CodeCorrupt:
		return kerr.CoordinatorNotAvailable.Code
	case engine.CodeRolledBack: // another position of a transaction's was refused: the client says this one again
		return kerr.CoordinatorLoadInProgress.Code
	case engine.CodeTooLarge:
		return kerr.InvalidCommitOffsetSize.Code
	case engine.CodeNameTooLong:
		return kerr.InvalidGroupID.Code
	}
	return codeOf(err)
}

// commitTries bounds how often a commit is judged anew because the group's row changed meanwhile.
const commitTries = 16

// commitOffsets commits positions on behalf of a member of a group. The code is about the whole; otherwise each position
// has an error of its own, nil for none.
func (f *Frontend) commitOffsets(ctx context.Context, who engine.Caller, c engine.GroupCommit, by groups.Committer) ([]*engine.Error, int16) {
	k := groups.Key{Tenant: who.Tenant, Group: c.Group}
	for range commitTries {
		fence, code := f.groups.CommitFence(ctx, k, by)
		if code != 0 {
			return nil, code
		}
		c.Fenced, c.Row = true, fence
		bad, err := f.engine.Records().CommitOffsets(ctx, who, c)
		if err == nil {
			return bad, 0
		}
		if !errors.Is(err, &engine.Error{Code: engine.CodeGone}) {
			return nil, groupCode(err)
		}
	}
	return nil, kerr.CoordinatorLoadInProgress.Code
}

// nativeGroups tells whether there is a group of a name that has positions or native consumers. It looks once, when it is
// first asked.
func (f *Frontend) nativeGroups(ctx context.Context, who engine.Caller) func(group string) (bool, error) {
	look := sync.OnceValues(func() (map[string]bool, error) {
		rows, err := f.engine.Catalog().Groups(ctx, who)
		names := make(map[string]bool, len(rows))
		for i := range rows {
			names[rows[i].Name] = true
		}
		return names, err
	})
	return func(group string) (bool, error) {
		names, err := look()
		return names[group], err
	}
}

// groupStore keeps rows of groups in the engine.
type groupStore struct{ f *Frontend }

// Load implements groups.Store.
func (s groupStore) Load(ctx context.Context, k groups.Key) ([]byte, format.Place, error) {
	row, err := s.f.engine.Records().GroupRow(ctx, engine.Caller{Tenant: k.Tenant}, k.Group)
	if errors.Is(err, &engine.Error{Code: engine.CodeNotFound}) {
		return nil, format.Place{}, nil
	}
	return row.Value, row.At, err
}

// At implements groups.Store.
func (s groupStore) At(k groups.Key) format.Place {
	return s.f.engine.Records().GroupRowAt(engine.Caller{Tenant: k.Tenant}, k.Group)
}

// Save implements groups.Store.
func (s groupStore) Save(ctx context.Context, k groups.Key, value []byte, at format.Place) (format.Place, error) {
	return s.set(ctx, k, engine.GroupRow{Group: k.Group, Value: value, At: at})
}

// Delete implements groups.Store.
func (s groupStore) Delete(ctx context.Context, k groups.Key, at format.Place) error {
	_, err := s.set(ctx, k, engine.GroupRow{Group: k.Group, At: at, Delete: true})
	return err
}

func (s groupStore) set(ctx context.Context, k groups.Key, row engine.GroupRow) (format.Place, error) {
	at, err := s.f.engine.Records().SetGroupRow(ctx, engine.Caller{Tenant: k.Tenant}, row)
	switch {
	case errors.Is(err, &engine.Error{Code: engine.CodeGone}):
		return at, groups.ErrFenced
	case errors.Is(err, &engine.Error{Code: engine.CodeTooLarge}):
		return at, groups.ErrTooLarge
	}
	return at, err
}

// groupTopics tells groups what topics there are.
type groupTopics struct{ f *Frontend }

// Topic implements groups.Topics.
func (s groupTopics) Topic(ctx context.Context, t format.Tenant, name string) (groups.Topic, bool, error) {
	found, err := s.f.topic(ctx, engine.Caller{Tenant: t}, name)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return groups.Topic{}, false, nil
	}
	if err != nil {
		return groups.Topic{}, false, err
	}
	return groups.Topic{Name: found.name, ID: found.id, Width: found.width}, true, nil
}

// Each implements groups.Topics.
func (s groupTopics) Each(ctx context.Context, t format.Tenant, fn func(groups.Topic)) error {
	return s.f.eachTopic(ctx, engine.Caller{Tenant: t}, func(found *topic) bool {
		fn(groups.Topic{Name: found.name, ID: found.id, Width: found.width})
		return true
	})
}

// Generation implements groups.Topics.
func (s groupTopics) Generation() uint64 { return s.f.engine.Catalog().TopicsGeneration() }

// partitionNumber is the number of a queue's partition; false when it has none.
func partitionNumber(name string) (int32, bool) {
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil || n < 0 || partitionName(int32(n)) != name {
		return 0, false
	}
	return int32(n), true
}
