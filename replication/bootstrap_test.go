package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path"
	"runtime"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/logger"
	pb "github.com/lni/dragonboat/v4/raftpb"
	sm "github.com/lni/dragonboat/v4/statemachine"

	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

// countingSM is an on-disk state machine whose state is the store's own log, as in the product: Open
// returns how far it goes.
type countingSM struct {
	s       *logstore.Store
	applied uint64
	updates map[uint64][]byte
}

func (c *countingSM) Open(<-chan struct{}) (uint64, error) {
	st, _ := c.s.Replica(1, 1)
	c.applied = uint64(min(st.Commit, st.Last))
	return c.applied, nil
}

func (c *countingSM) Update(entries []sm.Entry) ([]sm.Entry, error) {
	for i := range entries {
		c.applied = entries[i].Index
		c.updates[entries[i].Index] = bytes.Clone(entries[i].Cmd)
		entries[i].Result = sm.Result{Value: entries[i].Index}
	}
	return entries, nil
}

func (c *countingSM) Lookup(any) (any, error)       { return c.applied, nil }
func (c *countingSM) Sync() error                   { return nil }
func (c *countingSM) PrepareSnapshot() (any, error) { return nil, nil }
func (c *countingSM) Close() error                  { return nil }
func (c *countingSM) SaveSnapshot(any, io.Writer, <-chan struct{}) error {
	return errors.New("no image is streamed here")
}
func (c *countingSM) RecoverFromSnapshot(io.Reader, <-chan struct{}) error {
	return errors.New("no image is streamed here")
}

// TestBootstrapOfASingleNodesLog proves the way from a single node to a cluster: one extent is appended to
// the log that the single node wrote (bootstrap record, term 2 with its vote, a dummy snapshot at the last
// entry), no entry is rewritten, and the replication library starts on it, leads, commits behind it, and
// restarts.
func TestBootstrapOfASingleNodesLog(t *testing.T) {
	for _, back := range []format.Index{0, 3} {
		t.Run(fmt.Sprintf("snapshot %d before the end", back), func(t *testing.T) { bootstrapLog(t, back) })
	}
}

func bootstrapLog(t *testing.T, back format.Index) {
	for _, name := range []string{"dragonboat", "raft", "rsm", "transport", "grpc", "logdb", "util", "config", "settings", "utils"} {
		logger.GetLogger(name).SetLevel(logger.ERROR)
	}
	dir := t.TempDir()
	o := logstore.Options{
		FS: vfs.NewOS(vfs.OSOptions{}), Dir: path.Join(dir, "log"), SegmentBytes: 4 << 20, PoolReady: 1, PoolReserve: 1,
		Fatal: func(err error) { t.Error(err) },
	}
	const local = 20
	address := freeAddress(t)
	single := mustOpen(t, o)
	for i := format.Index(1); i <= local; i++ {
		e := entry(i, 1, encoded(10, 1000, uint64(i)))
		if err := single.Append(&logstore.Save{Group: 1, Replica: 1, Entries: []logstore.Entry{e}, Commit: i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := single.Close(); err != nil {
		t.Fatal(err)
	}

	offline := mustOpen(t, o)
	voters := []format.Member{{Role: format.MemberVoter, Replica: 1, Address: address}}
	at := local - back
	err := offline.Append(&logstore.Save{
		Group: 1, Replica: 1,
		Bootstrap: &format.Bootstrap{Group: 1, Replica: 1, Type: uint8(pb.OnDiskStateMachine), Members: voters},
		State:     &logstore.HardState{Term: 2, Vote: 1},
		Snapshot: &format.Snapshot{Group: 1, Replica: 1, Index: at, Term: 1, OnDisk: at, Dummy: true,
			ConfigChange: 1, Members: voters}, // the library panics on a membership without the index of its change
		Commit: local,
	})
	if err != nil || offline.Stats().Extents != 1 {
		t.Fatalf("%d extents: %v", offline.Stats().Extents, err)
	}
	if err := offline.Close(); err != nil {
		t.Fatal(err)
	}

	for round := range 2 {
		s := mustOpen(t, o)
		machine := &countingSM{s: s, updates: map[uint64][]byte{}}
		host := startHost(t, path.Join(dir, "host"), address, s, machine)
		for i := range 5 {
			data := encoded(3, 100, uint64(1000*round+i))[1:] // the library puts the first byte in front
			result, err := propose(host, data)
			if err != nil {
				t.Fatalf("round %d: propose: %v", round, err)
			}
			if result.Value <= local || !bytes.Equal(machine.updates[result.Value], data) {
				t.Fatalf("round %d: proposal at %d", round, result.Value)
			}
			pos, n, err := s.Locate(1, 1, format.Index(result.Value))
			if err != nil {
				t.Fatal(err)
			}
			stored, err := s.ReadAt(pos, 0, n, nil)
			if err != nil || stored[0] != 0 || !bytes.Equal(stored[1:], data) {
				t.Fatalf("round %d: the log holds other bytes: %v", round, err)
			}
		}
		host.Close()
	}
	s := mustOpen(t, o)
	defer s.Close()
	for i := format.Index(1); i <= local; i++ {
		got, err := s.Entries(nil, 1, 1, i, i+1, 1<<30, nil)
		if err != nil || len(got) != 1 || !bytes.Equal(got[0].Data, encoded(10, 1000, uint64(i))) || got[0].Term != 1 {
			t.Fatalf("entry %d of the single node: %v", i, err)
		}
	}
	if st, _ := s.Replica(1, 1); st.State.Term < 3 || st.Last <= local+10 {
		t.Fatalf("%+v", st)
	}
}

// propose waits for a leader first: the library refuses until there is one.
func propose(host *dragonboat.NodeHost, data []byte) (result sm.Result, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		result, err = host.SyncPropose(ctx, host.GetNoOPSession(1), data)
		if !errors.Is(err, dragonboat.ErrShardNotReady) || ctx.Err() != nil {
			return result, err
		}
		runtime.Gosched()
	}
}

func startHost(t *testing.T, dir, address string, s *logstore.Store, machine sm.IOnDiskStateMachine) *dragonboat.NodeHost {
	t.Helper()
	nhc := config.NodeHostConfig{NodeHostDir: dir, RTTMillisecond: 5, RaftAddress: address}
	nhc.Expert.LogDBFactory = logDBFactory{NewLogDB(s, 0)}
	nhc.Expert.Engine = config.EngineConfig{ExecShards: 1, CommitShards: 1, ApplyShards: 1, SnapshotShards: 1, CloseShards: 1}
	host, err := dragonboat.NewNodeHost(nhc)
	if err != nil {
		t.Fatal(err)
	}
	create := func(uint64, uint64) sm.IOnDiskStateMachine { return machine }
	cfg := config.Config{
		ReplicaID: 1, ShardID: 1, ElectionRTT: 10, HeartbeatRTT: 1, CheckQuorum: true, PreVote: true,
		DisableAutoCompactions: true, CompactionOverhead: 1 << 40,
	}
	if err := host.StartOnDiskReplica(map[uint64]string{1: address}, false, create, cfg); err != nil {
		host.Close()
		t.Fatal(err)
	}
	return host
}

// freeAddress finds a port below the ephemeral range.
func freeAddress(t *testing.T) string {
	for port := 21000 + rand.IntN(5000); port < 30000; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
			return fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	t.Fatal("no free port")
	return ""
}
