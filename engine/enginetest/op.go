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

// Kinds of Op, and what their fields mean.
const (
	// What has one token per message: a letter is an id, '-' is none, '/' goes on in the next partition.
	// Flags: h large payloads that do not compress.
	opPush = "push"
	// N batch, M partitions, For lease, What "bytes" for a small byte budget. Flags: p pinned, c commit on
	// delivery, a autopilot, x abandon, d discovery, l start at all, f start from a time, v conflation.
	opPop = "pop"
	// What has a status letter per message of the delivery, '-' for none, '?' for a bad one. Flags: l count
	// back among live leases only, u unfenced, f foreign lease, o by offset, m by message id, z unknown id
	// and partition, g another group, w the first message once more with another status.
	opAck     = "ack"
	opExtend  = "extend"  // For; Flags: l as for ack
	opRelease = "release" // Flags: l as for ack, 1 only the first partition
	// What is end, time or offset: N, or For ago. Flags: w the whole queue.
	opSeek      = "seek"
	opConfigure = "configure" // What names the option, N its value
	opDelQueue  = "delete-queue"
	opDelGroup  = "delete-group" // Flags: k keep the registration
	opSubscribe = "subscribe"    // For ago
	// Back counts among dead letters. Flags: a by address, t to another partition, q to another queue, d
	// after a push of the copy's id.
	opRedrive = "redrive"
	opPurge   = "purge"   // Flags: g one group only, a one address only
	opRead    = "read"    // N offset, M bytes; Flags: e from the end
	opOffsets = "offsets" // For ago, N number of an id
	opMessage = "message" // the N-th message of a delivery; Flags: z an unknown id
	opList    = "list"
	opWrong   = "wrong"   // N is which malformed call
	opAdvance = "advance" // For
	opEdge    = "edge"    // N-th next moment at which a verdict changes; Flags: b a microsecond before it
	opJump    = "jump"    // For: the wall clock alone
	opReopen  = "reopen"  // Flags: c crash
	opCrash   = "crash"   // the next operation dies at its N-th write
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
func (o Op) part() string  { return fmt.Sprintf("p%d", o.Part%genParts) }

func (o Op) group() string {
	if o.Group == 0 {
		return ""
	}
	return fmt.Sprintf("g%d", o.Group)
}
