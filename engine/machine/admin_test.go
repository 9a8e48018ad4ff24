package machine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
)

// refAdmins is what the random test expects of the administrative rows.
type refAdmins map[refAdminKey]refAdmin

type refAdminKey struct {
	tenant format.Tenant
	kind   format.AdminKind
	name   string
}

type refAdmin struct {
	value string
	at    format.Place
}

// admin sets or deletes a row out of a few, guarded half of the time, rightly or wrongly.
func (d *driver) admin() {
	key := refAdminKey{format.Tenant{15: byte(d.r.IntN(2))}, format.AdminKind(1 + d.r.IntN(2)), string(rune('a' + d.r.IntN(6)))}
	c := format.Admin{Tenant: key.tenant, Row: key.kind, Name: []byte(key.name), Delete: d.chance(40), Guarded: d.chance(50)}
	if !c.Delete {
		c.Value = bytes.Repeat([]byte("v"), d.r.IntN(9))
	}
	if c.Guarded && d.chance(70) {
		c.At = d.ref.admins[key].at
	}
	place := d.place()
	d.buf.AddAdmin(&c)
	d.add("admin", func(it *format.Result, out *format.Results) error {
		was, existed := d.ref.admins[key]
		want, rows := format.CodeOK, uint64(1)
		switch {
		case c.Guarded && c.At != was.at:
			want, rows = format.CodeGone, 0
		case c.Delete && !existed:
			rows = 0
		case c.Delete:
			delete(d.ref.admins, key)
		default:
			d.ref.admins[key] = refAdmin{string(c.Value), place}
		}
		if n := out.Counts[it.At]; it.Code != want || n.Existed != existed || n.Rows != rows {
			return fmt.Errorf("%s %+v, want %s, existed %v, rows %d", codeNames[it.Code], n, codeNames[want], existed, rows)
		}
		return d.sameAdmins()
	})
}

// sameAdmins compares listings and look-ups with the reference after entries of one command.
func (d *driver) sameAdmins() error {
	if len(d.judges) > 1 {
		return nil // the state is ahead of the verdict in hand
	}
	found := 0
	for _, tenant := range []format.Tenant{{}, format.DefaultTenant} {
		for _, kind := range []format.AdminKind{1, 2, format.AdminGroup} {
			after := ""
			for rows := d.m.AdminRows(tenant, kind, after, 2); len(rows) > 0; rows = d.m.AdminRows(tenant, kind, after, 2) {
				for _, row := range rows {
					one, ok := d.m.AdminRow(tenant, kind, row.Name)
					want, known := d.ref.admins[refAdminKey{tenant, kind, row.Name}]
					if !ok || !known || row.Name <= after || string(one.Value) != want.value || row.At != want.at {
						return fmt.Errorf("row %q: %+v, %+v, want %+v", row.Name, row, one, want)
					}
					after = row.Name
					found++
				}
			}
		}
	}
	if found != len(d.ref.admins) {
		return fmt.Errorf("%d rows listed, want %d", found, len(d.ref.admins))
	}
	return nil
}

// checkAdmins checks what is derived from the administrative rows.
func checkAdmins(s *admins) error {
	use, total, highest := map[adminLot]adminUse{}, [2]uint64{}, uint32(0)
	for id, a := range s.byID {
		if got, ok := s.tree.Get(a); !ok || got != a || a.id != id || s.free.Has(id) || id >= s.next {
			return fmt.Errorf("administrative row %d is not found by name, or its number is free", id)
		}
		if !strings.HasSuffix(string(a.row), string(a.value)) || !strings.Contains(string(a.row), a.name) {
			return fmt.Errorf("administrative row %d: the catalogue row is another's", id)
		}
		u := use[a.lot()]
		use[a.lot()] = adminUse{u.rows + 1, u.bytes + a.size()}
		total[a.lot().number()] += a.size()
		highest = max(highest, id)
	}
	if len(s.byID) != s.tree.Len() || len(s.byID)+s.free.Len()+1 != int(s.next) || total != s.bytes || len(use) != len(s.use) {
		return fmt.Errorf("%d administrative rows of %d bytes, %d in the tree, %d free below %d, counted %d bytes",
			len(s.byID), total, s.tree.Len(), s.free.Len(), s.next, s.bytes)
	}
	for t, u := range use {
		if s.use[t] != u {
			return fmt.Errorf("%v has %+v, counted %+v", t, u, s.use[t])
		}
	}
	return nil
}

// Goal: every bound of administrative rows refuses by name and changes nothing; replacing a row at a
// bound is legal.
func TestAdminBounds(t *testing.T) {
	r := newRig(t)
	r.check = false
	set := func(c format.Admin) format.Code {
		c.Row = format.AdminKey
		r.buf.AddAdmin(&c)
		return r.apply().Items[0].Code
	}
	other := format.Tenant{1}
	require.Equal(t, format.CodeOK, set(format.Admin{Name: make([]byte, format.MaxAdminName), Value: make([]byte, format.MaxAdminValue)}))
	require.Equal(t, format.CodeLimit, set(format.Admin{Name: make([]byte, format.MaxAdminName+1)}))
	require.Equal(t, format.CodeLimit, set(format.Admin{Value: make([]byte, format.MaxAdminValue+1)}))

	for i := range format.MaxAdminRows {
		r.buf.AddAdmin(&format.Admin{Tenant: other, Row: format.AdminKey, Name: fmt.Appendf(nil, "%06d", i)})
		if r.buf.Count == 10_000 {
			for _, it := range r.apply().Items {
				require.Equal(t, format.CodeOK, it.Code)
			}
		}
	}
	require.Equal(t, format.CodeLimit, set(format.Admin{Tenant: other, Name: []byte("one too many")}))
	require.Equal(t, format.CodeOK, set(format.Admin{Tenant: other, Name: []byte("000007"), Value: []byte("again")}))
	require.Equal(t, format.CodeOK, set(format.Admin{Tenant: format.DefaultTenant, Name: []byte("of somebody else")}))

	if testing.Short() {
		return // what follows copies 256 MiB
	}
	// Bytes of a tenant, then of all.
	big := make([]byte, format.MaxAdminValue)
	fill := func(tenant format.Tenant) (n int) {
		for ; set(format.Admin{Tenant: tenant, Name: fmt.Appendf(nil, "%d", n), Value: big}) == format.CodeOK; n++ {
		}
		return n
	}
	require.Equal(t, 1021, fill(format.Tenant{2})) // 64 MiB of 65,536 + 128 + name
	fill(format.Tenant{3})
	fill(format.Tenant{4})
	require.Less(t, fill(format.Tenant{5}), 1021)
	require.LessOrEqual(t, r.m.admins.bytes[0], uint64(format.MaxAdminTotal))
	require.NoError(t, checkAdmins(&r.m.admins))
}

// Goal: rows, numbers and digests survive a checkpoint whose delta moved names between numbers.
func TestAdminSnapshot(t *testing.T) {
	r := newRig(t)
	images := newImages(t)
	change := func(words ...string) {
		for _, w := range words {
			name, gone := strings.CutPrefix(w, "-")
			c := format.Admin{Tenant: format.DefaultTenant, Row: format.AdminStream, Name: []byte(name), Delete: gone}
			if !gone {
				c.Value = []byte("value of " + name)
			}
			r.buf.AddAdmin(&c)
		}
		r.apply()
		r.buf.AddMark(&format.Mark{Number: r.m.marks + 1})
		r.apply()
		images.take(r.m, r.m.marks == 1)
	}
	change("a", "b", "c", "d")
	change("-a", "-b", "b", "a", "-d") // b and a change places
	change("-c", "-b", "z", "y")
	got := images.load(r.m)
	require.NoError(t, checkAdmins(&got.admins))
	require.Equal(t, r.m.AdminRows(format.DefaultTenant, format.AdminStream, "", 9),
		got.AdminRows(format.DefaultTenant, format.AdminStream, "", 9))
	for id, a := range r.m.admins.byID {
		require.Equal(t, a.name, got.admins.byID[id].name)
	}
	require.Equal(t, r.m.admins.lowestFree(), got.admins.lowestFree())
	require.Error(t, got.Load(SectionCatalog, catKey{catAdmin, 1 << 31}.number(), r.m.admins.byID[1].row), "a number no row can have")
	require.Error(t, got.Load(SectionCatalog, catKey{catAdmin, 1}.number(), []byte{1, 1}), "a row cut short")
}
