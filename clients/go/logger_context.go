package logdrive

import (
	gocontext "context"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// The methods of this file add the fields that [Options].FromContext finds in a context.

// contextual returns the fields of a call in a context.
func (l *Logger) contextual(ctx gocontext.Context, fields []Field) []Field {
	if l.core.fromContext == nil || ctx == nil {
		return fields
	}
	return append(l.core.fromContext(ctx), fields...)
}

// TraceContext is [Logger.Trace] with the fields of a context.
//
//go:noinline
func (l *Logger) TraceContext(ctx gocontext.Context, message string, fields ...Field) {
	l.logAt(here, wire.LevelTrace, message, l.contextual(ctx, fields))
}

// DebugContext is [Logger.Debug] with the fields of a context.
//
//go:noinline
func (l *Logger) DebugContext(ctx gocontext.Context, message string, fields ...Field) {
	l.logAt(here, wire.LevelDebug, message, l.contextual(ctx, fields))
}

// InfoContext is [Logger.Info] with the fields of a context.
//
//go:noinline
func (l *Logger) InfoContext(ctx gocontext.Context, message string, fields ...Field) {
	l.logAt(here, wire.LevelInfo, message, l.contextual(ctx, fields))
}

// WarnContext is [Logger.Warn] with the fields of a context.
//
//go:noinline
func (l *Logger) WarnContext(ctx gocontext.Context, message string, fields ...Field) {
	l.logAt(here, wire.LevelWarn, message, l.contextual(ctx, fields))
}

// ErrorContext is [Logger.Error] with the fields of a context.
//
//go:noinline
func (l *Logger) ErrorContext(ctx gocontext.Context, message string, fields ...Field) {
	l.logAt(here, wire.LevelError, message, l.contextual(ctx, fields))
}

// loggerKey is the key of a logger in a context.
type loggerKey struct{}

// NewContext returns a context that carries a logger, such as one with the fields of a request.
func NewContext(ctx gocontext.Context, logger *Logger) gocontext.Context {
	return gocontext.WithValue(ctx, loggerKey{}, logger)
}

// FromContext returns the logger that a context carries, or [Default].
func FromContext(ctx gocontext.Context) *Logger {
	if logger, ok := ctx.Value(loggerKey{}).(*Logger); ok && logger != nil {
		return logger
	}
	return Default()
}
