package engine

import (
	"queen/engine/format"
	"queen/engine/invariants"
)

// failEvidenceFound is between a look-up and the Pop that carries it.
var failEvidenceFound = invariants.Register("engine.pop.evidence-found")

// findEvidence answers what a Pop stopped at: where a missing cursor starts or, without a start, where
// the log does, so that maxDeliveries gives up nothing that is gone. It is looked up in committed,
// immutable data and travels in the next Pop of the call, valid for the generation asked.
func (c *popCall) findEvidence(res *format.PopResult) *Error {
	n := c.n
	part, ok := n.partByID(c.caller.Tenant, res.Need)
	if !ok {
		return nil // deleted meanwhile: look again
	}
	start, err := n.logStart(&part)
	if err != nil {
		return errRead(err)
	}
	var at foundAt
	switch res.NeedStart {
	case format.StartNew:
		at, err = n.firstAfter(&part, start, res.NeedAfter)
	case format.StartFrom:
		at, err = n.firstAt(&part, start, res.NeedFrom)
	case 0:
		at.found = true
		at.offset, err = n.deliverableFrom(&part, start, n.wall())
	default:
		at = foundAt{found: true, offset: start}
	}
	if err != nil {
		return errRead(err)
	}
	offset := part.next
	if at.found {
		offset = at.offset
	}
	c.cmd.Evidence = append(c.cmd.Evidence, format.CursorEvidence{
		Partition: res.Need, Generation: res.NeedGeneration, Offset: offset})
	invariants.Failpoint(failEvidenceFound)
	return nil
}

// deliverableFrom is the first offset from start, the log start, on whose time to live was not over at w.
func (n *Node) deliverableFrom(part *partView, start format.Offset, w format.Wall) (format.Offset, error) {
	if part.ttl <= 0 {
		return start, nil
	}
	at, err := n.firstAt(part, start, w-format.Wall(part.ttl)+1)
	if err != nil || at.found {
		return at.offset, err
	}
	return part.next, nil
}

// resolveAck turns the id an ack names into an offset: a message id by arithmetic; an id this node
// handed out from its table; else by a bounded scan of the leased range, or of what lies around the
// cursor (engine design section 7).
//
// used says that the call named an offset before: an id that stands twice means the next one then.
func (n *Node) resolveAck(c Caller, g *ackKey, id string, leases *leaseReader, used func(format.Offset) bool) (format.Offset, *Error) {
	o, found := leases.next(n.delivered, c.Tenant, g, id)
	if found {
		return o, nil
	}
	return n.resolveSlow(c, g, id, used)
}

// resolveSlow is resolveAck for an ack that does not follow the one before in what its lease handed out.
func (n *Node) resolveSlow(c Caller, g *ackKey, id string, used func(format.Offset) bool) (format.Offset, *Error) {
	open := func(o format.Offset) bool { return !used(o) && o >= n.cursorAt(c, g) }
	if o, ok := n.delivered.find(c.Tenant, g.lease, g.partition, id, open); ok {
		return o, nil
	}
	part, ok := n.partByID(c.Tenant, g.partition)
	if !ok {
		return 0, errOfCode(format.CodeUnknownPartition)
	}
	start, err := n.logStart(&part)
	if err != nil {
		return 0, errRead(err)
	}
	if u, isUUID := format.ParseUUID(id); isUUID {
		if o, ok, err := n.offsetOfID(&part, start, u); err != nil {
			return 0, errRead(err)
		} else if ok {
			return o, nil
		}
	}
	held := n.cursorOf(&part, g.group)
	if !held.exists {
		return 0, errOfCode(format.CodeNotLeased)
	}
	if held.lease != g.lease {
		if o, ok := n.delivered.find(c.Tenant, held.lease, g.partition, id, open); ok {
			return o, nil
		}
	}
	// The open span first: the lowest offset above the cursor that is not named yet.
	end := held.end
	if end <= held.next {
		end = min(part.next, held.next+scanFrames)
	}
	if o, ok, err := n.scanForward(&part, max(held.next, start), end, id, used); err != nil {
		return 0, errRead(err)
	} else if ok {
		return o, nil
	}
	// A repeat of an old ack: the original's offset, wherever dedup still knows it.
	if o, ok := n.knownID(&part, id); ok {
		return o, nil
	}
	rec, found, err := n.scanBack(&part, start, held.next, id, scanFrames, scanBytes)
	switch {
	case err != nil:
		return 0, errRead(err)
	case !found:
		return 0, errOfCode(format.CodeUnresolvable)
	}
	return rec.Offset, nil
}

// cursorAt is the next offset to deliver of an ack's group, 0 when it has no cursor.
func (n *Node) cursorAt(c Caller, g *ackKey) format.Offset {
	part, ok := n.partByID(c.Tenant, g.partition)
	if !ok {
		return 0
	}
	return n.cursorOf(&part, g.group).next
}

// scanForward looks for an id in [from, to), lowest offset first, within the scan's bounds.
func (n *Node) scanForward(part *partView, from, to format.Offset, id string, used func(format.Offset) bool) (format.Offset, bool, error) {
	var hit format.Offset
	found := false
	reader := frameReader{n: n}
	told, _ := format.ParseUUID(id)
	_, err := reader.read(part.span(from, to), maxReadBytes, false, func(rec *Record) bool {
		if (rec.TransactionID == id || rec.ID == told) && !used(rec.Offset) {
			hit, found = rec.Offset, true
		}
		return !found
	})
	return hit, found, err
}
