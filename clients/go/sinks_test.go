package logdrive

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSeveralSinksGetTheirRecords writes one log as text, another as JSON, and warnings into a third.
func TestSeveralSinksGetTheirRecords(t *testing.T) {
	dir := t.TempDir()
	lined, urgent := filepath.Join(dir, "lines.json"), filepath.Join(dir, "urgent.log")
	logger, path := started(t, func(o *Options) {
		o.Sinks = []Sink{{Path: lined, Layout: JSON}, {Path: urgent, MinLevel: LevelWarn, Layout: Logfmt, Header: "top\n"}}
	})
	logger.Info("filled", Int("id", 7))
	logger.WithGroup("request").Warn("slow", String("a.b", "c"))
	text := closed(t, logger, path)
	if len(text) != 2 || !strings.HasSuffix(text[0], " filled id=7") {
		t.Errorf("%q", text)
	}
	var second struct {
		Level, Msg string
		Request    map[string]string
	}
	found := lines(t, lined)
	if len(found) != 2 {
		t.Fatalf("%q", found)
	}
	if err := json.Unmarshal([]byte(found[1]), &second); err != nil || second.Level != "WARN" || second.Msg != "slow" || second.Request["a.b"] != "c" {
		t.Errorf("%q %v", found[1], err)
	}
	if found := lines(t, urgent); len(found) != 2 || found[0] != "top" || !strings.Contains(found[1], "level=warn") {
		t.Errorf("%q", found)
	}
}

func TestSinksThatMakeNoSenseAreRefused(t *testing.T) {
	for _, sinks := range [][]Sink{{{}}, {{Path: "a.log", Layout: "xml"}}, {{Path: "a.log"}, {Path: "./a.log"}},
		{{Path: Stdout, Layout: Segments}}, make([]Sink, 16)} {
		if logger, err := Start(Options{Sinks: sinks, Bin: program(t)}); err == nil {
			t.Errorf("%+v", sinks)
			_ = logger.Close()
		}
	}
}

// stdoutLines logs to standard output and into a file, and loses its sidecar in between.
func stdoutLines() {
	logger, err := Start(Options{App: "stdout", Path: Stdout, RunDir: os.Getenv("LOGDRIVE_GO_RUN"),
		Sinks: []Sink{{Path: os.Getenv("LOGDRIVE_GO_PATH"), Layout: JSON}}})
	if err != nil {
		panic(err)
	}
	logger.Info("first", Int("id", 7))
	if err := logger.Flush(); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("of the program\n")
	logger.Info("second")
	if err := logger.Close(); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// TestStandardOutputOfTheProgramIsASink runs a program in a container's way: its log is its standard output.
func TestStandardOutputOfTheProgramIsASink(t *testing.T) { checkStdout(t, t.TempDir(), "off") }

// TestAnAgentLeavesAProgramItsSinks does the same where the program is told of an agent.
func TestAnAgentLeavesAProgramItsSinks(t *testing.T) {
	bin, dir := program(t), t.TempDir()
	agent := startAgent(t, bin, dir)
	defer func() { _ = agent.Wait() }()
	defer func() { _ = agent.Process.Signal(syscall.SIGTERM) }()
	socket := filepath.Join(dir, "a.sock")
	checkStdout(t, dir, socket)

	// Without a program of its own the agent has the log, which says why.
	second := filepath.Join(dir, "second.log")
	logger, _ := started(t, func(o *Options) {
		o.Agent, o.Sinks, o.Bin = socket, []Sink{{Path: second}}, filepath.Join(dir, "missing")
		t.Setenv("LOGDRIVE_BIN", "")
	})
	logger.Info("to the agent")
	// The line about the agent is written by a goroutine.
	found := func() string {
		if err := logger.Flush(); err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(filepath.Join(dir, "all.log"))
		return string(text)
	}
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(found(), "has the log, and the sinks of the program have nothing"); {
		if time.Now().After(deadline) {
			t.Fatalf("%q", found())
		}
	}
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "all.log")); !strings.Contains(string(text), " to the agent") {
		t.Errorf("%q", text)
	}
	if _, err := os.Stat(second); err == nil {
		t.Error("the second sink has a file")
	}
}

func checkStdout(t *testing.T, dir, agent string) {
	t.Helper()
	path := filepath.Join(dir, "lines.json")
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), crashEnv+"=stdout", "LOGDRIVE_GO_PATH="+path, "LOGDRIVE_GO_RUN="+filepath.Join(dir, "run"),
		"LOGDRIVE_BIN="+program(t), "LOGDRIVE_AGENT="+agent, "LOGDRIVE=")
	var words bytes.Buffer
	command.Stderr = &words
	text, err := command.Output()
	if err != nil {
		t.Fatal(err, words.String())
	}
	var found []string
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if !isOfPlace(line) {
			found = append(found, line)
		}
	}
	if len(found) != 3 || !strings.HasSuffix(found[0], " first id=7") || found[1] != "of the program" || !strings.HasSuffix(found[2], " second") {
		t.Errorf("%q", found)
	}
	if words.Len() != 0 {
		t.Errorf("standard error has %q", words.String())
	}
	if found := lines(t, path); len(found) < 2 || !strings.Contains(strings.Join(found, ""), `"msg":"second"`) {
		t.Errorf("%q", found)
	}
}
