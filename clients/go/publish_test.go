package logdrive

import (
	"archive/zip"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// oldest is a toolchain that the module is tried with, and with it the tracer of quic-go, which needs the network.
var oldest = flag.String("oldest", "", "try the modules as published, this one with a toolchain such as go1.22.12")

const modulePath = "github.com/logdrive/logdrive/clients/go"

// publish puts a module into a directory in the form of a proxy, as its tag would make it: with its own files, and without
// those of modules below it.
func publish(t *testing.T, proxy, path, version, from string) {
	t.Helper()
	place := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(place, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(place, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	packed := zip.NewWriter(file)
	err = filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, _ := filepath.Rel(from, name) // Below it, as the walk is.
		if entry.IsDir() {
			if _, missing := os.Stat(filepath.Join(name, "go.mod")); inside != "." && missing == nil {
				return fs.SkipDir
			}
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		to, err := packed.Create(path + "@" + version + "/" + filepath.ToSlash(inside))
		if err != nil {
			return err
		}
		_, err = to.Write(content)
		return err
	})
	if err := errors.Join(err, packed.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(from, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"list": version + "\n", version + ".mod": string(module),
		version + ".info": `{"Version":"` + version + `","Time":"2026-11-25T00:00:00Z"}`} {
		if err := os.WriteFile(filepath.Join(place, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheModuleCanBePublished imports the module from a proxy into a module of its own, outside of the repository, as a user
// does: without a workspace and without a replacement.
func TestTheModuleCanBePublished(t *testing.T) {
	proxy, user, cache := t.TempDir(), t.TempDir(), t.TempDir()
	publish(t, proxy, modulePath, "v0.1.0", ".")
	environment := append([]string(nil), "GOWORK=off", "GONOSUMDB=*", "GONOSUMCHECK=1",
		"GOFLAGS=-mod=mod -modcacherw", "GOMODCACHE="+cache, "LOGDRIVE_BIN="+program(t), "LOGDRIVE_AGENT=off", "LOGDRIVE=")
	network, _ := exec.Command("go", "env", "GOPROXY").Output() // Without it the proxy below is the only one.
	imports := "file://" + proxy
	if *oldest != "" {
		imports += "," + strings.TrimSpace(string(network))
		environment = append(environment, "GOTOOLCHAIN="+*oldest)
	} else {
		environment = append(environment, "GOTOOLCHAIN=local")
	}
	t.Setenv("GOPROXY", imports)
	run := func(environment []string, words ...string) string {
		t.Helper()
		command := exec.Command(words[0], words[1:]...)
		command.Dir, command.Env = user, append(os.Environ(), environment...)
		text, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", words, err, text)
		}
		return string(text)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(user, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/shop\n\ngo 1.22\n\nrequire "+modulePath+" v0.1.0\n")
	write("main.go", `package main

import (
	"log/slog"

	"`+modulePath+`"
)

func main() {
	log, err := logdrive.Start(logdrive.Options{App: "shop", RunDir: "run"})
	if err != nil {
		panic(err)
	}
	log.Info("filled", logdrive.Int("id", 7))
	slog.New(logdrive.NewHandler(log, nil)).Info("handled", "id", 8)
	if err := log.Close(); err != nil {
		panic(err)
	}
}
`)
	run(environment, "go", "mod", "tidy")
	run(environment, "go", "vet", "./...", modulePath+"/...")
	if text := run(environment, "go", "mod", "verify"); !strings.Contains(text, "all modules verified") {
		t.Error(text)
	}
	run(environment, "go", "run", ".")
	text, err := os.ReadFile(filepath.Join(user, "shop.log"))
	if err != nil || !strings.Contains(string(text), " filled id=7\n") || !strings.Contains(string(text), " handled id=8\n") {
		t.Fatalf("%v: %s", err, text)
	}
	for _, name := range []string{"LICENSE-MIT", "LICENSE-APACHE", "README.md"} {
		if _, err := os.Stat(filepath.Join(cache, filepath.FromSlash(modulePath)+"@v0.1.0", name)); err != nil {
			t.Error(err)
		}
	}
	if *oldest == "" {
		return
	}
	if text := run(environment, "go", "version"); !strings.Contains(text, *oldest) {
		t.Error(text)
	}
	publish(t, proxy, modulePath+"/quicgo", "v0.1.0", "quicgo")
	// quic-go needs a later toolchain.
	newer := append(environment, "GOTOOLCHAIN=local")
	write("go.mod", "module example.com/shop\n\ngo 1.26.0\n\nrequire (\n\t"+modulePath+" v0.1.0\n\t"+modulePath+"/quicgo v0.1.0\n)\n")
	write("trace.go", "package main\n\nimport \""+modulePath+"/quicgo\"\n\nvar _ = quicgo.New\n")
	run(newer, "go", "mod", "tidy")
	run(newer, "go", "vet", "./...", modulePath+"/quicgo")
	run(newer, "go", "build", ".")
}
