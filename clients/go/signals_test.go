//go:build linux

package logdrive

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// serve logs one record for each line of its input, with EndOnSignals, as a service does for each request.
func serve(logger *Logger) {
	logger.EndOnSignals()
	requests := bufio.NewScanner(os.Stdin)
	for at := 0; requests.Scan(); at++ {
		logger.Info("request", Int("at", at))
		fmt.Println("served")
	}
	select {}
}

// TestASignalEndsProcessOneOfAContainerWithAllRecords has a service as process 1 of a namespace of processes, whose end
// kills the sidecar at once.
func TestASignalEndsProcessOneOfAContainerWithAllRecords(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a namespace of processes needs root")
	}
	bin := program(t)
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(end.String(), func(t *testing.T) {
			if signal.Ignored(end) {
				t.Skip("the parent of the test ignores it, as nohup and the background of a shell do")
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "service.log")
			command := exec.Command(os.Args[0])
			command.Env = append(os.Environ(), crashEnv+"=serve", "LOGDRIVE_GO_PATH="+path, "LOGDRIVE_GO_RUN="+filepath.Join(dir, "run"),
				"LOGDRIVE_BIN="+bin, "LOGDRIVE_AGENT=off")
			command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
			input, err := command.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			output, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); errors.Is(err, syscall.EPERM) {
				t.Skip("no namespaces of processes here:", err)
			} else if err != nil {
				t.Fatal(err)
			}
			served := bufio.NewScanner(output)
			for range 50 {
				fmt.Fprintln(input)
				if !served.Scan() || served.Text() != "served" {
					t.Fatal("the service ended early: ", served.Text())
				}
			}
			if err := command.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
			_ = command.Wait() // Looked at below.
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if found := strings.Count(string(text), " request at="); found != 50 {
				t.Fatalf("%d of 50 records are in the log:\n%s", found, text)
			}
			if command.ProcessState.Success() {
				t.Fatal("the service ended as if there had been no signal")
			}
		})
	}
}
