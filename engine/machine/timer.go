package machine

import (
	"queen/engine/format"
	"queen/engine/machine/slab"
)

// applyTimer schedules, cancels or puts off a timer (S-tmr-1 to 10).
func (m *Machine) applyTimer(c *format.Timer, res *format.TimerResult) format.Code {
	if !c.Fits() {
		return format.CodeLimit
	}
	at := m.timerAt(c.Tenant, c.Queue, c.Key)
	switch c.Op {
	case format.TimerSchedule:
		return m.schedule(c, at, res)
	case format.TimerFailed:
		return m.putOff(c, at, res)
	}
	if res.Status = format.TimerAbsent; at.h != 0 {
		res.Status = format.TimerCancelled
		res.Version, res.Due = m.keys.Get(at.h).version, m.keys.Get(at.h).due
		m.remove(at)
	}
	return format.CodeOK
}

// dueOf is when a timer comes due. One that is due already fires at once, in the order of what was asked for.
func (m *Machine) dueOf(c *format.Timer) format.Wall {
	due := c.Due
	if c.Relative {
		due = m.w + min(max(due, -maxStamp), maxStamp)
	}
	return min(max(due, 1), maxStamp)
}

func (m *Machine) schedule(c *format.Timer, at keyAt, res *format.TimerResult) format.Code {
	if !m.keyRoom(1, at.size) {
		return format.CodeLimit
	}
	if res.Status = format.TimerScheduled; at.h != 0 {
		res.Status = format.TimerRescheduled
	}
	row := format.TimerRow{
		Version: m.nextVersion(), Due: m.dueOf(c), Place: m.place, W: m.w, Partition: c.Partition,
		TransactionID: c.TransactionID, Recur: c.Recur, Frame: c.Frame,
	}
	m.write(at, row.Append(m.scratch.row[:at.size]), keyRec{version: row.Version, due: row.Due})
	res.Version, res.Due = row.Version, row.Due
	return format.CodeOK
}

// putOff keeps a timer whose fire was refused, and why.
func (m *Machine) putOff(c *format.Timer, at keyAt, res *format.TimerResult) format.Code {
	if at.h == 0 || m.keys.Get(at.h).version != c.Version {
		return format.CodeGone
	}
	note := slab.Ref(0)
	if len(c.Reason) > 0 {
		note, _ = m.names.Put(c.Reason[:min(len(c.Reason), slab.NameBytesMax)]) // without room it has no reason
	}
	num := m.keys.Get(at.h).num
	if num&timerAttempts < timerAttempts {
		num++
	}
	m.moveTimer(at.h, m.dueOf(c), num, note)
	res.Status = format.TimerRescheduled
	res.Version, res.Due = m.keys.Get(at.h).version, m.keys.Get(at.h).due
	return format.CodeOK
}

// moveTimer changes the head of a timer; the row stays.
func (m *Machine) moveTimer(h handle, due format.Wall, num uint64, note slab.Ref) {
	k := m.keys.Touch(h)
	m.disarmKey(h, k)
	m.note(k, note)
	k.version, k.due, k.num = m.nextVersion(), due, num
	m.armKey(h, k)
}

// applyFire appends what a due timer holds and ends the timer, or moves it on: both or neither (S-tmr-7). A
// message that repeats one in its window ends it as well (S-dup-12). Whatever the append is refused for
// leaves the timer as it was; the leader then puts it off.
func (m *Machine) applyFire(c *format.Fire, res *format.AppendResult) format.Code {
	res.Count = c.Append.Count
	at := m.timerAt(c.Tenant, c.Queue, c.Key)
	if at.h == 0 {
		return format.CodeGone
	}
	if k := m.keys.Get(at.h); k.version != c.Version || m.w < k.due {
		return format.CodeGone
	}
	code, q, ph := m.checkAppend(&c.Append, 1)
	if code != format.CodeOK {
		return code
	}
	if ph != 0 && m.roomOf(q, m.parts.Get(ph)) == 0 {
		repeats := false
		m.originals(q, m.parts.Get(ph), &c.Append, func(format.DupResult) { repeats = true })
		if !repeats {
			return format.CodeLimit
		}
	}
	if code = m.applyAppend(&c.Append, res); code != format.CodeOK {
		return code // never: checkAppend saw that it fits
	}
	if c.Next == 0 {
		m.remove(m.timerAt(c.Tenant, c.Queue, c.Key))
		return format.CodeOK
	}
	fires := m.keys.Get(at.h).num>>24 + 1
	m.moveTimer(at.h, min(c.Next, maxStamp), fires<<24, 0)
	return format.CodeOK
}
