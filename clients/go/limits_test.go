package logdrive

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestLongContextsKeepTheirFields has more in With than the fast path takes: fields beyond 4,096 bytes, and beyond 255,
// were left out in silence.
func TestLongContextsKeepTheirFields(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.RingBytes = 1 << 20 })
	long := logger.With(String("first", strings.Repeat("a", 3000)), String("second", strings.Repeat("b", 3000)), Int("third", 3))
	long.Info("long", Int("own", 4))
	long.Slog().With("fourth", 4).Info("long", "own", 5)
	stats := logger.Stats()
	found := closed(t, logger, path)
	want := " long first=" + strings.Repeat("a", 3000) + " second=" + strings.Repeat("b", 3000) + " third=3"
	if len(found) != 2 || !strings.HasSuffix(found[0], want+" own=4") || !strings.HasSuffix(found[1], want+" fourth=4 own=5") || stats.Cut != 0 {
		t.Fatalf("%d cut: %q", stats.Cut, found)
	}
}

// TestWhatARecordHasNoRoomForIsMarkedAndCounted logs more fields than a record has, and longer ones.
func TestWhatARecordHasNoRoomForIsMarkedAndCounted(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.RingBytes = 1 << 20 })
	var fields []Field
	for at := range 300 {
		fields = append(fields, Int(fmt.Sprint("k", at), at))
	}
	logger.Info("many", fields...)
	logger.With(fields...).Info("many")
	logger.With(fields[:200]...).Info("more", fields[200:]...)
	logger.With(String("text", strings.Repeat("x", 200<<10))).Info("huge", Int("own", 1))
	stats := logger.Stats()
	found := closed(t, logger, path)
	if len(found) != 4 || stats.Cut != 4 {
		t.Fatalf("%d lines, %d cut", len(found), stats.Cut)
	}
	for _, line := range found[:3] {
		_, values, _ := strings.Cut(line, " k0=0")
		kept := 1 + strings.Count(values, " k")
		_, left, marked := strings.Cut(line, " "+leftKey+"=")
		if number, err := strconv.Atoi(left); !marked || err != nil || kept+number != len(fields) || kept < 250 {
			t.Fatalf("%d fields kept: ...%s", kept, line[max(0, len(line)-60):])
		}
	}
	if !strings.Contains(found[3], "x…") {
		t.Fatal("a text is cut without a mark")
	}
}

// TestStatsHaveTheSinks looks at what the drain in another process has counted.
func TestStatsHaveTheSinks(t *testing.T) {
	logger, path := started(t, nil)
	const records = 100
	for at := range records {
		logger.Info("counted", Int("at", at))
	}
	found := closed(t, logger, path)
	bytes := uint64(len(strings.Join(found, "\n")) + 1)
	stats := logger.Stats()
	if len(stats.Sinks) != 1 || stats.Sinks[0].Written != records || stats.Sinks[0].WrittenBytes != bytes || len(stats.Sinks[0].Dropped) != 0 {
		t.Fatalf("%+v, %d bytes", stats, bytes)
	}
}

// TestDropsOfASinkAreInStats limits the size of the log's file, as a full disk does.
func TestDropsOfASinkAreInStats(t *testing.T) {
	// The session's own files are smaller.
	const most = 16 << 20
	logger, path := started(t, func(o *Options) {
		o.RingBytes = 1 << 20
		o.Bin = limited(t, o.Bin, most)
	})
	sink := func() SinkStats { return logger.Stats().Sinks[0] }
	awaited(t, func() bool {
		for at := range 1000 {
			logger.Info("more than fits", Int("at", at), String("text", strings.Repeat("t", 180)))
		}
		return sink().Dropped["overflow"] > 0 && sink().Errors > 0
	})
	awaited(t, func() bool { return logger.Stats().PendingBytes == 0 })
	if stats := logger.Stats(); stats.Sinks[0].Written+stats.Sinks[0].Dropped["overflow"] > stats.Records {
		t.Errorf("%+v", stats)
	}
	_ = logger.Close() // Not all of it can be written.
	if info, err := os.Stat(path); err != nil || info.Size() > most {
		t.Fatal(info, err)
	}
}

// limited is a program that runs another with a limit for the size of files.
func limited(t *testing.T, bin string, bytes int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limited")
	text := fmt.Sprintf("#!/bin/sh\nulimit -f %d\nexec %s \"$@\"\n", bytes/512, bin)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOGDRIVE_BIN", path)
	return path
}

// TestDescriptorsThatTheProgramClosesAreNotUsed does what closefrom does, and opens a file under each number: the table of
// callsites grew by whatever had its number.
func TestDescriptorsThatTheProgramClosesAreNotUsed(t *testing.T) {
	logger, path := started(t, nil)
	logger.Info("before")
	victim, err := os.Create(filepath.Join(t.TempDir(), "victim"))
	if err != nil {
		t.Fatal(err)
	}
	defer victim.Close()
	run := logger.core.session.Path()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	var taken []int
	for _, entry := range list {
		fd, _ := strconv.Atoi(entry.Name())
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(target, run) {
			if err := syscall.Dup3(int(victim.Fd()), fd, syscall.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			taken = append(taken, fd)
		}
	}
	if len(taken) < 5 {
		t.Fatalf("%d descriptors of the session", len(taken))
	}
	const callsites = 200
	for at := range callsites {
		logger.WithTarget(fmt.Sprint("target", at)).Info(strings.Repeat("long ", 200), Int("at", at))
	}
	found := closed(t, logger, path)
	if info, err := victim.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("a file of the program has %d bytes more", info.Size())
	}
	for _, fd := range taken {
		if err := syscall.Close(fd); err != nil {
			t.Error("a descriptor of the program was closed")
		}
	}
	if len(found) != callsites+1 {
		t.Fatalf("%d lines", len(found))
	}
}
