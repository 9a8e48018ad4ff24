package engine

import (
	"context"

	"queen/engine/format"
)

// unbuiltRecords answers CodeNotBuilt to everything.
type unbuiltRecords struct{}

// UnbuiltRecords is a door behind which nothing is built.
func UnbuiltRecords() Records { return unbuiltRecords{} }

func (unbuiltRecords) Produce(context.Context, Caller, []RecordBatch) ([]Produced, error) {
	return nil, errNotBuilt()
}
func (unbuiltRecords) Fetch(context.Context, Caller, []FetchAt, int) ([]Fetched, error) {
	return nil, errNotBuilt()
}
func (unbuiltRecords) RecordOffsets(context.Context, Caller, []RecordOffsetQuery) ([]RecordOffset, error) {
	return nil, errNotBuilt()
}
func (unbuiltRecords) DeleteRecords(context.Context, Caller, []FetchAt) ([]RecordOffset, error) {
	return nil, errNotBuilt()
}
func (unbuiltRecords) InitProducer(context.Context, Caller, ProducerInit) (ProducerIdentity, error) {
	return ProducerIdentity{}, errNotBuilt()
}
func (unbuiltRecords) AddToTxn(context.Context, Caller, ProducerRef, []PartitionRef) error {
	return errNotBuilt()
}
func (unbuiltRecords) EndTxn(context.Context, Caller, TxnEnd) (ProducerIdentity, error) {
	return ProducerIdentity{}, errNotBuilt()
}
func (unbuiltRecords) Transactions(context.Context, Caller, string, int) ([]TxnInfo, string, error) {
	return nil, "", errNotBuilt()
}
func (unbuiltRecords) Transaction(context.Context, Caller, string) (TxnInfo, error) {
	return TxnInfo{}, errNotBuilt()
}
func (unbuiltRecords) Producers(context.Context, Caller, PartitionRef) ([]ProducerState, error) {
	return nil, errNotBuilt()
}
func (unbuiltRecords) CommitOffsets(context.Context, Caller, GroupCommit) ([]*Error, error) {
	return nil, errNotBuilt()
}
func (unbuiltRecords) Committed(context.Context, Caller, string, []PartitionRef) ([]GroupOffset, error) {
	return nil, errNotBuilt()
}
func (unbuiltRecords) GroupRow(context.Context, Caller, string) (GroupRow, error) {
	return GroupRow{}, errNotBuilt()
}
func (unbuiltRecords) Leader(Caller) (format.Replica, format.Term) { return 0, 0 }

func (unbuiltRecords) GroupRowAt(Caller, string) format.Place { return format.Place{} }
func (unbuiltRecords) GroupTenants() []format.Tenant          { return nil }
func (unbuiltRecords) GroupRows(context.Context, Caller, string, int) ([]GroupRow, string, error) {
	return nil, "", errNotBuilt()
}
func (unbuiltRecords) SetGroupRow(context.Context, Caller, GroupRow) (format.Place, error) {
	return format.Place{}, errNotBuilt()
}
