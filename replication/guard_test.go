package replication

import (
	"context"
	"errors"
	"path"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

// guarded is node 1 of three about to take part; the others are the test's. fresh says that its directory is empty.
func guarded(t *testing.T, fresh bool, alone time.Duration, quit chan struct{}) *Sequencer {
	peers := map[format.Replica]string{1: freePair(t), 2: freePair(t), 3: freePair(t)}
	log := mustOpen(t, testOptions(vfs.NewMem()))
	t.Cleanup(func() { log.Close() })
	if !fresh {
		b := &format.Bootstrap{Group: 1, Replica: 1, Type: uint8(pb.OnDiskStateMachine)}
		for node := format.Replica(1); node <= 3; node++ {
			b.Members = append(b.Members, format.Member{Role: format.MemberVoter, Replica: node, Address: peers[node]})
		}
		must(t, log.Append(&logstore.Save{Group: 1, Replica: 1, Bootstrap: b}))
	}
	s, err := NewSequencer(log, nil, Options{Node: 1, Peers: peers, Dir: t.TempDir(), alone: alone, quit: quit})
	must(t, err)
	s.peer = still{}
	return s
}

// TestGuardWaitsForAMajority: a disk that others remember otherwise is found out also when they come to answer late; and a node goes on after a
// time when nobody does.
func TestGuardWaitsForAMajority(t *testing.T) {
	s := guarded(t, false, time.Hour, nil)
	id, boot := s.log.Disk()
	asked := 0
	defer answers(t, s.o.Peers[2], func() (Report, error) {
		if asked++; asked <= 2*guardTries {
			return Report{}, errors.New("the raft group is not open yet")
		}
		return Report{Node: 2, Flags: ReportBorn, Address: addressHash(s.o.Peers[2]), KnownDisk: id, KnownBoot: boot + 1}, nil
	})()
	if err := s.guard(false); !errors.Is(err, errReverted) {
		t.Errorf("%v, want %v", err, errReverted)
	}
	if err := guarded(t, false, time.Millisecond, nil).guard(false); err != nil {
		t.Errorf("nobody answers: %v", err)
	}
}

// TestGuardOfANewCluster: a node that is new does not begin a cluster with a majority of nodes that are as empty: the one that is away may be the
// only one that has a disk left.
func TestGuardOfANewCluster(t *testing.T) {
	quit := make(chan struct{})
	s := guarded(t, true, time.Hour, quit)
	answer := func(node format.Replica) Report {
		return Report{Node: uint64(node), Address: addressHash(s.o.Peers[node]), Deployment: s.deployment.Load()}
	}
	asked := 0
	defer answers(t, s.o.Peers[2], func() (Report, error) {
		if asked++; asked == 5 {
			close(quit)
		}
		return answer(2), nil
	})()
	if err := s.guard(true); err != errEnded {
		t.Errorf("two of three are there: %v, want %v", err, errEnded)
	}
	s.o.quit = nil
	third := atomic.Bool{}
	defer answers(t, s.o.Peers[3], func() (Report, error) {
		third.Store(true)
		return answer(3), nil
	})()
	if err := s.guard(true); err != nil || !third.Load() {
		t.Errorf("all are there: %v", err)
	}
}

// TestStillItself: a node that takes part ends when another one comes to remember its disk otherwise, or its address.
func TestStillItself(t *testing.T) {
	s := guarded(t, false, time.Hour, nil)
	id, boot := s.log.Disk()
	own := addressHash(s.o.Peers[1])
	for _, x := range []struct {
		name string
		r    Report
		want error
	}{
		{"nothing is known", Report{}, nil},
		{"all is as it was", Report{KnownDisk: id, KnownBoot: boot, KnownAddress: own}, nil},
		{"its start is not known yet", Report{KnownDisk: id, KnownBoot: boot - 1}, nil},
		{"it was started once more", Report{KnownDisk: id, KnownBoot: boot + 1}, errReverted},
		{"another disk has its number", Report{KnownDisk: format.UUID{9}, KnownBoot: 1}, errWiped},
		{"its address is another one", Report{KnownDisk: id, KnownBoot: boot, KnownAddress: 5}, errAddress},
	} {
		if err := s.stillItself(map[format.Replica]Report{2: {}, 3: x.r}); !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
	}
}

// TestOlderCopyEnds: a node whose disk was started once more elsewhere is ended while it runs, since the cluster remembers that start.
func TestOlderCopyEnds(t *testing.T) {
	fatal := make(chan error, 16)
	c := newTestCluster(t, 3, func(cfg *engine.Config) {
		cfg.Fatal = func(err error) { fatal <- errors.Join(errors.New(path.Base(cfg.Dir)), err) }
	})
	c.noted(1)
	id, boot := c.sequencer(1).log.Disk()
	c.until("the later start is noted", func() bool {
		return c.nodes[c.leader()].NoteDisk(context.Background(), 1, engine.Disk{ID: id, Boot: boot + 1}) == nil
	})
	if err := <-fatal; !errors.Is(err, errReverted) {
		t.Errorf("%v, want %v", err, errReverted)
	}
}
