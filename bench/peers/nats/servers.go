package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"queen/bench/internal/child"
	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
)

// replicas are the servers of the cluster, each of which stores every message.
const replicas = 3

// servers are a cluster on the loopback.
type servers struct {
	addrs []string
	logAt []string
	all   []*child.Process
}

// start runs the servers with their data below dir. They form a cluster some time later.
func start(binary, dir string) (*servers, error) {
	s := &servers{}
	var routes []string
	for range replicas {
		addr, err := node.FreeAddr()
		if err != nil {
			return nil, err
		}
		route, err := node.FreeAddr()
		if err != nil {
			return nil, err
		}
		s.addrs, routes = append(s.addrs, addr), append(routes, route)
	}
	for i := range replicas {
		if err := s.startOne(binary, dir, i, routes); err != nil {
			s.kill()
			return nil, err
		}
	}
	return s, nil
}

func (s *servers) startOne(binary, dir string, i int, routes []string) error {
	name := fmt.Sprint("server", i+1)
	data := filepath.Join(dir, name)
	file := data + ".conf"
	if err := os.WriteFile(file, []byte(config(name, data, s.addrs[i], routes[i], routes)), 0o644); err != nil {
		return err
	}
	log, err := os.Create(data + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(binary, "-c", file)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := child.Start(cmd)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.all, s.logAt = append(s.all, p), append(s.logAt, log.Name())
	return nil
}

// config is what a server needs to be one of the cluster; everything else stays as it comes.
func config(name, data, addr, route string, routes []string) string {
	var all []string
	for _, r := range routes {
		all = append(all, fmt.Sprintf("%q", "nats-route://"+r))
	}
	return fmt.Sprintf(`server_name: %s
listen: %q
jetstream {
  store_dir: %q
  max_file_store: 50GB
  sync_interval: always
}
cluster {
  name: bench
  listen: %q
  routes: [%s]
}
`, name, addr, data, route, strings.Join(all, ", "))
}

func (s *servers) urls() (urls []string) {
	for _, addr := range s.addrs {
		urls = append(urls, "nats://"+addr)
	}
	return urls
}

func (s *servers) processes() (pids []procfs.Process) {
	for _, p := range s.all {
		pids = append(pids, p.PID)
	}
	return pids
}

// kill ends all servers: their data is thrown away.
func (s *servers) kill() {
	for _, p := range s.all {
		p.Kill()
	}
}

// logs is the end of what each server said.
func (s *servers) logs() string {
	var b strings.Builder
	for _, name := range s.logAt {
		text, _ := os.ReadFile(name)
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(name), text[max(0, len(text)-2048):])
	}
	return b.String()
}
