package keyed

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"queen/engine/invariants"
)

var kills = flag.Int("kills", defaultKills(), "how often TestKill kills its child")

// defaultKills is lower where everything is several times slower.
func defaultKills() int {
	if invariants.Enabled {
		return 3
	}
	return 5
}

const childEnv = "QUEEN_KEYED_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := killChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The history that all children share: operation i is a function of i alone.
const (
	killKeys = 20_000
)

func killOp(i uint64) Row {
	rng := rand.New(rand.NewPCG(i, 77))
	row := Row{Key: kv(Family(1+rng.IntN(5)), rng.IntN(killKeys))}
	switch {
	case rng.IntN(100) < 40:
		row.Tombstone = true
	case rng.IntN(4000) == 0:
		row.Value = bytes.Repeat([]byte{byte(i)}, wholeBytesMax+rng.IntN(300<<10))
	default:
		row.Value = fmt.Appendf(nil, "%d-%s", i, bytes.Repeat([]byte{byte('a' + i%26)}, rng.IntN(120)))
	}
	return row
}

func applyOps(m model, from, to uint64) {
	for i := from + 1; i <= to; i++ {
		if row := killOp(i); row.Tombstone {
			delete(m, string(row.Key))
		} else {
			m[string(row.Key)] = string(row.Value)
		}
	}
}

// killChild goes on from the last record for ever: operations into an overlay, a flush at a random
// index, the record in a file of its own, the discard.
func killChild(dir string) error {
	expect, err := readRecord(dir)
	if err != nil {
		return err
	}
	s, err := Open(Options{Dir: filepath.Join(dir, "db"), Expect: expect})
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv(childEnv+"_SEED"), 10, 64)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 5))
	var at, older uint64
	m := model{}
	if expect != nil {
		at, older = expect.Version, expect.Version
		applyOps(m, 0, at)
	}
	fmt.Println("ready")
	for {
		c := at + 1 + uint64(rng.IntN(30_000))
		o := NewOverlay(OverlayLimits{})
		for i := at + 1; i <= c; i++ {
			row := killOp(i)
			if err := replaceRow(o, row); err != nil {
				return err
			}
		}
		applyOps(m, at, c)
		f, err := s.FlushAt(context.Background(), c, m.digests(), o.Rows())
		if err != nil {
			return err
		}
		if err := writeFile(dir, "record", f.Manifest().Append(nil)); err != nil {
			return err
		}
		if err := f.Recorded(older); err != nil {
			return err
		}
		at, older = c, at
		fmt.Println("recorded", c)
	}
}

func replaceRow(o *Overlay, row Row) error {
	if row.Tombstone {
		return o.Delete(row.Key)
	}
	return o.Put(row.Key, row.Value)
}

func readRecord(dir string) (*Manifest, error) {
	b, err := os.ReadFile(filepath.Join(dir, "record"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := DecodeManifest(b)
	return &m, err
}

// Goal: whatever moment the process dies at, the store opens at the recorded checkpoint and shows
// exactly its rows. Method: a child process that checkpoints one deterministic history for ever, at
// other indexes each time, is killed; all keys are compared with the history up to the record.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	m, at, cut := model{}, uint64(0), 0
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	// On a slow machine the first children may all die before they record anything: then later ones live longer.
	most := *kills
	if testing.Short() {
		most = min(most, 2)
	}
	for n := 0; n < most || at == 0; n++ {
		runAndKill(t, dir, uint64(n), time.Duration(rng.IntN(400+50*n))*time.Millisecond)
		expect, err := readRecord(dir)
		if err != nil {
			t.Fatal(err)
		}
		if expect == nil {
			continue
		}
		applyOps(m, at, expect.Version)
		at = expect.Version
		if err := expect.Digests.Diff(m.digests()); err != nil {
			t.Fatalf("the record is wrong: %v", err)
		}
		s, err := Open(Options{Dir: filepath.Join(dir, "db"), Expect: expect})
		if err != nil {
			t.Fatal(err)
		}
		if s.Report().CutFlushVersion > 0 {
			cut++
		}
		checkKilled(t, s, at, m)
		// Half of the time the child finds a directory that was not closed either.
		if n%2 == 0 {
			crash(t, s)
		} else if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills at most, %d flushes cut, %d operations", most, cut, at)
}

func checkKilled(t *testing.T, s *Store, at uint64, m model) {
	t.Helper()
	if got := scanAll(t, s, at, 5000); !maps.Equal(got, m) {
		t.Fatalf("at %d: %d rows, want %d", at, len(got), len(m))
	}
	got, err := s.VerifyAt(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Diff(m.digests()); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(at, 3))
	for range 2000 {
		checkGet(t, s, at, string(kv(Family(1+rng.IntN(5)), rng.IntN(killKeys))), m)
	}
}

// runAndKill starts a child and kills it some time after it is ready.
func runAndKill(t *testing.T, dir string, seed uint64, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, fmt.Sprintf("%s_SEED=%d", childEnv, seed))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil {
		_ = cmd.Wait()
		t.Fatalf("child did not get ready: %v\n%s", err, stderr.String())
	}
	killer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer killer.Stop()
	_, _ = io.Copy(io.Discard, out) // until the child is gone
	_ = cmd.Wait()
	if stderr.Len() > 0 {
		t.Fatalf("child: %s", stderr.String())
	}
}
