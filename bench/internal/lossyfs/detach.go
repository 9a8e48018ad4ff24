package lossyfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// fsName is what the file systems are called in the list of mounts.
const fsName = "lossy"

// Detach takes away what processes that were killed left mounted below a directory. A file system that somebody serves stays: it answers.
func Detach(dir string) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return
	}
	text, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == fsName && strings.HasPrefix(f[1], dir+"/") && abandoned(f[1]) {
			_ = syscall.Unmount(f[1], syscall.MNT_DETACH) // without the right to do it everything stays as it is
		}
	}
}

// answersWithin is how long a file system that is served may take to answer.
const answersWithin = 5 * time.Second

// abandoned reports that nobody serves the file system at path any more.
func abandoned(path string) bool {
	said := make(chan error, 1)
	go func() {
		_, err := os.Stat(path)
		said <- err
	}()
	select {
	case err := <-said:
		return errors.Is(err, syscall.ENOTCONN)
	case <-time.After(answersWithin):
		return false
	}
}
