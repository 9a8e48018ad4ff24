package enginetest

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"queen/engine"
	"queen/engine/format"
)

// keyedState is what the model remembers by key. Rows are never changed, only replaced, so that a copy of
// the maps is a copy of the state.
type keyedState struct {
	version uint64 // of the newest change of any row; versions are shared by all families
	kv      map[kvKey]*kvRow
	timers  map[timerKey]*timerRow
	once    map[onceKey]*onceRow
	changes []kvEvent // what watchers are told, oldest first
	dropped uint64    // version of the newest change that is no longer in changes
	fired   []fired   // by timers of which the engine has not told yet when that was
}

type kvKey struct {
	tenant  format.Tenant
	ns, key string
}

type kvRow struct {
	value            []byte
	number           format.Number
	version          uint64
	expires, updated format.Wall
	owner            string // of a permit
	since            format.Wall
	pending          bool // the version is not the engine's yet
}

// kvEvent is one change, as watchers see it.
type kvEvent struct {
	at      kvKey
	row     *kvRow // nil when it was deleted or expired
	version uint64
}

// eventsKept bounds what the model remembers for watchers.
const eventsKept = 4096

func (k *keyedState) clone() keyedState {
	c := *k
	c.kv, c.timers, c.once, c.changes = maps.Clone(k.kv), maps.Clone(k.timers), maps.Clone(k.once), slices.Clone(k.changes)
	c.fired = slices.Clone(k.fired)
	return c
}

func (k *keyedState) next() uint64 {
	k.version++
	return k.version
}

// kvLive is the row of a key, nil when there is none or its time is over (S-kv-13).
func (s *state) kvLive(k kvKey) *kvRow {
	row := s.keyed.kv[k]
	if row == nil || row.expires != 0 && s.w >= row.expires {
		return nil
	}
	return row
}

// kvSet stores a row under a version of its own (S-kv-14).
func (s *state) kvSet(k kvKey, row kvRow) *kvRow {
	if s.keyed.kv == nil {
		s.keyed.kv = map[kvKey]*kvRow{}
	}
	row.version, row.updated = s.keyed.next(), s.w
	s.keyed.kv[k] = &row
	s.keyed.tell(kvEvent{k, &row, row.version})
	return &row
}

// kvDrop ends a row, which is a version of its own.
func (s *state) kvDrop(k kvKey) uint64 {
	delete(s.keyed.kv, k)
	version := s.keyed.next()
	s.keyed.tell(kvEvent{k, nil, version})
	return version
}

func (k *keyedState) tell(e kvEvent) {
	if k.changes = append(k.changes, e); len(k.changes) > eventsKept {
		k.dropped = k.changes[0].version
		k.changes = slices.Delete(k.changes, 0, 1)
	}
}

// kvSweep removes rows whose time is over, in order of key.
func (s *state) kvSweep() {
	for _, k := range s.kvKeys(func(kvKey) bool { return true }) {
		if s.kvLive(k) == nil {
			s.kvDrop(k)
		}
	}
	for k, row := range s.keyed.once {
		if s.w >= row.until {
			delete(s.keyed.once, k)
		}
	}
}

// kvKeys lists keys in byte order, expired ones too.
func (s *state) kvKeys(which func(kvKey) bool) (all []kvKey) {
	for k := range s.keyed.kv {
		if which(k) {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b kvKey) int {
		if c := bytes.Compare(a.tenant[:], b.tenant[:]); c != 0 {
			return c
		}
		if c := strings.Compare(a.ns, b.ns); c != 0 {
			return c
		}
		return strings.Compare(a.key, b.key)
	})
	return all
}

func (r *kvRow) view(key string) engine.KVRow {
	return engine.KVRow{Key: key, Value: bytes.Clone(r.value), Version: r.version, Expires: r.expires, Updated: r.updated}
}

func numberText(n format.Number) []byte {
	if n.Kind == format.IntNumber {
		return strconv.AppendInt(nil, n.Int, 10)
	}
	if a := math.Abs(n.Float); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(nil, n.Float, 'e', -1, 64)
	}
	return strconv.AppendFloat(nil, n.Float, 'f', -1, 64)
}

func asFloat(n format.Number) float64 {
	if n.Kind == format.IntNumber {
		return float64(n.Int)
	}
	return n.Float
}

// addNumbers keeps integers integers; false when the sum can not be told.
func addNumbers(a, b format.Number) (format.Number, bool) {
	if a.Kind == format.IntNumber && b.Kind == format.IntNumber {
		sum := a.Int + b.Int
		return format.Number{Kind: format.IntNumber, Int: sum}, (sum > a.Int) == (b.Int > 0)
	}
	f := asFloat(a) + asFloat(b)
	return format.Number{Kind: format.FloatNumber, Float: f}, !math.IsInf(f, 0) && !math.IsNaN(f)
}

func below(a, b format.Number) bool {
	if a.Kind == format.IntNumber && b.Kind == format.IntNumber {
		return a.Int < b.Int
	}
	return asFloat(a) < asFloat(b)
}
