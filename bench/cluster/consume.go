package main

// consume pops a queue and acks what comes until nothing is left, and is at times a worker that dies over it, or is slow.
func (k *client) consume(w *crew, queue string) {
	lanes := k.h.of(k.tenant, queue)
	home := rest{w: w}
	for !home.home(func() bool { return nothingLeft(lanes) }) {
		parcels, answered := k.pop(queue, 20, 4)
		if !answered {
			k.elsewhere()
		}
		switch k.r.IntN(300) {
		case 0, 1, 2:
			continue // it comes again when its lease has ended
		case 3:
			k.pause(leaseSeconds*1000, leaseSeconds*1500) // and its acks are refused
		case 4, 5:
			k.pause(leaseSeconds*500, leaseSeconds*800)
			k.extend(parcels)
			k.pause(leaseSeconds*500, leaseSeconds*800) // and its acks are not
		}
		if k.r.IntN(3) > 0 {
			k.ackAll(parcels)
			continue
		}
		for i := range parcels {
			p := &parcels[i]
			for j := range p.messages {
				if k.ack(p, &p.messages[j], "completed", "") == refused {
					break
				}
			}
		}
	}
}

// extend asks for more time for what a pop gave.
func (k *client) extend(parcels []parcel) {
	if len(parcels) == 0 {
		return
	}
	var out struct {
		Success bool
		Renewed int
	}
	sent := k.h.now()
	if k.call("POST", "/api/v1/lease/"+parcels[0].lease+"/extend", map[string]any{"seconds": leaseSeconds}, &out) != 200 {
		k.elsewhere()
		return
	}
	if out.Success && out.Renewed == len(parcels) {
		for i := range parcels {
			parcels[i].l.taking.extend(parcels[i].lease, sent)
		}
	}
}

// ackAll acks everything in one call; unanswered, it is left at that.
func (k *client) ackAll(parcels []parcel) {
	type item struct {
		TransactionID string `json:"transactionId"`
		PartitionID   string `json:"partitionId"`
		LeaseID       string `json:"leaseId"`
		Status        string `json:"status"`
	}
	var items []item
	for i := range parcels {
		p := &parcels[i]
		for j := range p.messages {
			m := &p.messages[j]
			items = append(items, item{m.TransactionID, m.PartitionID, p.lease, "completed"})
			p.l.taking.sending(p.lease, m.Offset, false, k.h.now())
		}
	}
	if len(items) == 0 {
		return
	}
	var out []acked
	status := k.call("POST", "/api/v1/ack/batch", map[string]any{"acknowledgments": items, "consumerGroup": "g"}, &out)
	if status == 200 && len(out) != len(items) {
		k.h.violate("%d acks were sent, %d answered", len(items), len(out))
		status = 0
	}
	now, at := k.h.now(), 0
	for i := range parcels {
		p := &parcels[i]
		for j := range p.messages {
			m := &p.messages[j]
			switch {
			case status != 200:
				p.l.taking.lost(m.Offset)
			case out[at].Success:
				p.l.taking.done(m.Offset, now)
				k.h.acked.Add(1)
			default:
				k.h.check(p.l.taking.refused(p.l, p.lease, m.Offset, out[at].Error, now))
			}
			at++
		}
	}
	if status != 200 {
		k.elsewhere()
	}
}
