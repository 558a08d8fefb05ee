package logdrive

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// execEnv says to a program that TestARestartByExecContinuesTheLog has started that it is the second one.
const execEnv = "LOGDRIVE_GO_EXEC"

// restart logs, and becomes the same program anew without an end of the logger.
func restart(logger *Logger) {
	part := "first"
	if os.Getenv(execEnv) != "" {
		part = "second"
	}
	for at := range 100 {
		logger.Info("restarted", String("part", part), Int("at", at))
	}
	if part == "first" {
		err := syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), execEnv+"=1"))
		fmt.Println("error", err)
		os.Exit(3)
	}
	if err := logger.Close(); err != nil {
		fmt.Println("error", err)
		os.Exit(3)
	}
	os.Exit(0)
}

func TestARestartByExecContinuesTheLog(t *testing.T) {
	bin := program(t)
	dir := t.TempDir()
	path, run := filepath.Join(dir, "exec.log"), filepath.Join(dir, "run")
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), crashEnv+"=exec", "LOGDRIVE_GO_PATH="+path, "LOGDRIVE_GO_RUN="+run, "LOGDRIVE_BIN="+bin, "LOGDRIVE_AGENT=off")
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	finish(t, bin, run)
	// Both have the file for a moment: the second one may write beside it.
	var text strings.Builder
	files, _ := filepath.Glob(filepath.Join(dir, "exec*.log"))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(content)
	}
	for _, part := range []string{"first", "second"} {
		for at := range 100 {
			if strings.Count(text.String(), fmt.Sprintf(" restarted part=%s at=%d\n", part, at)) != 1 {
				t.Fatalf("line %d of the %s part is not there once in %q:\n%s", at, part, files, text.String())
			}
		}
	}
}
