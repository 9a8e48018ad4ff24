package engine

import (
	"context"
	"strconv"

	"queen/engine/format"
)

// GroupRow implements Records. The value is shared and never changes.
func (r recordsDoor) GroupRow(ctx context.Context, c Caller, group string) (GroupRow, error) {
	if err := r.n.catchUp(ctx); err != nil {
		return GroupRow{}, err
	}
	r.n.state.RLock()
	defer r.n.state.RUnlock()
	row, ok := r.n.state.m.GroupRow(c.Tenant, group)
	if !ok {
		return GroupRow{}, &Error{Code: CodeNotFound, Message: "there is no row of this consumer group"}
	}
	return GroupRow{Group: row.Name, Value: row.Value, At: row.At}, nil
}

// GroupRowAt implements Records.
func (r recordsDoor) GroupRowAt(c Caller, group string) format.Place {
	r.n.state.RLock()
	defer r.n.state.RUnlock()
	row, _ := r.n.state.m.GroupRow(c.Tenant, group)
	return row.At
}

// GroupTenants implements Records.
func (r recordsDoor) GroupTenants() []format.Tenant {
	r.n.state.RLock()
	defer r.n.state.RUnlock()
	return r.n.state.m.GroupTenants()
}

// GroupRows implements Records.
func (r recordsDoor) GroupRows(ctx context.Context, c Caller, after string, limit int) (rows []GroupRow, next string, err error) {
	if err := r.n.catchUp(ctx); err != nil {
		return nil, "", err
	}
	if limit <= 0 || limit > 1000 {
		limit = 1000
	}
	r.n.state.RLock()
	page := r.n.state.m.AdminRows(c.Tenant, format.AdminGroup, after, limit)
	r.n.state.RUnlock()
	for i := range page {
		rows = append(rows, GroupRow{Group: page[i].Name, Value: page[i].Value, At: page[i].At})
	}
	if len(page) == limit {
		next = page[limit-1].Name
	}
	return rows, next, nil
}

// SetGroupRow implements Records. A row that is deleted takes the consumer group along, with its positions on every
// queue.
func (r recordsDoor) SetGroupRow(ctx context.Context, c Caller, row GroupRow) (format.Place, error) {
	if err := checkGroupName(row.Group); err != nil {
		return format.Place{}, err
	}
	cmd := format.Group{Tenant: c.Tenant, Op: format.GroupSet, Name: viewBytes(row.Group), Value: row.Value, Guarded: true, At: row.At}
	if row.Delete {
		cmd.Op, cmd.Value = format.GroupDelete, nil
	}
	if len(cmd.Value) > format.MaxGroupRow {
		return format.Place{}, &Error{Code: CodeTooLarge, Field: "value", Limit: strconv.Itoa(format.MaxGroupRow) + " bytes",
			Message: "the row of a consumer group is too large"}
	}
	s := newSubmission(consumption)
	s.buf.AddGroup(&cmd)
	if err := r.n.commit(ctx, s); err != nil {
		return format.Place{}, err
	}
	defer s.flight.release()
	it := &s.items()[0]
	switch err := errOfCode(it.Code); {
	case err == nil && row.Delete:
		return format.Place{}, nil
	case err == nil:
		return format.Place{Index: s.flight.index, Ordinal: it.First}, nil
	case err.Code == CodeTooLarge:
		err.Field, err.Limit = "group", strconv.Itoa(format.MaxGroupRows)+" rows or "+strconv.Itoa(format.MaxGroupBytes>>20)+
			" MiB a tenant, "+strconv.Itoa(format.MaxGroupTotal>>20)+" MiB in all"
		err.Message = "there are too many consumer groups with coordinators: " + err.Limit
		return format.Place{}, err
	default:
		return format.Place{}, err
	}
}

// checkGroupName bounds the name of a consumer group that has a coordinator.
func checkGroupName(group string) *Error {
	switch {
	case group == "":
		return errBad("group", "", "a consumer group needs a name")
	case len(group) > format.MaxGroupName:
		return &Error{Code: CodeNameTooLong, Field: "group", Limit: strconv.Itoa(format.MaxGroupName) + " bytes",
			Message: "the name of the consumer group is too long"}
	}
	return nil
}
