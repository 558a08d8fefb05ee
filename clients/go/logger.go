package logdrive

import (
	"os"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// Logger writes records. It is made by [Start] or [Init], and further ones by [Logger.With] and [Logger.WithGroup]; all
// of them are safe for use by many goroutines, and cost nothing to keep.
//
// A call costs about a clock read: it allocates nothing, takes no lock, and makes no system call, as long as its
// callsite is known and its ring has room. What a call has written survives SIGKILL of the process.
type Logger struct {
	core    *core
	context *fieldContext
}

// Trace writes a record for the closest look.
//
//go:noinline
func (l *Logger) Trace(message string, fields ...Field) {
	l.logAt(here, wire.LevelTrace, message, fields)
}

// Debug writes a record for whoever looks for a fault.
//
//go:noinline
func (l *Logger) Debug(message string, fields ...Field) {
	l.logAt(here, wire.LevelDebug, message, fields)
}

// Info writes a record of what goes as it should.
//
//go:noinline
func (l *Logger) Info(message string, fields ...Field) {
	l.logAt(here, wire.LevelInfo, message, fields)
}

// Warn writes a record of what somebody should know.
//
//go:noinline
func (l *Logger) Warn(message string, fields ...Field) {
	l.logAt(here, wire.LevelWarn, message, fields)
}

// Error writes a record of what has failed.
//
//go:noinline
func (l *Logger) Error(message string, fields ...Field) {
	l.logAt(here, wire.LevelError, message, fields)
}

// Fatal writes a record of what ends the program, waits until it is with the kernel, and exits with status 1. Deferred
// functions do not run.
//
//go:noinline
func (l *Logger) Fatal(message string, fields ...Field) {
	l.logAt(here, wire.LevelFatal, message, fields)
	l.core.flush(false)
	os.Exit(1)
}

// Log writes a record of a level that is only known at the call.
//
//go:noinline
func (l *Logger) Log(level Level, message string, fields ...Field) {
	l.logAt(here, wire.Level(min(level, LevelFatal)), message, fields)
}

// LogAt writes a record of a callsite that the caller tells by a program counter of its own, as runtime.Callers gives
// it: for packages that wrap a logger. 0 is a callsite that nobody knows.
func (l *Logger) LogAt(pc uintptr, level Level, message string, fields ...Field) {
	l.logAt(pc, wire.Level(min(level, LevelFatal)), message, fields)
}

// With is a logger whose records bear these fields, too. Their values are made ready now.
func (l *Logger) With(fields ...Field) *Logger {
	return &Logger{core: l.core, context: l.context.with(fields)}
}

// WithGroup is a logger the keys of whose further fields become "name.key".
func (l *Logger) WithGroup(name string) *Logger {
	return &Logger{core: l.core, context: l.context.group(name)}
}

// WithTarget is a logger whose records bear this name in the place of the package that logs: in lines, and for whoever
// says which records are wanted ("info,quic-go=debug", `logdrive level`).
func (l *Logger) WithTarget(target string) *Logger {
	return &Logger{core: l.core, context: l.context.aim(target)}
}

// Enabled says whether a record of this level may be written somewhere. Of one callsite the call itself knows better,
// and costs as little.
func (l *Logger) Enabled(level Level) bool { return l.core.enabled(level) }

// Flush waits until all that was written before is with the kernel. It ends early, with an error, when nothing moves
// for five seconds.
func (l *Logger) Flush() error { return l.core.flush(false) }

// Sync is as Flush, and makes files durable.
func (l *Logger) Sync() error { return l.core.flush(true) }

// Close writes what is left and ends the session. Call it once, at the end of main; records that come later are counted
// and lost. Without it the session is finished by its sidecar or agent, or stays for `logdrive recover`.
func (l *Logger) Close() error { return l.core.close() }

// SetLevel takes other directives for what is on, such as "info,example.com/shop/net=trace". What `logdrive level` says
// from outside goes before it.
func (l *Logger) SetLevel(directives string) error { return l.core.setLevel(directives) }

// Stats are the numbers of the session.
func (l *Logger) Stats() Stats { return l.core.stats() }
