package machine

import (
	"slices"
	"strings"

	"queen/engine/format"
	"queen/engine/machine/slab"
)

type queueKey struct {
	tenant format.Tenant
	name   string
}

// queue is a catalogue row: options, the list of its partitions and its journal.
//
// INVARIANT: partitions hang in first..last in order of PartitionID (checkState).
type queue struct {
	id        uint32
	tenant    format.Tenant
	name      string
	opts      format.QueueOptions
	createdW  format.Wall
	implicit  bool   // made by a pop, nothing was ever pushed or configured
	declared  bool   // made by a configure call, which decides what the default of leaseTime is
	dead      bool   // deleted, rows not yet swept
	optGen    uint32 // of any option: evidence that rests on options
	holdGen   uint32 // of delay and window: what partitions hide
	groupGen  uint32
	cutoff    format.Wall // frames created before are gone
	dedupFrom format.Wall // originals before do not count: a window was enlarged

	first, last handle
	parts       uint64
	width       uint32 // one more than the highest decimal name a partition ever had
	hidden      uint64 // partitions without a decimal name
	kafka       bool   // a record batch was stored: offsets of decimal names count on for ever
	// ahead is how far timestamps of records were ahead of W at most: a record is not younger than its append and that.
	ahead format.Wall

	journal *slab.Ring[event]
	read    uint64 // highest scan any group ever had

	deadNewest, deadOldest handle
	deadCount              uint64

	groups map[string]*group
	order  []*group // ascending by id
	dirt   dirt
	loaded ringBounds // while loading
	// uncounted: loaded from a row that does not tell width and hidden.
	uncounted bool
}

// queueBy finds a live queue by name.
func (m *Machine) queueBy(t format.Tenant, name []byte) *queue {
	return m.byName[queueKey{t, string(name)}]
}

// madeBy says what created a queue; it decides leaseTime, labels and listing.
type madeBy uint8

const (
	byPush madeBy = iota
	byPop
	byConfigure
)

// ensureQueue finds a queue or creates it. nil means that a bound of the state is reached.
func (m *Machine) ensureQueue(t format.Tenant, name []byte, by madeBy) (q *queue, created bool) {
	if q = m.queueBy(t, name); q != nil {
		return q, false
	}
	if m.header.queues == maxCatalog || format.TenantNameBytes+len(name) > format.NameBudget {
		return nil, false
	}
	m.header.queues++
	q = &queue{
		id: m.header.queues, tenant: t, name: string(name), createdW: m.w, implicit: by == byPop,
		declared: by == byConfigure, opts: format.DefaultOptions(by == byConfigure),
		optGen: 1, holdGen: 1, groupGen: 1, read: 1,
		groups: make(map[string]*group), journal: newJournal(),
	}
	if by != byConfigure {
		q.opts.Namespace, q.opts.Task = labels(q.name)
	}
	m.addQueue(q)
	m.topicsGen++
	m.soilQueue(q)
	return q, true
}

// maxCatalog bounds the queues and consumer groups of all times, whose ids are 32 bits.
const maxCatalog = 1<<32 - 1

// labels derives namespace and task from a dotted name (S-id-7).
func labels(name string) (namespace, task string) {
	namespace, rest, _ := strings.Cut(name, ".")
	task, _, _ = strings.Cut(rest, ".")
	return namespace, task
}

func (m *Machine) addQueue(q *queue) {
	m.queues[q.id] = q
	if !q.dead {
		m.byName[queueKey{q.tenant, q.name}] = q
	}
	i, _ := slices.BinarySearch(m.queueIDs, q.id)
	m.queueIDs = slices.Insert(m.queueIDs, i, q.id)
}

// dropQueue forgets a swept queue.
func (m *Machine) dropQueue(q *queue) {
	delete(m.queues, q.id)
	if i, ok := slices.BinarySearch(m.queueIDs, q.id); ok {
		m.queueIDs = slices.Delete(m.queueIDs, i, i+1)
	}
	m.soilQueue(q)
}

// holds says whether messages of the queue can be hidden at all.
func (q *queue) holds() bool { return q.opts.DelayedProcessing > 0 || q.opts.WindowBuffer > 0 }

// delay and window are the two holds in microseconds.
func (q *queue) delay() format.Wall  { return seconds(q.opts.DelayedProcessing) }
func (q *queue) window() format.Wall { return seconds(q.opts.WindowBuffer) }

// dedup is the dedup window in microseconds, 0 when it is off.
func (q *queue) dedup() format.Wall { return seconds(q.opts.DedupWindowSeconds) }

// dlq says whether exhausted messages are filed; off only when both flags are (S-cfg-7).
func (q *queue) dlq() bool { return q.opts.DeadLetterQueue || q.opts.DLQAfterMaxRetries }

// retryDelay acts only where a configure call set it.
func (q *queue) retryDelay() format.Mono {
	if q.opts.Set&format.OptRetryDelay == 0 || q.opts.RetryDelayMs <= 0 {
		return 0
	}
	return format.Mono(min(q.opts.RetryDelayMs, maxSeconds*1000) * 1000)
}

// ttl is the time to live in microseconds, 0 for ever; it acts only where a configure call set it.
func (q *queue) ttl() format.Wall {
	if q.opts.Set&format.OptTTL == 0 {
		return 0
	}
	return seconds(q.opts.TTL)
}

// maxSize bounds the messages of a partition, 0 for no bound; it acts only where a configure call set it.
func (q *queue) maxSize() int64 {
	if q.opts.Set&format.OptMaxSize == 0 {
		return 0
	}
	return q.opts.MaxSize
}

// maxSeconds bounds every duration option, a thousand years, so that sums with stamps can not wrap.
const maxSeconds = 1000 * 366 * 86400

func seconds(n int64) format.Wall {
	return format.Wall(min(max(n, 0), maxSeconds) * 1_000_000)
}

// expiry is the shortest time for which frames of the queue are kept, 0 for ever: the bound of a
// Retain (S-ret-2, S-ret-4; ttl acts only where it was set).
func (q *queue) expiry() format.Wall {
	o := &q.opts
	best := format.Wall(0)
	take := func(on bool, n int64) {
		if s := seconds(n); on && s > 0 && (best == 0 || s < best) {
			best = s
		}
	}
	take(o.RetentionEnabled, o.RetentionSeconds)
	if ms := o.RetentionMs; best > 0 && ms > 0 && (ms-1)/1000+1 == o.RetentionSeconds {
		best = min(best, format.Wall(min(ms, maxSeconds*1000))*1000)
	}
	take(true, o.MaxWaitTimeSeconds)
	if ttl := q.ttl(); ttl > 0 && (best == 0 || ttl < best) {
		best = ttl
	}
	return best
}
