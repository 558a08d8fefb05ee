package logdrive

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"
)

// The calls of workload W2: a message with four fields. Figures beside rivals are those of clients/go/bench.

func BenchmarkTyped(b *testing.B) {
	logger, _ := started(b, func(o *Options) { o.Full = FullBlock; o.RingBytes = 1 << 20 })
	defer logger.Close()
	b.ReportAllocs()
	for at := range b.N {
		logger.Info("order filled", Uint64("id", uint64(at)), Float64("price", 9.5), Int32("lot", 3), String("side", "buy-limit"))
	}
}

func BenchmarkTypedCoarse(b *testing.B) {
	logger, _ := started(b, func(o *Options) { o.Full = FullBlock; o.RingBytes = 1 << 20; o.CoarseClock = true })
	defer logger.Close()
	b.ReportAllocs()
	for at := range b.N {
		logger.Info("order filled", Uint64("id", uint64(at)), Float64("price", 9.5), Int32("lot", 3), String("side", "buy-limit"))
	}
}

// BenchmarkTypedBursts is a call whose ring has room: what it costs its goroutine, without the drain.
func BenchmarkTypedBursts(b *testing.B) {
	logger, _ := started(b, func(o *Options) { o.Full = FullBlock; o.RingBytes = 8 << 20 })
	defer logger.Close()
	b.ReportAllocs()
	for at := range b.N {
		if at%20000 == 0 {
			b.StopTimer()
			logger.Flush()
			b.StartTimer()
		}
		logger.Info("order filled", Uint64("id", uint64(at)), Float64("price", 9.5), Int32("lot", 3), String("side", "buy-limit"))
	}
}

func BenchmarkDisabled(b *testing.B) {
	logger, _ := started(b, func(o *Options) { o.Level = "warn" })
	defer logger.Close()
	b.ReportAllocs()
	for at := range b.N {
		logger.Info("order filled", Uint64("id", uint64(at)), Float64("price", 9.5), Int32("lot", 3), String("side", "buy-limit"))
	}
}

func BenchmarkSlogLogAttrs(b *testing.B) {
	logger, _ := started(b, func(o *Options) { o.Full = FullBlock; o.RingBytes = 1 << 20 })
	defer logger.Close()
	log, ctx := logger.Slog(), context.Background()
	b.ReportAllocs()
	for at := range b.N {
		log.LogAttrs(ctx, slog.LevelInfo, "order filled", slog.Uint64("id", uint64(at)), slog.Float64("price", 9.5),
			slog.Int("lot", 3), slog.String("side", "buy-limit"))
	}
}

func BenchmarkPutBursts(b *testing.B) {
	logger, _ := started(b, func(o *Options) { o.Full = FullBlock; o.RingBytes = 8 << 20 })
	defer logger.Close()
	shape := NewShape(LevelInfo, "order filled", Uint64("id", 0), Float64("price", 0), Int32("lot", 0), String("side", ""))
	b.ReportAllocs()
	for at := range b.N {
		if at%20000 == 0 {
			b.StopTimer()
			logger.Flush()
			b.StartTimer()
		}
		logger.Put(shape, []uint64{uint64(at), 9, 3}, "buy-limit")
	}
}

// benchmarkBursts measures calls whose rings have room: what they cost their goroutine, without the drain.
func benchmarkBursts(b *testing.B, change func(*Options), call func(logger *Logger, at int)) {
	logger, _ := started(b, func(o *Options) {
		o.Full, o.RingBytes = FullBlock, 8<<20
		if change != nil {
			change(o)
		}
	})
	defer logger.Close()
	b.ReportAllocs()
	for at := range b.N {
		if at%20000 == 0 {
			b.StopTimer()
			logger.Flush()
			b.StartTimer()
		}
		call(logger, at)
	}
}

// Values that the call renders: durations, times, errors, and the fields of groups.

func BenchmarkDuration(b *testing.B) {
	benchmarkBursts(b, nil, func(logger *Logger, at int) { logger.Info("m", Duration("took", 1234567+time.Duration(at))) })
}

func BenchmarkTime(b *testing.B) {
	begin := time.Unix(1_700_000_000, 123_456_789)
	benchmarkBursts(b, nil, func(logger *Logger, at int) { logger.Info("m", Time("at", begin.Add(time.Duration(at)))) })
}

func BenchmarkError(b *testing.B) {
	err := errors.New("the connection was refused")
	benchmarkBursts(b, nil, func(logger *Logger, at int) { logger.Info("m", Err(err)) })
}

func BenchmarkGroup(b *testing.B) {
	benchmarkBursts(b, nil, func(logger *Logger, at int) { logger.Info("m", Group("request", Int("id", at), String("path", "/a"))) })
}

func callRich(logger *Logger, at int) {
	logger.Info("m", Duration("took", 1234567+time.Duration(at)), Time("at", richTime.Add(time.Duration(at))), Err(errRich),
		Group("request", Int("id", at), String("path", "/a")))
}

var errRich, richTime = errors.New("the connection was refused"), time.Unix(1_700_000_000, 123_456_789)

func BenchmarkRich(b *testing.B) { benchmarkBursts(b, nil, callRich) }

func BenchmarkRichSlog(b *testing.B) {
	for _, layout := range []Layout{Text, JSON} {
		b.Run(string(layout), func(b *testing.B) {
			var log *slog.Logger
			benchmarkBursts(b, func(o *Options) { o.Layout, log = layout, nil }, func(logger *Logger, at int) {
				if log == nil {
					log = logger.Slog()
				}
				slogRich(log, at)
			})
		})
	}
}

// BenchmarkRichJSONHandler is the same with package slog's own handler, into nothing.
func BenchmarkRichJSONHandler(b *testing.B) {
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	b.ReportAllocs()
	for at := range b.N {
		slogRich(log, at)
	}
}

func slogRich(log *slog.Logger, at int) {
	log.LogAttrs(context.Background(), slog.LevelInfo, "m", slog.Duration("took", 1234567+time.Duration(at)),
		slog.Time("at", richTime.Add(time.Duration(at))), slog.Any("error", errRich), slog.Group("request", "id", at, "path", "/a"))
}
