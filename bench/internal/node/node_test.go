package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLastWords: of a node that fell the reason is told, however much follows it; else the end of the log.
func TestLastWords(t *testing.T) {
	log := filepath.Join(t.TempDir(), "node.log")
	require.Empty(t, LastWords(log), "there is none")
	long := strings.Repeat("goroutine 1 [select]:\n", 1000)
	for _, c := range []struct{ text, begins, ends string }{
		{"short", "short", "short"},
		{"begin\n" + long + "the end", "", "the end"},
		{"begin\npanic: ouch\n" + long, "panic: ouch\n", ""},
		{"panic: is only a word here\nfatal error: no memory\n" + long, "fatal error: no memory\n", ""},
		{"begin\npanic: first\n" + long + "\npanic: last\nthe end", "", "panic: last\nthe end"},
	} {
		require.NoError(t, os.WriteFile(log, []byte(c.text), 0o644))
		got := LastWords(log)
		require.True(t, strings.HasPrefix(got, c.begins) && strings.HasSuffix(got, c.ends), "%.40q of %.40q", got, c.text)
		require.LessOrEqual(t, len(got), lastWordsBytes)
	}
}
