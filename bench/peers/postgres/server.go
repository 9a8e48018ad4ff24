package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is a PostgreSQL of this program's own, reached over TCP on the loopback as a node is.
type server struct {
	bin, dir string
	port     int
	process  *exec.Cmd
}

// start makes a database and runs the server, as the user postgres when this process may not run it itself.
func start(bin, dir string) (*server, error) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			return nil, err
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	db := filepath.Join(dir, "db")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", db, "-A", "trust", "-U", "postgres", "-E", "UTF8")
	initdb.SysProcAttr, initdb.Dir = attr, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{bin: bin, dir: dir, port: free.Addr().(*net.TCPAddr).Port}
	free.Close()
	s.process = exec.Command(filepath.Join(bin, "postgres"), "-D", db, "-k", dir, "-p", strconv.Itoa(s.port), "-c",
		"listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB", "-c",
		"synchronous_commit=on")
	s.process.SysProcAttr, s.process.Dir = attr, dir
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *server) stop() {
	_ = s.process.Process.Signal(syscall.SIGINT)
	_ = s.process.Wait()
}

// connect waits for the server to come up.
func (s *server) connect(ctx context.Context) (c *pgx.Conn, err error) {
	for range 200 {
		c, err = pgx.Connect(ctx, fmt.Sprintf("host=127.0.0.1 port=%d user=postgres database=postgres", s.port))
		if err == nil {
			return c, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, err
}

// schema is what a worker of a queue in tables needs, and its messages.
const schema = `
create table messages (id bigint primary key, partition text not null, done boolean not null default false);
create table counters (partition text not null, seen bigint not null);
create table outbox (id bigserial primary key, partition text not null, payload text not null);
insert into messages select i, 'p' || (i % 1000) from generate_series(1, 200000) i`
