package enginetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"queen/engine"
	"queen/engine/format"
)

type timerKey struct {
	tenant     format.Tenant
	queue, key string
}

type timerRow struct {
	at        timerKey
	op        engine.Timer
	due       format.Wall
	id        format.UUID // of the message it will fire, zero for a recurring one
	known     bool        // id is the engine's
	subject   string
	fires     uint64
	attempts  uint32
	refused   uint32 // of the attempts, those that would be refused again
	lastError string
	paused    bool
	created   format.Wall
	updated   format.Wall
}

func (r *timerRow) view(message bool) engine.TimerInfo {
	info := engine.TimerInfo{Queue: r.at.queue, Key: r.at.key, Partition: r.op.Partition, Due: r.due, MessageID: r.id,
		TransactionID: r.op.Message.TransactionID, Cron: r.op.Cron, Zone: r.op.Zone, CatchUp: r.op.CatchUp,
		MaxFires: r.op.MaxFires, Until: r.op.Until, Fires: r.fires, Paused: r.paused,
		Attempts: r.attempts, LastError: r.lastError, Created: r.created, Updated: r.updated}
	if message {
		info.Message = copyMessage(r.op.Message)
	}
	return info
}

func copyMessage(m engine.Message) engine.Message {
	rec := cloneRecord(engine.Record{Headers: m.Headers, Payload: m.Payload})
	m.Headers, m.Payload = rec.Headers, rec.Payload
	return m
}

// nextFire is the first time after w that a recurrence names; false when there is none.
func nextFire(op *engine.Timer, w format.Wall) (format.Wall, bool) {
	zone := op.Zone
	if zone == "" {
		zone = "UTC"
	}
	sched, err := cron.ParseStandard("CRON_TZ=" + zone + " " + op.Cron)
	if err != nil {
		return 0, false
	}
	next := sched.Next(time.UnixMicro(int64(w)))
	at := format.Wall(next.UnixMicro())
	return at, !next.IsZero() && (op.Until == 0 || at <= op.Until)
}

// checkTimer is what a Timer op must be like to be judged at all (S-tmr-13, R-16).
func (s *state) checkTimer(t format.Tenant, op *engine.Timer) *engine.Error {
	if e := checkNames(op.Queue, op.Partition); e != nil {
		return e
	}
	if e := badKey("timerKey", op.Key); e != nil {
		return e
	}
	switch op.Op {
	case format.TimerCancel, format.TimerPause, format.TimerResume:
		return nil
	}
	horizon := engine.MaxTimerHorizon
	whens := 0
	for _, given := range []bool{op.Delay != 0, op.At != 0, op.Cron != ""} {
		if given {
			whens++
		}
	}
	m := &op.Message
	switch q := s.queue(t, op.Queue); {
	case op.Op != format.TimerSchedule:
		return bad("op", "unknown timer op")
	case whens > 1:
		return bad("delayMs", "one of delayMs, at and cron says when")
	case op.Cron == "" && (op.Zone != "" || op.CatchUp != 0 || op.MaxFires != 0 || op.Until != 0) || op.CatchUp > engine.CatchUpSkip:
		return bad("cron", "a zone, a catch-up or an end without a recurrence")
	case op.Cron != "" && m.TransactionID != "":
		return bad("txn", "the messages of a recurring timer are numbered")
	case op.Delay > horizon || op.At > s.w+format.Wall(micros(horizon)):
		return &engine.Error{Code: engine.CodeBadRequest, Field: "delayMs", Limit: "90 days", Message: "too far ahead"}
	case len(m.TransactionID) > format.MaxTransactionID:
		return bad("txn", "a transactionId is too long")
	case len(m.Payload) > engine.MaxTimerPayload:
		return tooLarge("payload", "the payload of a timer is too large")
	case q != nil && q.opts.EncryptionEnabled:
		return fail(engine.CodeEncryption, "the queue wants encryption and no key is usable")
	}
	if op.Cron != "" {
		if len(strings.Fields(op.Cron)) != 5 || strings.HasPrefix(op.Cron, "@") || strings.Contains(op.Cron, "TZ=") {
			return bad("cron", "five fields")
		}
		if _, ok := nextFire(op, s.w); !ok {
			return bad("cron", "it names no time")
		}
	}
	return nil
}

// timer schedules or cancels (S-tmr-1, 2, 9).
func (s *state) timer(by engine.Caller, op *engine.Timer) engine.TimerItem {
	k := timerKey{by.Tenant, op.Queue, op.Key}
	old := s.keyed.timers[k]
	if op.Op == format.TimerPause || op.Op == format.TimerResume {
		return s.pause(old, op.Op == format.TimerPause)
	}
	if op.Op == format.TimerCancel {
		if old == nil {
			return engine.TimerItem{Status: format.TimerAbsent}
		}
		delete(s.keyed.timers, k)
		s.stats.TimersCancelled++
		return engine.TimerItem{Status: format.TimerCancelled}
	}
	row := timerRow{at: k, op: *op, subject: by.Subject, created: s.w, updated: s.w}
	row.op.Message = copyMessage(op.Message)
	item := engine.TimerItem{Status: format.TimerScheduled}
	if old != nil {
		item.Status = format.TimerRescheduled
	}
	switch {
	case op.Cron != "":
		row.due, _ = nextFire(op, s.w)
	case op.At != 0:
		row.due = op.At
	default:
		row.due = s.w + format.Wall(micros(op.Delay))
	}
	if item.Due = row.due; op.Cron == "" {
		row.id = s.mint()
		item.MessageID = row.id
	}
	if s.keyed.timers == nil {
		s.keyed.timers = map[timerKey]*timerRow{}
	}
	s.keyed.timers[k] = &row
	return item
}

// pause holds a timer back or lets it go on.
func (s *state) pause(row *timerRow, on bool) engine.TimerItem {
	if row == nil {
		return engine.TimerItem{Status: format.TimerAbsent}
	}
	next := *row
	next.paused = on
	s.keyed.timers[row.at] = &next
	if on {
		return engine.TimerItem{Status: format.TimerPaused, Due: row.due}
	}
	return engine.TimerItem{Status: format.TimerResumed, Due: row.due}
}

// dueTimers lists the timers whose time has come, oldest first.
func (s *state) dueTimers() (due []*timerRow) {
	for _, row := range s.keyed.timers {
		if row.due <= s.w && !row.paused {
			due = append(due, row)
		}
	}
	slices.SortFunc(due, func(a, b *timerRow) int {
		return cmp.Or(cmp.Compare(a.due, b.due), strings.Compare(a.at.queue, b.at.queue), strings.Compare(a.at.key, b.at.key))
	})
	return due
}

// fireDue fires every due timer once; a recurring one that has to catch up fires again at the next step.
func (s *state) fireDue() {
	for due := s.dueTimers(); len(due) > 0; due = s.dueTimers() {
		for _, row := range due {
			s.fire(row)
		}
	}
}

// fire appends the message and ends the timer, or moves a recurring one on (S-tmr-7, S-dup-12). What is
// refused is tried again later.
func (s *state) fire(row *timerRow) {
	if next, ok := nextFire(&row.op, s.w); ok && row.op.CatchUp == engine.CatchUpSkip && s.w-row.due >= skippedFrom {
		skipped := *row
		skipped.due, skipped.attempts, skipped.lastError = next, row.attempts+1, "skipped"
		s.keyed.timers[row.at] = &skipped
		return
	}
	m := copyMessage(row.op.Message)
	if row.op.Cron != "" {
		m.TransactionID = fmt.Sprintf("%s@%d", row.at.key, row.fires+1)
	}
	res := s.append(engine.Caller{Tenant: row.at.tenant, Subject: row.subject},
		&engine.Append{Queue: row.at.queue, Partition: row.op.Partition, Messages: []engine.Message{m}})
	if e := res.Messages[0].Err; e != nil {
		s.putOff(row, m, e)
		return
	}
	s.queue(row.at.tenant, row.at.queue).part(row.op.Partition).placed = true
	if res.Messages[0].Status == engine.Queued && !row.id.IsZero() {
		s.rename(row, res.Messages[0].Offset)
		s.keyed.fired = append(s.keyed.fired, fired{row.at, row.op.Partition, res.Messages[0].Offset, row.due, row.known})
	}
	s.stats.TimersFired++
	s.stats.TimerLateMicros.Sum += uint64(s.w - row.due)
	s.again(row)
}

// timerTries is how many fires are refused for good before a timer becomes a dead letter.
const timerTries = 5

// putOff keeps a timer whose fire was refused, or gives it up (S-tmr-17). A missing key does not count: it may be back.
func (s *state) putOff(row *timerRow, m engine.Message, e *engine.Error) {
	next := *row
	next.attempts, next.lastError = row.attempts+1, e.Message
	next.due = s.w + seconds(min(60, int64(1)<<min(row.attempts, 6)))
	if e.Code != engine.CodeEncryption {
		next.refused++
	}
	if s.keyed.timers[row.at] = &next; next.refused < timerTries {
		return
	}
	p := s.queue(row.at.tenant, row.at.queue).part(row.op.Partition)
	rec := engine.Record{ID: row.id, Offset: format.TimerOffset, TransactionID: m.TransactionID, HasCallerID: m.TransactionID != "",
		TraceID: m.TraceID, ProducerSub: row.subject, ContentType: m.ContentType, Headers: m.Headers, Payload: m.Payload, CreatedAt: row.created}
	d := &deadLetter{tenant: row.at.tenant, offset: rec.Offset}
	d.DeadLetter = engine.DeadLetter{ID: s.mint(), Queue: p.q.name, Partition: p.name, PartitionID: p.id, Group: format.TimerGroup,
		Error: e.Message, Retries: next.refused, FailedAt: s.w, Timer: row.at.key, Message: rec}
	if rec.ID.IsZero() {
		d.Message.ID = d.ID
	}
	if !rec.HasCallerID {
		d.Message.TransactionID = d.Message.ID.String()
	}
	s.dead = append(s.dead, d)
	s.stats.DeadLettered++
	s.again(row)
}

// skippedFrom is how late a fire must be for CatchUpSkip to leave it out: a recurrence can not tell shorter
// times apart. The last one fires however late it is.
const skippedFrom = 60e6

// rename gives a fired message the id that was told when it was scheduled.
func (s *state) rename(row *timerRow, o format.Offset) {
	rec := &s.queue(row.at.tenant, row.at.queue).part(row.op.Partition).msgs[o].rec
	if rec.ID = row.id; !rec.HasCallerID {
		rec.TransactionID = rec.ID.String()
	}
}

// again moves a recurring timer on as its catch-up says; any other is done.
func (s *state) again(row *timerRow) {
	from := row.due
	if row.op.CatchUp != engine.CatchUpAll {
		from = max(from, s.w)
	}
	next, ok := format.Wall(0), false
	if n := row.op.MaxFires; row.op.Cron != "" && (n == 0 || row.fires+1 < n) {
		next, ok = nextFire(&row.op, from)
	}
	if !ok {
		delete(s.keyed.timers, row.at)
		return
	}
	moved := *row
	moved.due, moved.fires, moved.attempts, moved.refused, moved.lastError = next, row.fires+1, 0, 0, ""
	s.keyed.timers[row.at] = &moved
}
