package groups

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A row is {version u8 = 1, form u8, text}: form 0 is JSON, 1 JSON in a zstd frame. See FORMAT.md of package format.
const (
	rowVersion = 1
	rowPlain   = 0
	rowZstd    = 1
	// compressFrom is the length from which text is compressed; rowTextMax bounds the text of a row, whatever little of it is left when
	// it is compressed: no more is read.
	compressFrom = 4 << 10
	rowTextMax   = 64 << 20
)

// rowText is what a row says. Fields are only ever added.
type rowText struct {
	Consumer     bool        `json:"consumer,omitempty"`
	Generation   int32       `json:"generation"`
	ProtocolType string      `json:"protocolType,omitempty"`
	Protocol     string      `json:"protocol,omitempty"`
	Leader       string      `json:"leader,omitempty"`
	Since        int64       `json:"since,omitempty"`
	TargetEpoch  int32       `json:"targetEpoch,omitempty"`
	Topics       uint64      `json:"topics,omitempty"`
	Members      []rowMember `json:"members,omitempty"`
}

type rowMember struct {
	ID         string     `json:"id"`
	Instance   *string    `json:"instance,omitempty"`
	Client     string     `json:"client,omitempty"`
	Host       string     `json:"host,omitempty"`
	Session    int64      `json:"sessionMs,omitempty"`
	Rebalance  int64      `json:"rebalanceMs,omitempty"`
	Protocols  []protocol `json:"protocols,omitempty"`
	Assignment []byte     `json:"assignment,omitempty"`

	Rack     string         `json:"rack,omitempty"`
	Names    []string       `json:"topics,omitempty"`
	Regex    string         `json:"regex,omitempty"`
	Assignor string         `json:"assignor,omitempty"`
	Epoch    int32          `json:"epoch,omitempty"`
	Previous int32          `json:"previous,omitempty"`
	State    memberState    `json:"state,omitempty"`
	Assigned []rowPartition `json:"assigned,omitempty"`
	Revoking []rowPartition `json:"revoking,omitempty"`
	Target   []rowPartition `json:"target,omitempty"`
}

type rowPartition struct {
	Topic      []byte  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

var errRow = errors.New("damaged, or of an unknown version")

// Coders for whole buffers only; they are safe for concurrent use and hold no goroutine.
var (
	rowEncoder, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	rowDecoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(rowTextMax))
)

// encode is the row of the group as it is now; ErrTooLarge when nobody could read it.
func (g *group) encode() ([]byte, error) {
	row := rowText{Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader, Since: g.since}
	if g.consumer != nil {
		row = g.consumer.encode()
	} else {
		for _, id := range g.order() {
			m := g.members[id]
			row.Members = append(row.Members, rowMember{ID: id, Instance: m.instance, Client: m.client.ID, Host: m.client.Host,
				Session: m.session.Milliseconds(), Rebalance: m.rebalance.Milliseconds(), Protocols: m.protocols, Assignment: m.assignment})
		}
	}
	return appendRow(&row)
}

func appendRow(row *rowText) ([]byte, error) {
	text, err := json.Marshal(row)
	if err != nil {
		panic(fmt.Sprintf("groups: a row without text: %v", err)) // it holds nothing that JSON can not say
	}
	switch {
	case len(text) > rowTextMax:
		return nil, fmt.Errorf("%w: it has %d bytes before it is compressed, and at most %d are read", ErrTooLarge, len(text), rowTextMax)
	case len(text) < compressFrom:
		return append([]byte{rowVersion, rowPlain}, text...), nil
	}
	return rowEncoder.EncodeAll(text, []byte{rowVersion, rowZstd}), nil
}

func parseRow(b []byte) (row rowText, err error) {
	if len(b) < 2 || b[0] != rowVersion || b[1] > rowZstd {
		return row, errRow
	}
	text := b[2:]
	if b[1] == rowZstd {
		if text, err = rowDecoder.DecodeAll(text, nil); err != nil {
			return row, fmt.Errorf("%w: %w", errRow, err)
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&row); err != nil {
		return row, fmt.Errorf("%w: %w", errRow, err)
	}
	seen, instances := map[string]bool{}, map[string]bool{}
	for _, m := range row.Members {
		if m.ID == "" || seen[m.ID] || m.Instance != nil && instances[*m.Instance] || m.Session < 0 || m.Rebalance < 0 {
			return row, errRow
		}
		if seen[m.ID] = true; m.Instance != nil {
			instances[*m.Instance] = true
		}
	}
	return row, nil
}

// decode sets the group to what its row says. Sessions begin anew.
func (g *group) decode(b []byte) error {
	row, err := parseRow(b)
	if err != nil {
		return err
	}
	return g.restore(&row)
}

// restore is decode for a row that was parsed.
func (g *group) restore(row *rowText) error {
	if row.Consumer {
		return g.decodeConsumer(row)
	}
	g.generation, g.protocolType, g.protocol, g.since = row.Generation, row.ProtocolType, row.Protocol, row.Since
	for i := range row.Members {
		r := &row.Members[i]
		m := &member{id: r.ID, instance: r.Instance, client: Client{r.Client, r.Host}, session: millis(r.Session), rebalance: millis(r.Rebalance),
			protocols: r.Protocols, assignment: r.Assignment, synced: true}
		g.add(m)
		g.alive(m)
	}
	if g.leader = row.Leader; len(row.Members) > 0 {
		g.state = Stable
		if g.members[g.leader] == nil {
			g.leader = row.Members[0].ID
		}
	}
	return nil
}

func millis(n int64) time.Duration {
	return time.Duration(min(n, rebalanceMax.Milliseconds()*2)) * time.Millisecond
}

func (c *consumer) encode() rowText {
	row := rowText{Consumer: true, Generation: c.epoch, TargetEpoch: c.targetEpoch, Topics: c.hash, ProtocolType: consumerType, Since: c.g.since}
	for _, id := range c.ids() {
		m := c.members[id]
		r := rowMember{ID: id, Instance: m.instance, Client: m.client.ID, Host: m.client.Host, Rebalance: m.rebalance.Milliseconds(),
			Rack: m.rack, Names: m.topics, Regex: m.regex, Assignor: m.assignor, Epoch: m.epoch, Previous: m.previous, State: m.state,
			Assigned: m.assigned.encode(), Revoking: m.revoking.encode(), Target: c.target[id].encode()}
		if m.classic != nil {
			r.Session, r.Protocols = m.classic.session.Milliseconds(), m.classic.protocols
		}
		row.Members = append(row.Members, r)
	}
	return row
}

func (g *group) decodeConsumer(row *rowText) error {
	c := newConsumer(g)
	defer c.unlessOf(g)
	c.epoch, c.targetEpoch, c.hash, g.since = row.Generation, row.TargetEpoch, row.Topics, row.Since
	g.generation, g.protocolType = row.Generation, row.ProtocolType
	for i := range row.Members {
		r := &row.Members[i]
		re, err := compile(r.Regex)
		if err != nil {
			return fmt.Errorf("%w: %w", errRow, err)
		}
		m := &cmember{id: r.ID, instance: r.Instance, client: Client{r.Client, r.Host}, rebalance: millis(r.Rebalance), rack: r.Rack,
			topics: r.Names, regex: r.Regex, compiled: re, compiledBytes: compiledBytes(r.Regex),
			assignor: r.Assignor, epoch: r.Epoch, previous: r.Previous, state: r.State}
		if m.state != unrevoked && m.state != unreleased {
			m.state = atTarget
		}
		if assignors[m.assignor] == nil {
			m.assignor = ""
		}
		if len(r.Protocols) > 0 {
			m.classic = &classicMember{session: millis(r.Session), protocols: r.Protocols}
		}
		c.add(m)
		c.hold(m, decodeAssignment(r.Assigned), decodeAssignment(r.Revoking))
		c.target[m.id] = decodeAssignment(r.Target)
		c.alive(m)
		if m.state == unrevoked {
			g.m.timers.set(m.overdue, m.rebalance)
		}
	}
	g.consumer = c
	return nil
}

func (a assignment) encode() (rows []rowPartition) {
	for _, id := range a.topics() {
		rows = append(rows, rowPartition{Topic: append([]byte(nil), id[:]...), Partitions: a[id]})
	}
	return rows
}

func decodeAssignment(rows []rowPartition) assignment {
	a := assignment{}
	for _, r := range rows {
		var id [16]byte
		copy(id[:], r.Topic)
		for _, n := range r.Partitions {
			a.add(id, n)
		}
	}
	return a
}
