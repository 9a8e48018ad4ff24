package lossyfs

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// mountEnv has the test's binary be a process that mounts a directory over the one that is named, says so, and waits for its end.
const mountEnv = "LOSSYFS_TEST_MOUNT"

func TestMain(m *testing.M) {
	dir := os.Getenv(mountEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := Mount(dir, dir+".disk", false); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("mounted")
	select {}
}

// TestDetach: what a process that was killed left mounted is taken away, what is served stays.
func TestDetach(t *testing.T) {
	root := t.TempDir()
	alive, dead := filepath.Join(root, "run1", "alive"), filepath.Join(root, "run2", "dead")
	for _, dir := range []string{alive, dead, alive + ".disk", dead + ".disk"} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	f := mounted(t, alive, alive+".disk", false)
	t.Cleanup(func() { require.NoError(t, f.Unmount()) })

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), mountEnv+"="+dead)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = syscall.Unmount(dead, syscall.MNT_DETACH) }) // of a test that fails
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "mounted\n", said)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	_, err = os.Stat(dead)
	require.ErrorIs(t, err, syscall.ENOTCONN)

	Detach(filepath.Join(root, "run")) // which is the name of no directory, though both begin with it
	_, err = os.Stat(dead)
	require.ErrorIs(t, err, syscall.ENOTCONN)
	Detach(root)
	_, err = os.ReadDir(dead)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(alive, "a"), []byte("x"), 0o644))
	_, err = os.Stat(filepath.Join(alive+".disk", "a"))
	require.NoError(t, err, "the other one is still there")
}
