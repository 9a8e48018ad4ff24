package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/report"
)

// leaseSeconds is short, so that leases end during faults.
const leaseSeconds = 4

const lease = leaseSeconds * time.Second

// Queues of every tenant, and topics, which are the default tenant's.
const (
	plainQueue  = "q"      // pushed, popped, acked
	sourceQueue = "src"    // what steps consume
	indexQueue  = "index"  // what steps push
	poisonQueue = "poison" // every poisonEvery-th message is refused by its consumer until it is a dead letter
	timerQueue  = "tmr"    // timers fire into it

	natTopic = "nat" // pushed natively, consumed over Kafka
	kafTopic = "kaf" // produced over Kafka, consumed both ways
	outTopic = "out" // made of kafTopic by transactions
)

// Partitions of the queues whose number is no option.
const (
	stepLanes   = 3
	poisonLanes = 2
	topicLanes  = 3
)

// history is what clients saw and were promised. Times are since the start of the run, by one clock, which no fault moves.
// Most is judged as it comes, so that what is settled takes no memory; judge looks at what is left.
type history struct {
	begin time.Time
	// clocks says that wall clocks of nodes jump: then a timer may fire early (S-clk-5).
	clocks  bool
	tenants []string // by number: its name, "" is the default tenant
	groups  int      // raft groups
	lanes   map[place]*lane
	order   []*lane    // the same, in the order in which they were made
	again   []*repeats // by tenant
	keys    keyHistory
	letters []*letterHistory // by tenant
	timers  []*timerHistory  // by tenant
	kafka   *kafkaHistory    // nil without Kafka

	patience patience
	// short says that consumers were not waited for until they had everything: what they did not come to is told then, and is lost to nobody.
	short bool

	acked, delivered, repeated atomic.Int64 // operations acknowledged, of any kind; messages delivered; duplicates asked for

	mu struct {
		sync.Mutex
		broken []string       // promises, found while the run goes on
		alike  map[string]int // how many of a kind were found
		more   int
	}
}

// place names a partition; the tenant is a number.
type place struct {
	tenant           int
	queue, partition string
}

func newHistory(o options) *history {
	h := &history{begin: time.Now(), clocks: strings.Contains(o.faults, "clock"), tenants: make([]string, max(o.tenants, 1)), groups: max(o.groups, 1),
		lanes: map[place]*lane{}, patience: newPatience()}
	for t := range h.tenants {
		for p := range o.partitions {
			h.lane(t, plainQueue, fmt.Sprint("p", p), 1+p%2) // every other one has two writers
		}
		for p := range stepLanes {
			h.lane(t, sourceQueue, fmt.Sprint("s", p), 1)
			h.lane(t, indexQueue, fmt.Sprint("s", p), 1)
		}
		for p := range poisonLanes {
			h.lane(t, poisonQueue, fmt.Sprint("d", p), 1)
		}
		h.lane(t, timerQueue, timerPartition, 0)
		h.again = append(h.again, &repeats{})
		h.letters = append(h.letters, &letterHistory{sent: map[letterName]int{}, failed: map[letterName]int{}})
		h.timers = append(h.timers, &timerHistory{shots: map[shotName]*shot{}})
	}
	if o.kafka {
		h.kafka = newKafkaHistory()
		for p := range topicLanes {
			h.lane(0, natTopic, fmt.Sprint(p), 1)
			h.lane(0, kafTopic, fmt.Sprint(p), kafkaProducers).kafka = true
		}
	}
	return h
}

// lane makes one with so many writers.
func (h *history) lane(tenant int, queue, partition string, writers int) *lane {
	l := &lane{place: place{tenant, queue, partition}, sent: make([]int, writers), acked: make([]int, writers)}
	l.taking.init()
	h.lanes[l.place] = l
	h.order = append(h.order, l)
	return l
}

// of are the lanes of a tenant's queue.
func (h *history) of(tenant int, queue string) (all []*lane) {
	for _, l := range h.order {
		if l.tenant == tenant && l.queue == queue {
			all = append(all, l)
		}
	}
	return all
}

func (h *history) now() time.Duration { return time.Since(h.begin) }

// Of broken promises so many are told, and of one kind so many, so that what is found a thousand times leaves room for what is found once.
const (
	brokenMost = 100
	alikeMost  = 10
)

// violate notes a broken promise.
func (h *history) violate(format string, args ...any) {
	found := fmt.Sprintf(format, args...)
	kind := kindOf(found)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.alike == nil {
		h.mu.alike = map[string]int{}
	}
	if h.mu.alike[kind]++; len(h.mu.broken) < brokenMost && h.mu.alike[kind] <= alikeMost {
		h.mu.broken = append(h.mu.broken, found)
	} else {
		h.mu.more++
	}
}

// kindOf is what was found without what it was found in: words with digits are left out.
func kindOf(found string) string {
	words := strings.Fields(found)
	for i, w := range words {
		if strings.ContainsAny(w, "0123456789") {
			words[i] = "#"
		}
	}
	return strings.Join(words, " ")
}

// isBroken reports that a promise was found broken.
func (h *history) isBroken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.mu.broken) > 0
}

// check notes what is wrong.
func (h *history) check(errs ...error) {
	for _, err := range errs {
		if err != nil {
			h.violate("%v", err)
		}
	}
}

// tell hands what was found to the report.
func (h *history) tell(r *report.Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.mu.broken {
		r.Violate("%s", b)
	}
	if h.mu.more > 0 {
		r.Violate("and %d more", h.mu.more)
	}
}

// sane judges the time that a message was made at, by the group's clock, when it is in our hands. Clocks of nodes that jump
// may not take the group's with them: it follows the median of the voters, and for steps below a minute only slowly.
func (h *history) sane(l *lane, made, now time.Time) error {
	ahead := 2 * time.Second
	if h.clocks {
		ahead = time.Minute
	}
	if made.After(now.Add(ahead)) {
		return fmt.Errorf("%v: a message is here at %v that was made at %v", l, now.UTC(), made)
	}
	return nil
}

// filler is text that payloads take a piece of.
const filler = "the quick brown fox jumps over the lazy dog while five boxing wizards look on and a jolly zebra waits "

// payload is what writer w's message n holds.
func payload(w, n int) []byte {
	from, size := n%32, 8+n%56
	return fmt.Appendf(nil, `{"w":%d,"n":%d,"x":%q}`, w, n, filler[from:from+size])
}

// parsePayload is false for bytes that no writer wrote.
func parsePayload(b []byte) (w, n int, ok bool) {
	var v struct{ W, N int }
	if json.Unmarshal(b, &v) != nil || v.N < 0 {
		return 0, 0, false
	}
	return v.W, v.N, bytes.Equal(b, payload(v.W, v.N))
}

func badPayload(l *lane, offset int64, data []byte) error {
	return fmt.Errorf("%v: offset %d holds what nobody wrote: %.200q", l, offset, data)
}

// fromRecord takes a record's value out of the form in which native readers get it.
func fromRecord(b []byte) []byte {
	var v struct{ V []byte }
	if json.Unmarshal(b, &v) != nil {
		return nil
	}
	return v.V
}
