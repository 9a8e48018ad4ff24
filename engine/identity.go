package engine

import "queen/engine/format"

// identity is what Genesis fixed for the raft group; constant once the node is open.
type identity struct {
	cluster format.UUID
	hashKey [16]byte
	mask    [10]byte
	group   format.RaftGroup
}

// messageID computes the id of the message at a place; ids are never stored.
func (id *identity) messageID(w format.Wall, p format.Place) format.UUID {
	return format.MessageID(id.mask, id.group, w, p)
}

// place reads a message id of ours back; false for any other UUID.
func (id *identity) place(u format.UUID) (ms int64, p format.Place, ok bool) {
	group, ms, p, ok := format.ParseMessageID(id.mask, u)
	return ms, p, ok && group == id.group && p.Index > 0
}
