package logdrive

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startAgent runs an agent whose log is in the directory; what ends it.
func startAgent(t *testing.T, bin, dir string) *exec.Cmd {
	t.Helper()
	config := filepath.Join(dir, "agent.toml")
	text := "[agent]\nsocket = \"" + filepath.Join(dir, "a.sock") + "\"\nrun_dir = \"" + filepath.Join(dir, "agent-run") +
		"\"\n[[sink]]\nname = \"all\"\npath = \"" + filepath.Join(dir, "all.log") + "\"\n[[route]]\nsinks = [\"all\"]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(bin, "agent", "--config", config)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		// The socket is there before it is listened at.
		if conn, err := net.Dial("unixpacket", filepath.Join(dir, "a.sock")); err == nil {
			_ = conn.Close()
			return command
		}
		if time.Now().After(deadline) {
			_ = command.Process.Kill()
			t.Fatal("the agent does not come up")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAnAgentDrainsTheSession(t *testing.T) {
	bin, dir := program(t), t.TempDir()
	agent := startAgent(t, bin, dir)
	defer func() { _ = agent.Wait() }()
	defer func() { _ = agent.Process.Signal(syscall.SIGTERM) }()
	logger, _ := started(t, func(o *Options) { o.Agent = filepath.Join(dir, "a.sock"); o.Full = FullBlock })
	const calls = 5000
	for at := range calls {
		logger.Info("to the agent", Int("at", at))
	}
	if err := logger.Flush(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "all.log")
	count := func() int {
		text, _ := os.ReadFile(path)
		return strings.Count(string(text), " to the agent at=")
	}
	if found := count(); found != calls {
		t.Fatalf("%d lines after a flush", found)
	}
	logger.Warn("to the agent", Int("at", -1))
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	if found := count(); found != calls+1 {
		t.Fatalf("%d lines after the end", found)
	}
}

func TestAnAgentThatIsKilledIsFollowedByTheNext(t *testing.T) {
	bin, dir := program(t), t.TempDir()
	agent := startAgent(t, bin, dir)
	logger, _ := started(t, func(o *Options) { o.Agent = filepath.Join(dir, "a.sock"); o.Full = FullBlock })
	const calls = 20000
	for at := range calls {
		if at == calls/2 {
			_ = agent.Process.Kill()
			_ = agent.Wait()
			_ = os.Remove(filepath.Join(dir, "a.sock"))
			agent = startAgent(t, bin, dir)
		}
		logger.Info("to the agent", Int("at", at))
	}
	if err := logger.Close(); err != nil {
		t.Error(err)
	}
	_ = agent.Process.Signal(syscall.SIGTERM)
	_ = agent.Wait()
	text, _ := os.ReadFile(filepath.Join(dir, "all.log"))
	if found := strings.Count(string(text), " to the agent at="); found != calls {
		t.Fatalf("%d lines of %d", found, calls)
	}
}
