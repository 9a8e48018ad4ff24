package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"queen/engine/format"
)

// Switches say what is on. They are the whole node's, of every tenant; all are on until an operator throws one (S-mnt-5).
type Switches struct {
	// KV is puts and increments, and locks, whose permits are keys: acquires and renewals (S-lock-10). Reads, checks,
	// deletes and releases go on without it, and so do the rows of namespaces that no caller can name: streams and traces
	// are no part of the key-value store to whoever switches it.
	KV bool
	// TimerSchedule is new and changed timers; existing ones fire and cancels go on without it (S-tmr-19).
	TimerSchedule bool
	// TimerFire is fires; without it nothing is lost, and what came due fires when it is back, oldest first.
	TimerFire bool
}

// The names of the switches' rows: there is no row while one is on.
const (
	kvSwitch       = "kv"
	scheduleSwitch = "timers-schedule"
	fireSwitch     = "timers-fire"
)

// ownNamespaces begins the names of namespaces that frontends keep rows of their own in; names of callers begin with a
// letter or a digit.
const ownNamespaces = "~"

// pausedFor is after how long a refused caller should look again.
const pausedFor = 5 * time.Second

// Bits of switchCache: what is off, below the generation of the rows that it was read from.
const (
	kvOff = 1 << iota
	scheduleOff
	fireOff
	switchBits = 3
)

// switchCache keeps the switches as of a generation of the administrative rows, plus one so that zero is none.
type switchCache struct{ v atomic.Uint64 }

// off says which switches are off. It costs two loads while no row changes.
func (n *Node) off() uint64 {
	gen := n.adminGen.Load() + 1
	if v := n.switched.v.Load(); v>>switchBits == gen {
		return v & (1<<switchBits - 1)
	}
	var off uint64 // read after gen: a later change is another generation
	for name, bit := range map[string]uint64{kvSwitch: kvOff, scheduleSwitch: scheduleOff, fireSwitch: fireOff} {
		if row, ok := n.AdminRow(format.SystemTenant, format.AdminSwitch, name); ok && string(row.Value) == switchedOff {
			off |= bit
		}
	}
	n.switched.v.Store(gen<<switchBits | off)
	return off
}

// Switches implements Operations.
func (n *Node) Switches() Switches {
	off := n.off()
	return Switches{KV: off&kvOff == 0, TimerSchedule: off&scheduleOff == 0, TimerFire: off&fireOff == 0}
}

// SetSwitches implements Operations.
func (n *Node) SetSwitches(ctx context.Context, kv, schedule, fire *bool) (Switches, error) {
	for _, s := range []struct {
		name string
		on   *bool
	}{{kvSwitch, kv}, {scheduleSwitch, schedule}, {fireSwitch, fire}} {
		if s.on == nil {
			continue
		}
		change := AdminChange{Kind: format.AdminSwitch, Name: s.name, Value: []byte(switchedOff), Delete: *s.on}
		if _, err := n.SetAdmin(ctx, format.SystemTenant, change); err != nil {
			return n.Switches(), err
		}
	}
	if fire != nil && *fire {
		n.timers.resume()
	}
	return n.Switches(), nil
}

// switchedOn refuses a call with an op whose family is switched off, as a whole: nothing of it is carried out.
func (n *Node) switchedOn(ops []Op) *Error {
	off := n.off()
	if off == 0 {
		return nil
	}
	for _, op := range ops {
		switch op := op.(type) {
		case *KV:
			if off&kvOff != 0 && (op.Kind == KVPut || op.Kind == KVIncr) && !strings.HasPrefix(op.Namespace, ownNamespaces) {
				return errPaused("the key-value store is switched off for writes; reads and deletes still work")
			}
		case *Lock:
			if off&kvOff != 0 && op.Op != format.LockRelease {
				return errPaused("locks are switched off with the key-value store; releases still work")
			}
		case *Timer:
			if off&scheduleOff != 0 && op.Op == format.TimerSchedule {
				return errPaused("timers are switched off for scheduling; cancels still work")
			}
		}
	}
	return nil
}

func errPaused(text string) *Error {
	return &Error{Code: CodePaused, RetryAfter: pausedFor, Message: text}
}

// resume looks at once for what came due while fires were off.
func (t *timers) resume() {
	t.firing.Lock()
	t.held = 0
	t.firing.Unlock()
	select {
	case t.nudge <- struct{}{}:
	default:
	}
}
