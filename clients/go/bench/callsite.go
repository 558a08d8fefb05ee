package main

import (
	"runtime"
	"sort"
	"syscall"
	"time"
)

// callsites is W2: bursts of 20 calls and then a busy millisecond, and calls back to back that do not overflow a ring.
func callsites() []subject {
	var all []subject
	for _, rival := range rivals() {
		all = append(all, subject{rival.name, func(dir string) (figures, error) {
			call, close, err := rival.start(dir)
			if err != nil {
				return nil, err
			}
			got := measureCalls(call)
			return got, close()
		}})
	}
	return all
}

func measureCalls(call func(uint64)) figures {
	bursts := 3000
	if *quick {
		bursts = 300
	}
	for id := range uint64(2000) {
		call(id)
	}
	means := make([]float64, 0, bursts)
	for burst := range bursts {
		busy(time.Millisecond)
		begin := time.Now()
		for id := range uint64(20) {
			call(uint64(burst) + id)
		}
		means = append(means, float64(time.Since(begin).Nanoseconds())/20)
	}
	sort.Float64s(means)
	// Back to back, 2000 calls at a time, so that the drain keeps up.
	tight := make([]float64, 0, 200)
	for range cap(tight) {
		busy(2 * time.Millisecond)
		begin := time.Now()
		for id := range uint64(2000) {
			call(id)
		}
		tight = append(tight, float64(time.Since(begin).Nanoseconds())/2000)
	}
	sort.Float64s(tight)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for id := range uint64(10000) {
		call(id)
	}
	runtime.ReadMemStats(&after)
	return figures{
		"mean20_p50_ns": means[len(means)/2], "mean20_p99_ns": means[len(means)*99/100], "tight_ns": tight[len(tight)/2],
		"allocs": float64((after.Mallocs - before.Mallocs) / 10000), "bytes_per_op": float64((after.TotalAlloc - before.TotalAlloc) / 10000),
	}
}

func busy(span time.Duration) {
	for begin := time.Now(); time.Since(begin) < span; {
	}
}

// cpu is the time that this process and its ended children have had.
func cpu() float64 {
	sum := 0.0
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err == nil {
			sum += float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
		}
	}
	return sum
}
