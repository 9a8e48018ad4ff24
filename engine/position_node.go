package engine

import (
	"strconv"

	"queen/engine/format"
)

// position encodes a CommitOffset: where a group reads next in a partition, which is made if need be (S-txn-18).
func (d *doCall) position(i int, op *CommitOffset) *Error {
	group := groupName(op.Group)
	other := op.Partition
	if len(group) > len(other) {
		other = group
	}
	if err := checkNames(op.Queue, other, "consumerGroup"); err != nil {
		return err
	}
	start := op.Start
	if start == 0 {
		start = format.StartNew
	}
	switch {
	case start != format.StartNew && start != format.StartAll:
		return errBad("subscriptionMode", "new, all", "a position starts a group at new or at all")
	case len(op.Metadata) > format.MaxPositionMetadata:
		return &Error{Code: CodeTooLarge, Field: "metadata", Limit: strconv.Itoa(format.MaxPositionMetadata) + " bytes",
			Message: "the metadata of a position is too large"}
	case op.Forget && (op.Offset != 0 || op.Metadata != ""):
		return errBad("offset", "", "a position is set or forgotten, not both")
	}
	sub := d.side(false)
	d.then(i, sub, d.counted)
	sub.buf.AddSetOffset(&format.SetOffset{Tenant: d.caller.Tenant, Queue: viewBytes(op.Queue), Partition: viewBytes(op.Partition),
		Group: viewBytes(group), To: op.Offset, Forget: op.Forget, Create: true, Start: start, Metadata: viewBytes(op.Metadata)})
	return nil
}
