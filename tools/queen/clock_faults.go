//go:build faults

package main

import (
	"bytes"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"queen/engine/clock"
)

// faultClock names the file that says by how many milliseconds the wall clock is off. It is no setting: only builds with the tag faults,
// which fault campaigns run, know it, and it is gone from the environment before that is read for settings.
var faultClock = takeEnv("QUEEN_FAULT_CLOCK")

// takeEnv reads an environment variable and takes it away.
func takeEnv(name string) string {
	value, ok := os.LookupEnv(name)
	if ok {
		_ = os.Unsetenv(name) // fails for names that can not be
	}
	return value
}

// lookEvery is how often the file is read.
const lookEvery = 20 * time.Millisecond

// jumpy is a clock whose wall time jumps. Its mono time, and so all waiting, does not know about it.
type jumpy struct {
	clock.Clock
	file   string
	offset atomic.Int64 // microseconds
}

// Now implements clock.Clock.
func (j *jumpy) Now() int64 { return j.Clock.Now() + j.offset.Load() }

// systemClock is the node's clock.
func systemClock() clock.Clock {
	if faultClock == "" {
		return clock.Real()
	}
	j := &jumpy{Clock: clock.Real(), file: faultClock}
	j.look()
	go func() {
		for range time.Tick(lookEvery) {
			j.look()
		}
	}()
	return j
}

// look reads the file. While it says nothing that is a number the offset stays.
func (j *jumpy) look() {
	text, err := os.ReadFile(j.file)
	if err != nil {
		return
	}
	if millis, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil {
		j.offset.Store(millis * 1000)
	}
}
