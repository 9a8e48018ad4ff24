package main

import (
	"slices"
	"strings"

	"queen/bench/internal/nodes"
	"queen/bench/internal/report"
)

// proved reports that something shows of each kind in what was done that it bit.
func proved(d *nodes.Done) bool {
	for kind := range strings.SplitSeq(d.Kind, "+") {
		if kind != "none" && !slices.Contains(d.Bitten, kind) {
			return false
		}
	}
	return true
}

// prove notes what was done and what shows that it bit. Each kind that was done has to have bitten at least once: a run under faults of which
// nothing shows proves nothing.
func (o *options) prove(did []nodes.Done, r *report.Report) {
	bit := 0
	done, bitten, whole := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range did {
		d := &did[i]
		r.Note("%s", d.String())
		whole[d.Kind] = true
		if d.Bit != "" {
			bit++
		}
		for kind := range strings.SplitSeq(d.Kind, "+") {
			done[kind] = true
		}
		for _, kind := range d.Bitten {
			bitten[kind] = true
		}
	}
	r.Add("faults", float64(len(did)), "")
	r.Add("faults that bit", float64(bit), "")
	for _, kind := range o.kinds() {
		if !whole[kind] {
			r.Note("%s was not done: there was no time for it", kind)
		}
	}
	if o.broken != "" {
		return
	}
	for _, kind := range nodes.Kinds() {
		if done[kind] && !bitten[kind] && kind != "none" {
			r.Violate("nothing shows that %s bit", kind)
		}
	}
	if len(did) == 0 && o.faults != "none" {
		r.Violate("no fault was done")
	}
}
