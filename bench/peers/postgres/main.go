package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

func main() {
	connections := flag.Int("connections", 64, "connections")
	warm := flag.Duration("warm", 5*time.Second, "time that is not counted")
	length := flag.Duration("length", 20*time.Second, "time that is counted")
	bin := flag.String("bin", "", "directory of initdb and postgres; empty looks in /usr/lib/postgresql")
	data := flag.String("data", "", "directory for the temporary data directory; empty takes the system's")
	flag.Parse()
	if err := run(*connections, *warm, *length, *bin, *data); err != nil {
		fmt.Fprintln(os.Stderr, "postgres:", err)
		os.Exit(2)
	}
}

func run(connections int, warm, length time.Duration, bin, data string) error {
	if bin == "" {
		found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
		if err != nil || len(found) == 0 {
			return fmt.Errorf("no PostgreSQL below /usr/lib/postgresql: install it, or say --bin")
		}
		bin = found[len(found)-1]
	}
	dir, err := os.MkdirTemp(data, "postgres")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stop, err := start(bin, dir)
	if err != nil {
		return err
	}
	defer stop()
	return measure(dir, connections, warm, length)
}

// start makes a database and runs the server, as the user postgres when this process may not run it itself.
func start(bin, dir string) (stop func(), err error) {
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
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", db, "-k", dir, "-c", "listen_addresses=", "-c",
		"max_connections=200", "-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB", "-c", "synchronous_commit=on")
	server.SysProcAttr, server.Dir = attr, dir
	if err := server.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait()
	}, nil
}

func connect(ctx context.Context, dir string) (c *pgx.Conn, err error) {
	for range 200 {
		if c, err = pgx.Connect(ctx, "host="+dir+" user=postgres database=postgres"); err == nil {
			return c, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, err
}

const schema = `
create table messages (id bigint primary key, partition text not null, done boolean not null default false);
create table counters (partition text not null, seen bigint not null);
create table outbox (id bigserial primary key, partition text not null, payload text not null);
insert into messages select i, 'p' || (i % 1000) from generate_series(1, 200000) i`

func measure(dir string, connections int, warm, length time.Duration) error {
	ctx := context.Background()
	first, err := connect(ctx, dir)
	if err != nil {
		return err
	}
	defer first.Close(ctx)
	if _, err := first.Exec(ctx, schema); err != nil {
		return err
	}
	var counting, ended atomic.Bool
	var done atomic.Int64
	took := make([][]time.Duration, connections)
	errs := make([]error, connections)
	var running sync.WaitGroup
	for i := range connections {
		c, err := connect(ctx, dir)
		if err != nil {
			return err
		}
		running.Add(1)
		go func() {
			defer running.Done()
			defer c.Close(ctx)
			errs[i] = step(ctx, c, i, connections, &counting, &ended, &done, &took[i])
		}()
	}
	time.Sleep(warm)
	counting.Store(true)
	from, start := done.Load(), time.Now()
	time.Sleep(length)
	n, spent := done.Load()-from, time.Since(start)
	ended.Store(true)
	running.Wait()
	var all []time.Duration
	for i := range errs {
		if errs[i] != nil {
			return errs[i]
		}
		all = append(all, took[i]...)
	}
	slices.Sort(all)
	at := func(p int) float64 { return float64(all[len(all)*p/100].Microseconds()) }
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"perSecond": float64(n) / spent.Seconds(), "p50": at(50),
		"p99": at(99)})
}

func step(ctx context.Context, c *pgx.Conn, i, connections int, counting, ended *atomic.Bool, done *atomic.Int64,
	took *[]time.Duration,
) error {
	for _, s := range []struct{ name, sql string }{
		{"ack", "update messages set done = true where id = $1"},
		{"count", "insert into counters (partition, seen) values ($1, $2)"},
		{"push", "insert into outbox (partition, payload) values ($1, $2)"},
	} {
		if _, err := c.Prepare(ctx, s.name, s.sql); err != nil {
			return err
		}
	}
	for id := i + 1; !ended.Load(); id += connections {
		n := int64(id%200000 + 1)
		partition := "p" + strconv.FormatInt(n%1000, 10)
		var b pgx.Batch // one implicit transaction
		b.Queue("ack", n)
		b.Queue("count", partition, int64(1))
		b.Queue("push", partition, `{"n":1}`)
		start := time.Now()
		if err := c.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		done.Add(1)
		if counting.Load() {
			*took = append(*took, time.Since(start))
		}
	}
	return nil
}
