package engine

import (
	"context"
	"strconv"
	"time"

	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/machine"
)

// maxInitTries bounds how often an InitProducer meets a transaction that began in between.
const maxInitTries = 8

// InitProducer implements Records.
func (r recordsDoor) InitProducer(ctx context.Context, c Caller, p ProducerInit) (ProducerIdentity, error) {
	cmd := format.Producer{Op: format.ProducerInit, Tenant: c.Tenant, Name: viewBytes(p.TransactionalID)}
	if err := checkTransactionalID(p.TransactionalID); err != nil {
		return ProducerIdentity{}, err
	}
	if p.ID != NoProducer {
		if err := checkProducer(p.ID, p.Epoch); err != nil {
			return ProducerIdentity{}, err
		}
		cmd.ID, cmd.Epoch = format.ProducerID(p.ID), p.Epoch
	}
	if p.TransactionalID != "" {
		if p.Timeout <= 0 || p.Timeout > format.MaxTransactionTimeout*time.Microsecond {
			return ProducerIdentity{}, errBad("timeout", "7 days", "the timeout of a transaction is out of range")
		}
		cmd.Timeout = max(p.Timeout.Microseconds(), 1)
	}
	for range maxInitTries {
		s := newSubmission(consumption)
		if p.TransactionalID != "" {
			r.abortOpen(s, c, &p)
		}
		at := s.buf.Count
		s.buf.AddProducer(&cmd)
		if err := r.n.commit(ctx, s); err != nil {
			return ProducerIdentity{}, err
		}
		it := s.items()[at]
		res := s.flight.results
		if it.Code == format.CodeStaleEvidence {
			s.flight.release()
			continue
		}
		if err := errOfCode(it.Code); err != nil {
			return ProducerIdentity{}, err
		}
		out := ProducerIdentity{ID: int64(res.Producers[it.At].ID), Epoch: res.Producers[it.At].Epoch}
		s.flight.release()
		return out, nil
	}
	return ProducerIdentity{}, &Error{Code: CodeTxnBusy, RetryAfter: 100 * time.Millisecond,
		Message: "transactions of the transactional id begin faster than they can be aborted"}
}

// abortOpen puts the abort of an id's open transaction in front of what a new producer asks for. Who names an identity
// may abort its own only: a producer that was fenced must not end what its successor began. The epoch rises with the
// command behind it, in one entry.
func (r recordsDoor) abortOpen(s *submission, c Caller, p *ProducerInit) {
	r.n.state.RLock()
	producer, epoch, open, ok := r.n.state.m.ProducerOf(c.Tenant, p.TransactionalID)
	r.n.state.RUnlock()
	if ok && open && (p.ID == NoProducer || p.ID == int64(producer) && p.Epoch == epoch) {
		r.n.addEnd(s, &format.EndTxn{ID: producer, Epoch: epoch})
	}
}

// addEnd adds the end of a transaction with its control batch, whose time is now.
func (n *Node) addEnd(s *submission, e *format.EndTxn) {
	control := batch.AppendControl(nil, 0, 0, batch.Marker{ProducerID: int64(e.ID), ProducerEpoch: e.Epoch, Commit: e.Commit,
		Timestamp: int64(n.wall() / 1000)})
	s.buf.AddEndTxn(e, format.EncodeKafkaFrame(nil, 1, control))
}

// AddToTxn implements Records.
func (r recordsDoor) AddToTxn(ctx context.Context, c Caller, p ProducerRef, parts []PartitionRef) error {
	cmd := format.Producer{Op: format.ProducerPartitions, Partitions: make([]format.ProducerPartition, len(parts))}
	for i := range parts {
		if err := checkNames(parts[i].Queue, parts[i].Partition, "partition"); err != nil {
			return err
		}
		cmd.Partitions[i] = format.ProducerPartition{Queue: viewBytes(parts[i].Queue), Partition: viewBytes(parts[i].Partition)}
	}
	_, err := r.inTxn(ctx, c, p, &cmd)
	if err != nil {
		return err // not a nil *Error
	}
	return nil
}

// inTxn commits a command about a transaction of a producer.
func (r recordsDoor) inTxn(ctx context.Context, c Caller, p ProducerRef, cmd *format.Producer) (format.ProducerResult, *Error) {
	if err := checkRef(p); err != nil {
		return format.ProducerResult{}, err
	}
	cmd.Tenant, cmd.Name, cmd.ID, cmd.Epoch = c.Tenant, viewBytes(p.TransactionalID), format.ProducerID(p.ID), p.Epoch
	if len(cmd.Positions) > 0 {
		if err := r.n.inTxnMost.check(r.n, cmd); err != nil {
			return format.ProducerResult{}, err
		}
	}
	if err := r.n.txnShare.check(r.n, c.Tenant, len(cmd.Partitions)); err != nil {
		return format.ProducerResult{}, err
	}
	if len(cmd.Partitions)+len(cmd.Positions) > format.MaxListItems {
		return format.ProducerResult{}, errBad("partitions", strconv.Itoa(format.MaxListItems), "too many partitions in one call")
	}
	s := newSubmission(consumption)
	s.buf.AddProducer(cmd)
	if s.size() > r.n.fuser.most {
		s.recycle()
		return format.ProducerResult{}, r.n.fuser.tooLarge()
	}
	if err := r.n.commit(ctx, s); err != nil {
		return format.ProducerResult{}, err
	}
	defer s.flight.release()
	it := &s.items()[0]
	return s.flight.results.Producers[it.At], errOfCode(it.Code)
}

// EndTxn implements Records.
func (r recordsDoor) EndTxn(ctx context.Context, c Caller, e TxnEnd) (ProducerIdentity, error) {
	if err := checkRef(e.ProducerRef); err != nil {
		return ProducerIdentity{}, err
	}
	n := r.n
	bound, err := n.sees(ctx, func(m *machine.Machine) bool {
		// Also one that the id was bound to before: it may repeat its last end.
		owner, name, known := m.OwnerOfProducer(format.ProducerID(e.ID))
		return known && owner == c.Tenant && name == e.TransactionalID
	})
	switch {
	case err != nil:
		return ProducerIdentity{}, err
	case !bound:
		return ProducerIdentity{}, errOfCode(format.CodeProducerMapping)
	}
	s := newSubmission(consumption)
	n.addEnd(s, &format.EndTxn{ID: format.ProducerID(e.ID), Epoch: e.Epoch, Commit: e.Commit, Bump: e.Bump})
	if err := n.commit(ctx, s); err != nil {
		return ProducerIdentity{}, err
	}
	defer s.flight.release()
	it := &s.items()[0]
	if err := errOfCode(it.Code); err != nil {
		return ProducerIdentity{}, err
	}
	res := &s.flight.results.Ends[it.At]
	return ProducerIdentity{ID: int64(res.ID), Epoch: res.Epoch}, nil
}

// sees looks for something in the state. Before a node of a cluster says that it is not there it catches up: another node may have
// told the caller of it.
func (n *Node) sees(ctx context.Context, look func(m *machine.Machine) bool) (bool, error) {
	now := func() bool {
		n.state.RLock()
		defer n.state.RUnlock()
		return look(n.state.m)
	}
	if now() {
		return true, nil
	}
	if n.cluster == nil {
		return false, nil
	}
	if err := n.catchUp(ctx); err != nil {
		return false, err
	}
	return now(), nil
}

// refresh catches up on a node that may lag, for a list.
func (n *Node) refresh(ctx context.Context) error {
	if !n.mayLag() {
		return nil
	}
	if err := n.catchUp(ctx); err != nil {
		return err // not a nil *Error
	}
	return nil
}

func checkTransactionalID(id string) *Error {
	if len(id) > format.MaxTransactionalID {
		return &Error{Code: CodeNameTooLong, Field: "transactionalId", Limit: strconv.Itoa(format.MaxTransactionalID) + " bytes",
			Message: "the transactional id is too long"}
	}
	return nil
}

func checkProducer(id int64, epoch int16) *Error {
	if id < 0 || id > format.MaxProducerID || epoch < 0 {
		return errBad("producer", "", "producer id or epoch is out of range")
	}
	return nil
}

func checkRef(p ProducerRef) *Error {
	if p.TransactionalID == "" {
		return errBad("transactionalId", "", "a transactional id is needed")
	}
	if err := checkTransactionalID(p.TransactionalID); err != nil {
		return err
	}
	if p.ID < 0 || p.ID > format.MaxProducerID {
		return errOfCode(format.CodeProducerMapping) // no transactional id is bound to that
	}
	return checkProducer(p.ID, p.Epoch)
}

// commitInTxn adds positions to a transaction (CommitOffsets with a Producer). All are refused together.
func (r recordsDoor) commitInTxn(ctx context.Context, c Caller, g *GroupCommit) ([]*Error, error) {
	if err := checkGroupName(g.Group); err != nil {
		return nil, err
	}
	cmd := format.Producer{Op: format.ProducerPositions, Group: viewBytes(g.Group), Implicit: g.Implicit, Fenced: g.Fenced, Row: g.Row}
	for i := range g.Positions {
		p := &g.Positions[i]
		if err := p.check(g.Group); err != nil {
			return nil, err
		}
		cmd.Positions = append(cmd.Positions, format.Position{Queue: viewBytes(p.Queue), Partition: viewBytes(p.Partition), To: p.Offset,
			LeaderEpoch: max(p.LeaderEpoch, format.NoLeaderEpoch), Metadata: viewBytes(p.Metadata)})
	}
	out := make([]*Error, len(g.Positions))
	res, err := r.inTxn(ctx, c, g.Producer, &cmd)
	if err != nil && err.Code == CodeUnknownQueue && int(res.Failed) < len(out) {
		out[res.Failed] = err // the others were not set either
		for i := range out {
			if out[i] == nil {
				out[i] = &Error{Code: CodeRolledBack, Message: "another position of the call was refused"}
			}
		}
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Transactions implements Records.
func (r recordsDoor) Transactions(ctx context.Context, c Caller, after string, limit int) (rows []TxnInfo, next string, err error) {
	if limit <= 0 || limit > 1000 {
		limit = 1000
	}
	if err := r.n.refresh(ctx); err != nil {
		return nil, "", err
	}
	r.n.state.RLock()
	defer r.n.state.RUnlock()
	page := r.n.state.m.Transactions(c.Tenant, after, limit)
	for i := range page {
		rows = append(rows, txnInfo(&page[i]))
	}
	if len(page) == limit {
		next = page[limit-1].Name
	}
	return rows, next, nil
}

// Transaction implements Records.
func (r recordsDoor) Transaction(ctx context.Context, c Caller, id string) (TxnInfo, error) {
	var t machine.Transaction
	ok, err := r.n.sees(ctx, func(m *machine.Machine) (ok bool) {
		t, ok = m.Transaction(c.Tenant, id)
		return ok
	})
	if err != nil {
		return TxnInfo{}, err
	}
	if !ok {
		return TxnInfo{}, &Error{Code: CodeNotFound, Field: "transactionalId", Message: "no such transactional id"}
	}
	return txnInfo(&t), nil
}

func txnInfo(t *machine.Transaction) TxnInfo {
	v := TxnInfo{ProducerRef: ProducerRef{TransactionalID: t.Name, ID: int64(t.Producer), Epoch: t.Epoch},
		Timeout: time.Duration(t.Timeout) * time.Microsecond, Started: t.Started}
	switch t.State {
	case machine.TransactionOngoing:
		v.State = TxnOngoing
	case machine.TransactionCommitted:
		v.State = TxnCommitted
	case machine.TransactionAborted:
		v.State = TxnAborted
	default:
		v.State = TxnEmpty
	}
	for _, p := range t.Partitions {
		v.Partitions = append(v.Partitions, PartitionRef(p))
	}
	return v
}

// Producers implements Records.
func (r recordsDoor) Producers(ctx context.Context, c Caller, at PartitionRef) ([]ProducerState, error) {
	if err := r.n.refresh(ctx); err != nil {
		return nil, err
	}
	part, queueExists, ok := r.n.partByName(c.Tenant, at.Queue, at.Partition)
	switch {
	case !queueExists:
		return nil, errOfCode(format.CodeUnknownQueue)
	case !ok:
		return nil, errOfCode(format.CodeUnknownPartition)
	}
	r.n.state.RLock()
	rows := r.n.state.m.ProducersOn(part.id)
	r.n.state.RUnlock()
	out := make([]ProducerState, len(rows))
	for i := range rows {
		p := &rows[i]
		out[i] = ProducerState{ID: int64(p.Producer), Epoch: p.Epoch, LastSequence: p.LastSequence, LastTimestamp: p.LastTime,
			TxnStart: p.TxnStart, HasTxn: p.HasTxn}
	}
	return out, nil
}

// expireTxns aborts open transactions whose time is over, and reports whether there were any.
func (h *house) expireTxns() bool {
	const limit = 64
	n := h.n
	now := n.wall()
	n.state.RLock()
	due, _ := n.state.m.DueTransactions(now, limit)
	n.state.RUnlock()
	if len(due) == 0 {
		return false
	}
	s := newSubmission(consumption)
	for _, d := range due {
		n.addEnd(s, &format.EndTxn{ID: d.Producer, Epoch: d.Epoch, Expire: true})
	}
	return h.commit(s)
}
