package groups

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/clock"
	"queen/engine/format"
)

// patience is how long a test waits for what must happen; it fails the test and never makes one pass.
const patience = 30 * time.Second

// slowStore is a memStore that many may use, and that waits before it saves a row.
type slowStore struct {
	mu sync.Mutex
	memStore
	before func(group string)
}

func (s *slowStore) Load(ctx context.Context, k Key) ([]byte, format.Place, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memStore.Load(ctx, k)
}

func (s *slowStore) At(k Key) format.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memStore.At(k)
}

func (s *slowStore) Save(ctx context.Context, k Key, value []byte, at format.Place) (format.Place, error) {
	s.before(k.Group)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memStore.Save(ctx, k, value, at)
}

// Goal: a group whose row takes long to write delays the session timeouts of no other.
func TestSlowGroupDelaysNobody(t *testing.T) {
	saves, release := make(chan string, 8), make(chan struct{})
	store := &slowStore{memStore: memStore{rows: map[Key]memRow{}}, before: func(group string) {
		saves <- group
		if group == "slow" {
			<-release
		}
	}}
	fake := clock.NewFake(1_700_000_000_000_000)
	m := New(Options{Store: store, Topics: &memTopics{topics: map[string]Topic{}}, Clock: fake, Rand: clock.NewFakeRand(1)})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	defer running.Wait()
	defer cancel()
	defer close(release)

	for group, session := range map[string]int32{"slow": 6_000, "fast": 7_000} {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 0, group, "consumer", session, session
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		joined := false
		m.Join(ctx, key(group), Client{}, req, func(resp *kmsg.JoinGroupResponse) { joined = resp.ErrorCode == 0 })
		require.True(t, joined)
	}
	for _, want := range []struct {
		group string
		after time.Duration
	}{{"slow", 6 * time.Second}, {"fast", time.Second}} {
		fake.Advance(want.after)
		select {
		case got := <-saves:
			require.Equal(t, want.group, got)
		case <-time.After(patience):
			t.Fatalf("the session of the only member of %q has not ended", want.group)
		}
	}
}

// Goal: a timer that is set anew or stopped when it is due already, and waits for its group, is not called.
func TestTimerInItsLane(t *testing.T) {
	fake := clock.NewFake(1)
	s := newTimers(fake)
	var l lane
	called := map[string]int{}
	timerOf := func(name string) *timer {
		t := &timer{index: -1, lane: &l}
		t.fn = func() {
			if s.claim(t) {
				called[name]++
			}
		}
		return t
	}
	again, stopped, kept := timerOf("again"), timerOf("stopped"), timerOf("kept")
	first := &timer{index: -1, lane: &l, fn: func() {
		s.set(again, time.Second)
		s.notAfter(kept, fake.Mono()+time.Second.Microseconds())
		s.stop(stopped)
	}}
	s.set(first, time.Second)
	for _, one := range []*timer{again, stopped, kept} {
		s.set(one, 2*time.Second)
	}
	fake.Advance(2 * time.Second)
	var lanes []func()
	s.fire(func(fn func()) { lanes = append(lanes, fn) })
	require.Len(t, lanes, 1, "the timers of a group are called one after the other")
	lanes[0]()
	require.Empty(t, called)
	fake.Advance(time.Second)
	s.fire(here)
	require.Equal(t, map[string]int{"again": 1, "kept": 1}, called)
}
