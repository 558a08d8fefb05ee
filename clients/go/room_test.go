package logdrive

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestAPWithoutARingSharesOne takes the room for rings away: calls were dropped, though there were other rings.
func TestAPWithoutARingSharesOne(t *testing.T) {
	before := runtime.GOMAXPROCS(8)
	defer runtime.GOMAXPROCS(before)
	logger, path := started(t, func(o *Options) { o.Full, o.RingBytes = FullBlock, 1<<20 })
	run := logger.core.session.Path()
	// The name of the next ring is taken.
	if err := os.WriteFile(filepath.Join(run, "ring-00001"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const goroutines, each = 32, 500
	var group sync.WaitGroup
	for number := range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for at := range each {
				logger.Info("shared", Int("goroutine", number), Int("at", at))
			}
			logger.Info("long", String("text", strings.Repeat("x", 100_000)))
		}()
	}
	group.Wait()
	stats := logger.Stats()
	found := strings.Join(closed(t, logger, path), "\n")
	if stats.DroppedCalls() != 0 || strings.Count(found, " shared goroutine=") != goroutines*each || strings.Count(found, "x…") != goroutines {
		t.Fatalf("%+v: %d lines", stats, strings.Count(found, "\n"))
	}
}

// TestOutputBuffersGetTheirMemoryWhenTheyAreFilled looks at the blocks of a new session: all buffers had theirs.
func TestOutputBuffersGetTheirMemoryWhenTheyAreFilled(t *testing.T) {
	logger, path := started(t, func(*Options) {})
	var stat syscall.Stat_t
	if err := syscall.Stat(filepath.Join(logger.core.session.Path(), "drain"), &stat); err != nil {
		t.Fatal(err)
	}
	logger.Info("kept")
	if found := closed(t, logger, path); stat.Blocks*512 > 3<<20 || len(found) != 1 {
		t.Fatalf("%d bytes of output buffers, %d lines", stat.Blocks*512, len(found))
	}
}

// TestTenThousandGoroutinesAreAllAccountedFor logs from so many goroutines that most of them wait for room together.
func TestTenThousandGoroutinesAreAllAccountedFor(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.RingBytes = 1 << 20 })
	const goroutines, each = 10_000, 10
	var calls atomic.Int64
	var group sync.WaitGroup
	for number := range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for at := range each {
				logger.Info("waits", Int("goroutine", number), Int("at", at))
				calls.Add(1)
			}
		}()
	}
	group.Wait()
	stats := logger.Stats()
	found := strings.Join(closed(t, logger, path), "\n")
	if uint64(strings.Count(found, " waits goroutine=")) != stats.Records || stats.Records+stats.DroppedCalls() != uint64(calls.Load()) {
		t.Fatalf("%+v", stats)
	}
}

// TestWaitingCallsLoseNothingAtARateThatTheDrainBears logs from 10,000 goroutines at 100,000 records a second, alone and
// beside goroutines that keep all Ps busy: a call that waits holds the others back no longer than the drain needs.
func TestWaitingCallsLoseNothingAtARateThatTheDrainBears(t *testing.T) {
	if raceIsOn {
		t.Skip("the race detector makes the rate another one")
	}
	for _, busy := range []int{0, 4} {
		t.Run(fmt.Sprintf("busy=%d", busy), func(t *testing.T) {
			logger, path := started(t, func(o *Options) { o.RingBytes = 0 })
			const goroutines, each, pause = 10_000, 10, 100 * time.Millisecond
			var stop atomic.Bool
			var load, group sync.WaitGroup
			for range busy {
				load.Add(1)
				go func() {
					defer load.Done()
					for !stop.Load() {
					}
				}()
			}
			for number := range goroutines {
				group.Add(1)
				go func() {
					defer group.Done()
					time.Sleep(pause * time.Duration(number) / goroutines)
					for at := range each {
						logger.Info("paced", Int("goroutine", number), Int("at", at))
						time.Sleep(pause)
					}
				}()
			}
			group.Wait()
			stop.Store(true)
			load.Wait()
			stats := logger.Stats()
			written := strings.Count(strings.Join(closed(t, logger, path), "\n"), " paced goroutine=")
			if stats.DroppedCalls() != 0 || written != goroutines*each {
				t.Fatalf("%d lines of %d, %+v", written, goroutines*each, stats)
			}
		})
	}
}
