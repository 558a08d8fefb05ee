package logdrive

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var crashCycles = flag.Int("crash-cycles", 24, "how often a logging program is killed and its log looked at")

// crashEnv says to the test program that it is the one that is to crash, and how.
const crashEnv = "LOGDRIVE_GO_CRASH"

func TestMain(m *testing.M) {
	if how := os.Getenv(crashEnv); how != "" {
		agentWelcome = time.Minute
		crash(how)
	}
	flag.Parse()
	agentWelcome = time.Minute
	os.Exit(m.Run())
}

const crashGoroutines = 4

// crash logs from some goroutines, says after each call on standard output what has been committed, and ends in the
// way that is asked for; it is killed from outside otherwise.
func crash(how string) {
	if how == "run-as" {
		logAsBoth()
	}
	if how == "stdout" {
		stdoutLines()
	}
	// Every other program has rings that are replaced by larger ones.
	ringBytes := 1 << (16 + 4*(os.Getpid()%2))
	logger, err := Start(Options{
		App: "crash", Path: os.Getenv("LOGDRIVE_GO_PATH"), RunDir: os.Getenv("LOGDRIVE_GO_RUN"),
		Level: "trace", Full: FullBlock, RingBytes: ringBytes,
	})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(3)
	}
	if how == "hello" {
		fmt.Println("printed by the program")
		logger.Info("hello", Int("number", 7))
		if err := logger.Close(); err != nil {
			fmt.Println("error", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	if how == "exec" {
		restart(logger)
	}
	if how == "serve" {
		serve(logger)
	}
	if how == "setuid" {
		becomeNobody(logger)
	}
	var group sync.WaitGroup
	for number := range crashGoroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for at := 0; ; at++ {
				logger.Info("crash", Int("goroutine", number), Int("at", at), String("text", "something to read"))
				// One system call for each line, so that what has been said has been committed before.
				_, _ = syscall.Write(1, fmt.Appendf(nil, "%d %d\n", number, at))
				if at == 300 && number == 1 {
					switch how {
					case "exit":
						os.Exit(1)
					case "panic":
						panic("as asked for")
					}
				}
			}
		}()
	}
	group.Wait()
}

// TestACrashLosesNothing ends a logging program in several ways, again and again, and looks for each record that the
// program has committed: in the log, once, after the sidecar has finished or `logdrive recover` has run.
func TestACrashLosesNothing(t *testing.T) {
	bin := program(t)
	for cycle := range *crashCycles {
		how := []string{"kill", "kill-all", "panic", "exit", "kill-sidecar"}[cycle%5]
		t.Run(fmt.Sprintf("%d %s", cycle, how), func(t *testing.T) { crashCycle(t, bin, how, cycle) })
	}
}

func crashCycle(t *testing.T, bin, how string, cycle int) {
	dir := t.TempDir()
	path, run := filepath.Join(dir, "crash.log"), filepath.Join(dir, "run")
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), crashEnv+"="+how, "LOGDRIVE_GO_PATH="+path, "LOGDRIVE_GO_RUN="+run,
		"LOGDRIVE_BIN="+bin, "LOGDRIVE_AGENT=off")
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	scanner := bufio.NewScanner(output)
	// Somewhere else in each cycle, but never before all is set up.
	limit := 200 + cycle*37%900
	for scanner.Scan() {
		said[scanner.Text()] = true
		if len(said) == limit {
			switch how {
			case "kill":
				_ = command.Process.Kill()
			case "kill-all":
				killSidecar(t, command.Process.Pid)
				_ = command.Process.Kill()
			case "kill-sidecar":
				killSidecar(t, command.Process.Pid)
			}
		}
		if how == "kill-sidecar" && len(said) == limit+1500 {
			_ = command.Process.Kill()
		}
	}
	finish(t, bin, run)
	_ = command.Wait() // Only now: until its parent has asked, every kernel says how a process ended.
	checkCrash(t, path, said)
	checkEnd(t, path, how)
}

// checkEnd looks for the record of how the program ended, where its sidecar lived to see it.
func checkEnd(t *testing.T, path, how string) {
	t.Helper()
	word, ok := map[string]string{
		"kill": " was ended by signal 9", "panic": " exited with status 2, ", "exit": " exited with status 1, ",
	}[how]
	if !ok {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), word) != 1 {
		t.Fatalf("the log does not say once %q (%v), but ends with\n%s", word, err, text[max(0, len(text)-600):])
	}
}

// killSidecar kills the child of a process.
func killSidecar(t *testing.T, pid int) { signalChildren(t, pid, syscall.SIGKILL) }

// signalChildren sends a signal to the processes that a process has started.
func signalChildren(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				_ = syscall.Kill(child, signal)
			}
		}
	}
}

// finish waits until the session is gone: its sidecar finishes it, or recover does where that was killed, too.
func finish(t *testing.T, bin, run string) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		left, err := os.ReadDir(run)
		if errors.Is(err, os.ErrNotExist) || err == nil && len(left) == 0 {
			return
		}
		text, err := exec.Command(bin, "recover", "--all", "--run-dir", run).CombinedOutput()
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions are left: %v\n%s", len(left), err, text)
		}
	}
}

func checkCrash(t *testing.T, path string, said map[string]bool) {
	t.Helper()
	seen := map[string]int{}
	for _, line := range lines(t, path) {
		var number, at int
		_, rest, ok := strings.Cut(line, " crash goroutine=")
		if !ok {
			continue
		}
		if _, err := fmt.Sscanf(rest, "%d at=%d text=\"something to read\"", &number, &at); err != nil {
			t.Fatalf("a torn line: %q: %v", line, err)
		}
		seen[fmt.Sprintf("%d %d", number, at)]++
	}
	for record := range said {
		if seen[record] == 0 {
			t.Fatalf("%s is missing; %d records in the log, %d said", record, len(seen), len(said))
		}
	}
	for record, times := range seen {
		if times != 1 {
			t.Fatalf("%s is in the log %d times", record, times)
		}
	}
	if len(seen) > len(said)+crashGoroutines {
		t.Fatalf("%d records in the log, %d said", len(seen), len(said))
	}
}
