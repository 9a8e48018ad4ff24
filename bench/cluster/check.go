package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"queen/bench/internal/nodes"
	"queen/bench/internal/report"
)

// judge holds the histories against what must hold.
func judge(c *nodes.Cluster, h *history, r *report.Report) {
	for _, o := range h.odd {
		r.Violate("unexpected answer: %s", o)
	}
	for i := range c.Len() {
		h.judgeLog(c, i, r)
	}
	h.judgeAcks(r)
	h.judgeLeases(r)
	h.judgeKeys(r)
}

// judgeLog reads the whole log by way of one node.
func (h *history) judgeLog(c *nodes.Cluster, node int, r *report.Report) {
	k := newClient(c, h, 1, node)
	found := make([][]pushRecord, len(h.pushed))
	for empty := 0; empty < 3; {
		var got popAnswer
		status := k.call("GET", fmt.Sprintf("/api/v1/pop/queue/q?consumerGroup=judge%d&subscriptionMode=all&batch=1000&partitions=64&autoAck=true", node), nil, &got)
		switch {
		case status == 204 || status == 200 && len(got.Messages) == 0:
			empty++
		case status != 200:
			r.Violate("node %d: the log can not be read: %d", node+1, status)
			return
		}
		for _, m := range got.Messages {
			var p int
			at, _ := m.Offset.Int64()
			if _, err := fmt.Sscanf(m.Partition, "p%d", &p); err == nil && p < len(found) {
				found[p] = append(found[p], pushRecord{m.TransactionID, at})
			}
		}
	}
	for p := range found {
		h.judgePartition(node, p, found[p], r)
	}
}

func (h *history) judgePartition(node, p int, found []pushRecord, r *report.Report) {
	at := 0
	for _, want := range h.pushed[p] {
		maybe := want.id[len(want.id)-1] == '?'
		if at < len(found) && (found[at].id == want.id || maybe && found[at].id+"?" == want.id) {
			if want.offset >= 0 && !maybe && found[at].offset != want.offset {
				r.Violate("node %d: %s is at %d, its pusher was told %d", node+1, want.id, found[at].offset, want.offset)
			}
			if found[at].offset != int64(at) {
				r.Violate("node %d: partition %d: offset %d comes as number %d", node+1, p, found[at].offset, at)
			}
			at++
		} else if !maybe {
			r.Violate("node %d: partition %d: %s was acknowledged and is not at its place", node+1, p, want.id)
			return
		}
	}
	if at != len(found) {
		r.Violate("node %d: partition %d holds %d messages that nobody pushed, the first is %s", node+1, p, len(found)-at, found[at].id)
	}
}

// judgeAcks: what was acked is not delivered again.
func (h *history) judgeAcks(r *report.Report) {
	done, maybe := map[string]time.Duration{}, map[string]bool{}
	for i := range h.acks {
		a := &h.acks[i]
		maybe[a.id] = maybe[a.id] || a.unknown
		if t, ok := done[a.id]; a.ok && (!ok || a.answered < t) {
			done[a.id] = a.answered
		}
	}
	for i := range h.deliveries {
		d := &h.deliveries[i]
		if t, ok := done[d.id]; ok && d.asked > t {
			r.Violate("%s was delivered to a pop sent at %v, its ack was answered at %v", d.id, d.asked, t)
		}
	}
	for _, p := range h.pushed {
		for i := range p {
			if _, ok := done[p[i].id]; !ok && !maybe[p[i].id] && p[i].id[len(p[i].id)-1] != '?' {
				r.Violate("%s was never acked", p[i].id)
			}
		}
	}
}

// judgeLeases: a message is under one lease at a time. A second one is wrong when its delivery came before the first one,
// claimed no earlier than its pop was sent, can have ended; unless the first was given up by an ack that was refused.
func (h *history) judgeLeases(r *report.Report) {
	byID := map[string][]delivery{}
	for _, d := range h.deliveries {
		byID[d.id] = append(byID[d.id], d)
	}
	for id, all := range byID {
		slices.SortFunc(all, func(a, b delivery) int { return int(a.asked - b.asked) })
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			if a.lease != b.lease && b.came < a.asked+leaseSeconds*time.Second {
				r.Violate("%s is under lease %s, asked at %v, and under %s, there at %v", id, a.lease, a.asked, b.lease, b.came)
			}
		}
	}
}

// keyState is a key's value as the model knows it.
type keyState struct {
	value   int
	version uint64 // 0: absent
}

// keyModel is one key: a put replaces the value, and versions rise.
var keyModel = porcupine.NondeterministicModel{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range ops {
			key := o.Input.(keyInput).key
			byKey[key] = append(byKey[key], o)
		}
		var out [][]porcupine.Operation
		for _, l := range byKey {
			out = append(out, l)
		}
		return out
	},
	Init: func() []any { return []any{keyState{}} },
	Step: func(state, input, output any) []any {
		s, in, out := state.(keyState), input.(keyInput), output.(keyOutput)
		switch {
		case in.put && out.unknown:
			// A version that nobody was told: any higher one.
			return []any{s, keyState{in.value, s.version | unknownVersion}}
		case in.put:
			if out.applied && out.version > s.version&^unknownVersion {
				return []any{keyState{in.value, out.version}}
			}
			return nil
		case out.found:
			if s.version == 0 || s.value != out.value || s.version&unknownVersion == 0 && s.version != out.version {
				return nil
			}
			return []any{keyState{s.value, out.version}}
		}
		if s.version != 0 {
			return nil
		}
		return []any{s}
	},
	Equal: func(a, b any) bool { return a == b },
}

// unknownVersion marks a state whose version is only known to be above the rest of it.
const unknownVersion = 1 << 63

func (h *history) judgeKeys(r *report.Report) {
	model := keyModel.ToModel()
	if got := porcupine.CheckOperationsTimeout(model, h.keys, 60*time.Second); got != porcupine.Ok {
		r.Violate("keys: %d operations are %v", len(h.keys), got)
	}
}
