package main

import (
	"math"
	"runtime"
	"sort"
	"sync"
	"time"
)

const burstCalls = 20

var customers = [8]string{"acme-ltd", "globex-42", "initech-uk", "umbrella-de", "soylent-corp", "hooli-limited", "stark-industry", "wayne-holdings7"}

func call(logger subject, number uint64) {
	logger.four(number, float64(number)*0.25, int32(number), customers[number%8])
}

// ticked are times of one goroutine, in ticks.
type ticked struct{ bursts, calls, tight []uint64 }

// callsite is W2: bursts of 20 calls and then a busy millisecond, of which one is timed as a whole and the next one call
// by call; then a thousand calls back to back, which overflow no ring.
func callsite(name string, given settings) (figures, error) {
	logger, err := start(name, given["path"])
	if err != nil {
		return nil, err
	}
	tick := tickNs()
	all := make([]ticked, given.number("threads"))
	var group sync.WaitGroup
	for at := range all {
		group.Add(1)
		go func() {
			defer group.Done()
			measureCalls(logger, &all[at], given.number("bursts"), given.number("batches"), uint64(1e6/tick))
		}()
	}
	group.Wait()
	allocs, bytes := allocations(logger)
	if err := logger.finish(); err != nil {
		return nil, err
	}
	var sum ticked
	for _, one := range all {
		sum.bursts, sum.calls, sum.tight = append(sum.bursts, one.bursts...), append(sum.calls, one.calls...), append(sum.tight, one.tight...)
	}
	return figures{
		"mean20_p50_ns": quantile(sum.bursts, 0.5) * tick / burstCalls, "mean20_p99_ns": quantile(sum.bursts, 0.99) * tick / burstCalls,
		"call_p99_ns": quantile(sum.calls, 0.99) * tick, "call_p999_ns": quantile(sum.calls, 0.999) * tick,
		"call_max_ns": quantile(sum.calls, 1) * tick, "tight_ns": quantile(sum.tight, 0.5) * tick / 1000, "allocs": allocs, "bytes": bytes,
	}, nil
}

func measureCalls(logger subject, out *ticked, bursts, batches int, busy uint64) {
	warm := ticked{calls: make([]uint64, 0, 2000)}
	for number := range uint64(50) {
		burst(logger, number, burstCalls)
		oneByOne(logger, number, &warm)
		stayBusy(busy)
	}
	out.bursts, out.calls = make([]uint64, 0, bursts), make([]uint64, 0, bursts*burstCalls)
	for number := range uint64(bursts) {
		if number%2 == 0 {
			out.bursts = append(out.bursts, burst(logger, number, burstCalls))
		} else {
			oneByOne(logger, number, out)
		}
		stayBusy(busy)
	}
	for range batches {
		// The drain empties what a batch has filled.
		time.Sleep(10 * time.Millisecond)
		out.tight = append(out.tight, burst(logger, 0, 1000))
	}
}

//go:noinline
func burst(logger subject, number uint64, calls int) uint64 {
	began := ticks()
	for at := range uint64(calls) {
		call(logger, number+at)
	}
	return ticks() - began
}

//go:noinline
func oneByOne(logger subject, number uint64, out *ticked) {
	last := ticks()
	for at := range uint64(burstCalls) {
		call(logger, number+at)
		now := ticks()
		out.calls = append(out.calls, now-last)
		last = now
	}
}

func stayBusy(span uint64) {
	for end := ticks() + span; ticks() < end; {
	}
}

// tickNs is how long a tick is.
func tickNs() float64 {
	began, first := time.Now(), ticks()
	for time.Since(began) < 20*time.Millisecond {
	}
	return float64(time.Since(began).Nanoseconds()) / float64(ticks()-first)
}

// allocations of a call, and their bytes.
func allocations(logger subject) (float64, float64) {
	const calls = 10000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for number := range uint64(calls) {
		call(logger, number)
	}
	runtime.ReadMemStats(&after)
	return math.Floor(float64(after.Mallocs-before.Mallocs) / calls), math.Floor(float64(after.TotalAlloc-before.TotalAlloc) / calls)
}

// quantile is the value that a share of the values does not exceed.
func quantile[T uint64 | float64](values []T, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sort.Slice(values, func(a, b int) bool { return values[a] < values[b] })
	rank := int(math.Ceil(float64(len(values)) * share))
	return float64(values[max(rank, 1)-1])
}
