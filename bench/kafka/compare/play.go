package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// play is a story of requests that succeed, each built on what was answered before: a member joins, a transaction commits. It is
// performed once for every version of every key in it, the other keys in the greatest version that both sides serve.
type play struct {
	name  string
	steps []step
}

// step is one request of a play.
type step struct {
	name string
	key  kmsg.Key
	ask  func(a *actor, version int16) kmsg.Request
	// take notes what later requests need; may be nil.
	take func(a *actor, resp kmsg.Response)
	// until asks again until it is true or patience ends, for what comes to be in the background; nil takes the first answer.
	until func(a *actor, resp kmsg.Response) bool
	// refused says that the request is one that has to be refused. Any other has to succeed on our side: two refusals would
	// agree and say nothing.
	refused bool
	// from and to are the versions of the step's key in which it is asked, since it means nothing in others; to 0 is no end.
	from, to int16
}

// actor is a side in a performance, and what it was told in it.
type actor struct {
	s *side
	// name is of the group, the transactional id and the topic of the performance.
	name string
	// topic is the id of the topic, which has a single partition.
	topic [16]byte

	member     string
	generation int32 // of a classic group, or the epoch of a member
	assigned   bool
	producer   int64
	epoch      int16
	sequence   int32
}

// patience is how long a side may answer that it is not ready.
const patience = 10 * time.Second

// askAgain is between two such answers.
const askAgain = 20 * time.Millisecond

// notReady are the codes of what the same request gets an answer to a moment later.
var notReady = codes(kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.ConcurrentTransactions,
	kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID)

func codes(errs ...*kerr.Error) map[string]bool {
	all := map[string]bool{}
	for _, e := range errs {
		all[fmt.Sprint(e.Code)] = true
	}
	return all
}

// perform has both sides play everything.
func (c *comparison) perform(plays []play) error {
	for _, p := range plays {
		seen := map[kmsg.Key]bool{}
		for _, s := range p.steps {
			low, high, ok := c.shared(s.key)
			if seen[s.key] || !ok {
				continue
			}
			seen[s.key] = true
			for v := max(low, lowest[s.key]); v <= high; v++ {
				if !p.asks(s.key, v) {
					continue
				}
				if err := c.once(p, s.key, v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// asks tells whether a play has a step of a key in a version.
func (p *play) asks(key kmsg.Key, version int16) bool {
	return slices.ContainsFunc(p.steps, func(s step) bool { return s.key == key && s.meant(version) })
}

// meant tells whether a step is asked in a version of its key.
func (s *step) meant(version int16) bool { return version >= s.from && (s.to == 0 || version <= s.to) }

// lowest are versions below which a key is only advertised for old clients, or can not carry what plays are about.
var lowest = map[kmsg.Key]int16{kmsg.Produce: 3, kmsg.Fetch: 4, kmsg.ListOffsets: 2}

// shared are the versions that both sides serve.
func (c *comparison) shared(key kmsg.Key) (low, high int16, ok bool) {
	a, first := c.ours.served[int16(key)]
	b, second := c.other.served[int16(key)]
	low, high = max(a[0], b[0]), min(a[1], b[1])
	return low, high, first && second && low <= high
}

// once performs a play with one key in a certain version.
func (c *comparison) once(p play, key kmsg.Key, version int16) error {
	var actors [2]*actor
	for i, s := range []*side{&c.ours, &c.other} {
		actors[i] = &actor{s: s, name: fmt.Sprintf("%s-%s-%d", p.name, key.Name(), version), producer: -1, generation: -1}
		var err error
		if actors[i].topic, err = s.create(actors[i].name, 1); err != nil {
			return err
		}
	}
	for _, one := range p.steps {
		_, v, ok := c.shared(one.key)
		if one.key == key {
			v = version
		}
		if !ok || !one.meant(v) {
			continue
		}
		c.asked++
		var answers [2]map[string]string
		for i, a := range actors {
			answers[i] = a.act(&one, v)
		}
		name := p.name + ":" + one.name
		c.differ(int16(one.key), v, name, answers)
		if why := refusal(answers[0]); (why != "") != one.refused {
			if why == "" {
				why = "it is not refused"
			}
			c.fail(fmt.Sprintf("%s %s version %d (in %s): %s", one.key.Name(), name, v, actors[0].name, why))
		}
	}
	return nil
}

// act sends a step's request until its answer counts.
func (a *actor) act(one *step, version int16) map[string]string {
	for deadline := time.Now().Add(patience); ; time.Sleep(askAgain) {
		req := one.ask(a, version)
		req.SetVersion(version)
		resp, err := a.s.ask(req)
		answer := flatOutcome(resp, err)
		late := time.Now().After(deadline)
		early := err == nil && (!ready(answer) || one.until != nil && !a.s.tired[one.name] && !one.until(a, resp))
		if early && !late {
			continue
		}
		if early && ready(answer) {
			// What did not come to be once is not waited for in each performance.
			if a.s.tired == nil {
				a.s.tired = map[string]bool{}
			}
			a.s.tired[one.name] = true
		}
		if err == nil && one.take != nil {
			one.take(a, resp)
		}
		return answer
	}
}

// ready is false when an answer says that it is too early.
func ready(answer map[string]string) bool {
	for path, value := range answer {
		if strings.HasSuffix(path, "ErrorCode") && notReady[value] {
			return false
		}
	}
	return true
}

// refusal is why an answer is none that grants what was asked; empty when it grants it.
func refusal(answer map[string]string) string {
	if outcome := answer["(outcome)"]; outcome != answered {
		return outcome
	}
	for path, value := range answer {
		if strings.HasSuffix(path, "ErrorCode") && value != "0" {
			return path + " is " + value
		}
	}
	return ""
}
