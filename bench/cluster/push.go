package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// pushed is the answer to one item of a push.
type pushed struct {
	Status    string
	Offset    *int64
	MessageID string `json:"message_id"`
	Error     string
}

type pushItem struct {
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	TransactionID string          `json:"transactionId"`
	Payload       json.RawMessage `json:"payload"`
}

func (l *lane) item(w, n int) pushItem {
	return pushItem{l.queue, l.partition, fmt.Sprintf("%d-%d", w, n), payload(w, n)}
}

// backlogMost bounds what is pushed and not consumed, so that little is left when the load ends.
const backlogMost = 200

// produce pushes writer's messages to a lane, each until it is acknowledged, under one id. pace is milliseconds between two.
func (k *client) produce(w *crew, l *lane, writer, pace int) {
	consumed := l.queue != natTopic // that one is read over Kafka
	for n := 0; !w.stop.Load(); {
		if pace > 0 {
			k.pause(pace/2, pace*3/2)
		}
		if consumed && l.left() > backlogMost {
			k.pause(2, 10)
			continue
		}
		count := 1
		if k.r.IntN(4) == 0 {
			count += k.r.IntN(3)
		}
		if !k.push(w, l, writer, n, count) {
			return // they may be there
		}
		n += count
	}
}

// push pushes messages in one call until they are acknowledged; false when the load ended before.
func (k *client) push(w *crew, l *lane, writer, n, count int) bool {
	items := make([]pushItem, count)
	for i := range items {
		items[i] = l.item(writer, n+i)
	}
	floor := l.send(writer, n+count)
	for first := true; ; first = false {
		var out []pushed
		status := k.call("POST", "/api/v1/push", map[string]any{"items": items}, &out)
		if status == 201 {
			if err := l.pushedAll(writer, n, out, count, floor, first); err == nil {
				k.h.acked.Add(int64(count))
				k.remember(l, writer, n, &out[0])
				return true
			} else if _, again := err.(refusedItem); !again {
				k.h.violate("%v", err)
				return true
			}
		}
		if w.stop.Load() {
			return false
		}
		k.elsewhere()
	}
}

// refusedItem is an item that was not taken; it is no fault while faults are done.
type refusedItem string

func (r refusedItem) Error() string { return string(r) }

// pushedAll judges the answer to a push of count messages from number n on. first says that none of them was sent before.
func (l *lane) pushedAll(writer, n int, out []pushed, count int, floor int64, first bool) error {
	if len(out) != count {
		return fmt.Errorf("%v: %d items were pushed, %d answered", l, count, len(out))
	}
	for i := range out {
		switch o := &out[i]; {
		case o.Status == "error":
			return refusedItem(fmt.Sprintf("%v: %s", l, o.Error))
		case o.Status != "queued" && o.Status != "duplicate" || o.Offset == nil:
			return fmt.Errorf("%v: a push is answered with status %q and offset %v", l, o.Status, o.Offset)
		case o.Status == "duplicate" && first:
			return fmt.Errorf("%v: message %d of writer %d is a duplicate of offset %d, and was never pushed before", l, n+i, writer, *o.Offset)
		case i > 0 && first && *o.Offset != *out[i-1].Offset+1:
			return fmt.Errorf("%v: messages of one push are at offsets %d and %d", l, *out[i-1].Offset, *o.Offset)
		}
	}
	for i := range out {
		if err := l.tell(writer, n+i, *out[i].Offset, floor); err != nil {
			return err
		}
	}
	return nil
}

// repeats are acknowledged pushes that are to be pushed again.
type repeats struct {
	mu   sync.Mutex
	list []repeatOf
}

type repeatOf struct {
	l              *lane
	writer, number int
	offset         int64
	id             string // of the message
	due            time.Duration
}

const repeatsMost = 256

// remember takes a share of acknowledged pushes to be pushed again, after as long as a fault lasts.
func (k *client) remember(l *lane, writer, n int, o *pushed) {
	if k.r.IntN(20) > 0 {
		return
	}
	all := k.h.again[k.tenant]
	r := repeatOf{l, writer, n, *o.Offset, o.MessageID, k.h.now() + time.Duration(k.r.Int64N(int64(15*time.Second)))}
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.list) < repeatsMost {
		all.list = append(all.list, r)
	}
}

// takeDue gives one that is due.
func (a *repeats) takeDue(now time.Duration) (r repeatOf, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.list {
		if a.list[i].due <= now {
			r = a.list[i]
			last := len(a.list) - 1
			a.list[i] = a.list[last]
			a.list = a.list[:last]
			return r, true
		}
	}
	return r, false
}

// repeat pushes acknowledged messages again, each at another node than the one before: they have to be known.
func (k *client) repeat(w *crew) {
	for !w.stop.Load() {
		r, ok := k.h.again[k.tenant].takeDue(k.h.now())
		if !ok {
			k.pause(5, 20)
			continue
		}
		for !w.stop.Load() {
			k.at = (k.at + 1) % k.c.Len()
			var out []pushed
			status := k.call("POST", "/api/v1/push", map[string]any{"items": []pushItem{r.l.item(r.writer, r.number)}}, &out)
			if status == 201 && len(out) == 1 && out[0].Status != "error" {
				k.h.check(r.judge(&out[0]))
				k.h.acked.Add(1)
				k.h.repeated.Add(1)
				break
			}
			k.pause(20, 50)
		}
	}
}

// judge holds the answer to a repeated push against that to the first one.
func (r *repeatOf) judge(o *pushed) error {
	if o.Status != "duplicate" || o.Offset == nil || *o.Offset != r.offset || o.MessageID != r.id {
		offset := int64(-1)
		if o.Offset != nil {
			offset = *o.Offset
		}
		return fmt.Errorf("%v: message %d of writer %d was acknowledged at offset %d as %s; pushed again it is %q at %d as %s", r.l, r.number,
			r.writer, r.offset, r.id, o.Status, offset, o.MessageID)
	}
	return nil
}
