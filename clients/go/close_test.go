package logdrive

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
)

// TestCloseWritesWhatOthersCommitMeanwhile closes loggers while goroutines log: a call that was writing into its ring when
// the ring was ended was committed behind the drain's last look.
func TestCloseWritesWhatOthersCommitMeanwhile(t *testing.T) {
	for round := range 20 {
		logger, path := started(t, func(o *Options) { o.Full = FullDrop })
		var calls, going atomic.Uint64
		var group sync.WaitGroup
		var stop atomic.Bool
		for number := range 8 {
			group.Add(1)
			go func() {
				defer group.Done()
				for at := 0; !stop.Load(); at++ {
					logger.Info("busy", Int("goroutine", number), Int("at", at))
					calls.Add(1)
					if at == 100 {
						going.Add(1)
					}
				}
			}()
		}
		awaited(t, func() bool { return going.Load() == 8 })
		found := closed(t, logger, path)
		stop.Store(true)
		group.Wait()
		stats := logger.Stats()
		written := strings.Count(strings.Join(found, "\n"), " busy goroutine=")
		if uint64(written) != stats.Records || stats.PendingBytes != 0 {
			t.Fatalf("round %d: %d lines of %d records, %d bytes pending", round, written, stats.Records, stats.PendingBytes)
		}
		if sum := stats.Records + stats.DroppedCalls() + stats.Late; sum != calls.Load() {
			t.Fatalf("round %d: %+v make %d of %d calls", round, stats, sum, calls.Load())
		}
	}
}

// awaited waits for a condition.
func awaited(t testing.TB, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not come")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestStartAndCloseGiveEverythingBack starts loggers, logs and closes them, also with callers that come late, and looks at
// the memory and the descriptors of the process.
func TestStartAndCloseGiveEverythingBack(t *testing.T) {
	const warm, rounds = 10, 200
	var before usage
	for round := range rounds {
		if round == warm {
			before = usageNow(t)
		}
		dir := t.TempDir()
		logger, err := Start(Options{App: "often", Path: filepath.Join(dir, "x.log"), RunDir: filepath.Join(dir, "run"), Bin: program(t)})
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			group.Add(1)
			go func() {
				defer group.Done()
				for at := range 200 {
					logger.Info("often", Int("at", at))
				}
			}()
		}
		if round%2 == 0 {
			group.Wait()
		}
		if err := logger.Close(); err != nil {
			t.Fatal(err)
		}
		group.Wait()
		logger.Info("late")
		if err := logger.Flush(); err != nil || logger.SetLevel("trace") != nil {
			t.Fatal("what comes late is an error", err)
		}
	}
	after := usageNow(t)
	// Addresses of control words stay, without memory behind them.
	if after.descriptors > before.descriptors+4 || after.residentKiB > before.residentKiB+24<<10 || after.mappings > before.mappings+3*rounds {
		t.Fatalf("%+v after %d rounds, %+v after %d", after, rounds, before, warm)
	}
}

type usage struct{ descriptors, residentKiB, mappings int }

func usageNow(t *testing.T) (now usage) {
	t.Helper()
	runtime.GC()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "RssShmem:") || strings.HasPrefix(line, "RssFile:") {
			kibibytes, _ := strconv.Atoi(strings.Fields(line)[1])
			now.residentKiB += kibibytes
		}
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	now.descriptors, now.mappings = len(list), strings.Count(string(maps), "\n")
	return now
}

// TestTheEndOfASessionWaitsForPinnedCalls is about the promise of the runtime that the end depends on.
func TestTheEndOfASessionWaitsForPinnedCalls(t *testing.T) {
	logger, path := started(t, nil)
	logger.Info("before")
	var pinned, ending, over atomic.Bool
	var spins atomic.Uint64
	go func() {
		shard := ring.Hold()
		pinned.Store(true)
		// It ends by itself: while the end waits for it, no other goroutine may run.
		for at := 0; !ending.Load() || at < 10_000_000; at++ {
			spins.Add(1)
		}
		over.Store(true)
		ring.Release(shard)
	}()
	awaited(t, pinned.Load)
	ending.Store(true)
	logger.core.session.EndRings()
	if !over.Load() {
		t.Fatal("the session ended while a call was in its ring")
	}
	closed(t, logger, path)
}
