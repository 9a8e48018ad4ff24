package invariants

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// watching is above zero while anything is armed or hits are counted. It is the only thing an unarmed Failpoint
// touches.
var watching atomic.Int32

var points struct {
	sync.Mutex
	byName map[string]*point
}

// point is one registered name.
type point struct {
	hits  int64 // since counting was last started by the first Arm, ArmFunc or CountHits
	armed []*arming
}

// arming is one thing that will happen at a point.
type arming struct {
	at    int64 // counts down to the hit that triggers; 0 = triggered
	every bool
	act   func()
}

// Register adds a failpoint's name, usually "package.place", and returns it, so that a package-level variable both
// registers and holds it. A name registered twice is a *Violation: two places under one name would make a crash
// test lie.
func Register(name string) string {
	points.Lock()
	defer points.Unlock()
	if points.byName == nil {
		points.byName = map[string]*point{}
	}
	Check(name != "" && !strings.ContainsAny(name, ": ,"), "failpoint %q: a name has no colon, comma or space", name)
	Check(points.byName[name] == nil, "failpoint %q registered twice", name)
	points.byName[name] = &point{}
	return name
}

// Failpoints returns all registered names, sorted.
func Failpoints() []string {
	points.Lock()
	defer points.Unlock()
	return slices.Sorted(maps.Keys(points.byName))
}

// Failpoint marks a place in the code. Unarmed it costs one atomic load. Armed, it counts the hit and does what was
// armed for it; a hook runs in the calling goroutine without a lock of this package, so it may block or arm further
// points.
//
// A name that was not registered is a *Violation once anything is armed.
func Failpoint(name string) {
	if watching.Load() == 0 {
		return
	}
	hit(name)
}

func hit(name string) {
	for _, act := range takeHit(name) {
		act()
	}
}

func takeHit(name string) []func() {
	points.Lock()
	defer points.Unlock()
	p := points.byName[name]
	Check(p != nil, "failpoint %q was not registered", name)
	p.hits++
	var acts []func()
	for _, a := range p.armed {
		if a.every {
			acts = append(acts, a.act)
			continue
		}
		if a.at > 0 {
			if a.at--; a.at == 0 {
				acts = append(acts, a.act)
			}
		}
	}
	return acts
}

// Hits returns how often the point was passed since counting began: with the first Arm, ArmFunc or CountHits after
// a time in which nothing was watching.
func Hits(name string) int64 {
	points.Lock()
	defer points.Unlock()
	p := points.byName[name]
	Check(p != nil, "failpoint %q was not registered", name)
	return p.hits
}

// CountHits counts hits without doing anything at them, for a run that finds out which points a scenario passes.
// The returned function ends it.
func CountHits() (stop func()) {
	points.Lock()
	defer points.Unlock()
	watchLocked()
	return sync.OnceFunc(func() { watching.Add(-1) })
}

// ArmFunc runs f at the n-th hit from now (the first is 1), or at every hit if n is 0. The returned function
// disarms it. An unknown name is a *Violation.
func ArmFunc(name string, n int64, f func()) (disarm func()) {
	disarm, err := arm(name, n, f)
	Check(err == nil, "%v", err)
	return disarm
}

// Arm arms what spec says, for the rest of the process: a comma-separated list of name:hit:action, where hit counts
// from 1 and the action is "kill" (SIGKILL to this process: no deferred function, no flush). An unknown name or
// action arms nothing and is an error naming what there is, so that a mistyped crash test can not pass by not
// crashing. An empty spec arms nothing.
func Arm(spec string) error {
	if spec == "" {
		return nil
	}
	type parsed struct {
		name string
		n    int64
	}
	var all []parsed
	for _, one := range strings.Split(spec, ",") {
		parts := strings.Split(one, ":")
		if len(parts) != 3 {
			return fmt.Errorf("invariants: failpoint %q: want name:hit:action", one)
		}
		n, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("invariants: failpoint %q: hit %q: want a number from 1", one, parts[1])
		}
		if parts[2] != "kill" {
			return fmt.Errorf("invariants: failpoint %q: unknown action %q: want kill", one, parts[2])
		}
		if !slices.Contains(Failpoints(), parts[0]) {
			return unknownName(parts[0])
		}
		all = append(all, parsed{parts[0], n})
	}
	for _, p := range all {
		if _, err := arm(p.name, p.n, killSelf); err != nil {
			return err
		}
	}
	return nil
}

func unknownName(name string) error {
	return fmt.Errorf("invariants: no failpoint %q: there are %s", name, strings.Join(Failpoints(), " "))
}

func arm(name string, n int64, f func()) (disarm func(), err error) {
	if !slices.Contains(Failpoints(), name) {
		return nil, unknownName(name)
	}
	Check(n >= 0, "failpoint %q: hit %d", name, n)
	points.Lock()
	defer points.Unlock()
	p := points.byName[name]
	watchLocked()
	a := &arming{at: n, every: n == 0, act: f}
	p.armed = append(p.armed, a)
	return sync.OnceFunc(func() {
		points.Lock()
		defer points.Unlock()
		p.armed = slices.DeleteFunc(p.armed, func(b *arming) bool { return b == a })
		watching.Add(-1)
	}), nil
}

// watchLocked starts counting from zero if nothing was watching.
func watchLocked() {
	if watching.Add(1) == 1 {
		for _, p := range points.byName {
			p.hits = 0
		}
	}
}

// killSelf dies the way a power cut looks to this process.
func killSelf() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way; nothing after the failpoint may run
}
