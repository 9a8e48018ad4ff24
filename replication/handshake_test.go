package replication

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lni/dragonboat/v4/config"

	"queen/engine/clock"
	"queen/engine/format"
)

// lines is a log that hands out its lines.
type lines chan string

// Write implements io.Writer.
func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// TestRefusedCertificates: both ports tell of who shows no certificate, or one of another authority.
func TestRefusedCertificates(t *testing.T) {
	a := newAuthority(t)
	files := a.node("node")
	stranger := newAuthority(t).node("stranger").trusting(files)
	told := make(lines, 10)
	log := slog.New(slog.NewTextHandler(told, nil))
	addr := freePair(t)
	o := Options{Node: 5, Listen: addr, TLS: files, Log: log}.withDefaults()
	d, err := openDoor(o, func(format.RaftGroup) *links { return nil })
	must(t, err)
	defer d.close()
	if _, err := query(context.Background(), addr, stranger, askReport, 0, 5, ""); err == nil {
		t.Error("a stranger was answered")
	}
	if line := <-told; !strings.Contains(line, "did not get through the handshake") || !strings.Contains(line, d.handshakes.port) {
		t.Errorf("told: %s", line)
	}
	raft := transports{o, new(atomic.Pointer[transport])}.Create(config.NodeHostConfig{RaftAddress: addr}, nil, nil)
	must(t, raft.Start())
	defer raft.Close()
	if _, err := raftAnswers(addr, stranger.To("127.0.0.1")); err == nil {
		t.Error("a stranger was answered at raft's port")
	}
	if line := <-told; !strings.Contains(line, "did not get through the handshake") || !strings.Contains(line, "port="+addr) {
		t.Errorf("told: %s", line)
	}
}

// TestToldSeldom: of many refused handshakes one is told, then with how many there were besides; a look at the port is not.
func TestToldSeldom(t *testing.T) {
	now, told := clock.NewFake(0), make(lines, 10)
	h := &handshakes{port: "p", log: slog.New(slog.NewTextHandler(told, nil)), clock: now}
	h.refused(nil, io.EOF)
	for range 3 {
		h.refused(nil, errors.New("bad certificate"))
	}
	now.Advance(toldEvery)
	h.refused(nil, errors.New("bad certificate"))
	close(told)
	var got []string
	for line := range told {
		got = append(got, line)
	}
	if len(got) != 2 || !strings.Contains(got[0], "others=0") || !strings.Contains(got[1], "others=2") {
		t.Errorf("told: %q", got)
	}
}
