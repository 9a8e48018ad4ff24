package report

import (
	"strings"
	"testing"
)

// TestViolations keeps the first ones, counts the others, and names the part of the run.
func TestViolations(t *testing.T) {
	var told strings.Builder
	v := Violations{Out: &told}
	v.Add("%d is lost", 1)
	part := v.In("round 100%")
	for range mostViolations {
		part.Add("%s came twice", "2%")
	}
	got := v.List()
	if len(got) != mostViolations+1 || got[0] != "1 is lost" || got[1] != "round 100%: 2% came twice" || got[mostViolations] != "and 1 more" {
		t.Errorf("%q", got)
	}
	if s := told.String(); strings.Count(s, "\n") != mostViolations || !strings.HasPrefix(s, "VIOLATION: 1 is lost\n") {
		t.Errorf("told %q", s)
	}
}
