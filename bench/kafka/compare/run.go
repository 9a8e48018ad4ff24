package main

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// comparison is two sides in the same state, and what they do not agree on.
type comparison struct {
	ours, other side
	found       map[string]*difference
	order       []string
	// asked counts requests that both got, unshared lists keys that only one serves.
	asked    int
	unshared []string
	// failures are what our side refused in plays and had to grant, or granted and had to refuse, whatever the other does.
	failures []string
}

// compare asks everything.
func compare(ctx context.Context, ours, other string) (*comparison, error) {
	c := &comparison{ours: side{addr: ours}, other: side{addr: other}, found: map[string]*difference{}}
	for _, s := range []*side{&c.ours, &c.other} {
		if err := s.learn(); err != nil {
			return nil, err
		}
		if err := s.prepare(ctx); err != nil {
			return nil, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.ours.served)) {
		theirs, shared := c.other.served[key]
		if !shared {
			c.unshared = append(c.unshared, kmsg.NameForKey(key))
			continue
		}
		mine := c.ours.served[key]
		// What is only advertised for old clients is not asked: versions of Produce below 3.
		for v := max(mine[0], theirs[0]); v <= min(mine[1], theirs[1]); v++ {
			if key == int16(kmsg.Produce) && v < 3 {
				continue
			}
			for _, one := range cases(key, v) {
				c.ask(key, v, one.name, one.make)
			}
		}
	}
	return c, errors.Join(c.perform(plays()), ctx.Err())
}

// ask sends one request to both and notes what differs.
func (c *comparison) ask(key, version int16, name string, build func(s *side) kmsg.Request) {
	c.asked++
	var answers [2]map[string]string
	for i, s := range []*side{&c.ours, &c.other} {
		req := build(s)
		req.SetVersion(version)
		answers[i] = flatOutcome(s.ask(req))
	}
	c.differ(key, version, name, answers)
}

// answered is the outcome of a request that got an answer.
const answered = "answered"

// flatOutcome is an answer, or that there is none, as lines.
func flatOutcome(resp kmsg.Response, err error) map[string]string {
	if err != nil {
		return map[string]string{"(outcome)": err.Error()}
	}
	out := flat(resp)
	out["(outcome)"] = answered
	return out
}

func (c *comparison) fail(what string) { c.failures = append(c.failures, what) }

// differ notes what two answers do not agree on.
func (c *comparison) differ(key, version int16, name string, answers [2]map[string]string) {
	paths := map[string]bool{}
	if answers[0]["(outcome)"] != answers[1]["(outcome)"] {
		paths["(outcome)"] = true
	} else {
		for _, m := range answers {
			for path := range m {
				paths[path] = true
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		a, first := answers[0][path]
		b, second := answers[1][path]
		// What is only in one of them is in an element of a list, or a pointer, that the other has not: that is told once.
		if a == b || path != "(outcome)" && (!first || !second) {
			continue
		}
		c.note(&difference{key: key, name: name, path: bare(path), ours: or(a), other: or(b)}, version)
	}
}

func or(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

func (c *comparison) note(d *difference, version int16) {
	id := kmsg.NameForKey(d.key) + " " + d.name + " " + d.path
	before := c.found[id]
	if before == nil {
		before = d
		c.found[id] = d
		c.order = append(c.order, id)
	}
	if !slices.Contains(before.versions, version) {
		before.versions = append(before.versions, version)
	}
}
