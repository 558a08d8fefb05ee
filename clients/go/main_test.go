package logdrive

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// program is the binary that drains: LOGDRIVE_BIN, or what cargo has built in this workspace, or the one in PATH.
func program(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("LOGDRIVE_BIN"); bin != "" {
		return bin
	}
	if bin := built(); bin != "" {
		return bin
	}
	bin, err := exec.LookPath("logdrive")
	if err != nil {
		t.Skip("the program logdrive is missing: cargo build -p logdrive-cli")
	}
	return bin
}

// built is the program as it was built last, if it was.
func built() string {
	last, at := "", time.Time{}
	for _, profile := range []string{"release", "debug"} {
		bin, err := filepath.Abs(filepath.Join("..", "..", "target", profile, "logdrive"))
		if err != nil {
			continue
		}
		if info, err := os.Stat(bin); err == nil && info.ModTime().After(at) {
			last, at = bin, info.ModTime()
		}
	}
	return last
}

// started is a logger of its own, with its log.
func started(t testing.TB, change func(*Options)) (*Logger, string) {
	t.Helper()
	dir := t.TempDir()
	// In memory: a log says so where its session is on a disk.
	runDir, err := os.MkdirTemp("/dev/shm", "logdrive-go-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runDir) })
	options := Options{
		App: "go test", Path: filepath.Join(dir, "test.log"), RunDir: runDir,
		Level: "trace", Bin: program(t), RingBytes: 1 << 16,
	}
	if change != nil {
		change(&options)
	}
	t.Setenv("LOGDRIVE", "")
	t.Setenv("LOGDRIVE_AGENT", options.Agent)
	logger, err := Start(options)
	if err != nil {
		t.Fatal(err)
	}
	return logger, options.Path
}

// closed ends a logger and gives the lines of its log.
func closed(t testing.TB, logger *Logger, path string) []string {
	t.Helper()
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	return lines(t, path)
}

func lines(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The log says so if the directory of a test is on a disk.
	return slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), isOfPlace)
}

func isOfPlace(line string) bool { return strings.Contains(line, "the session is in ") }

// without is a line behind its time, whose place in the source is that of this test.
func without(line string) string {
	_, rest, _ := strings.Cut(line, "Z ")
	return rest
}
