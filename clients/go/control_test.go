package logdrive

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// runCommand runs the program as a person would, while this process logs.
func runCommand(t *testing.T, bin string, args ...string) {
	t.Helper()
	if text, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
		t.Fatalf("logdrive %s: %v\n%s", strings.Join(args, " "), err, text)
	}
}

// TestLevelsAndSamplesChangeWhileTheProgramRuns changes from outside what a running program logs, with any drain.
func TestLevelsAndSamplesChangeWhileTheProgramRuns(t *testing.T) {
	bin := program(t)
	for _, who := range []string{"sidecar", "agent"} {
		t.Run(who, func(t *testing.T) {
			var path string
			var place []string
			var logger *Logger
			if who == "agent" {
				dir := t.TempDir()
				agent := startAgent(t, bin, dir)
				defer func() { _ = agent.Wait() }()
				defer func() { _ = agent.Process.Signal(syscall.SIGTERM) }()
				path, place = filepath.Join(dir, "all.log"), []string{"--agent", filepath.Join(dir, "a.sock")}
				logger, _ = started(t, func(o *Options) { o.Agent, o.Level, o.Full = place[1], "info", FullBlock })
			} else {
				logger, path = started(t, func(o *Options) { o.Level, o.Full = "info", FullBlock })
				place = []string{"--run-dir", filepath.Dir(logger.core.session.Path())}
			}
			checkLiveControl(t, bin, logger, path, append(place, fmt.Sprint(os.Getpid())))
		})
	}
}

func checkLiveControl(t *testing.T, bin string, logger *Logger, path string, place []string) {
	const calls = 1000
	var all uint64
	debug := func(word string) {
		all++
		logger.Debug("detail", String("word", word))
	}
	often := func() {
		for at := range calls {
			all++
			logger.Info("often", Int("at", at))
		}
	}
	debug("before")
	runCommand(t, bin, append([]string{"level"}, append(place, "debug")...)...)
	debug("during")
	runCommand(t, bin, append([]string{"level", "--reset"}, place...)...)
	debug("after")
	often()
	runCommand(t, bin, append([]string{"sample", "--callsite", "all", "--every", "10"}, place...)...)
	often()
	runCommand(t, bin, append([]string{"sample", "--callsite", "all", "--off"}, place...)...)
	often()
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(lines(t, path), "\n")
	for word, want := range map[string]bool{"word=before": false, "word=during": true, "word=after": false} {
		if strings.Contains(text, word) != want {
			t.Errorf("%s: %v", word, !want)
		}
	}
	sampled := strings.Count(text, " sample_every=10")
	whole := strings.Count(text, " often at=") - sampled
	// The first passes, and then one of ten on each P, wherever its count stands.
	if whole != 2*calls || sampled < calls/10 || sampled > calls/10+1+runtime.GOMAXPROCS(0) {
		t.Errorf("%d lines of two runs, %d of a sampled one", whole, sampled)
	}
	stats := logger.Stats()
	if sum := stats.Records + stats.DroppedCalls() + stats.SampledOut; sum != all-2 {
		t.Errorf("%+v: %d calls are reported, %d were made with their level on", stats, sum, all-2)
	}
}

func TestSampledCallsAreCountedByAllWhoMakeThem(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Full = FullBlock })
	say := func(at int) { logger.Info("shared", Int("at", at)) }
	say(-1)
	runCommand(t, program(t), "sample", "--run-dir", filepath.Dir(logger.core.session.Path()), "--callsite", "all", "--every", "7", fmt.Sprint(os.Getpid()))
	const goroutines, each = 8, 999
	var group sync.WaitGroup
	for range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for at := range each {
				say(at)
			}
		}()
	}
	group.Wait()
	found := uint64(strings.Count(strings.Join(closed(t, logger, path), "\n"), " shared at="))
	if stats := logger.Stats(); found+stats.SampledOut != goroutines*each+1 {
		t.Fatalf("%d lines, %d left out, of %d", found, stats.SampledOut, goroutines*each+1)
	}
}

func TestAProgramBelowRunLogsIntoItsLog(t *testing.T) {
	bin, dir := program(t), t.TempDir()
	path := filepath.Join(dir, "all.log")
	command := exec.Command(bin, "run", "--log", path, "--name", "child", "--run-dir", filepath.Join(dir, "run"), "--", os.Args[0])
	command.Env = append(os.Environ(), crashEnv+"=hello", "LOGDRIVE_GO_PATH="+filepath.Join(dir, "own.log"), "LOGDRIVE_GO_RUN="+filepath.Join(dir, "own"))
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	found := strings.Join(lines(t, path), "\n")
	for _, want := range []string{" hello number=7", "printed by the program"} {
		if strings.Count(found, want) != 1 {
			t.Errorf("%q is not in the log once:\n%s", want, found)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "own.log")); err == nil {
		t.Error("the program has made a log of its own")
	}
}

func TestCloseLeavesNoGoroutinesAndNoProcesses(t *testing.T) {
	bin, dir := program(t), t.TempDir()
	agent := startAgent(t, bin, dir)
	defer func() { _ = agent.Wait() }()
	defer func() { _ = agent.Process.Signal(syscall.SIGTERM) }()
	before := runtime.NumGoroutine()
	for _, socket := range []string{"", filepath.Join(dir, "a.sock")} {
		logger, _ := started(t, func(o *Options) { o.Agent = socket })
		logger.Info("x")
		if err := logger.Close(); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
	var status syscall.WaitStatus
	// The agent is the only child that there still is.
	if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); pid > 0 {
		t.Fatalf("process %d was left behind: %v, %v", pid, status, err)
	}
}
