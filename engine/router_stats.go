package engine

// Stats implements Inspect: counters of all groups are added, and so are gauges of what groups have apart.
func (x routedInspect) Stats() Stats {
	var sum Stats
	for _, n := range x.r.groups {
		st := n.Inspect().Stats()
		sum.add(&st)
	}
	return sum
}

// add adds what another raft group of the same process counted. The disk is the same one, and its figures are those of whoever comes
// first.
func (s *Stats) add(o *Stats) {
	s.Pushed += o.Pushed
	s.PushedBytes += o.PushedBytes
	s.Duplicates += o.Duplicates
	s.Refused += o.Refused
	s.DeliveredMessages += o.DeliveredMessages
	s.DeliveredBytes += o.DeliveredBytes
	s.Claims += o.Claims
	s.Acked += o.Acked
	s.Nacked += o.Nacked
	s.DeadLettered += o.DeadLettered
	s.Redriven += o.Redriven
	s.HandedBack += o.HandedBack
	s.Expired += o.Expired
	s.Entries += o.Entries
	s.EntryBytes += o.EntryBytes
	s.Flushes += o.Flushes
	s.FlushMicros += o.FlushMicros
	s.DuplicateProbes += o.DuplicateProbes
	s.RunProbes += o.RunProbes
	s.StaleEvidence += o.StaleEvidence
	s.Overloaded += o.Overloaded
	s.StorageRefused += o.StorageRefused
	s.KVWrites += o.KVWrites
	s.KVReads += o.KVReads
	s.KVLost += o.KVLost
	s.Transactions += o.Transactions
	s.RolledBack += o.RolledBack
	s.Repeated += o.Repeated
	s.LocksGranted += o.LocksGranted
	s.LocksRefused += o.LocksRefused
	s.TimersScheduled += o.TimersScheduled
	s.TimersCancelled += o.TimersCancelled
	s.TimersFired += o.TimersFired
	s.TimersRefused += o.TimersRefused
	s.Parked += o.Parked
	s.InflightWriteBytes += o.InflightWriteBytes
	s.KVRows += o.KVRows
	s.TimersPending += o.TimersPending
	s.Queues += o.Queues
	s.Partitions += o.Partitions
	s.Groups += o.Groups
	s.LiveLeases += o.LiveLeases
	s.Segments += o.Segments
	s.LogBytes += o.LogBytes
	s.Bulks += o.Bulks
	s.BulkBytes += o.BulkBytes
	s.CheckpointBytes += o.CheckpointBytes
	s.CommitMicros.add(&o.CommitMicros)
	s.TimerLateMicros.add(&o.TimerLateMicros)
	s.DeadBytes += o.DeadBytes
	s.TimerOldestLateMicros = max(s.TimerOldestLateMicros, o.TimerOldestLateMicros)
	if s.DiskTotal == 0 {
		s.DiskTotal, s.DiskFree = o.DiskTotal, o.DiskFree
	}
	if o.LastCommitAt > s.LastCommitAt {
		s.LastCommitAt, s.LastCommitMicros = o.LastCommitAt, o.LastCommitMicros
	}
	if s.DeadAt == 0 || o.DeadAt != 0 && o.DeadAt < s.DeadAt { // the sum is as old as its oldest part
		s.DeadAt = o.DeadAt
	}
}

func (h *Histogram) add(o *Histogram) {
	for i, n := range o.Counts {
		h.Counts[i] += n
	}
	h.Sum += o.Sum
}
