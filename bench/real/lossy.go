package main

import (
	"fmt"
	"os"
	"path/filepath"

	"queen/bench/internal/lossyfs"
)

// mountLossy returns where the node keeps its data: on a file system that loses what was not flushed, if the run asks
// for one.
func (s *single) mountLossy() (string, error) {
	switch s.o.lossy {
	case "":
		return filepath.Join(s.o.dir, "node"), nil
	case "keep", "lie":
	default:
		return "", fmt.Errorf("--lossy %s: there are keep and lie", s.o.lossy)
	}
	lossyfs.Detach(filepath.Dir(s.o.dir)) // of runs that were killed
	mount, backing := filepath.Join(s.o.dir, "mount"), filepath.Join(s.o.dir, "backing")
	for _, dir := range []string{mount, backing} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", err
		}
	}
	var err error
	if s.lossy, err = lossyfs.Mount(mount, backing, s.o.lossy == "lie"); err != nil {
		return "", err
	}
	return filepath.Join(mount, "node"), nil
}

// crashLossy loses what the dead node had not flushed.
func (s *single) crashLossy() error {
	if s.lossy == nil {
		return nil
	}
	_, before := s.lossy.Counts()
	if err := s.lossy.Crash(); err != nil {
		return err
	}
	flushed, lost := s.lossy.Counts()
	s.say("lost %d bytes that were not flushed; %d were", lost-before, flushed)
	return nil
}

func (s *single) unmountLossy() {
	if s.lossy != nil {
		_ = s.lossy.Unmount() // the directory below goes with it
	}
}
