package machine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"queen/engine/format"
)

// refRow is a keyed row of the reference: one map of them by family and store key, expired ones dropped at
// once.
type refRow struct {
	family  byte
	version uint64
	due     format.Wall
	num     format.Number
	text    string // JSON, metadata, or digest of an idempotency row
	permit  bool
	owner   string
	since   format.Wall
	// Of timers.
	part, tx, recur string
	place           format.Place
	w               format.Wall
	fires           uint64
	attempts        uint32
	refused         uint32
	paused          bool
	note            string
	first           uint64 // version at the schedule
	firstDue        format.Wall
}

type refKeyed struct {
	rows    map[string]*refRow
	version uint64
}

func (k *refKeyed) next() uint64 {
	k.version++
	return k.version
}

func kvKey(ns, key []byte) string {
	return string(format.AppendKVKey([]byte{FamilyKV}, format.DefaultTenant, ns, key))
}

func timerKeyOf(queue, key []byte) string {
	return string(format.AppendTimerKey([]byte{FamilyTimer}, format.DefaultTenant, queue, key))
}

func onceKey(key [16]byte) string {
	return string(format.AppendOnceKey([]byte{FamilyOnce}, format.DefaultTenant, key))
}

func positionKey(p format.PartitionID, g format.ConsumerID) string {
	return string(format.AppendPositionKey([]byte{FamilyPosition}, p, g))
}

// expire drops what is past its time. Timers are never. The end of a KV row has a version.
func (k *refKeyed) expire(w format.Wall) {
	maps.DeleteFunc(k.rows, func(_ string, r *refRow) bool {
		over := r.due != 0 && r.due <= w && r.family != FamilyTimer
		if over && r.family == FamilyKV {
			k.next()
		}
		return over
	})
}

// clone is what a transaction is tried on.
func (k *refKeyed) clone() *refKeyed {
	c := &refKeyed{rows: map[string]*refRow{}, version: k.version}
	for key, r := range k.rows {
		row := *r
		c.rows[key] = &row
	}
	return c
}

func (k *refKeyed) kv(c *format.KV, w format.Wall) (res format.KVResult) {
	key := kvKey(c.Namespace, c.Key)
	row := k.rows[key]
	defer func() {
		if row := k.rows[key]; row != nil && (res.Reason != format.KVApplied || c.Op != format.KVDelete) {
			res.Version, res.Expires = row.version, row.due
			if !row.permit {
				res.Number = row.num
			}
		}
	}()
	if c.HasExpect {
		switch {
		case row == nil && c.Expect != 0:
			return format.KVResult{Reason: format.KVAbsent}
		case row != nil && c.Expect == 0:
			return format.KVResult{Reason: format.KVExists}
		case row != nil && row.version != c.Expect:
			return format.KVResult{Reason: format.KVVersion}
		}
	}
	due := format.Wall(0)
	if c.Keep != 0 {
		due = w + format.Wall(c.Keep)
	}
	switch c.Op {
	case format.KVPut:
		k.rows[key] = &refRow{family: FamilyKV, version: k.next(), due: due, num: c.Number, text: string(c.Value)}
	case format.KVDelete:
		if row == nil {
			return format.KVResult{Reason: format.KVAbsent}
		}
		delete(k.rows, key)
		return format.KVResult{Version: k.next()}
	case format.KVIncr:
		base := 0.0
		if row != nil {
			if due = row.due; row.num.Kind == format.NotANumber || row.permit {
				return format.KVResult{Reason: format.KVType}
			}
			base = float(row.num)
		}
		sum := base + float(c.Number)
		if c.Min.Kind != format.NotANumber && sum < float(c.Min) || c.Max.Kind != format.NotANumber && sum > float(c.Max) {
			return format.KVResult{Reason: format.KVLimit}
		}
		// The numbers of the test are small: the kind follows from the operands alone.
		num := format.Number{Kind: format.FloatNumber, Float: sum}
		if c.Number.Kind == format.IntNumber && (row == nil || row.num.Kind == format.IntNumber) {
			num = format.Number{Kind: format.IntNumber, Int: int64(sum)}
		}
		k.rows[key] = &refRow{family: FamilyKV, version: k.next(), due: due, num: num, text: strconv.FormatFloat(sum, 'f', -1, 64)}
	}
	return format.KVResult{}
}

func slotKey(c *format.Lock, slot uint32) string {
	return kvKey([]byte(format.LockNamespace), fmt.Appendf(nil, "%s#%d", c.Name, slot))
}

// staleRenew says that the evidence about the owner is not what the row says.
func (k *refKeyed) staleRenew(c *format.Lock) bool {
	row := k.rows[slotKey(c, c.Slot)]
	return c.Op == format.LockRenew && row != nil && row.permit && row.version == c.Token && row.owner != string(c.Owner)
}

func (k *refKeyed) lock(c *format.Lock, w format.Wall) (res format.LockResult, code format.Code) {
	permit := func(slot uint32, since format.Wall) {
		row := &refRow{
			family: FamilyKV, version: k.next(), due: w + format.Wall(c.Keep), permit: true, owner: string(c.Owner), since: since,
		}
		k.rows[slotKey(c, slot)] = row
		res = format.LockResult{Slot: slot, Token: row.version, Expires: row.due}
	}
	if c.Op == format.LockAcquire {
		free := -1
		for slot := range c.Limit {
			switch row := k.rows[slotKey(c, slot)]; {
			case row == nil && free < 0:
				free = int(slot)
			case row != nil && row.permit && row.owner != "" && row.owner == string(c.Owner):
				return format.LockResult{Already: true, Slot: slot, Token: row.version, Expires: row.due}, format.CodeOK
			}
		}
		if free < 0 {
			return format.LockResult{Reason: format.LockHeld}, format.CodeOK
		}
		permit(uint32(free), w)
		return res, format.CodeOK
	}
	row := k.rows[slotKey(c, c.Slot)]
	res = format.LockResult{Slot: c.Slot}
	switch {
	case k.staleRenew(c):
		return res, format.CodeStaleEvidence
	case c.Op == format.LockRelease && row != nil && row.version == c.Token:
		k.next()
		delete(k.rows, slotKey(c, c.Slot))
	case c.Op == format.LockRenew && row != nil && row.permit &&
		(row.version == c.Token || row.owner != "" && row.owner == string(c.Owner)):
		permit(c.Slot, c.Since)
	default:
		res.Reason = format.LockLost
	}
	return res, format.CodeOK
}

func (k *refKeyed) timer(c *format.Timer, w format.Wall, place format.Place) (res format.TimerResult, code format.Code) {
	key := timerKeyOf(c.Queue, c.Key)
	row := k.rows[key]
	due := c.Due
	if c.Relative {
		due += w
	}
	switch c.Op {
	case format.TimerSchedule:
		if res.Status = format.TimerScheduled; row != nil {
			res.Status = format.TimerRescheduled
		}
		row = &refRow{
			family: FamilyTimer, version: k.next(), due: due, part: string(c.Partition), tx: string(c.TransactionID), recur: string(c.Recur),
			place: place, w: w, firstDue: due,
		}
		row.first = row.version
		k.rows[key] = row
	case format.TimerCancel:
		if row == nil {
			return format.TimerResult{Status: format.TimerAbsent}, format.CodeOK
		}
		delete(k.rows, key)
		res.Status = format.TimerCancelled
	case format.TimerPause, format.TimerResume:
		if row == nil {
			return format.TimerResult{Status: format.TimerAbsent}, format.CodeOK
		}
		if row.paused != (c.Op == format.TimerPause) {
			row.paused, row.version = !row.paused, k.next()
		}
		if res.Status = format.TimerResumed; row.paused {
			res.Status = format.TimerPaused
		}
	case format.TimerFailed:
		if row == nil || row.version != c.Version {
			return res, format.CodeGone
		}
		row.version, row.due, row.note = k.next(), due, string(c.Reason)
		row.attempts++
		if c.Counted {
			row.refused++
		}
		res.Status = format.TimerRescheduled
	}
	res.Version, res.Due = row.version, row.due
	return res, format.CodeOK
}

// same compares the rows that the sink holds, and the heads, with the reference.
func (k *refKeyed) same(m *Machine, sink map[string]string) error {
	names := slices.Sorted(maps.Keys(k.rows))
	for name := range sink {
		if name[0] != FamilyDeadLetter && k.rows[name] == nil {
			return fmt.Errorf("row %q is there", name)
		}
	}
	for _, name := range names {
		value, ok := sink[name]
		if !ok {
			return fmt.Errorf("row %q is missing, want %+v", name, k.rows[name])
		}
		if err := k.rows[name].same(m, name[1:], []byte(value)); err != nil {
			return fmt.Errorf("row %q: %w, want %+v", name, err, k.rows[name])
		}
	}
	return nil
}

func (r *refRow) same(m *Machine, key string, value []byte) error {
	switch r.family {
	case FamilyKV:
		row, err := format.ParseKVRow(value)
		t, ns, k, _ := format.ParseKVKey([]byte(key))
		head, _ := m.KVHead(t, ns, k)
		if err != nil || row.Version != r.version || row.Expires != r.due || row.Number != r.num || row.Permit != r.permit ||
			string(row.Owner) != r.owner || row.Since != r.since || !r.permit && string(row.JSON) != r.text ||
			head.Version != r.version || head.Due != r.due || head.Number != r.num || head.Permit != r.permit {
			return fmt.Errorf("%+v %q, head %+v, %v", row, row.JSON, head, err)
		}
	case FamilyTimer:
		row, err := format.ParseTimerRow(value)
		t, queue, k, _ := format.ParseTimerKey([]byte(key))
		head, _ := m.TimerHead(t, queue, k)
		if err != nil || row.Version != r.first || row.Due != r.firstDue || row.Place != r.place || row.W != r.w ||
			string(row.Partition) != r.part || string(row.TransactionID) != r.tx || string(row.Recur) != r.recur ||
			head.Version != r.version || head.Due != r.due || head.Fires != r.fires || head.Attempts != r.attempts || head.LastError != r.note ||
			head.Refused != r.refused || head.Paused != r.paused {
			return fmt.Errorf("%+v, head %+v, %v", row, head, err)
		}
	case FamilyOnce:
		row, err := format.ParseOnceRow(value)
		var parts format.Results
		if err == nil {
			err = format.ParseParts(row.Parts, row.First+1, &parts)
		}
		if err != nil || string(row.Digest[:]) != r.text || row.Index != r.place.Index || row.First != r.place.Ordinal || row.W != r.w ||
			string(row.Note) != r.note || uint64(len(parts.Items)) != r.fires {
			return fmt.Errorf("%+v, %d parts, %v", row, len(parts.Items), err)
		}
	case FamilyPosition:
		if row, err := format.ParsePositionRow(value); err != nil || string(row.Metadata) != r.text {
			return fmt.Errorf("%q, %v", row.Metadata, err)
		}
	}
	return nil
}
