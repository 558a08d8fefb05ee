package logdrive

import (
	"context"
	"log/slog"
	"testing"
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
