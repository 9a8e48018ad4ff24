package cli

import (
	"strconv"
	"strings"
	"time"
)

// Instant is a time of the command line. Both ends of a queue are times too, where a command takes them.
type Instant struct {
	Beginning, End bool
	// Time is in UTC, and zero at an end.
	Time time.Time
}

// String is RFC 3339 with nanoseconds, or the name of the end.
func (i Instant) String() string {
	switch {
	case i.Beginning:
		return "beginning"
	case i.End:
		return "end"
	}
	return i.Time.Format(time.RFC3339Nano)
}

// unixMillis is where a number of the command line stops being seconds: in seconds the year 5138.
const unixMillis = 100_000_000_000

// ParseInstant reads RFC 3339, seconds or milliseconds since 1970, "now", "15m ago", "beginning" and "end". flag names
// the flag in errors.
func ParseInstant(flag, text string) (Instant, error) {
	switch text {
	case "beginning":
		return Instant{Beginning: true}, nil
	case "end":
		return Instant{End: true}, nil
	case "now":
		return Instant{Time: time.Now().UTC()}, nil
	}
	if before, ok := strings.CutSuffix(text, "ago"); ok {
		d, err := ParseDuration(strings.TrimSpace(before))
		if err != nil || d < 0 {
			return Instant{}, Errorf(Usage, "--%s %s: want a duration before ago, as in 15m ago or 7d ago", flag, text)
		}
		return Instant{Time: time.Now().Add(-d).UTC()}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < unixMillis*1000 {
		if n >= unixMillis {
			return Instant{Time: time.UnixMilli(n).UTC()}, nil
		}
		return Instant{Time: time.Unix(n, 0).UTC()}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return Instant{}, Errorf(Usage,
			"--%s %s: want RFC 3339 as in 2026-11-30T10:00:00Z, seconds since 1970, now, 15m ago, beginning or end", flag, text)
	}
	return Instant{Time: t.UTC()}, nil
}

// ParseTime is ParseInstant where the ends make no sense.
func ParseTime(flag, text string) (time.Time, error) {
	i, err := ParseInstant(flag, text)
	if err == nil && (i.Beginning || i.End) {
		err = Errorf(Usage, "--%s %s: want a time", flag, text)
	}
	return i.Time, err
}

// ParseDuration is time.ParseDuration with days: 7d, 1.5d.
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n > -100_000 && n < 100_000 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	}
	return time.ParseDuration(text)
}
