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

// Trace writes a record of level trace: the finest detail.
//
//go:noinline
func (l *Logger) Trace(message string, fields ...Field) {
	l.logAt(here, wire.LevelTrace, message, fields)
}

// Debug writes a record of level debug: detail for finding a fault.
//
//go:noinline
func (l *Logger) Debug(message string, fields ...Field) {
	l.logAt(here, wire.LevelDebug, message, fields)
}

// Info writes a record of level info: normal operation.
//
//go:noinline
func (l *Logger) Info(message string, fields ...Field) {
	l.logAt(here, wire.LevelInfo, message, fields)
}

// Warn writes a record of level warn: something that a person should look at. It may use the reserved eighth of a ring.
//
//go:noinline
func (l *Logger) Warn(message string, fields ...Field) {
	l.logAt(here, wire.LevelWarn, message, fields)
}

// Error writes a record of level error: an operation failed. It may use the reserved eighth of a ring.
//
//go:noinline
func (l *Logger) Error(message string, fields ...Field) {
	l.logAt(here, wire.LevelError, message, fields)
}

// Fatal writes a record of level fatal, waits until the kernel has it, and exits with status 1. Deferred functions do
// not run.
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

// LogAt writes a record whose callsite is the given program counter, as runtime.Callers returns it: for packages that
// wrap a logger. 0 stands for an unknown callsite.
func (l *Logger) LogAt(pc uintptr, level Level, message string, fields ...Field) {
	l.logAt(pc, wire.Level(min(level, LevelFatal)), message, fields)
}

// With returns a logger that adds these fields to its records. Their values are encoded now; this allocates.
func (l *Logger) With(fields ...Field) *Logger {
	return &Logger{core: l.core, context: l.context.with(fields)}
}

// WithGroup returns a logger that writes the keys of further fields as "name.key".
func (l *Logger) WithGroup(name string) *Logger {
	return &Logger{core: l.core, context: l.context.group(name)}
}

// WithTarget returns a logger whose records carry this name instead of that of the package that logs: in lines, and in
// filters ("info,quic-go=debug", `logdrive level`).
func (l *Logger) WithTarget(target string) *Logger {
	return &Logger{core: l.core, context: l.context.aim(target)}
}

// Enabled reports whether a record of this level may be written by some callsite. The call itself makes the exact
// decision, and costs as little.
func (l *Logger) Enabled(level Level) bool { return l.core.enabled(level) }

// Flush waits until the kernel has all records written before. It returns an error when the drain makes no progress for
// five seconds.
func (l *Logger) Flush() error { return l.core.flush(false) }

// Sync does what Flush does, and waits until the files are on disk (fsync), with those that were rotated since, and their
// names. It also returns an error where something since the last answer may not be on disk; the log says what.
func (l *Logger) Sync() error { return l.core.flush(true) }

// Close writes the remaining records and ends the session. Call it once, at the end of main; later records are counted
// and lost. Without it the sidecar or agent finishes the session, or it stays for `logdrive recover`.
func (l *Logger) Close() error { return l.core.close() }

// SetLevel replaces the level directives, such as "info,example.com/shop/net=trace". Rules set by `logdrive level` take
// precedence.
func (l *Logger) SetLevel(directives string) error { return l.core.setLevel(directives) }

// Stats returns the counts of the session.
func (l *Logger) Stats() Stats { return l.core.stats() }
