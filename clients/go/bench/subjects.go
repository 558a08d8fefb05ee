package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"

	logdrive "github.com/logdrive/logdrive/clients/go"
	phuslu "github.com/phuslu/log"
	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// subject is a logger, set up as its authors advise for speed: buffered or asynchronous, and written out at the end.
type subject interface {
	// line writes a text of the caller's.
	line(text string)
	// four writes a message with four typed values.
	four(id uint64, price float64, lot int32, side string)
	// finish returns when all is with the kernel.
	finish() error
}

// bufferBytes is how much the rivals collect for one write.
const bufferBytes = 256 << 10

func start(name, path string) (subject, error) {
	switch name {
	case "logdrive-go", "logdrive-go-coarse", "logdrive-go-disabled":
		return newTyped(name, path)
	case "logdrive-go-slog":
		logger, err := ours(path, nil)
		if err != nil {
			return nil, err
		}
		return &slogs{logger.Slog(), logger.Close}, nil
	case "slog-noop":
		return &slogs{slog.New(noop{}), func() error { return nil }}, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	to := &locked{to: bufio.NewWriterSize(file, bufferBytes), file: file}
	switch name {
	case "fprintf":
		return printed{to}, nil
	case "append-pool":
		return appended{to}, nil
	case "slog", "slog-text":
		return &slogs{slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug})), to.Close}, nil
	case "zap-buffered":
		// zap brings a buffer of its own.
		sink := &zapcore.BufferedWriteSyncer{WS: zapcore.AddSync(file), Size: bufferBytes}
		encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
		return &zapped{zap.New(zapcore.NewCore(encoder, sink, zap.DebugLevel)), sink}, nil
	case "zerolog-buffered":
		return &zeroed{zerolog.New(to).With().Timestamp().Logger(), to}, nil
	case "phuslu-async":
		async := &phuslu.AsyncWriter{ChannelSize: 4096, Writer: phuslu.IOWriter{Writer: to}}
		return &phused{phuslu.Logger{Level: phuslu.DebugLevel, Writer: async}, async, to}, nil
	}
	return nil, fmt.Errorf("there is no subject of this name")
}

// ours starts a logger that waits for as long as it takes: nothing may be lost.
func ours(path string, change func(*logdrive.Options)) (*logdrive.Logger, error) {
	options := logdrive.Options{App: "bench", Path: path, Level: "debug", Full: logdrive.FullBlock}
	if change != nil {
		change(&options)
	}
	logger, err := logdrive.Start(options)
	if err == nil && logger.Stats().Callsites == 0 {
		err = errors.New("nobody drains: LOGDRIVE_BIN names no program")
	}
	return logger, err
}

type typed struct{ log *logdrive.Logger }

func newTyped(name, path string) (subject, error) {
	logger, err := ours(path, func(o *logdrive.Options) {
		o.CoarseClock = name == "logdrive-go-coarse"
		if name == "logdrive-go-disabled" {
			o.Level = "warn"
		}
	})
	return &typed{logger}, err
}

func (t *typed) line(text string) { t.log.Debug("order", logdrive.String("text", text)) }
func (t *typed) four(id uint64, price float64, lot int32, side string) {
	t.log.Debug("order filled", logdrive.Uint64("id", id), logdrive.Float64("price", price), logdrive.Int32("lot", lot),
		logdrive.String("side", side))
}
func (t *typed) finish() error { return t.log.Close() }

type slogs struct {
	log   *slog.Logger
	close func() error
}

func (s *slogs) line(text string) {
	s.log.LogAttrs(context.Background(), slog.LevelDebug, "order", slog.String("text", text))
}
func (s *slogs) four(id uint64, price float64, lot int32, side string) {
	s.log.LogAttrs(context.Background(), slog.LevelDebug, "order filled", slog.Uint64("id", id), slog.Float64("price", price),
		slog.Int("lot", int(lot)), slog.String("side", side))
}
func (s *slogs) finish() error { return s.close() }

// noop is a handler that does nothing: what package slog costs by itself.
type noop struct{}

func (noop) Enabled(context.Context, slog.Level) bool  { return true }
func (noop) Handle(context.Context, slog.Record) error { return nil }
func (noop) WithAttrs([]slog.Attr) slog.Handler        { return noop{} }
func (noop) WithGroup(string) slog.Handler             { return noop{} }

type zapped struct {
	log  *zap.Logger
	sink *zapcore.BufferedWriteSyncer
}

func (z *zapped) line(text string) { z.log.Debug("order", zap.String("text", text)) }
func (z *zapped) four(id uint64, price float64, lot int32, side string) {
	z.log.Debug("order filled", zap.Uint64("id", id), zap.Float64("price", price), zap.Int32("lot", lot), zap.String("side", side))
}
func (z *zapped) finish() error { return z.sink.Stop() }

type zeroed struct {
	log zerolog.Logger
	to  *locked
}

func (z *zeroed) line(text string) { z.log.Debug().Str("text", text).Msg("order") }
func (z *zeroed) four(id uint64, price float64, lot int32, side string) {
	z.log.Debug().Uint64("id", id).Float64("price", price).Int32("lot", lot).Str("side", side).Msg("order filled")
}
func (z *zeroed) finish() error { return z.to.Close() }

type phused struct {
	log   phuslu.Logger
	async *phuslu.AsyncWriter
	to    *locked
}

func (p *phused) line(text string) { p.log.Debug().Str("text", text).Msg("order") }
func (p *phused) four(id uint64, price float64, lot int32, side string) {
	p.log.Debug().Uint64("id", id).Float64("price", price).Int32("lot", lot).Str("side", side).Msg("order filled")
}
func (p *phused) finish() error {
	if err := p.async.Close(); err != nil {
		return err
	}
	return p.to.Close()
}

// printed is fmt.Fprintf: no time, no level.
type printed struct{ to *locked }

func (p printed) line(text string) { fmt.Fprintf(p.to, "order %s\n", text) }
func (p printed) four(id uint64, price float64, lot int32, side string) {
	fmt.Fprintf(p.to, "order filled id=%d price=%g lot=%d side=%s\n", id, price, lot, side)
}
func (p printed) finish() error { return p.to.Close() }

// appended is what a program writes that has thrown fmt out: the same line by typed appends into a pooled buffer.
type appended struct{ to *locked }

var lines = sync.Pool{New: func() any { room := make([]byte, 0, 256); return &room }}

func (a appended) line(text string) {
	room := lines.Get().(*[]byte)
	made := append(append(append((*room)[:0], "order "...), text...), '\n')
	a.write(room, made)
}
func (a appended) four(id uint64, price float64, lot int32, side string) {
	room := lines.Get().(*[]byte)
	made := strconv.AppendUint(append((*room)[:0], "order filled id="...), id, 10)
	made = strconv.AppendFloat(append(made, " price="...), price, 'g', -1, 64)
	made = strconv.AppendInt(append(made, " lot="...), int64(lot), 10)
	made = append(append(append(made, " side="...), side...), '\n')
	a.write(room, made)
}
func (a appended) write(room *[]byte, made []byte) {
	// A buffered file keeps its error, and Close gives it.
	_, _ = a.to.Write(made)
	*room = made
	lines.Put(room)
}
func (a appended) finish() error { return a.to.Close() }

// none logs nothing: the floor of a server.
type none struct{}

func (none) line(string)                         {}
func (none) four(uint64, float64, int32, string) {}
func (none) finish() error                       { return nil }

// locked is a buffered file behind a lock, for those that bring none.
type locked struct {
	lock sync.Mutex
	to   *bufio.Writer
	file *os.File
}

func (l *locked) Write(text []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.to.Write(text)
}

func (l *locked) Close() error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if err := l.to.Flush(); err != nil {
		return err
	}
	return l.file.Close()
}
