package frontendhttp

import "queen/engine"

// ephemeral tells the figures of the queues in memory, over all tenants.
func (s scrape) ephemeral(e engine.EphemeralStats) {
	s.value("queen_ephemeral_bytes", float64(e.Bytes))
	s.value("queen_ephemeral_queues", float64(e.Queues))
	s.value("queen_ephemeral_parked", float64(e.Parked))
	for what, n := range map[string]uint64{"pushed": e.Pushed, "delivered": e.Delivered, "acked": e.Acked, "redelivered": e.Redelivered} {
		s.value("queen_ephemeral_messages_total", float64(n), what)
	}
	for cause, n := range map[string]uint64{"bounds": e.Dropped.Bounds, "ttl": e.Dropped.TTL, "retry": e.Dropped.Retry} {
		s.value("queen_ephemeral_dropped_total", float64(n), cause)
	}
}
