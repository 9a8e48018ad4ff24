package enginetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// player carries one list out on an engine and holds the answers against the model.
type player struct {
	o      *RandomOptions
	cov    *Coverage
	target Target
	e      engine.Engine
	caller engine.Caller
	ctx    context.Context
	cancel context.CancelFunc

	s         *state
	stamp     stamp
	delivered []*handed // newest last
	ids       map[format.UUID]bool
	pushed    int       // numbers payloads
	told      uint64    // the highest version of a row that the engine told
	floor     uint64    // the next one to be written is above this: ops of one call that stand alone have no order
	armed     int       // the next operation dies at this write; 0 is none
	hit       bool      // the storage was told so
	died      bool      // a call of this operation died
	kept      *keptCall // the last one with an idempotency key
	// blurred has the groups of queues of which a pop may have claimed more than it answered, and handed it back: it
	// is not known which partitions they have touched.
	blurred map[blur]bool
}

// blur names a group on a queue.
type blur struct{ queue, group string }

// sharp forgets what is not known about a queue that was deleted, or with a group about that group on it.
func (p *player) sharp(queue, group string) {
	maps.DeleteFunc(p.blurred, func(b blur, _ bool) bool { return b.queue == queue && (group == "" || b.group == group) })
}

// handed is a delivery as the player remembers it.
type handed struct {
	lease    string
	group    string
	claims   []engine.Claimed
	messages []engine.Delivered
}

const handedKept = 64

func newPlayer(o *RandomOptions, seed uint64, cov *Coverage) *player {
	p := &player{o: o, cov: cov, target: o.Open(seed), caller: engine.Caller{Tenant: format.DefaultTenant},
		s: newState(), ids: map[format.UUID]bool{}, blurred: map[blur]bool{}}
	p.e = p.target.Engine
	p.s.lazyRetention = true
	p.s.nextPart = 1 << 40 // the model's own ids, until the engine's are known, are nobody's
	p.stamp = newStamp(p.target.Clock)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

func (p *player) close() {
	p.cancel()
	if p.target.Close != nil {
		p.target.Close()
		return
	}
	_ = p.e.Close(context.Background()) // the list was judged already
}

// call is a context for one call of the engine.
func (p *player) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.ctx, callTimeout)
}

// skip is the answer of an operation that had nothing to act on.
const skip = "skip"

// step carries out one operation and judges it. The text describes the engine's answer.
func (p *player) step(op Op) (answer string, err error) {
	p.cov.Ops++
	if err := p.sync(); err != nil {
		return "", err
	}
	do := map[string]func(Op) (string, error){
		opPush: p.push, opPop: p.pop, opAck: p.ack, opExtend: p.extend, opRelease: p.release, opSeek: p.seek,
		opConfigure: p.configure, opDelQueue: p.deleteQueue, opDelGroup: p.deleteGroup, opSubscribe: p.subscribe,
		opRedrive: p.redrive, opPurge: p.purge, opRead: p.read, opOffsets: p.offsets, opList: p.list,
		opMessage: p.inspect, opWrong: p.wrong,
		opAdvance: p.advance, opEdge: p.edge, opJump: p.jump, opReopen: p.reopen, opCrash: p.crash,
		opTxn: func(o Op) (string, error) {
			return p.keyedCall("txn", p.onceCall(o), engine.Batch{Ops: p.txnOps(o), Atomic: true})
		},
		opAgain: p.again,
		opLock:  func(o Op) (string, error) { return p.keyedCall("lock", p.caller, engine.Batch{Ops: p.lockOps(o)}) },
		opTimer: p.timers,
	}[op.Kind]
	if do == nil {
		return "", fmt.Errorf("unknown operation %q", op.Kind)
	}
	doomed := p.armed > 0
	if doomed && !slices.Contains(visible, op.Kind) {
		p.armed = 0
	}
	p.died = false
	answer, err = do(op)
	if err == nil && doomed && !p.died {
		err = p.survived()
	}
	p.cov.sized(p.s)
	if answer == skip {
		p.cov.Skipped++
	}
	return answer, err
}

// do commits ops and returns the engine's answers. When the engine died under the call, died is true
// and the state has been settled from what it shows after the restart.
func (p *player) do(ops ...engine.Op) (res []engine.Result, died bool, err error) {
	ctx, cancel := p.call()
	defer cancel()
	p.arm()
	res, err = p.e.Do(ctx, p.caller, engine.Batch{Ops: ops})
	if err != nil && p.hit {
		after := p.s.clone()
		after.do(p.caller, ops)
		return nil, true, p.settleCrash(after)
	}
	if err != nil {
		return nil, false, fmt.Errorf("Do: %w", err)
	}
	if len(res) != len(ops) {
		return nil, false, fmt.Errorf("Do: %d results for %d ops", len(res), len(ops))
	}
	return res, false, nil
}

// push makes one Append per partition out of the tokens.
func (p *player) push(op Op) (string, error) {
	var ops []engine.Op
	for i, tokens := range strings.Split(op.What, "/") {
		at := op
		at.Part += i
		add := &engine.Append{Queue: at.queue(), Partition: at.part()}
		for _, t := range tokens {
			add.Messages = append(add.Messages, p.message(t, op.has("h")))
		}
		ops = append(ops, add)
	}
	res, died, err := p.do(ops...)
	if err != nil || died {
		return "died", err
	}
	var text []string
	for i := range ops {
		if err := p.judgeAppend(ops[i].(*engine.Append), &res[i]); err != nil {
			return "", err
		}
		for _, m := range res[i].Messages {
			text = append(text, describeMessage(m))
		}
	}
	return strings.Join(text, ", "), nil
}

// message has a payload nobody else has; some are larger, some have headers and a type.
func (p *player) message(token rune, heavy bool) engine.Message {
	p.pushed++
	m := engine.Message{Payload: fmt.Appendf(nil, `{"n":%d}`, p.pushed)}
	if token != '-' {
		m.TransactionID = "id-" + string(token)
	}
	switch p.pushed % 7 {
	case 0:
		m.Payload = append(m.Payload, make([]byte, 300)...)
	case 1:
		m.ContentType, m.Headers = "text/plain", []engine.Header{{Name: "n", Value: fmt.Append(nil, p.pushed)}, {Name: "n"}}
	case 2:
		m.TraceID = format.UUID{0: 9, 15: byte(p.pushed)}
	case 3:
		m.Payload = nil
	}
	if heavy {
		r := rand.New(rand.NewPCG(uint64(p.pushed), 0))
		for n := 2_000 + r.IntN(12_000); n > 0; n -= 8 {
			m.Payload = binary.LittleEndian.AppendUint64(m.Payload, r.Uint64())
		}
	}
	return m
}

func describeMessage(m engine.MessageResult) string {
	switch m.Status {
	case engine.Queued:
		return fmt.Sprintf("queued %d", m.Offset)
	case engine.Duplicate:
		return fmt.Sprintf("duplicate %d", m.Offset)
	}
	return string(code(m.Err))
}

// ack settles messages of an earlier delivery, or of none.
func (p *player) ack(op Op) (string, error) {
	h := p.handed(op)
	if h == nil {
		return skip, nil
	}
	var ops []engine.Op
	for i, letter := range op.What {
		if i >= len(h.messages) {
			break
		}
		if letter == '-' {
			continue
		}
		at := op
		m := &h.messages[i]
		where := &engine.Ack{Partition: h.claims[m.Claim].PartitionID, Offset: m.Offset, HasOffset: true}
		if p.s.goneAt(p.caller.Tenant, where) {
			// Retention took it and maybe its id: all that is left to say is that its offset is done.
			letter, at.Flags = 'c', op.Flags+"o"
		}
		ops = append(ops, p.ackOf(at, h, i, letter))
	}
	if len(ops) == 0 {
		return skip, nil
	}
	p.unambiguous(h, ops)
	if op.has("w") { // the strongest of two words on one message counts (S-ack-7)
		again := *ops[0].(*engine.Ack)
		again.TransactionID, again.HasOffset, again.Offset = "", true, h.messages[strings.IndexFunc(op.What, isStatus)].Offset
		if !p.s.goneAt(p.caller.Tenant, &again) {
			again.Status = statusOf(rune("dcfr"[(len(op.What)+op.Back)%4])) // of the op alone: a shrunk list does the same
		}
		ops = append(ops, &again)
	}
	res, died, err := p.do(ops...)
	if err != nil || died {
		return "died", err
	}
	return p.judgeAcks(ops, res)
}

func isStatus(letter rune) bool { return letter != '-' }

// unambiguous names a message by its offset where its id stands on another one as well, unless it is
// the one the rules resolve the id to: the lowest above the cursor, when the call names it once.
func (p *player) unambiguous(h *handed, ops []engine.Op) {
	named := map[string]bool{}
	for _, op := range ops {
		a := op.(*engine.Ack)
		part := p.s.tenantPart(p.caller.Tenant, a.Partition)
		if part == nil || a.HasOffset || len(part.byID[a.TransactionID]) < 2 {
			continue
		}
		key := fmt.Sprint(a.Partition, a.TransactionID)
		g := part.q.group(groupName(a.Group))
		meant := slices.IndexFunc(h.messages, func(m engine.Delivered) bool {
			return m.TransactionID == a.TransactionID && h.claims[m.Claim].PartitionID == a.Partition
		})
		if o, _ := part.resolve(a, p.s.nextOf(g, part), nil); named[key] || o != h.messages[meant].Offset {
			a.TransactionID, a.HasOffset, a.Offset = "", true, h.messages[meant].Offset
		}
		named[key] = true
	}
}

// nextOf is where a group stands, the end when it does not exist.
func (s *state) nextOf(g *group, p *part) format.Offset {
	if g == nil {
		return p.end()
	}
	return g.next(p)
}

// ackOf makes one ack, spoiled as the flags say.
func (p *player) ackOf(op Op, h *handed, i int, letter rune) *engine.Ack {
	m := h.messages[i]
	a := &engine.Ack{Partition: h.claims[m.Claim].PartitionID, Group: h.group, Lease: h.lease,
		TransactionID: m.TransactionID, Status: statusOf(letter), Delay: op.For}
	if letter == 'f' || letter == 'd' {
		a.Reason = fmt.Sprintf("reason %d", p.cov.Ops)
	}
	group := h.group
	if op.has("g") {
		group = op.group()
	}
	switch {
	case op.has("u") && p.blurred[blur{h.claims[m.Claim].Queue, groupName(group)}]:
		// A claim that was handed back may have taken the place of the lease that is meant.
	case op.has("u"):
		a.Lease, a.Unfenced = "", true
	case op.has("f"):
		a.Lease = format.UUID{1, 2, 3}.String()
		if other := p.handed(Op{Back: op.Back + 1}); other != nil && other.lease != "" {
			a.Lease = other.lease
		}
	}
	switch {
	case op.has("o"):
		a.TransactionID, a.HasOffset, a.Offset = "", true, m.Offset
	case op.has("m"):
		a.TransactionID = m.ID.String()
	case op.has("z") && i == 0:
		a.TransactionID = "never pushed"
	case op.has("z"):
		a.Partition += 64 << 20
	}
	if op.has("g") {
		a.Group = op.group()
	}
	return a
}

// handed is the delivery an operation means: the Back-th newest, or of those whose lease is live.
func (p *player) handed(op Op) *handed {
	back := op.Back
	for _, h := range slices.Backward(p.delivered) {
		if op.has("l") && !p.s.holdsAny(h) {
			continue
		}
		if back == 0 {
			return h
		}
		back--
	}
	return nil
}

// holdsAny says that the lease of a delivery is live on some partition.
func (s *state) holdsAny(h *handed) bool {
	for _, claimed := range h.claims {
		q := s.queue(format.DefaultTenant, claimed.Queue)
		if q == nil || q.part(claimed.Partition) == nil || q.group(groupName(h.group)) == nil || h.lease == "" {
			continue
		}
		c := q.group(groupName(h.group)).cursor(q.part(claimed.Partition))
		if l := s.live(c); l != nil && l.text == h.lease {
			return true
		}
	}
	return false
}

func (p *player) lease(op Op) string {
	if h := p.handed(op); h != nil && h.lease != "" {
		return h.lease
	}
	return format.UUID{7, 7}.String()
}

func (p *player) extend(op Op) (string, error) {
	ext := &engine.Extend{Lease: p.lease(op), For: op.For}
	res, died, err := p.do(ext)
	if err != nil || died {
		return "died", err
	}
	want := p.s.extend(p.caller, ext)
	if code(res[0].Err) != code(want.Err) || res[0].Extend != want.Extend {
		return "", fmt.Errorf("extend: got %+v (%v), want %+v", res[0].Extend, res[0].Err, want.Extend)
	}
	if want.Extend.Renewed == 0 {
		p.cov.count("extend nothing")
	} else {
		p.cov.count("extend renewed")
	}
	return fmt.Sprintf("renewed %d", want.Extend.Renewed), nil
}

func (p *player) release(op Op) (string, error) {
	rel := &engine.Release{Lease: p.lease(op)}
	if h := p.handed(op); h != nil && op.has("1") {
		rel.Partition = h.claims[0].PartitionID
	}
	res, died, err := p.do(rel)
	if err != nil || died {
		return "died", err
	}
	want := p.s.release(p.caller.Tenant, rel)
	if err := sameRows("release", &res[0], &want); err != nil {
		return "", err
	}
	p.cov.count("release " + rowsVerdict(&want, "handed back"))
	return rowsVerdict(&want, "handed back"), nil
}

func rowsVerdict(r *engine.Result, some string) string {
	switch {
	case r.Err != nil:
		return string(r.Err.Code)
	case r.Rows == 0:
		return "nothing"
	}
	return some
}

func sameRows(what string, got, want *engine.Result) error {
	if code(got.Err) != code(want.Err) || got.Err == nil && got.Rows != want.Rows {
		return fmt.Errorf("%s: got %d rows (%v), want %d (%v)", what, got.Rows, got.Err, want.Rows, want.Err)
	}
	return nil
}

func (p *player) seek(op Op) (string, error) {
	seek := &engine.SetOffset{Queue: op.queue(), Partition: op.part(), Group: op.group(), Whole: op.has("w")}
	if seek.Whole {
		seek.Partition = ""
	}
	switch op.What {
	case "time":
		seek.To.ByTime, seek.To.Time = true, p.ago(op.For)
	case "offset":
		seek.To.Offset = format.Offset(op.N)
	default:
		seek.To.End = true
	}
	res, died, err := p.do(seek)
	if err != nil || died {
		return "died", err
	}
	want := p.s.seek(p.caller.Tenant, seek)
	if err := sameRows("seek", &res[0], &want); err != nil {
		return "", err
	}
	verdict := rowsVerdict(&want, "moved")
	p.cov.count("seek " + verdict)
	return verdict, nil
}

// ago is a calendar time before now, or, for one duration in eight, after it.
func (p *player) ago(d time.Duration) format.Wall {
	if d/time.Millisecond%8 == 7 {
		return p.s.w + format.Wall(d.Microseconds())
	}
	return p.s.w - format.Wall(d.Microseconds())
}

// crash arms the next operation: the engine dies inside it.
func (p *player) crash(op Op) (string, error) {
	if p.target.Arm == nil || p.target.Reopen == nil {
		return skip, nil
	}
	p.armed = max(op.N, 1)
	return fmt.Sprintf("armed for write %d", p.armed), nil
}

// withCrashes spreads armed crashes over a list, each in front of an operation that can be struck. Most strike the write of
// its entry or the flush behind it; later ones what goes on meanwhile.
func withCrashes(ops []Op, crashes int, seed uint64) []Op {
	r := rand.New(rand.NewPCG(seed, 1))
	for range crashes {
		at := r.IntN(len(ops))
		if next := slices.IndexFunc(ops[at:], func(o Op) bool { return slices.Contains(visible, o.Kind) }); next > 0 {
			at += next
		}
		ops = append(ops[:at:at], append([]Op{{Kind: opCrash, N: []int{1, 2, 2, 2, 3, 4}[r.IntN(6)]}}, ops[at:]...)...)
	}
	return ops
}
