package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"queen/bench/internal/client"
	"queen/bench/internal/message"
)

// pusher is a client of one node that pushes one message at a time, again until it is answered, and remembers when it was.
type pusher struct {
	addr   string
	number int

	mu      sync.Mutex
	answers []time.Time
	err     error // of the last push that was not taken
}

// pushPause is between a client's pushes: the load is light.
const pushPause = time.Millisecond

func (p *pusher) run(ctx context.Context) {
	c := client.New(p.addr, 10*time.Second)
	defer c.Close()
	queue := fmt.Appendf(nil, "moves-%d", p.number)
	var id, payload []byte
	for n := uint32(0); ctx.Err() == nil; pause(ctx, pushPause) {
		id = message.AppendID(id[:0], 1, uint32(p.number), n)
		payload = message.AppendPayload(payload[:0], 256, n, time.Now().UnixMicro(), uint64(n))
		c.PushBegin()
		c.PushItem(queue, []byte("p"), id, payload)
		a, err := c.PushSend()
		if err == nil && a.Status != 201 {
			err = fmt.Errorf("status %d: %.300s", a.Status, a.Body)
		}
		p.mu.Lock()
		if err == nil {
			p.answers = append(p.answers, time.Now())
			n++
		} else {
			p.err = err
		}
		p.mu.Unlock()
	}
}

// last is when it was answered last; zero for never.
func (p *pusher) last() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.answers) == 0 {
		return time.Time{}
	}
	return p.answers[len(p.answers)-1]
}

func (p *pusher) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// longest is the longest time without an answer that ended between two moments, or had not ended at the second, and when it ended. It
// counts from the answer before it, also where that came before the first moment.
func (p *pusher) longest(from, until time.Time) (gap time.Duration, end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := from
	look := func(at time.Time) {
		if d := at.Sub(last); d > gap {
			gap, end = d, at
		}
		last = at
	}
	for _, at := range p.answers {
		switch {
		case at.Before(from):
			last = at
		case !at.After(until):
			look(at)
		}
	}
	look(until)
	return gap, end
}
