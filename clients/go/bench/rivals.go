package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	logdrive "github.com/logdrive/logdrive/clients/go"
	phuslu "github.com/phuslu/log"
	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// call is the log call of W2: a message with four fields; close writes what is left.
type rival struct {
	name  string
	start func(dir string) (call func(id uint64), close func() error, err error)
}

// locked is a buffered file behind a lock, for those that bring none.
type locked struct {
	lock sync.Mutex
	to   *bufio.Writer
	file *os.File
}

func newLocked(dir string) (*locked, error) {
	file, err := os.Create(filepath.Join(dir, "rival.log"))
	if err != nil {
		return nil, err
	}
	return &locked{to: bufio.NewWriterSize(file, 256<<10), file: file}, nil
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

const side = "buy-limit"

func rivals() []rival {
	return []rival{
		{"logdrive-go", func(dir string) (func(uint64), func() error, error) { return typed(dir, false) }},
		{"logdrive-go-coarse", func(dir string) (func(uint64), func() error, error) { return typed(dir, true) }},
		{"logdrive-go-slog", func(dir string) (func(uint64), func() error, error) {
			logger, err := ours(dir, nil)
			if err != nil {
				return nil, nil, err
			}
			log, ctx := logger.Slog(), context.Background()
			return func(id uint64) {
				log.LogAttrs(ctx, slog.LevelInfo, "order filled", slog.Uint64("id", id), slog.Float64("price", 9.5), slog.Int("lot", 3), slog.String("side", side))
			}, logger.Close, nil
		}},
		{"slog-noop", func(string) (func(uint64), func() error, error) {
			log, ctx := slog.New(noop{}), context.Background()
			return func(id uint64) {
				log.LogAttrs(ctx, slog.LevelInfo, "order filled", slog.Uint64("id", id), slog.Float64("price", 9.5), slog.Int("lot", 3), slog.String("side", side))
			}, func() error { return nil }, nil
		}},
		{"slog-text", func(dir string) (func(uint64), func() error, error) {
			to, err := newLocked(dir)
			if err != nil {
				return nil, nil, err
			}
			log, ctx := slog.New(slog.NewTextHandler(to, nil)), context.Background()
			return func(id uint64) {
				log.LogAttrs(ctx, slog.LevelInfo, "order filled", slog.Uint64("id", id), slog.Float64("price", 9.5), slog.Int("lot", 3), slog.String("side", side))
			}, to.Close, nil
		}},
		{"zap-buffered", zapBuffered},
		{"zerolog-buffered", func(dir string) (func(uint64), func() error, error) {
			to, err := newLocked(dir)
			if err != nil {
				return nil, nil, err
			}
			log := zerolog.New(to).With().Timestamp().Logger()
			return func(id uint64) {
				log.Info().Uint64("id", id).Float64("price", 9.5).Int32("lot", 3).Str("side", side).Msg("order filled")
			}, to.Close, nil
		}},
		{"phuslu-async", func(dir string) (func(uint64), func() error, error) {
			to, err := newLocked(dir)
			if err != nil {
				return nil, nil, err
			}
			async := &phuslu.AsyncWriter{ChannelSize: 4096, Writer: phuslu.IOWriter{Writer: to}}
			log := phuslu.Logger{Level: phuslu.InfoLevel, Writer: async}
			return func(id uint64) {
					log.Info().Uint64("id", id).Float64("price", 9.5).Int32("lot", 3).Str("side", side).Msg("order filled")
				}, func() error {
					if err := async.Close(); err != nil {
						return err
					}
					return to.Close()
				}, nil
		}},
	}
}

func typed(dir string, coarse bool) (func(uint64), func() error, error) {
	logger, err := ours(dir, func(o *logdrive.Options) { o.CoarseClock = coarse })
	if err != nil {
		return nil, nil, err
	}
	return func(id uint64) {
		logger.Info("order filled", logdrive.Uint64("id", id), logdrive.Float64("price", 9.5), logdrive.Int32("lot", 3), logdrive.String("side", side))
	}, logger.Close, nil
}

func zapBuffered(dir string) (func(uint64), func() error, error) {
	file, err := os.Create(filepath.Join(dir, "zap.log"))
	if err != nil {
		return nil, nil, err
	}
	to := &zapcore.BufferedWriteSyncer{WS: zapcore.AddSync(file), Size: 256 << 10}
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), to, zap.DebugLevel))
	return func(id uint64) {
		log.Info("order filled", zap.Uint64("id", id), zap.Float64("price", 9.5), zap.Int32("lot", 3), zap.String("side", side))
	}, to.Stop, nil
}

// noop is a handler that does nothing: what package slog costs by itself.
type noop struct{}

func (noop) Enabled(context.Context, slog.Level) bool  { return true }
func (noop) Handle(context.Context, slog.Record) error { return nil }
func (noop) WithAttrs([]slog.Attr) slog.Handler        { return noop{} }
func (noop) WithGroup(string) slog.Handler             { return noop{} }

var _ io.Writer = (*locked)(nil)
