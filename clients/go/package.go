package logdrive

import "github.com/logdrive/logdrive/clients/go/internal/wire"

// The functions of this file write with the logger of Init or SetDefault. Before there is one, they do nothing.

// Trace is as [Logger.Trace].
//
//go:noinline
func Trace(message string, fields ...Field) {
	if logger := std.Load(); logger != nil {
		logger.logAt(here, wire.LevelTrace, message, fields)
	}
}

// Debug is as [Logger.Debug].
//
//go:noinline
func Debug(message string, fields ...Field) {
	if logger := std.Load(); logger != nil {
		logger.logAt(here, wire.LevelDebug, message, fields)
	}
}

// Info is as [Logger.Info].
//
//go:noinline
func Info(message string, fields ...Field) {
	if logger := std.Load(); logger != nil {
		logger.logAt(here, wire.LevelInfo, message, fields)
	}
}

// Warn is as [Logger.Warn].
//
//go:noinline
func Warn(message string, fields ...Field) {
	if logger := std.Load(); logger != nil {
		logger.logAt(here, wire.LevelWarn, message, fields)
	}
}

// Error is as [Logger.Error].
//
//go:noinline
func Error(message string, fields ...Field) {
	if logger := std.Load(); logger != nil {
		logger.logAt(here, wire.LevelError, message, fields)
	}
}
