package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// script is a step as pgbench sends it.
const script = `\set id random(1, 200000)
\set n :id % 1000
begin;
update messages set done = true where id = :id;
insert into counters (partition, seen) values ('p' || :n, 1);
insert into outbox (partition, payload) values ('p' || :n, '{"n":1}');
commit;
`

// pgbench runs PostgreSQL's own loader with prepared statements, once to get warm and once to count.
func pgbench(ctx context.Context, s *server, connections int, warm, length time.Duration) (*result, error) {
	file := filepath.Join(s.dir, "step.sql")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		return nil, err
	}
	once := func(d time.Duration, more ...string) error {
		if d < time.Second {
			return nil
		}
		args := append([]string{"-n", "-M", "prepared", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "postgres", "-c",
			strconv.Itoa(connections), "-j", strconv.Itoa(min(runtime.NumCPU(), connections)), "-T",
			strconv.Itoa(int(d.Seconds())), "-f", file}, more...)
		cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "pgbench"), append(args, "postgres")...)
		cmd.Dir = s.dir
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("pgbench: %w: %s", err, text)
		}
		return nil
	}
	if err := once(warm); err != nil {
		return nil, err
	}
	if err := once(length, "--log", "--log-prefix", filepath.Join(s.dir, "step")); err != nil {
		return nil, err
	}
	took, err := logged(filepath.Join(s.dir, "step.*"))
	if err != nil {
		return nil, err
	}
	return resultOf(float64(len(took))/length.Truncate(time.Second).Seconds(), took), nil
}

// logged reads how long each step took, the third column of pgbench's logs.
func logged(pattern string) (took []time.Duration, err error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, ".sql") {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			columns := strings.Fields(lines.Text())
			if len(columns) < 3 {
				continue
			}
			us, err := strconv.ParseInt(columns[2], 10, 64)
			if err != nil {
				f.Close()
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			took = append(took, time.Duration(us)*time.Microsecond)
		}
		f.Close()
	}
	if len(took) == 0 {
		return nil, fmt.Errorf("pgbench logged nothing")
	}
	return took, nil
}
