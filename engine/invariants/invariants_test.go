package invariants_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"queen/engine/invariants"
)

var (
	pointA = invariants.Register("test.a")
	pointB = invariants.Register("test.b")
)

// violation runs f and returns the violation it panics with, or nil.
func violation(t *testing.T, f func()) (v *invariants.Violation) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			var ok bool
			if v, ok = r.(*invariants.Violation); !ok {
				t.Fatalf("panic with %T %v", r, r)
			}
		}
	}()
	f()
	return nil
}

func TestCheck(t *testing.T) {
	if v := violation(t, func() { invariants.Check(true, "fine") }); v != nil {
		t.Errorf("a true condition: %v", v)
	}
	v := violation(t, func() { invariants.Check(1 > 2, "offset %d above %d", 1, 2) })
	if v == nil || v.Error() != "invariant broken: offset 1 above 2" {
		t.Errorf("violation %v", v)
	}
}

func TestRegister(t *testing.T) {
	if got := invariants.Failpoints(); !slices.Equal(got, []string{"test.a", "test.b"}) {
		t.Errorf("failpoints %q", got)
	}
	for _, name := range []string{"test.a", "", "a:b", "a,b", "a b"} {
		if violation(t, func() { invariants.Register(name) }) == nil {
			t.Errorf("%q was registered", name)
		}
	}
}

func TestHooks(t *testing.T) {
	invariants.Failpoint(pointA) // before anything is armed: not counted
	stop := invariants.CountHits()
	var hits []string
	disarmA := invariants.ArmFunc(pointA, 2, func() { hits = append(hits, "a2") })
	disarmB := invariants.ArmFunc(pointB, 0, func() { hits = append(hits, "b") })
	disarmAgain := invariants.ArmFunc(pointA, 3, func() {
		invariants.Failpoint(pointB) // a hook runs without locks
		hits = append(hits, "a3")
	})
	for range 4 {
		invariants.Failpoint(pointA)
	}
	invariants.Failpoint(pointB)
	if want := []string{"a2", "b", "a3", "b"}; !slices.Equal(hits, want) {
		t.Errorf("hooks ran %v, want %v", hits, want)
	}
	if invariants.Hits(pointA) != 4 || invariants.Hits(pointB) != 2 {
		t.Errorf("hits %d and %d", invariants.Hits(pointA), invariants.Hits(pointB))
	}
	if violation(t, func() { invariants.Failpoint("test.unknown") }) == nil {
		t.Error("an unregistered point passed while something is armed")
	}
	for _, disarm := range []func(){disarmA, disarmB, disarmAgain, stop} {
		disarm()
		disarm() // a second time does nothing
	}
	invariants.Failpoint(pointB)
	if len(hits) != 4 || invariants.Hits(pointB) != 2 {
		t.Error("a disarmed point acted or counted")
	}
	defer invariants.CountHits()()
	if invariants.Hits(pointB) != 0 {
		t.Error("a new count starts from the old one")
	}
	if violation(t, func() { invariants.ArmFunc("test.unknown", 1, func() {}) }) == nil {
		t.Error("an unregistered point was armed")
	}
}

func TestArmRefusesNonsense(t *testing.T) {
	for spec, want := range map[string]string{
		"test.a":                         "want name:hit:action",
		"test.a:0:kill":                  "number from 1",
		"test.a:x:kill":                  "number from 1",
		"test.a:1:explode":               "unknown action",
		"test.nope:1:kill":               "there are test.a test.b",
		"test.a:1000000:kill,test.b:1:x": "unknown action",
	} {
		if err := invariants.Arm(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
	}
	if err := invariants.Arm(""); err != nil {
		t.Error(err)
	}
	// Nothing of the list with the mistake in its second part was armed: an unregistered name is not even looked at.
	invariants.Failpoint("test.unknown")
}

// The armed process dies at the named hit, by SIGKILL, before its next statement and without running a deferred one.
func TestKill(t *testing.T) {
	if spec := os.Getenv("INVARIANTS_TEST_FAILPOINT"); spec != "" {
		defer os.Stdout.WriteString("deferred\n")
		if err := invariants.Arm(spec); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			invariants.Failpoint(pointA)
			os.Stdout.WriteString("passed\n")
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), "INVARIANTS_TEST_FAILPOINT=test.b:1:kill,test.a:3:kill")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v", err)
	}
	if string(out) != "passed\npassed\n" {
		t.Errorf("output %q", out)
	}
}

func TestUnarmedCostsNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { invariants.Failpoint(pointA) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFailpointUnarmed(b *testing.B) {
	for b.Loop() {
		invariants.Failpoint(pointA)
	}
}
