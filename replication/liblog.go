package replication

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lni/dragonboat/v4/logger"
)

// libraryLog is where the library's lines go. It has one logger for the whole process.
var libraryLog struct {
	once sync.Once
	to   atomic.Pointer[slog.Logger]
}

// logTo sends what the library has to say to l: warnings as such, what it says about each step as debug.
func logTo(l *slog.Logger) {
	libraryLog.to.Store(l)
	libraryLog.once.Do(func() {
		logger.SetLoggerFactory(func(pkg string) logger.ILogger { return &libLogger{pkg: pkg} })
	})
}

// libLogger is one package's of the library.
type libLogger struct{ pkg string }

// SetLevel implements logger.ILogger; the level is slog's.
func (l *libLogger) SetLevel(logger.LogLevel) {}

func (l *libLogger) say(level slog.Level, format string, args []any) {
	to := libraryLog.to.Load()
	if to.Enabled(context.Background(), level) {
		to.Log(context.Background(), level, "raft: "+fmt.Sprintf(format, args...), "package", l.pkg)
	}
}

// Debugf implements logger.ILogger.
func (l *libLogger) Debugf(format string, args ...any) { l.say(slog.LevelDebug, format, args) }

// Infof implements logger.ILogger: the library's own notes are of no use to operators.
func (l *libLogger) Infof(format string, args ...any) { l.say(slog.LevelDebug, format, args) }

// Warningf implements logger.ILogger.
func (l *libLogger) Warningf(format string, args ...any) { l.say(slog.LevelDebug, format, args) }

// Errorf implements logger.ILogger. That a peer can not be reached is said by who leads, not once per message.
func (l *libLogger) Errorf(format string, args ...any) {
	level := slog.LevelWarn
	if l.pkg == "transport" {
		level = slog.LevelDebug
	}
	l.say(level, format, args)
}

// Panicf implements logger.ILogger. It panics, as the library relies on, but where another node's messages lead there: the library then goes on with
// the address under which it knew that node first.
func (l *libLogger) Panicf(format string, args ...any) {
	switch {
	case strings.HasPrefix(format, "inconsistent target for"):
		l.say(slog.LevelError, format+": a node has two raft addresses, of which the second is not used", args)
		return
	case strings.HasPrefix(format, "invalid commitTo index"):
		format, args = format+": %w", append(slices.Clone(args), errLost)
	}
	err := fmt.Errorf(format, args...)
	l.say(slog.LevelError, "%v", []any{err})
	panic(err)
}
