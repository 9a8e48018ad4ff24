package main

import (
	"fmt"
	"os"
	"path/filepath"

	"queen/bench/internal/lossyfs"
)

// mountLossy returns where the node keeps its data: on a file system that loses what was not flushed, if the run asks
// for one.
func (r *replay) mountLossy() (string, error) {
	switch r.o.lossy {
	case "":
		return filepath.Join(r.o.dir, "node"), nil
	case "keep", "lie":
	default:
		return "", fmt.Errorf("--lossy %s: there are keep and lie", r.o.lossy)
	}
	mount, backing := filepath.Join(r.o.dir, "mount"), filepath.Join(r.o.dir, "backing")
	for _, dir := range []string{mount, backing} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", err
		}
	}
	var err error
	if r.lossy, err = lossyfs.Mount(mount, backing, r.o.lossy == "lie"); err != nil {
		return "", err
	}
	return filepath.Join(mount, "node"), nil
}

// crashLossy loses what the dead node had not flushed.
func (r *replay) crashLossy() error {
	if r.lossy == nil {
		return nil
	}
	_, before := r.lossy.Counts()
	if err := r.lossy.Crash(); err != nil {
		return err
	}
	flushed, lost := r.lossy.Counts()
	r.say("lost %d bytes that were not flushed; %d were", lost-before, flushed)
	return nil
}

func (r *replay) unmountLossy() {
	if r.lossy != nil {
		_ = r.lossy.Unmount() // the directory below goes with it
	}
}
