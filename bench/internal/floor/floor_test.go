package floor

import (
	"os"
	"testing"
	"time"
)

// TestMeasure checks the arithmetic of a short run, and that nothing is left behind.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Measure(5000, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.Bytes != 8192 || r.Writes == 0 || r.Latency.Count() != r.Writes || r.Elapsed < 20*time.Millisecond {
		t.Errorf("%d bytes, %d writes, %d latencies, %v", r.Bytes, r.Writes, r.Latency.Count(), r.Elapsed)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
