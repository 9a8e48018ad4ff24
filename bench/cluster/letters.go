package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Every poisonEvery-th message of its queue is refused by its consumer each time that it comes. It is delivered
// poisonRetries times more, then it is a dead letter, and never delivered again.
const (
	poisonEvery   = 10
	poisonRetries = 2
	poisonWords   = "poison"
)

func poison(n int) bool { return n%poisonEvery == poisonEvery-1 }

type letterName struct {
	partition string
	n         int
}

// letterHistory is what became of the refusals of a tenant.
type letterHistory struct {
	mu     sync.Mutex
	sent   map[letterName]int // refusals that were sent
	failed map[letterName]int // of those, answered: it will come again
	filed  int
}

func (h *letterHistory) sending(name letterName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent[name]++
}

// answered judges the answer to a refusal.
func (h *letterHistory) answered(name letterName, filed bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if filed {
		if sent := h.sent[name]; sent <= poisonRetries {
			return fmt.Errorf("message %d of %s is a dead letter after %d refusals, %d are allowed", name.n, name.partition, sent, poisonRetries)
		}
		h.filed++
		delete(h.sent, name)
		delete(h.failed, name)
		return nil
	}
	if h.failed[name]++; h.failed[name] > poisonRetries {
		return fmt.Errorf("message %d of %s was refused %d times and is no dead letter", name.n, name.partition, h.failed[name])
	}
	return nil
}

// poisoned consumes the queue with poison in it.
func (k *client) poisoned(w *crew) {
	lanes := k.h.of(k.tenant, poisonQueue)
	home := rest{w: w}
	for !home.home(func() bool { return nothingLeft(lanes) }) {
		parcels, answered := k.pop(poisonQueue, 5, 1)
		if !answered {
			k.elsewhere()
		}
		for i := range parcels {
			k.taste(&parcels[i])
		}
	}
}

// taste acks messages up to the first that is poison, whose refusal gives the rest back.
func (k *client) taste(p *parcel) {
	h := k.h.letters[k.tenant]
	for j := range p.messages {
		m := &p.messages[j]
		if !poison(m.n) {
			if k.ack(p, m, "completed", "") == refused {
				return
			}
			continue
		}
		name := letterName{p.l.partition, m.n}
		h.sending(name)
		switch o := k.ack(p, m, "failed", poisonWords); o {
		case done, filed:
			k.h.check(h.answered(name, o == filed))
		}
		return
	}
}

// letter is a row of the list of dead letters.
type letter struct {
	TransactionID, Queue, Partition, ConsumerGroup, ErrorMessage string
	Data                                                         json.RawMessage
}

// lettersMost is how long a list of dead letters may be behind.
const lettersMost = 5 * time.Second

// judgeLetters reads the list by way of the client's node.
func (k *client) judgeLetters() {
	var errs []error
	for begin := time.Now(); len(errs) == 0 || time.Since(begin) < lettersMost; time.Sleep(200 * time.Millisecond) {
		asked := time.Now()
		all, ok := k.deadLetters()
		if ok {
			if errs = judgeLetters(all, k.h.of(k.tenant, poisonQueue)); len(errs) == 0 {
				return
			}
		} else if !k.h.patience.again(k.at, asked) {
			errs = []error{errors.New("dead letters can not be listed")}
			break
		}
	}
	for _, err := range errs {
		k.h.violate("node %d: tenant %d: %v", k.at+1, k.tenant, err)
	}
}

// deadLetters lists those of the queue.
func (k *client) deadLetters() (all []letter, ok bool) {
	for {
		var page struct{ Messages []letter }
		if k.call("GET", fmt.Sprintf("/api/v1/dlq?queue=%s&limit=1000&offset=%d", poisonQueue, len(all)), nil, &page) != 200 {
			return nil, false
		}
		if len(page.Messages) == 0 {
			return all, true
		}
		all = append(all, page.Messages...)
	}
}

// judgeLetters wants each poisonous message of the lanes once in the list, whole, and nothing else.
func judgeLetters(all []letter, lanes []*lane) (errs []error) {
	want := map[string]bool{}
	for _, l := range lanes {
		for n := range int(l.top()) {
			if poison(n) {
				want[fmt.Sprintf("%s/0-%d", l.partition, n)] = true
			}
		}
	}
	for i := range all {
		d := &all[i]
		name := d.Partition + "/" + d.TransactionID
		if there, known := want[name]; !known || !there {
			if known {
				errs = append(errs, fmt.Errorf("%s is twice among the dead letters", name))
			} else {
				errs = append(errs, fmt.Errorf("%s is among the dead letters, and was not refused", name))
			}
			continue
		}
		want[name] = false
		w, n, ok := parsePayload(d.Data)
		if !ok || fmt.Sprintf("%d-%d", w, n) != d.TransactionID || d.ConsumerGroup != "g" || d.ErrorMessage != poisonWords {
			errs = append(errs, fmt.Errorf("dead letter %s is of group %q, with error %q, and holds %.100q", name, d.ConsumerGroup, d.ErrorMessage, d.Data))
		}
	}
	for name, missing := range want {
		if missing {
			errs = append(errs, fmt.Errorf("%s was refused to the end and is not among the dead letters", name))
		}
	}
	return errs
}
