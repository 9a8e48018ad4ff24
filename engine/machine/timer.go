package machine

import (
	"queen/engine/format"
	"queen/engine/machine/slab"
)

// applyTimer schedules, cancels, puts off or gives up a timer (S-tmr-1 to 10, 17).
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
	case format.TimerDead:
		return m.bury(c, at, res)
	case format.TimerPause, format.TimerResume:
		m.pause(c, at, res)
		return format.CodeOK
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

// pause holds a timer back or lets it go on. The change has a version of its own, so that a fire that was proposed
// before it does not take place (S-tmr-8).
func (m *Machine) pause(c *format.Timer, at keyAt, res *format.TimerResult) {
	if res.Status = format.TimerAbsent; at.h == 0 {
		return
	}
	want := uint32(0)
	if res.Status = format.TimerResumed; c.Op == format.TimerPause {
		res.Status, want = format.TimerPaused, keyPaused
	}
	k := m.keys.Get(at.h)
	if k.flags&keyPaused != want {
		k = m.keys.Touch(at.h)
		m.disarmKey(at.h, k)
		k.flags, k.version = k.flags^keyPaused, m.nextVersion()
		m.armKey(at.h, k)
	}
	res.Version, res.Due = k.version, k.due
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
	num, refused := m.keys.Get(at.h).num, m.keys.Get(at.h).refused()
	if num&timerAttempts < timerAttempts {
		num++
	}
	if c.Counted && refused < timerRefusedMost {
		refused++
	}
	m.moveTimer(at.h, m.dueOf(c), num, refused, note)
	res.Status = format.TimerRescheduled
	res.Version, res.Due = m.keys.Get(at.h).version, m.keys.Get(at.h).due
	return format.CodeOK
}

// bury makes a timer that can not fire a dead letter and ends it, or moves a recurring one on: both or neither
// (S-tmr-17). What it would have fired goes with it, since there is no place in the log to point to. The letter
// hangs on the partition that would not take the message; one that is not there refuses no message.
func (m *Machine) bury(c *format.Timer, at keyAt, res *format.TimerResult) format.Code {
	if at.h == 0 || m.keys.Get(at.h).version != c.Version {
		return format.CodeGone
	}
	row, err := format.ParseTimerRow(c.Row)
	if err != nil {
		return format.CodeMalformed // never: it was decoded
	}
	q, ph := m.queueBy(c.Tenant, c.Queue), handle(0)
	if q != nil {
		ph = m.partByName(q, row.Partition)
	}
	switch {
	case ph == 0:
		return format.CodeUnknownPartition
	case q.opts.EncryptionEnabled && !format.IsSealed(row.Frame):
		return format.CodeEncryption
	case m.dead.Len() >= int(slab.HandleMax):
		return format.CodeLimit
	}
	why := format.DeadRow{Retries: m.keys.Get(at.h).refused() + 1, Reason: c.Reason, Key: c.Key, Timer: c.Row}
	if res.Status = format.TimerFiled; c.Due == 0 {
		m.remove(at)
	} else {
		m.nextFire(at.h, c.Due)
		res.Version, res.Due = m.keys.Get(at.h).version, m.keys.Get(at.h).due
	}
	m.fileDead(q, m.parts.Get(ph), format.TimerOffset|format.Offset(c.Version), format.TimerGroup, why)
	return format.CodeOK
}

// nextFire moves a recurring timer on: what went wrong before is forgotten.
func (m *Machine) nextFire(h handle, due format.Wall) {
	fires := m.keys.Get(h).num>>24 + 1
	m.moveTimer(h, min(due, maxStamp), fires<<24, 0, 0)
}

// moveTimer changes the head of a timer; the row stays.
func (m *Machine) moveTimer(h handle, due format.Wall, num uint64, refused uint32, note slab.Ref) {
	k := m.keys.Touch(h)
	m.disarmKey(h, k)
	m.note(k, note)
	k.version, k.due, k.num = m.nextVersion(), due, num
	k.flags = k.flags&(1<<timerRefusedShift-1) | refused<<timerRefusedShift
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
	if k := m.keys.Get(at.h); k.version != c.Version || m.w < k.due || k.flags&keyPaused != 0 {
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
	m.nextFire(at.h, c.Next)
	return format.CodeOK
}
