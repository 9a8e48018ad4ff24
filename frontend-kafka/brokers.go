package frontendkafka

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// brokerRow is where a node is for Kafka clients, as its row says.
type brokerRow struct {
	V         int               `json:"v"`
	Rack      string            `json:"rack,omitempty"`
	Listeners map[string]string `json:"listeners"`
}

const (
	brokerVersion = 1
	// brokersMost bounds the nodes that are told.
	brokersMost = 1000
	// announceAgain is how often a node looks whether its row says where it is.
	announceAgain = time.Second
)

func decodeBroker(name string, b []byte) (Broker, error) {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil || id < 1 {
		return Broker{}, fmt.Errorf("a row of a broker is named %.32q", name)
	}
	var r brokerRow
	if err := json.Unmarshal(b, &r); err != nil {
		return Broker{}, fmt.Errorf("a row of a broker does not decode: %w", err)
	}
	if r.V != brokerVersion {
		return Broker{}, fmt.Errorf("a row of a broker has version %d, and %d is known here", r.V, brokerVersion)
	}
	return Broker{ID: int32(id), Rack: r.Rack, Addresses: r.Listeners}, nil
}

// announce writes where this node's listeners are whenever they are not what the row says. It tries until it can: a node
// may well start before its cluster has a leader.
func (f *Frontend) announce() {
	row := brokerRow{V: brokerVersion, Rack: f.opts.Rack, Listeners: map[string]string{}}
	for i := range f.opts.Listeners {
		row.Listeners[f.opts.Listeners[i].Name] = f.opts.Listeners[i].Advertised
	}
	value, err := json.Marshal(row)
	if err != nil {
		f.opts.Logger.Error("kafka: the listeners can not be told to other nodes", "err", err)
		return
	}
	name := strconv.Itoa(int(f.opts.NodeID))
	for f.stopping.Err() == nil {
		if now, ok := f.rows.AdminRow(format.SystemTenant, format.AdminKafkaBroker, name); !ok || string(now.Value) != string(value) {
			ctx, cancel := within(f.stopping, 0)
			_, _ = f.rows.SetAdmin(ctx, format.SystemTenant, engine.AdminChange{Kind: format.AdminKafkaBroker, Name: name, Value: value})
			cancel()
		}
		t := f.opts.Clock.NewTimer(announceAgain)
		select {
		case <-t.C():
		case <-f.stopping.Done():
		}
		t.Stop()
	}
}

// brokersCache keeps the brokers as of a generation of the administrative rows.
type brokersCache struct {
	mu         sync.Mutex
	read       bool
	generation uint64
	all        []Broker
}

// get is the brokers; the caller does not change them.
func (b *brokersCache) get(f *Frontend) []Broker {
	b.mu.Lock()
	defer b.mu.Unlock()
	generation := f.rows.AdminGeneration() // read first: a later change is another generation
	if b.read && b.generation == generation {
		return b.all
	}
	b.all = nil
	for _, row := range f.rows.AdminRows(format.SystemTenant, format.AdminKafkaBroker, "", brokersMost) {
		if one, err := decodeBroker(row.Name, row.Value); err == nil {
			b.all = append(b.all, one)
		}
	}
	b.read, b.generation = true, generation
	return b.all
}
