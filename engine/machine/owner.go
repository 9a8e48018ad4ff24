package machine

import "queen/engine/format"

// OwnerOf names the tenant, queue and partition of an id, whatever the tenant; false when the partition is gone.
func (m *Machine) OwnerOf(id format.PartitionID) (t format.Tenant, queue, partition string, ok bool) {
	h, p := m.partByID(id)
	if p == nil || m.queues[p.queue] == nil {
		return t, "", "", false
	}
	q := m.queues[p.queue]
	return q.tenant, q.name, m.partView(h).Name, true
}
