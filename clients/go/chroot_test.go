package logdrive

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// staticProgram is a `logdrive` that needs no other file, as `cargo xtask dist --static` builds it.
func staticProgram(t *testing.T) string {
	t.Helper()
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	place := filepath.Join("..", "..", "target", "dist", machine+"-unknown-linux-musl", "logdrive")
	for _, path := range []string{os.Getenv("LOGDRIVE_STATIC_BIN"), place} {
		if path != "" && isStatic(path) {
			return path
		}
	}
	t.Skip("there is no static program logdrive: cargo xtask dist --static, or name it in LOGDRIVE_STATIC_BIN")
	return ""
}

// isStatic reports whether a program needs no interpreter and no libraries.
func isStatic(path string) bool {
	file, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

// copied puts a program into a directory.
func copied(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestAStaticProgramLogsInAnEmptyRoot runs this program and the one that drains in a root without anything else, as images
// from scratch have it: no /proc, no /dev, no /tmp, no libraries.
func TestAStaticProgramLogsInAnEmptyRoot(t *testing.T) {
	bin := staticProgram(t)
	if os.Geteuid() != 0 {
		t.Skip("chroot is for root")
	}
	root := t.TempDir()
	app := filepath.Join(root, "app")
	if isStatic(os.Args[0]) {
		copied(t, os.Args[0], app)
	} else {
		build := exec.Command("go", "test", "-c", "-o", app, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			t.Skipf("the program cannot be built without cgo: %v: %s", err, text)
		}
	}
	copied(t, bin, filepath.Join(root, "logdrive"))
	for _, place := range []string{"/x.log", Stdout} {
		command := exec.Command("/app")
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		command.Dir, command.Stdin = "/", strings.NewReader("")
		command.Env = []string{crashEnv + "=hello", "LOGDRIVE_GO_PATH=" + place, "LOGDRIVE_BIN=./logdrive"}
		var output, words bytes.Buffer
		command.Stdout, command.Stderr = &output, &words
		if err := command.Run(); err != nil {
			t.Fatalf("%v: %s%s", err, output.String(), words.String())
		}
		text := output.String()
		if place != Stdout {
			content, err := os.ReadFile(filepath.Join(root, place))
			if err != nil {
				t.Fatal(err)
			}
			text += string(content)
		}
		if strings.Count(text, " hello number=7\n") != 1 || !strings.Contains(text, "printed by the program\n") || words.Len() > 0 {
			t.Errorf("%s: %s%s", place, text, words.String())
		}
		if left, err := os.ReadDir(filepath.Join(root, ".logdrive")); err == nil && len(left) > 0 {
			t.Error(fmt.Sprint("the session stays: ", left))
		}
	}
}
