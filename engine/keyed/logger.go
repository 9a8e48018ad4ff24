package keyed

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// badgerLog is badger's Logger. badger prints 5 to 10 lines per open and close, and warns about
// compactions that found nothing to do; only its errors deserve an operator's eye. Lines are cut:
// some contain a hex dump of a key.
type badgerLog struct {
	log    *slog.Logger
	errors atomic.Uint64
}

const badgerLineMax = 300

func badgerLine(format string, args []any) string {
	line := strings.TrimSpace(fmt.Sprintf(format, args...))
	if len(line) > badgerLineMax {
		line = line[:badgerLineMax] + "..."
	}
	return line
}

func (l *badgerLog) Errorf(format string, args ...any) {
	l.errors.Add(1)
	l.log.Error("badger", "line", badgerLine(format, args))
}

func (l *badgerLog) Warningf(format string, args ...any) {
	l.log.Debug("badger", "line", badgerLine(format, args))
}

func (l *badgerLog) Infof(format string, args ...any) {
	l.log.Debug("badger", "line", badgerLine(format, args))
}

// Debugf is dropped: badger formats keys into these lines.
func (l *badgerLog) Debugf(string, ...any) {}
