package logdrive

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// ringBytes are the sizes of the rings of a session, without their headers.
func ringBytes(t *testing.T, run string) (sizes []int64) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(run, "ring-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size()-4096)
	}
	return sizes
}

// TestSmallRingsAreReplacedByLargerOnes fills rings while the drain stands still: each P had a ring of the largest size from
// its first call on.
func TestSmallRingsAreReplacedByLargerOnes(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Full, o.RingBytes = FullDrop, 1<<20 })
	run := logger.core.session.Path()
	logger.Info("first")
	for _, bytes := range ringBytes(t, run) {
		if bytes != 1<<16 {
			t.Errorf("a ring begins with %d bytes", bytes)
		}
	}
	signalChildren(t, os.Getpid(), syscall.SIGSTOP)
	defer signalChildren(t, os.Getpid(), syscall.SIGCONT)
	// They fit into one ring of the largest size, where all run on one P.
	const goroutines, each = 4, 3000
	var group sync.WaitGroup
	for number := range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for at := range each {
				logger.Info("burst", Int("goroutine", number), Int("at", at))
			}
		}()
	}
	group.Wait()
	logger.Info("long", String("text", strings.Repeat("x", 30_000)))
	largest := int64(0)
	for _, bytes := range ringBytes(t, run) {
		largest = max(largest, bytes)
	}
	signalChildren(t, os.Getpid(), syscall.SIGCONT)
	stats := logger.Stats()
	found := closed(t, logger, path)
	if stats.DroppedCalls() != 0 || largest <= 1<<16 {
		t.Errorf("%+v, the largest ring has %d bytes", stats, largest)
	}
	next := [goroutines]int{}
	for _, line := range found {
		var number, at int
		_, rest, isOne := strings.Cut(line, " goroutine=")
		if !isOne {
			continue
		}
		if _, err := fmt.Sscanf(rest, "%d at=%d", &number, &at); err != nil {
			t.Fatal(err)
		}
		if at != next[number] {
			t.Fatalf("goroutine %d: %d stands where %d is expected", number, at, next[number])
		}
		next[number]++
	}
	for number, count := range next {
		if count != each {
			t.Errorf("goroutine %d has %d records", number, count)
		}
	}
	if !strings.Contains(strings.Join(found, "\n"), strings.Repeat("x", 30_000)) {
		t.Error("the long record was cut")
	}
}
