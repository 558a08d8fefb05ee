package logdrive

import (
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// optionCase is an option of the shared vectors.
type optionCase struct {
	Name    string
	Value   string
	Session *string
}

// Every option that a session keeps of a file is a field under its name, and is written as the drain reads it.
func TestVectorsOfOptions(t *testing.T) {
	text, err := os.ReadFile("../../vectors/options.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Valid []optionCase }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, one := range file.Valid {
		names[one.Name] = true
		// The layout is a word of its own, and records are filtered by Level.
		if one.Session == nil || one.Name == "layout" || one.Name == "min_level" {
			continue
		}
		options := Options{Layout: Text}
		setOption(t, &options, one)
		options.sinks = []Sink{options.sink()}
		if line := one.Name + " = " + *one.Session + "\n"; !strings.Contains(options.config(), line) {
			t.Errorf("%q is missing in %q", line, options.config())
		}
	}
	for field := range reflect.TypeFor[Options]().NumField() {
		if name := reflect.TypeFor[Options]().Field(field).Tag.Get("option"); name != "" && !names[name] {
			t.Errorf("there is no option %s", name)
		}
	}
	t.Logf("vectors: options.json: %d valid", len(file.Valid))
}

// setOption sets the field of an option; its name is that of the option, in Go's way.
func setOption(t *testing.T, options *Options, one optionCase) {
	t.Helper()
	name := ""
	for _, word := range strings.Split(one.Name, "_") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	kind, found := reflect.TypeFor[Options]().FieldByName(name)
	if !found || kind.Tag.Get("option") != one.Name {
		t.Fatalf("%s has no field %s", one.Name, name)
	}
	field := reflect.ValueOf(options).Elem().FieldByName(name)
	switch field.Interface().(type) {
	case bool:
		field.SetBool(one.Value == "yes")
	case time.Duration:
		length, err := time.ParseDuration(one.Value)
		if err != nil {
			t.Fatal(err)
		}
		field.SetInt(int64(length))
	case os.FileMode:
		mode, err := strconv.ParseUint(one.Value, 8, 32)
		if err != nil {
			t.Fatal(err)
		}
		field.SetUint(mode)
	case int, int64:
		number, err := strconv.ParseInt(strings.TrimSuffix(one.Value, " KiB"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(one.Value, " KiB") {
			number <<= 10
		}
		field.SetInt(number)
	default:
		field.SetString(one.Value)
	}
}

func TestPeriodsAndCompressionsAreChecked(t *testing.T) {
	for _, options := range []Options{{RotateEvery: "weekly"}, {RotateEvery: "5s"}, {RotateEvery: "90.5s"}, {Compress: "rar"}} {
		if _, err := options.filled(); err == nil {
			t.Errorf("%+v is taken", options)
		}
	}
	if text := optionText(Period("6h")); text != "21600" {
		t.Error(text)
	}
}

// What a file cannot have would leave the log without one.
func TestNumbersBelowZeroAreDefaultsAndHeadersAreText(t *testing.T) {
	logger, path := started(t, func(o *Options) {
		o.RotateBytes, o.KeepFiles, o.KeepBytes, o.KeepAge = -1, -1, -1, -time.Second
	})
	logger.Info("kept")
	if got := closed(t, logger, path); len(got) != 1 {
		t.Errorf("%q", got)
	}
	if _, err := (Options{Header: "\xff"}).filled(); err == nil {
		t.Error("a header that is no text is taken")
	}
}
