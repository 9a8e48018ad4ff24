package frontendhttp

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/go-faster/jx"

	"queen/engine"
	"queen/engine/format"
)

// maxItems bounds the items of one push, far above what a body of messages holds, so that a body of empty items can
// not take many times its size in memory.
const maxItems = 1 << 20

// pushBody is a decoded push: messages in request order and, for each, its group, the (queue, partition) it goes to.
// Payloads alias the request's body; every other string is a copy.
//
// INVARIANT: appends has one op per group, in order of first appearance, and its messages are those of the group in
// request order, so result k of a group answers the group's k-th item (TestPushKeepsRequestOrder).
type pushBody struct {
	jx       jx.Decoder
	messages []engine.Message
	of       []int32 // of[i] is the group of messages[i]
	groups   []pushGroup
	sorted   []engine.Message // messages by group, when there is more than one
	appends  []engine.Append
	ops      []engine.Op
	results  []engine.Result // memory for the answer

	byName map[string]int32 // by queue length, queue and partition
	name   []byte           // scratch for byName
	text   text
	hint   int // bytes of the body not yet decoded
}

type pushGroup struct {
	queue, partition string
	count, next      int
}

// Above this many items or groups a body is not kept for reuse.
const keptItems = 4096

func newPushBody() *pushBody { return &pushBody{byName: map[string]int32{}} }

// reset forgets the request but keeps the room.
func (p *pushBody) reset() {
	if cap(p.messages) > keptItems || len(p.byName) > keptItems {
		*p = *newPushBody()
		return
	}
	clear(p.messages)
	clear(p.sorted)
	clear(p.groups)
	clear(p.appends)
	clear(p.results)
	clear(p.byName)
	p.messages, p.of, p.groups, p.sorted = p.messages[:0], p.of[:0], p.groups[:0], p.sorted[:0]
	p.appends, p.ops, p.results = p.appends[:0], p.ops[:0], p.results[:0]
	p.text.reset()
	p.jx.ResetBytes(nil)
}

// decode reads {"items":[...]} in any key order. Unknown keys are ignored.
func (p *pushBody) decode(body []byte) error {
	if !utf8.Valid(body) {
		return badBody("not UTF-8")
	}
	p.jx.ResetBytes(body)
	p.hint = len(body)
	d := &p.jx
	obj, err := d.ObjIter()
	if err != nil {
		return badBody(err.Error())
	}
	found := false
	for obj.Next() {
		if string(obj.Key()) != "items" {
			if err := d.Skip(); err != nil {
				return badBody(err.Error())
			}
			continue
		}
		if found {
			return badBody("items is there twice")
		}
		found = true
		if err := p.items(); err != nil {
			return err
		}
	}
	if err := obj.Err(); err != nil {
		return badBody(err.Error())
	}
	if err := atEnd(d); err != nil {
		return err
	}
	if !found {
		return badBody("items is missing")
	}
	p.sort()
	return nil
}

func (p *pushBody) items() error {
	arr, err := p.jx.ArrIter()
	if err != nil {
		return badBody("items must be an array")
	}
	for arr.Next() {
		if len(p.messages) == maxItems {
			return badRequest("more than 1048576 items in one push")
		}
		if err := p.item(len(p.messages)); err != nil {
			return err
		}
	}
	if err := arr.Err(); err != nil {
		return badBody(err.Error())
	}
	return nil
}

// item decodes one item and files it with its group.
func (p *pushBody) item(at int) error {
	obj, err := p.jx.ObjIter()
	if err != nil {
		return badBody(fmt.Sprintf("item %d is not an object", at))
	}
	var (
		m                engine.Message
		queue, partition []byte
		hasQueue         bool
		bad              error
	)
	for obj.Next() && bad == nil {
		switch string(obj.Key()) {
		case "queue":
			queue, hasQueue, bad = stringOrNull(&p.jx, "queue", at)
		case "partition":
			partition, _, bad = stringOrNull(&p.jx, "partition", at)
		case "transactionId":
			m.TransactionID, bad = p.transactionID(at)
		case "traceId":
			m.TraceID, bad = p.traceID()
		case "payload":
			m.Payload, bad = p.payload()
		default:
			if err := p.jx.Skip(); err != nil {
				bad = badBody(err.Error())
			}
		}
	}
	switch err := obj.Err(); {
	case bad != nil:
		return bad
	case err != nil:
		return badBody(err.Error())
	case !hasQueue:
		return badBody(fmt.Sprintf("item %d has no queue", at))
	case m.Payload == nil:
		return badBody(fmt.Sprintf("item %d has no payload", at))
	}
	return p.add(m, queue, partition)
}

func (p *pushBody) transactionID(at int) (string, error) {
	b, _, err := stringOrNull(&p.jx, "transactionId", at)
	if err != nil {
		return "", err
	}
	if len(b) > format.MaxTransactionID {
		return "", badRequest(fmt.Sprintf("transactionId of item %d exceeds 65535 bytes", at))
	}
	return p.text.copy(b, p.hint/4), nil
}

// traceID ignores what is not a UUID (S-push-11).
func (p *pushBody) traceID() (format.UUID, error) {
	kind := p.jx.Next()
	raw, err := p.jx.Raw()
	if err != nil {
		return format.UUID{}, badBody(err.Error())
	}
	if kind != jx.String {
		return format.UUID{}, nil
	}
	text, _ := unquote(raw)
	u, _ := format.ParseUUID(string(text))
	return u, nil
}

// payload is the value's bytes as sent, with no capacity beyond them.
func (p *pushBody) payload() ([]byte, error) {
	raw, err := p.jx.Raw()
	if err != nil {
		return nil, badBody(err.Error())
	}
	return raw[:len(raw):len(raw)], nil
}

// add files one message with its group, which is made when it is new.
func (p *pushBody) add(m engine.Message, queue, partition []byte) error {
	g, err := p.group(queue, partition)
	if err != nil {
		return err
	}
	p.groups[g].count++
	p.messages = append(p.messages, m)
	p.of = append(p.of, g)
	return nil
}

func (p *pushBody) group(queue, partition []byte) (int32, error) {
	if len(partition) == 0 {
		partition = defaultPartition
	}
	if n := len(p.of); n > 0 {
		g := p.of[n-1]
		if p.groups[g].queue == string(queue) && p.groups[g].partition == string(partition) {
			return g, nil
		}
	}
	p.name = binary.LittleEndian.AppendUint32(p.name[:0], uint32(len(queue)))
	p.name = append(append(p.name, queue...), partition...)
	if g, ok := p.byName[string(p.name)]; ok {
		return g, nil
	}
	if err := checkNames(len(queue), len(partition)); err != nil {
		return 0, err
	}
	name := p.text.copy(p.name, p.hint/4)
	g := int32(len(p.groups))
	p.groups = append(p.groups, pushGroup{queue: name[4 : 4+len(queue)], partition: name[4+len(queue):]})
	p.byName[name] = g
	return g, nil
}

var defaultPartition = []byte(format.DefaultPartition)

// checkNames holds names to the budget before anything is written (S-id-6).
func checkNames(queue, other int) error {
	if format.TenantNameBytes+queue+other <= format.NameBudget {
		return nil
	}
	return &engine.Error{Code: engine.CodeNameTooLong,
		Message: "tenant (36 bytes), queue and the longer of partition and consumer group exceed 447 bytes"}
}

// sort lines the messages up by group, each group in request order, and makes one op per group.
func (p *pushBody) sort() {
	if len(p.groups) == 1 {
		g := &p.groups[0]
		p.appends = append(p.appends, engine.Append{Queue: g.queue, Partition: g.partition, Messages: p.messages})
		p.ops = append(p.ops, &p.appends[0])
		return
	}
	if cap(p.sorted) < len(p.messages) {
		p.sorted = make([]engine.Message, len(p.messages))
	}
	p.sorted = p.sorted[:len(p.messages)]
	at := 0
	for i := range p.groups {
		g := &p.groups[i]
		g.next = at
		at += g.count
	}
	for i := range p.messages {
		g := &p.groups[p.of[i]]
		p.sorted[g.next] = p.messages[i]
		g.next++
	}
	for i := range p.groups {
		g := &p.groups[i]
		p.appends = append(p.appends, engine.Append{Queue: g.queue, Partition: g.partition,
			Messages: p.sorted[g.next-g.count : g.next : g.next]})
		g.next = 0
	}
	for i := range p.appends {
		p.ops = append(p.ops, &p.appends[i])
	}
}
