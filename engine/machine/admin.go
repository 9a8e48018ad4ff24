package machine

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/google/btree"

	"queen/engine/format"
)

// admin is a small row that belongs to no queue: a declaration, a switch, a key. The state carries its
// value and never reads it.
//
// INVARIANT: row is never changed, a change makes a new one; so a snapshot shares it and a reader may
// keep name and value, which lie in it.
type admin struct {
	id     uint32
	tenant format.Tenant
	kind   format.AdminKind
	name   string
	value  []byte
	at     format.Place // of the command that wrote it
	row    []byte       // the catalogue row
	dirt   dirt
}

func (a *admin) size() uint64 { return uint64(len(a.name)+len(a.value)) + format.AdminRowBytes }

func lessAdmin(a, b *admin) bool {
	if c := strings.Compare(string(a.tenant[:]), string(b.tenant[:])); c != 0 {
		return c < 0
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.name < b.name
}

// adminUse counts a tenant's rows.
type adminUse struct{ rows, bytes uint64 }

// adminLot is what bounds are counted over: the rows of consumer groups of a tenant, or all its others.
type adminLot struct {
	tenant format.Tenant
	groups bool
}

func (a *admin) lot() adminLot { return adminLot{a.tenant, a.kind == format.AdminGroup} }

// adminBounds are those of a row, of a tenant's rows and of everybody's.
type adminBounds struct {
	name, value        int
	rows, bytes, total uint64
}

func boundsOf(groups bool) adminBounds {
	if groups {
		return adminBounds{name: format.MaxGroupName, value: format.MaxGroupRow, rows: format.MaxGroupRows,
			bytes: format.MaxGroupBytes, total: format.MaxGroupTotal}
	}
	return adminBounds{name: format.MaxAdminName, value: format.MaxAdminValue, rows: format.MaxAdminRows,
		bytes: format.MaxAdminBytes, total: format.MaxAdminTotal}
}

// maxAdminNumber bounds the number of a row: the lowest free number is never above the number of rows, which the
// totals bound.
const maxAdminNumber = (format.MaxAdminTotal + format.MaxGroupTotal) / format.AdminRowBytes

// admins are the administrative rows; everything but the rows themselves is derived from them.
//
// INVARIANT: a new row takes the lowest number that no row has, and keeps it while it is there; so the
// rows alone say which it is. free holds the numbers below next that no row has (checkAdmins).
type admins struct {
	byID  map[uint32]*admin
	tree  *btree.BTreeG[*admin]
	use   map[adminLot]adminUse
	free  *btree.BTreeG[uint32]
	next  uint32
	bytes [2]uint64 // of groups in the second
	gen   uint64    // rises with every change but those of groups
}

func newAdmins() admins {
	return admins{
		byID: make(map[uint32]*admin), tree: btree.NewG(deadDegree, lessAdmin), next: 1,
		use: make(map[adminLot]adminUse), free: btree.NewG(deadDegree, cmp.Less[uint32]),
	}
}

// applyAdmin sets or deletes a row. Rows of the verdict counts what changed.
func (m *Machine) applyAdmin(c *format.Admin, n *format.CountResult) format.Code {
	if c.Row == format.AdminGroup {
		return format.CodeMalformed // those have a command of their own
	}
	return m.setAdmin(c, n)
}

func (m *Machine) setAdmin(c *format.Admin, n *format.CountResult) format.Code {
	old, found := m.admins.tree.Get(&admin{tenant: c.Tenant, kind: c.Row, name: string(c.Name)})
	n.Existed = found
	at := format.Place{}
	if found {
		at = old.at
	}
	if c.Guarded && c.At != at {
		return format.CodeGone
	}
	if c.Delete {
		if found {
			m.admins.drop(old)
			m.soilAdmin(old)
			n.Rows = 1
		}
		return format.CodeOK
	}
	fresh := &admin{tenant: c.Tenant, kind: c.Row, name: string(c.Name), value: c.Value, at: m.place}
	if !m.admins.fits(fresh, old) {
		return format.CodeLimit
	}
	fresh.id = m.admins.lowestFree()
	if found {
		fresh.id = old.id
		m.admins.drop(old)
	}
	fresh.seal()
	m.admins.put(fresh)
	m.soilAdmin(fresh)
	n.Rows = 1
	return format.CodeOK
}

func (m *Machine) soilAdmin(a *admin) { m.soil(&a.dirt, catKey{catAdmin, a.id}) }

// fits judges the bounds with fresh in the place of old.
func (s *admins) fits(fresh, old *admin) bool {
	lot := fresh.lot()
	use, total, most := s.use[lot], s.bytes[lot.number()], boundsOf(lot.groups)
	if old != nil {
		use.rows, use.bytes, total = use.rows-1, use.bytes-old.size(), total-old.size()
	}
	return len(fresh.name) <= most.name && len(fresh.value) <= most.value &&
		use.rows < most.rows && use.bytes+fresh.size() <= most.bytes && total+fresh.size() <= most.total
}

// number is the place of the lot in sums over all tenants.
func (l adminLot) number() int {
	if l.groups {
		return 1
	}
	return 0
}

func (s *admins) lowestFree() uint32 {
	if id, ok := s.free.Min(); ok {
		return id
	}
	return s.next
}

// put takes a row in under its number.
func (s *admins) put(a *admin) {
	if _, ok := s.free.Delete(a.id); !ok {
		for ; s.next < a.id; s.next++ {
			s.free.ReplaceOrInsert(s.next)
		}
		s.next = max(s.next, a.id+1)
	}
	s.byID[a.id] = a
	s.tree.ReplaceOrInsert(a)
	lot := a.lot()
	use := s.use[lot]
	s.use[lot] = adminUse{use.rows + 1, use.bytes + a.size()}
	s.bytes[lot.number()] += a.size()
	s.changed(lot)
}

// drop takes a row out; its number is free from then on.
func (s *admins) drop(a *admin) {
	delete(s.byID, a.id)
	s.tree.Delete(a)
	lot := a.lot()
	use := s.use[lot]
	if use = (adminUse{use.rows - 1, use.bytes - a.size()}); use.rows == 0 {
		delete(s.use, lot)
	} else {
		s.use[lot] = use
	}
	s.bytes[lot.number()] -= a.size()
	s.free.ReplaceOrInsert(a.id)
	s.changed(lot)
}

// changed tells whoever keeps something made of rows to look again. Coordinators write theirs often and look on their
// own account.
func (s *admins) changed(lot adminLot) {
	if !lot.groups {
		s.gen++
	}
}

// seal writes the catalogue row and points the value into it.
func (a *admin) seal() {
	e := enc{make([]byte, 0, 38+len(a.name)+len(a.value))}
	e.u8(rowVersion)
	e.u8(uint8(a.kind))
	e.id(a.tenant)
	e.u64(uint64(a.at.Index))
	e.u32(uint32(a.at.Ordinal))
	e.text(a.name)
	e.u32(uint32(len(a.value)))
	e.b = append(e.b, a.value...)
	a.row = e.b
	a.value = a.row[len(a.row)-len(a.value) : len(a.row) : len(a.row)]
}

func (r *reader) admin(a *admin) {
	r.version()
	a.kind, a.tenant = format.AdminKind(r.u8()), r.id()
	a.at = format.Place{Index: format.Index(r.u64()), Ordinal: format.Ordinal(r.u32())}
	a.name = r.text()
	a.value = []byte(r.text())
	most := boundsOf(a.kind == format.AdminGroup)
	r.bad = r.bad || len(a.name) > most.name || len(a.value) > most.value || a.kind == 0
}

// loadAdmin puts a row of a checkpoint in place. One name under two numbers is damage.
func (m *Machine) loadAdmin(id uint32, r *reader) error {
	m.unloadAdmin(id)
	a := &admin{id: id}
	if r.admin(a); r.bad || id == 0 {
		return errRow
	}
	if id > maxAdminNumber {
		return fmt.Errorf("machine: administrative row number %d", id)
	}
	// A row that was deleted and made again is told under its new number before its old one goes.
	if old, ok := m.admins.tree.Get(a); ok {
		m.admins.drop(old)
	}
	a.seal()
	m.admins.put(a)
	return nil
}

func (m *Machine) unloadAdmin(id uint32) {
	if a := m.admins.byID[id]; a != nil {
		m.admins.drop(a)
	}
}

// AdminRow is an administrative row. Value is the state's own and is never changed: keep it, but do not
// write to it.
type AdminRow struct {
	Name  string
	Value []byte
	At    format.Place
}

// AdminRow finds a row.
func (m *Machine) AdminRow(t format.Tenant, kind format.AdminKind, name string) (AdminRow, bool) {
	a, ok := m.admins.tree.Get(&admin{tenant: t, kind: kind, name: name})
	if !ok {
		return AdminRow{}, false
	}
	return AdminRow{a.name, a.value, a.at}, true
}

// AdminRows lists at most limit rows of a kind with names above after, by name. With an empty after it
// begins with the first, whose name may be empty.
func (m *Machine) AdminRows(t format.Tenant, kind format.AdminKind, after string, limit int) []AdminRow {
	var rows []AdminRow
	from := &admin{tenant: t, kind: kind, name: after}
	m.admins.tree.AscendGreaterOrEqual(from, func(a *admin) bool {
		if a.tenant != t || a.kind != kind || len(rows) == limit {
			return false
		}
		if after == "" || a.name != after {
			rows = append(rows, AdminRow{a.name, a.value, a.at})
		}
		return true
	})
	return rows
}

// AdminGeneration changes whenever an administrative row does, in this life of the state.
func (m *Machine) AdminGeneration() uint64 { return m.admins.gen }
