package replication

import (
	"errors"
	"testing"

	"queen/engine"
	"queen/engine/format"
)

// picky is a node that takes commands of one byte for readable and no others.
type picky struct {
	engine.Peer
	accepted []uint64
}

func (p *picky) Accept(_ format.Replica, h engine.Handover) error {
	if len(h.Commands) != 1 {
		return errors.New("these are no commands")
	}
	p.accepted = append(p.accepted, h.Request)
	return nil
}

// TestUnreadableHandover: what the leader can not read does not come again, and what is behind it is taken once.
func TestUnreadableHandover(t *testing.T) {
	p := &picky{}
	l, of := &links{s: &Sequencer{o: Options{}.withDefaults(), peer: p}}, &taken{}
	for _, v := range []struct {
		number   uint64
		commands int
	}{{1, 1}, {2, 7}, {2, 7}, {3, 1}, {3, 1}} {
		h := engine.Handover{Request: 10 + v.number, Commands: make([]byte, v.commands)}
		if err := l.takeOne(2, of, v.number, h); err != nil || of.number != v.number {
			t.Errorf("handover %d: %v, taken up to %d", v.number, err, of.number)
		}
	}
	if len(p.accepted) != 2 || p.accepted[0] != 11 || p.accepted[1] != 13 {
		t.Errorf("taken: %v", p.accepted)
	}
	if err := l.takeOne(2, of, 5, engine.Handover{}); err == nil || of.number != 3 {
		t.Errorf("a handover out of its turn: %v, %d", err, of.number)
	}
}
