package main

import (
	"math"
	"runtime"
	"testing"
)

func TestMachineMemory(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{
		{"MemTotal:       16303428 kB\nMemFree: 1 kB\n", 16303428 << 10},
		{"MemFree: 1 kB\nMemTotal: 4 kB\n", 4096},
		{"", math.MaxInt64}, {"MemTotal: lots\n", math.MaxInt64}, {"MemTotal: -1 kB\n", math.MaxInt64},
		{"MemTotal: 9223372036854775807 kB\n", math.MaxInt64},
	} {
		if got := memTotal(c.text); got != c.want {
			t.Errorf("memTotal(%q) = %d, want %d", c.text, got, c.want)
		}
	}
	for _, c := range []struct {
		text string
		want int64
	}{{"max\n", math.MaxInt64}, {"1048576\n", 1 << 20}, {"0", math.MaxInt64}, {"", math.MaxInt64}} {
		if got := groupLimit(c.text); got != c.want {
			t.Errorf("groupLimit(%q) = %d, want %d", c.text, got, c.want)
		}
	}
	if m := machineMemory(); m < 64<<20 {
		t.Errorf("this machine has %d bytes", m)
	}
}

// Goal: the garbage that is waited for is bounded whatever the state's size, and the percentage is followed after every
// collection.
func TestCollectorFollowsHeap(t *testing.T) {
	for live, want := range map[uint64]int{0: 300, 1 << 20: 300, 128 << 20: 300, 256 << 20: 200, 512 << 20: 100, 1 << 30: 50, 8 << 30: 40} {
		if got := percentOf(live); got != want {
			t.Errorf("percentOf(%d MiB) = %d, want %d", live>>20, got, want)
		}
	}
	ran := make(chan struct{}, 64)
	afterCollections(func() {
		select {
		case ran <- struct{}{}:
		default:
		}
	})
	for range 3 {
		runtime.GC()
		<-ran
	}
}
