package engine

import (
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones are the same wherever the node runs

	"github.com/robfig/cron/v3"

	"queen/engine/format"
)

// recurrence says when a recurring timer fires. Its text is in the log and in the timer's row: version,
// catch-up, most fires, last time in microseconds, zone, and the five fields of cron, between spaces.
type recurrence struct {
	catchUp  CatchUp
	maxFires uint64
	until    format.Wall
	zone     string
	cron     string
	schedule cron.Schedule
}

const recurrenceVersion = "1"

// skippedFrom is how late a fire has to be for CatchUpSkip to leave it out: a recurrence can not tell shorter
// times apart.
const skippedFrom = format.Wall(time.Minute / time.Microsecond)

// newRecurrence reads what a Timer op asks for.
func newRecurrence(op *Timer) (recurrence, *Error) {
	r := recurrence{catchUp: op.CatchUp, maxFires: op.MaxFires, until: op.Until, zone: op.Zone, cron: strings.Join(strings.Fields(op.Cron), " ")}
	if r.zone == "" {
		r.zone = "UTC"
	}
	const fields = "five fields: minute hour day month weekday"
	switch {
	case strings.Count(r.cron, " ") != 4 || strings.ContainsAny(r.cron, "@=") || len(r.cron) > format.MaxTimerText/2:
		return r, errBad("cron", fields, "not a cron expression")
	case strings.ContainsAny(r.zone, " =") || len(r.zone) > format.MaxTimerText/4:
		return r, errBad("tz", "an IANA name", "unknown time zone")
	case r.catchUp > CatchUpSkip:
		return r, errBad("catchUp", "one, all, skip", "unknown catch-up")
	case r.until < 0:
		return r, errBad("until", "0 or more", "an end must not be negative")
	}
	if _, err := time.LoadLocation(r.zone); err != nil {
		return r, errBad("tz", "an IANA name", "unknown time zone")
	}
	if err := r.compile(); err != nil {
		return r, errBad("cron", fields, err.Error())
	}
	return r, nil
}

// CheckCron is what Do would refuse the recurrence for at now, so that a frontend can say it before anything is proposed.
func (op *Timer) CheckCron(now format.Wall) *Error {
	r, err := newRecurrence(op)
	if err == nil && r.next(now) == 0 {
		err = errNoTime()
	}
	return err
}

func errNoTime() *Error { return errBad("cron", "", "it names no time to come") }

func (r *recurrence) compile() (err error) {
	r.schedule, err = cron.ParseStandard("CRON_TZ=" + r.zone + " " + r.cron)
	return err
}

// text is how the log keeps it.
func (r *recurrence) text() []byte {
	return []byte(strings.Join([]string{recurrenceVersion, strconv.Itoa(int(r.catchUp)), strconv.FormatUint(r.maxFires, 10),
		strconv.FormatInt(int64(r.until), 10), r.zone, r.cron}, " "))
}

// parseRecurrence reads text back.
func parseRecurrence(text []byte) (r recurrence, ok bool) {
	parts := strings.SplitN(string(text), " ", 6)
	if len(parts) != 6 || parts[0] != recurrenceVersion {
		return r, false
	}
	catchUp, err1 := strconv.ParseUint(parts[1], 10, 8)
	maxFires, err2 := strconv.ParseUint(parts[2], 10, 64)
	until, err3 := strconv.ParseInt(parts[3], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || catchUp > uint64(CatchUpSkip) {
		return r, false
	}
	r = recurrence{catchUp: CatchUp(catchUp), maxFires: maxFires, until: format.Wall(until), zone: parts[4], cron: parts[5]}
	return r, r.compile() == nil
}

// next is the first time after w; 0 when there is none.
func (r *recurrence) next(w format.Wall) format.Wall {
	at := r.schedule.Next(time.UnixMicro(int64(w)))
	if at.IsZero() || r.until != 0 && format.Wall(at.UnixMicro()) > r.until {
		return 0
	}
	return format.Wall(at.UnixMicro())
}

// after is when a timer that was due, and fired for the fires-th time at w, fires next; 0 when it is done.
func (r *recurrence) after(due, w format.Wall, fires uint64) format.Wall {
	if r.maxFires != 0 && fires >= r.maxFires {
		return 0
	}
	if r.catchUp != CatchUpAll {
		due = max(due, w)
	}
	return r.next(due)
}

// skips reports a fire that comes too late to take place, unless it is the last.
func (r *recurrence) skips(due, w format.Wall) bool {
	return r.catchUp == CatchUpSkip && w-due >= skippedFrom
}
