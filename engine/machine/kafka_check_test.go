package machine

import (
	"fmt"
	"maps"
	"sort"

	"queen/engine/format"
)

// checkKafka checks what is derived of producers and transactions against the rows.
func checkKafka(m *Machine) error {
	if err := checkSequences(m); err != nil {
		return err
	}
	if err := checkHeld(m); err != nil {
		return err
	}
	k := &m.kafka
	parts, bytes, open, pending := 0, 0, map[openKey]bool{}, map[pendingKey]uint32{}
	for id, t := range k.byID {
		switch {
		case t.id != id || k.byProducer[t.producer] != t || m.named(t.tenant, []byte(t.name)) != t:
			return fmt.Errorf("transactional id %q is not found", t.name)
		case t.state != txnOngoing && len(t.parts)+len(t.positions) > 0:
			return fmt.Errorf("transactional id %q holds something and no transaction is open", t.name)
		case !sort.SliceIsSorted(t.parts, func(i, j int) bool { return t.parts[i].part < t.parts[j].part }):
			return fmt.Errorf("transactional id %q: partitions out of order", t.name)
		case k.due.Has(dueTxn{t.started + format.Wall(t.timeout), t.id}) != (t.state == txnOngoing):
			return fmt.Errorf("transactional id %q: due", t.name)
		case k.idle.Has(dueTxn{t.changed, t.id}) != (t.state != txnOngoing),
			k.idleOf.Has(idleKey{t.tenant, dueTxn{t.changed, t.id}}) != (t.state != txnOngoing):
			return fmt.Errorf("transactional id %q: idle", t.name)
		}
		parts += len(t.parts)
		for i := range t.parts {
			if ph := m.anyPart(t.parts[i].part); ph != 0 && t.parts[i].began {
				open[openKey{ph, t.parts[i].first, t.id}] = true
			}
		}
		own := 0
		for i := range t.positions {
			own += t.positions[i].size()
			pending[pendingKey{t.tenant, t.positions[i].at}]++
			if i > 0 && t.positions[i-1].at.compare(t.positions[i].at) >= 0 {
				return fmt.Errorf("transactional id %q: positions out of order", t.name)
			}
		}
		if bytes += own; own != t.bytes {
			return fmt.Errorf("transactional id %q: %d bytes of positions, counted %d", t.name, own, t.bytes)
		}
	}
	if parts != k.parts || bytes != k.bytes || len(pending) != len(k.pending) || k.byName.Len() != len(k.byID) ||
		k.due.Len()+k.idle.Len() != len(k.byID) || k.idle.Len() != k.idleOf.Len() || k.open.Len() != len(open) {
		return fmt.Errorf("%d partitions, %d bytes, %d pending, %d open; counted %d, %d, %d, %d", k.parts, k.bytes, len(k.pending),
			k.open.Len(), parts, bytes, len(pending), len(open))
	}
	var err error
	k.open.Ascend(func(o openKey) bool {
		if !open[o] || m.parts.Get(o.part).flags&partOpen == 0 || m.stable(o.part) > o.first {
			err = fmt.Errorf("open %v is wrong", o)
		}
		return err == nil
	})
	for h := m.parts.Next(0); err == nil && h != 0; h = m.parts.Next(h) {
		if flag := m.parts.Get(h).flags&partOpen != 0; flag != (m.stable(h) < m.parts.Get(h).next) {
			err = fmt.Errorf("partition %d: open %v, stable %d of %d", h, flag, m.stable(h), m.parts.Get(h).next)
		}
	}
	return err
}

func checkSequences(m *Machine) error {
	k := &m.kafka
	n, last := 0, handle(0)
	for h := k.oldest; h != 0; h = k.seqs.Get(h).newer {
		s := k.seqs.Get(h)
		found, ok := k.seqTree.Get(seqKey{part: s.part, producer: s.producer})
		switch {
		case s.older != last || last != 0 && k.seqs.Get(last).lastW > s.lastW:
			return fmt.Errorf("producer row %d is out of order", h)
		case !ok || found.row != h || !m.parts.Live(s.part):
			return fmt.Errorf("producer row %d is not found", h)
		}
		n, last = n+1, h
	}
	if last != k.newest || n != k.seqs.Len() || n != k.seqTree.Len() {
		return fmt.Errorf("%d producer rows in order of use, %d rows, %d indexed", n, k.seqs.Len(), k.seqTree.Len())
	}
	if k.abortTree.Len() != k.aborts.Len() {
		return fmt.Errorf("%d aborted ranges, %d indexed", k.aborts.Len(), k.abortTree.Len())
	}
	if err := checkAges(m); err != nil {
		return err
	}
	for h := k.aborts.Next(0); h != 0; h = k.aborts.Next(h) {
		if a := k.aborts.Get(h); a.first >= a.last || a.stable > m.parts.Get(a.part).next || a.last >= m.parts.Get(a.part).next {
			return fmt.Errorf("aborted range %+v of a partition of %d", a, m.parts.Get(a.part).next)
		}
	}
	return nil
}

// checkHeld checks what tenants take of the room for partitions of transactions.
func checkHeld(m *Machine) error {
	k, held := &m.kafka, map[format.Tenant]int{}
	for _, t := range k.byID {
		if len(t.parts) > 0 {
			held[t.tenant] += len(t.parts)
		}
	}
	for h := k.aborts.Next(0); h != 0; h = k.aborts.Next(h) {
		held[m.queues[m.parts.Get(k.aborts.Get(h).part).queue].tenant]++
	}
	if !maps.Equal(held, k.held) {
		return fmt.Errorf("tenants hold partitions of transactions %v, counted %v", held, k.held)
	}
	return nil
}

// checkAges checks the order of aborted ranges by age.
func checkAges(m *Machine) (err error) {
	k := &m.kafka
	parts, last := 0, abortKey{}
	k.abortTree.Ascend(func(a abortKey) bool {
		switch {
		case a.part != last.part:
			if parts++; !k.ages.Has(m.ageOf(a)) {
				err = fmt.Errorf("partition %d: its oldest aborted range is not known by its age", a.part)
			}
		case k.aborts.Get(a.row).w < k.aborts.Get(last.row).w:
			err = fmt.Errorf("partition %d: aborted range %d ended before the one it follows", a.part, a.last)
		}
		last = a
		return err == nil
	})
	if err == nil && parts != k.ages.Len() {
		err = fmt.Errorf("%d partitions with aborted ranges, %d by age", parts, k.ages.Len())
	}
	return err
}
