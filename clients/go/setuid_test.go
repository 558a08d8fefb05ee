//go:build linux

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
)

// nobody is the user that programs of these tests become.
const nobody = 65534

// logAsBoth logs as root and, from many goroutines, as another user, in the program that TestRunAs starts.
func logAsBoth() {
	dir := os.Getenv("LOGDRIVE_GO_RUN")
	logger, err := Start(Options{
		App: "daemon", Path: filepath.Join(dir, "logs", "daemon.log"), RunDir: filepath.Join(dir, "run"), Full: FullBlock,
		RotateBytes: 1 << 16, RunAs: &User{UID: nobody, GID: nobody},
	})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(3)
	}
	text := strings.Repeat("x", 100)
	log := func(part string) {
		for number := range 1000 {
			logger.Info("| "+part, Int("number", number), String("text", text))
		}
		if err := logger.Flush(); err != nil {
			fmt.Println("error", err)
			os.Exit(3)
		}
	}
	runtime.GOMAXPROCS(1)
	log("root")
	if err := syscall.Setuid(nobody); err != nil {
		fmt.Println("error", err)
		os.Exit(3)
	}
	// Those that are new find no ring in stock.
	runtime.GOMAXPROCS(8)
	var group sync.WaitGroup
	for number := range 16 {
		group.Add(1)
		go func() {
			defer group.Done()
			log(fmt.Sprint("user", number))
		}()
	}
	group.Wait()
	if err := logger.Close(); err != nil {
		fmt.Println("error", err)
		os.Exit(3)
	}
	os.Exit(0)
}

// TestRunAs is about a program that says before which user it will be: rings, rotation and the end are that user's.
func TestRunAs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a change of the user takes root")
	}
	// The user has to come through, which those of the test framework do not let.
	dir, err := os.MkdirTemp("", "logdrive-run-as-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), crashEnv+"=run-as", "LOGDRIVE_GO_RUN="+dir, "LOGDRIVE_BIN="+program(t),
		"LOGDRIVE_AGENT=off")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	files, err := filepath.Glob(filepath.Join(dir, "logs", "*"))
	if err != nil || len(files) < 3 {
		t.Fatal("it does not rotate before and behind the change", files, err)
	}
	var text strings.Builder
	for _, path := range append(files, filepath.Join(dir, "run"), filepath.Join(dir, "logs")) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != nobody || stat.Gid != nobody {
			t.Errorf("%s belongs to %d:%d", path, stat.Uid, stat.Gid)
		}
		part, _ := os.ReadFile(path) // A directory has no text.
		text.Write(part)
	}
	parts := []string{"root"}
	for number := range 16 {
		parts = append(parts, fmt.Sprint("user", number))
	}
	for _, part := range parts {
		if found := strings.Count(text.String(), "| "+part+" "); found != 1000 {
			t.Errorf("%d lines of %s", found, part)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "run")); err != nil || len(left) != 0 {
		t.Error("the session stays", left, err)
	}
}

// becomeNobody logs as root and as another user, and closes the logger.
func becomeNobody(logger *Logger) {
	logger.Info("as root")
	if err := syscall.Setuid(nobody); err != nil {
		fmt.Println("error", err)
		os.Exit(3)
	}
	logger.Info("as another user")
	if err := logger.Close(); err != nil {
		fmt.Println("error", err)
		os.Exit(3)
	}
	os.Exit(0)
}

// TestCloseAfterSetuid is about a program that may not remove its session when it ends: all of its log is written.
func TestCloseAfterSetuid(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a change of the user takes root")
	}
	bin, dir := program(t), t.TempDir()
	path := filepath.Join(dir, "setuid.log")
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), crashEnv+"=setuid", "LOGDRIVE_GO_PATH="+path,
		"LOGDRIVE_GO_RUN="+filepath.Join(dir, "run"), "LOGDRIVE_BIN="+bin, "LOGDRIVE_AGENT=off",
		// A P that logs first behind the change finds no ring.
		"GOMAXPROCS=1")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	text := strings.Join(lines(t, path), "\n")
	for _, line := range []string{"as root", "as another user"} {
		if strings.Count(text, line) != 1 {
			t.Errorf("%q is not once in the log: %s", line, text)
		}
	}
}
