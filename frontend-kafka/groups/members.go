package groups

import "github.com/twmb/franz-go/pkg/kmsg"

// Member is a member of a group, as the row of the group says.
type Member struct {
	ID           string
	Instance     string // "" of one that is not static
	Client, Host string
	// Type is the protocol it speaks, classic or consumer.
	Type string
	// Held are the partitions that are its own, those among them that it is still to let go of.
	Held []Held
}

// Held are partitions of one topic. The protocol says whether it names it or tells its id.
type Held struct {
	Topic      string
	ID         [16]byte
	Partitions []int32
}

// MembersOf reads who is in a group, and what they hold, out of its row; nobody of a damaged one.
func MembersOf(row []byte) (all []Member) {
	r, err := parseRow(row)
	if err != nil {
		return nil
	}
	for i := range r.Members {
		from := &r.Members[i]
		m := Member{ID: from.ID, Client: from.Client, Host: from.Host, Type: "consumer"}
		if from.Instance != nil {
			m.Instance = *from.Instance
		}
		if !r.Consumer || len(from.Protocols) > 0 {
			m.Type = "classic"
		}
		switch {
		case r.Consumer:
			held := decodeAssignment(from.Assigned).join(decodeAssignment(from.Revoking))
			for _, id := range held.topics() {
				m.Held = append(m.Held, Held{ID: id, Partitions: held[id]})
			}
		case r.ProtocolType == consumerType:
			m.Held = classicHeld(from.Assignment)
		}
		all = append(all, m)
	}
	return all
}

// classicHeld reads the assignment of a classic consumer, which its leader wrote.
func classicHeld(b []byte) (held []Held) {
	var told kmsg.ConsumerMemberAssignment
	if len(b) == 0 || !readSafely(&told, b) {
		return nil
	}
	for _, t := range told.Topics {
		held = append(held, Held{Topic: t.Topic, Partitions: t.Partitions})
	}
	return held
}
