package machine

import (
	"fmt"

	"github.com/google/btree"

	"queen/engine/format"
	"queen/engine/machine/slab"
)

// KeyedSink takes rows for the keyed store. Apply hands rows over and never reads them back; both
// slices belong to the machine and are valid only during the call.
type KeyedSink interface {
	Put(family byte, key, value []byte)
	Delete(family byte, key []byte)
	// Settled says that a command whose caller may read keyed rows has been applied as a whole: a KV, Lock or
	// Timer outside a Txn, or a Txn. o is its first ordinal in the entry. What was handed over up to here is
	// what that caller's reads have to see.
	Settled(o format.Ordinal)
}

// Options say whose state a Machine is.
type Options struct {
	// Group is the raft group, 1..63; it is part of every id handed out.
	Group format.RaftGroup
	// Keyed takes rows for the keyed store; nil drops them.
	Keyed KeyedSink
}

// header is the part of the state that is not rows.
type header struct {
	applied format.Index
	epoch   format.Term
	fuse    uint64
	t       format.Mono
	w       format.Wall
	born    bool // Genesis was applied
	genesis format.Genesis

	partitions uint64 // counter of PartitionID
	queues     uint32 // counter of QueueID
	groups     uint32 // counter of ConsumerID
	tasks      uint32 // counter of tasks
	rows       uint64 // frames stored

	marks         uint64
	markAt        format.Index                // of the last mark
	markW         [chunksKept + 1]format.Wall // W of mark n at n mod its length
	digest        [16]byte                    // as of the last mark
	keySums       [families]keyedSum          // by family; 0 is none
	keyVersion    uint64                      // the newest version of a keyed row
	receiptBounds ringBounds                  // as of the last time the header was written
}

// chunksKept is how many closed chunks the resident ids cover, besides the open one.
const chunksKept = slab.RecentChunks

// keyedSum is the order-free digest of a family's rows: their number, and the sum of the low halves of
// xxh3-128 over family, key and value.
type keyedSum struct{ rows, sum uint64 }

// Machine is the state of one raft group. See the package comment for who may call what when.
type Machine struct {
	group format.RaftGroup
	keyed KeyedSink

	header

	parts    *slab.Slab[partRec]
	sides    *slab.Slab[sideRec]
	cursors  *slab.Slab[cursorRec]
	leases   *slab.Slab[leaseRec]
	dead     *slab.Slab[deadRec]
	keys     *slab.Slab[keyRec]
	names    *slab.Names
	ids      *slab.RecentIDs
	receipts *slab.Ring[receipt]

	queues   map[uint32]*queue
	byName   map[queueKey]*queue
	queueIDs []uint32 // ascending; dead queues included until they are swept
	groups   map[uint32]*group
	tasks    []*task // in order of id
	admins   admins
	catalog  catalogDirt
	kafka    kafka
	// topicsGen rises whenever a queue comes, goes, is configured or gets wider, in this life of the state.
	topicsGen uint64

	// Derived, rebuilt by Finish.
	nameIndex    *slab.Index // (queue, name) -> partition
	idIndex      *slab.Index // PartitionID -> partition
	cursorIndex  *slab.Index // (partition, consumer group) -> cursor that is not its partition's first
	leaseIndex   *slab.Index // lease id -> first record of its chain
	receiptIndex *slab.Index // (lease id, partition) -> receipt
	timers       *slab.Due   // leases, by T
	holds        *slab.Due   // hidden messages, by W
	keyIndex     *slab.Index // hash of a keyed row's key -> head
	keyDue       *slab.Due   // expiry of keyed rows, by W
	timerDue     *btree.BTreeG[timerKey]
	asks         *btree.BTreeG[askKey] // partitions that wait for a Reveal
	deadByID     *btree.BTreeG[deadKey]
	deadByAddr   *btree.BTreeG[deadAddr]

	liveLeases uint64
	journalMin uint64 // events a journal holds at least; smaller in tests only
	lookLimit  int    // what one Pop looks at; smaller in tests only
	touched    []Touched
	scratch    scratch
	ahead      ahead
	place      format.Place   // of the command being applied
	filed      int            // dead letters filed by the command being applied
	txnLast    format.Ordinal // last ordinal of the transaction being applied, 0 outside one
	inTxn      bool           // the command being applied is part of a transaction
}

// scratch keeps decoded commands between entries, so that apply does not allocate.
type scratch struct {
	append    format.Append
	redrive   format.Redrive
	pop       format.Pop
	ack       format.Ack
	release   format.Release
	trim      format.Trim
	setOffset format.SetOffset
	register  format.Register
	configure format.Configure
	remove    format.Delete
	purge     format.Purge
	kv        format.KV
	lock      format.Lock
	timer     format.Timer
	fire      format.Fire
	once      format.Once
	trial     trial
	row       []byte // of a keyed row: family, key, value
	admin     format.Admin
	group     format.Group
	producer  format.Producer
	end       format.EndTxn
}

// New returns the empty state of a raft group, before its Genesis.
func New(o Options) *Machine {
	m := &Machine{group: o.Group, keyed: o.Keyed}
	if m.keyed == nil {
		m.keyed = noKeyed{}
	}
	m.parts = slab.New(partCodec)
	m.sides = slab.New(sideCodec)
	m.cursors = slab.New(cursorCodec)
	m.leases = slab.New(leaseCodec)
	m.dead = slab.New(deadCodec)
	m.keys = slab.New(keyCodec)
	m.names = slab.NewNames()
	m.receipts = slab.NewRing(receiptCodec)
	m.journalMin, m.lookLimit = journalMin, lookLimit
	m.queues = make(map[uint32]*queue)
	m.byName = make(map[queueKey]*queue)
	m.groups = make(map[uint32]*group)
	m.admins = newAdmins()
	m.kafka = newKafka()
	m.resetDerived()
	return m
}

type noKeyed struct{}

func (noKeyed) Put(byte, []byte, []byte) {}
func (noKeyed) Delete(byte, []byte)      {}
func (noKeyed) Settled(format.Ordinal)   {}

// Apply applies the entry at index and fills out with the verdicts, in command order. Indexes rise;
// gaps (no-ops, configuration changes) are legal. out.Refused is set when the whole entry is refused,
// which changes nothing but the applied index. The error is our fault alone: a log handed over in the
// wrong order, or a state that has diverged from the leader's; the process must end then. Slices in
// out are reused by the next Apply with the same out. Nothing is durable when it returns.
func (m *Machine) Apply(index format.Index, e *format.Entry, out *format.Results) error {
	out.Reset()
	m.touched = m.touched[:0]
	if index <= m.applied {
		return fmt.Errorf("machine: apply index %d after %d", index, m.applied)
	}
	if err := format.ValidateEntry(e); err != nil {
		out.Refused = format.CodeMalformed
		m.applied = index
		return nil
	}
	if code := m.admit(e); code != format.CodeOK {
		out.Refused = code
		m.applied = index
		return nil
	}
	if err := m.checkMark(e); err != nil {
		return err
	}
	m.applied = index
	m.accept(e)
	m.fire()
	r := e.Reader()
	for r.Next() {
		err := error(nil)
		if r.Kind() == format.KindAppend {
			err = m.ahead.take(&r)
		}
		if r.Kind() != format.KindAppend || m.ahead.n == len(m.ahead.pushes) {
			m.applyAhead(out)
		}
		if r.Kind() != format.KindAppend {
			err = m.next(&r, out)
		}
		if err != nil {
			return fmt.Errorf("machine: entry %d, command %d: validated, then: %w", index, r.Number(), err)
		}
	}
	m.applyAhead(out)
	return r.Err()
}

// next applies the current command, with its parts when it is a bracket, and appends verdicts in order.
func (m *Machine) next(r *format.CommandReader, out *format.Results) error {
	switch r.Kind() {
	case format.KindTxn:
		return m.applyTxn(r, out)
	case format.KindOnce:
		return m.applyOnce(r, out)
	}
	res, err := m.command(r, out)
	out.Items = append(out.Items, res)
	switch res.Kind {
	case format.KindKV, format.KindLock, format.KindTimer:
		m.keyed.Settled(res.First)
	}
	return err
}

// command applies one command that is no bracket and returns its verdict.
func (m *Machine) command(r *format.CommandReader, out *format.Results) (res format.Result, err error) {
	s := &m.scratch
	m.place = format.Place{Index: m.applied, Ordinal: r.Ordinal()}
	m.filed = 0
	res = format.Result{Kind: r.Kind(), First: r.Ordinal()}
	switch r.Kind() {
	case format.KindGenesis:
		res.Code, err = m.applyGenesis(r)
	case format.KindTerm:
		m.noteEpoch()
	case format.KindTick, format.KindOrigin:
	case format.KindAppend: // in a bracket
		if err = r.Append(&s.append); err == nil {
			res.At = uint32(len(out.Appends))
			res.Code = m.applyAppend(&s.append, nextAppend(out))
		}
	case format.KindPop:
		if err = r.Pop(&s.pop); err == nil {
			res.At = uint32(len(out.Pops))
			res.Code = m.applyPop(&s.pop, nextPop(out))
		}
	case format.KindAck:
		if err = r.Ack(&s.ack); err == nil {
			res.At = uint32(len(out.Acks))
			out.Acks = append(out.Acks, format.AckResult{})
			res.Code = m.applyAck(&s.ack, &out.Acks[res.At])
		}
	case format.KindExtend:
		var c format.Extend
		if err = r.Extend(&c); err == nil {
			res.At = uint32(len(out.Extends))
			out.Extends = append(out.Extends, format.ExtendResult{})
			res.Code = m.applyExtend(&c, &out.Extends[res.At])
		}
	case format.KindRedrive:
		if err = r.Redrive(&s.redrive); err == nil {
			res.At = uint32(len(out.Appends))
			res.Code = m.applyRedrive(&s.redrive, nextAppend(out))
		}
	case format.KindConfigure:
		if err = r.Configure(&s.configure); err == nil {
			res.At = uint32(len(out.Configs))
			out.Configs = append(out.Configs, format.ConfigResult{})
			res.Code = m.applyConfigure(&s.configure, &out.Configs[res.At])
		}
	case format.KindGroup:
		if err = r.Group(&s.group); err == nil {
			res.At = uint32(len(out.Groups))
			out.Groups = append(out.Groups, format.GroupResult{})
			res.Code = m.applyGroup(&s.group, &out.Groups[res.At])
		}
	case format.KindProducer, format.KindEndTxn:
		err = m.kafkaCommand(r, out, &res)
	case format.KindKV, format.KindLock, format.KindTimer, format.KindFire:
		err = m.keyedCommand(r, out, &res)
	default:
		res.At = uint32(len(out.Counts))
		out.Counts = append(out.Counts, format.CountResult{})
		res.Code, err = m.counted(r, &out.Counts[res.At])
	}
	return res, err
}

// keyedCommand applies the commands about keyed rows.
func (m *Machine) keyedCommand(r *format.CommandReader, out *format.Results, res *format.Result) (err error) {
	s := &m.scratch
	switch r.Kind() {
	case format.KindKV:
		if err = r.KV(&s.kv); err == nil {
			res.At = uint32(len(out.KVs))
			out.KVs = append(out.KVs, format.KVResult{})
			res.Code = m.applyKV(&s.kv, &out.KVs[res.At])
		}
	case format.KindLock:
		if err = r.Lock(&s.lock); err == nil {
			res.At = uint32(len(out.Locks))
			out.Locks = append(out.Locks, format.LockResult{})
			res.Code = m.applyLock(&s.lock, &out.Locks[res.At])
		}
	case format.KindTimer:
		if err = r.Timer(&s.timer); err == nil {
			res.At = uint32(len(out.Timers))
			out.Timers = append(out.Timers, format.TimerResult{})
			res.Code = m.applyTimer(&s.timer, &out.Timers[res.At])
		}
	default:
		if err = r.Fire(&s.fire); err == nil {
			res.At = uint32(len(out.Appends))
			res.Code = m.applyFire(&s.fire, nextAppend(out))
		}
	}
	return err
}

// counted applies the commands whose details are a CountResult.
func (m *Machine) counted(r *format.CommandReader, n *format.CountResult) (code format.Code, err error) {
	s := &m.scratch
	switch r.Kind() {
	case format.KindRelease:
		if err = r.Release(&s.release); err == nil {
			code = m.applyRelease(&s.release, n)
		}
	case format.KindSkip:
		var c format.Skip
		if err = r.Skip(&c); err == nil {
			code = m.applySkip(&c, n)
		}
	case format.KindTrimLease:
		var c format.TrimLease
		if err = r.TrimLease(&c); err == nil {
			code = m.applyTrimLease(&c, n)
		}
	case format.KindSetOffset:
		if err = r.SetOffset(&s.setOffset); err == nil {
			code = m.applySetOffset(&s.setOffset, n)
		}
	case format.KindRegister:
		if err = r.Register(&s.register); err == nil {
			code = m.applyRegister(&s.register, n)
		}
	case format.KindDelete:
		if err = r.Delete(&s.remove); err == nil {
			code = m.applyDelete(&s.remove, n)
		}
	case format.KindPurge:
		if err = r.Purge(&s.purge); err == nil {
			code = m.applyPurge(&s.purge, n)
		}
	case format.KindAdmin:
		if err = r.Admin(&s.admin); err == nil {
			code = m.applyAdmin(&s.admin, n)
		}
	default:
		code, err = m.upkeep(r, n)
	}
	return code, err
}

// upkeep applies what the leader proposes on its own account, and refuses what is not built.
func (m *Machine) upkeep(r *format.CommandReader, n *format.CountResult) (code format.Code, err error) {
	s := &m.scratch
	switch r.Kind() {
	case format.KindReveal:
		var c format.Reveal
		if err = r.Reveal(&c); err == nil {
			code = m.applyReveal(&c, n)
		}
	case format.KindRetain:
		var c format.Retain
		if err = r.Retain(&c); err == nil {
			code = m.applyRetain(&c, n)
		}
	case format.KindTrim:
		if err = r.Trim(&s.trim); err == nil {
			code = m.applyTrim(&s.trim, n)
		}
	case format.KindSweep:
		var c format.Sweep
		if err = r.Sweep(&c); err == nil {
			code = m.applySweep(&c, n)
		}
	case format.KindMark:
		var c format.Mark
		if err = r.Mark(&c); err == nil {
			code = m.applyMark(&c, n)
		}
	default:
		code = format.CodeNotBuilt
	}
	return code, err
}

// nextAppend extends out.Appends by a zero row, keeping the capacity of its list.
func nextAppend(out *format.Results) *format.AppendResult {
	n := len(out.Appends)
	if n < cap(out.Appends) {
		out.Appends = out.Appends[:n+1]
		out.Appends[n] = format.AppendResult{Dups: out.Appends[n].Dups[:0]}
	} else {
		out.Appends = append(out.Appends, format.AppendResult{})
	}
	return &out.Appends[n]
}

// nextPop extends out.Pops by a zero row, keeping the capacity of its list.
func nextPop(out *format.Results) *format.PopResult {
	n := len(out.Pops)
	if n < cap(out.Pops) {
		out.Pops = out.Pops[:n+1]
		out.Pops[n] = format.PopResult{Claims: out.Pops[n].Claims[:0]}
	} else {
		out.Pops = append(out.Pops, format.PopResult{})
	}
	return &out.Pops[n]
}
