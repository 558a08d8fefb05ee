package logdrive

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestTwentyDeathsOfTheSidecarLoseNothing kills each sidecar as soon as it runs, without a flush in between: the ninth
// death was the end of the log, in silence.
func TestTwentyDeathsOfTheSidecarLoseNothing(t *testing.T) {
	logger, path := started(t, nil)
	const deaths, each = 20, 10
	for death := range deaths {
		for at := range each {
			logger.Info("between deaths", Int("death", death), Int("at", at))
		}
		awaited(t, func() bool { return hasSidecar(t, logger) })
		killed := sidecarOf(logger)
		_ = syscall.Kill(killed, syscall.SIGKILL)
		awaited(t, func() bool { return sidecarOf(logger) != killed })
	}
	logger.Info("behind all deaths")
	awaited(t, func() bool { return logger.Flush() == nil })
	found := strings.Join(closed(t, logger, path), "\n")
	for death := range deaths {
		for at := range each {
			if strings.Count(found, fmt.Sprintf(" death=%d at=%d\n", death, at)) != 1 {
				t.Fatalf("record %d of death %d is not there once:\n%s", at, death, found)
			}
		}
	}
	if !strings.Contains(found, " behind all deaths") || !strings.Contains(found, "has ended (signal: killed); another one continues") {
		t.Fatal(found)
	}
}

func hasSidecar(t *testing.T, logger *Logger) bool {
	t.Helper()
	return sidecarOf(logger) != 0
}

// TestAProgramThatIsAwayForAWhileComesBack takes the program away, as an upgrade does, and puts it back when the logger has
// found it missing for a while.
func TestAProgramThatIsAwayForAWhileComesBack(t *testing.T) {
	dir := t.TempDir()
	bin, away := filepath.Join(dir, "logdrive"), filepath.Join(dir, "logdrive.away")
	content, err := os.ReadFile(program(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bin, content, 0o755); err != nil {
		t.Fatal(err)
	}
	var said lockedText
	t.Setenv("LOGDRIVE_BIN", "")
	logger, path := started(t, func(o *Options) { o.Bin, o.Fallback = bin, &said })
	logger.Info("before")
	if err := os.Rename(bin, away); err != nil {
		t.Fatal(err)
	}
	awaited(t, func() bool { return hasSidecar(t, logger) })
	_ = syscall.Kill(sidecarOf(logger), syscall.SIGKILL)
	awaited(t, logger.core.abandoned.Load)
	logger.Info("while it is away")
	if err := logger.Flush(); err == nil {
		t.Error("a flush without a drain is no error")
	}
	if err := os.Rename(away, bin); err != nil {
		t.Fatal(err)
	}
	awaited(t, func() bool { return !logger.core.abandoned.Load() })
	logger.Info("when it is back")
	found := strings.Join(closed(t, logger, path), "\n")
	for _, wanted := range []string{" before", " while it is away", " when it is back", "could not be started"} {
		if strings.Count(found+"\n", wanted) != 1 {
			t.Errorf("%q is not there once:\n%s", wanted, found)
		}
	}
	if strings.Count(said.String(), "nothing drains the log") != 1 {
		t.Errorf("it is not said once: %q", said.String())
	}
}

// lockedText is a text that goroutines write.
type lockedText struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(text []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.Write(text)
}

func (l *lockedText) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.String()
}

// TestPathsMayBeRelative starts with relative names of the program and the run directory: the sidecar runs elsewhere.
func TestPathsMayBeRelative(t *testing.T) {
	bin, err := filepath.Abs(program(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(bin, filepath.Join(dir, "drainer")); err != nil {
		t.Fatal(err)
	}
	before, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chdir(before) })
	t.Setenv("LOGDRIVE_BIN", "./drainer")
	t.Setenv("LOGDRIVE_AGENT", "off")
	t.Setenv("LOGDRIVE", "")
	logger, err := Start(Options{App: "relative", Path: "x.log", RunDir: "run"})
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("from here")
	if found := closed(t, logger, filepath.Join(dir, "x.log")); len(found) != 1 || !strings.HasSuffix(found[0], " from here") {
		t.Fatal(found)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "run")); err != nil || len(left) != 0 {
		t.Fatal("the run directory is not where it was asked for", left, err)
	}
}
