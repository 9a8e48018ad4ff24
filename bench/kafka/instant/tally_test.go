package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestTally: a round that is late and one that failed both count, and the worst is told.
func TestTally(t *testing.T) {
	all := &tally{within: time.Second}
	for i := range 10 {
		all.add(i, time.Duration(i+1)*100*time.Millisecond, nil)
	}
	if n := all.late(); n != 0 {
		t.Errorf("%d late", n)
	}
	all.add(10, 1001*time.Millisecond, nil)
	all.add(11, time.Millisecond, errors.New("2 records"))
	if n := all.late(); n != 2 {
		t.Errorf("%d late", n)
	}
	var text strings.Builder
	all.print(&text, "group")
	for _, want := range []string{"group: 12 rounds", "worst 1.001s; 2 later than 1s or never", "round 10, 1.001s", "round 11, 1ms: 2 records"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}
