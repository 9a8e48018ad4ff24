package enginetest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Op is one operation of a random list, written in small numbers that mean something only when it is
// carried out: queue 2, the delivery before the last. A list stays meaningful when others are taken
// out of it, which is what shrinking does.
type Op struct {
	Kind string
	// Queue, Part and Group number names: q2, p1, g0. Group 0 is queue mode.
	Queue, Part, Group int
	// Back counts deliveries (or dead letters) back from the newest.
	Back int
	// N and M are amounts: batch and partitions of a pop, an offset of a read, an option's value.
	N, M int
	// For is a duration: of a lease, an advance, a delay.
	For time.Duration
	// What is one letter per message for push and ack, or a word.
	What string
	// Flags are single letters.
	Flags string
}

// Kinds of Op.
const (
	opPush      = "push"      // What: one token per message: an id number, or '-' for none; '/' starts the next partition
	opPop       = "pop"       // Flags: p pinned, c commit on delivery, a autopilot, x abandon, d discovery, l(all) or f(rom) start
	opAck       = "ack"       // What: a status letter per message of the delivery; Flags: l of the live ones, u unfenced, f foreign lease, o by offset, m by message id, z unknown id, g other group
	opExtend    = "extend"    // Back, For
	opRelease   = "release"   // Back; Flags: 1 only its first partition
	opSeek      = "seek"      // Flags: w whole queue; What: end, time, offset
	opConfigure = "configure" // What: option; N value
	opDelQueue  = "delete-queue"
	opDelGroup  = "delete-group" // Flags: k keep the registration
	opSubscribe = "subscribe"    // For: how long ago
	opRedrive   = "redrive"      // Back among dead letters; Flags: a by address, t to another partition, q to another queue, d after a push of the copy's id
	opPurge     = "purge"        // Flags: g one group only, a one address only
	opRead      = "read"         // N offset, M bytes; Flags: e from the end
	opOffsets   = "offsets"      // N offset looked for, For how long ago
	opList      = "list"
	opAdvance   = "advance" // For
	opEdge      = "edge"    // N-th next moment at which a verdict changes; Flags: b a microsecond before it
	opJump      = "jump"    // For: of the wall clock alone
	opReopen    = "reopen"  // Flags: c crash
)

// String is the line of a script that stands for the op.
func (o Op) String() string {
	var b strings.Builder
	b.WriteString(o.Kind)
	num := func(name string, v int) {
		if v != 0 {
			fmt.Fprintf(&b, " %s=%d", name, v)
		}
	}
	word := func(name, v string) {
		if v != "" {
			fmt.Fprintf(&b, " %s=%s", name, v)
		}
	}
	num("queue", o.Queue)
	num("part", o.Part)
	num("group", o.Group)
	num("back", o.Back)
	num("n", o.N)
	num("m", o.M)
	if o.For != 0 {
		word("for", o.For.String())
	}
	word("what", o.What)
	word("flags", o.Flags)
	return b.String()
}

// ParseOp reads what String wrote.
func ParseOp(line string) (o Op, err error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return o, fmt.Errorf("enginetest: an empty operation")
	}
	o.Kind = words[0]
	nums := map[string]*int{"queue": &o.Queue, "part": &o.Part, "group": &o.Group, "back": &o.Back, "n": &o.N, "m": &o.M}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		switch {
		case nums[name] != nil:
			*nums[name], err = strconv.Atoi(value)
		case name == "for":
			o.For, err = time.ParseDuration(value)
		case name == "what":
			o.What = value
		case name == "flags":
			o.Flags = value
		default:
			err = fmt.Errorf("unknown word %q", w)
		}
		if err != nil {
			return o, fmt.Errorf("enginetest: operation %q: %w", line, err)
		}
	}
	return o, nil
}

func (o Op) has(flag string) bool { return strings.Contains(o.Flags, flag) }

func (o Op) queue() string { return fmt.Sprintf("q%d.t%d", o.Queue, o.Queue%2) }
func (o Op) part() string  { return fmt.Sprintf("p%d", o.Part) }

func (o Op) group() string {
	if o.Group == 0 {
		return ""
	}
	return fmt.Sprintf("g%d", o.Group)
}
