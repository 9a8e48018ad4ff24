package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"queen/bench/internal/changes"
	"queen/bench/internal/client"
	"queen/bench/internal/place"
)

// stored is what the first replay learnt about a line.
type stored struct {
	id     string
	offset uint64
}

// producer pushes its share of the files in the order of the input, 1 to most messages a push, each push until it is
// answered 201.
type producer struct {
	run  *replay
	i    int
	lane *lane
	own  []*changes.Line
	rng  *rand.Rand
	most int
	// took judges the answer to a line; sure says that no earlier sending of it can have reached the node.
	took func(l *changes.Line, p *client.Pushed, sure bool)
}

func (p *producer) push(ctx context.Context) error {
	defer p.lane.conn.Close()
	for at := 0; at < len(p.own) && ctx.Err() == nil; {
		n := min(1+p.rng.IntN(p.most), len(p.own)-at)
		p.run.gate.pass(ctx, p.i, at)
		if err := p.batch(ctx, p.own[at:at+n]); err != nil {
			return err
		}
		at += n
		p.run.taken.Add(int64(n))
	}
	return ctx.Err()
}

func (p *producer) batch(ctx context.Context, lines []*changes.Line) error {
	c := p.lane.conn
	c.PushBegin()
	for _, l := range lines {
		c.PushItem([]byte(p.run.queue), []byte(l.File.Name), l.ID, l.Raw)
	}
	for sure := true; ctx.Err() == nil; _ = place.Elsewhere(ctx, c) {
		a, err := p.lane.call(pushCall, c.PushSend)
		switch {
		case errors.Is(err, client.ErrUnanswered):
			sure = false
		case err != nil: // nobody listens: the node is down, and was not told
		case a.Status == 201:
			return p.answer(lines, a.Body, sure)
		case a.Status == 503 || a.Status == 429:
			sure = sure && a.Status == 429
		default:
			return fmt.Errorf("push: %w", a.Err())
		}
	}
	return ctx.Err()
}

func (p *producer) answer(lines []*changes.Line, body []byte, sure bool) error {
	n := 0
	err := client.ParsePush(body, func(i int, got client.Pushed) {
		if n++; i < len(lines) {
			p.took(lines[i], &got, sure)
		}
	})
	if err == nil && n != len(lines) {
		err = fmt.Errorf("push: %d results for %d messages", n, len(lines))
	}
	return err
}

// first judges an answer of the first replay and remembers it.
func (r *replay) first(l *changes.Line, p *client.Pushed, sure bool) {
	switch status := string(p.Status); {
	case status == "duplicate" && sure:
		r.v.Add("%s version %d was sent once and is a duplicate", l.File.Name, l.File.First+l.At)
	case status == "duplicate":
		r.resentDuplicates.Add(1)
	case status != "queued":
		r.v.Add("%s version %d was answered %s %s", l.File.Name, l.File.First+l.At, status, p.Error)
		return
	}
	if p.Offset != uint64(l.At) {
		r.v.Add("%s version %d was stored at offset %d, want %d", l.File.Name, l.File.First+l.At, p.Offset, l.At)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.stored[l] = stored{string(p.ID), p.Offset}
}

// second judges an answer of the second replay: the original's offset and id.
func (r *replay) second(l *changes.Line, p *client.Pushed, _ bool) {
	r.mu.Lock()
	was := r.mu.stored[l]
	r.mu.Unlock()
	if string(p.Status) != "duplicate" || p.Offset != was.offset || string(p.ID) != was.id {
		r.v.Add("%s version %d, pushed again, was answered %s at %d as %s, want duplicate at %d as %s", l.File.Name,
			l.File.First+l.At, p.Status, p.Offset, p.ID, was.offset, was.id)
		return
	}
	r.duplicates.Add(1)
}
