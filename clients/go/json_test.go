package logdrive

import (
	"bytes"
	gocontext "context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

type (
	numbered  int
	worded    string
	truth     bool
	marshaled struct{ A int }
	texted    struct{ b string }
	broken    struct{}
	panicking struct{}
	erring    struct{ code int }
	jsonError struct{}
	valued    struct{ inner any }
	tagged    struct {
		Name  string            `json:"name"`
		Empty string            `json:"empty,omitempty"`
		Skip  int               `json:"-"`
		Map   map[string]int    `json:"map"`
		Deep  *tagged           `json:"deep"`
		Any   []any             `json:"any"`
		Times map[string][]byte `json:"bytes"`
	}
)

func (marshaled) MarshalJSON() ([]byte, error) { return []byte(`{"made": [1, 2.50, "<é>"]}`), nil }
func (t texted) MarshalText() ([]byte, error)  { return []byte("text of " + t.b), nil }
func (broken) MarshalJSON() ([]byte, error)    { return nil, errors.New("cannot be marshaled") }
func (panicking) MarshalJSON() ([]byte, error) { panic("as asked for") }
func (e *erring) Error() string                { return fmt.Sprint("code ", e.code) }
func (jsonError) Error() string                { return "not shown" }
func (jsonError) MarshalJSON() ([]byte, error) { return []byte(`{"error":true}`), nil }
func (v valued) LogValue() slog.Value          { return slog.AnyValue(v.inner) }

var zone = time.FixedZone("here", 5*3600+1800)

// oddValues are what the values of attributes can be.
var oddValues = map[string]any{
	"nil": nil, "true": true, "int": -7, "int8": int8(-8), "int64 min": int64(math.MinInt64), "uint64 max": uint64(math.MaxUint64),
	"uintptr": uintptr(255), "named int": numbered(5), "named text": worded("w"), "named truth": truth(true), "zero": 0.0,
	"float": 1.5, "whole float": 3.0, "large float": 1e21, "huge float": math.MaxFloat64, "small float": 1e-7, "float32": float32(0.1),
	"negative zero": math.Copysign(0, -1), "nan": math.NaN(), "infinity": math.Inf(1), "minus infinity": math.Inf(-1),
	"empty": "", "text": "a text", "quotes": `say "hi" \ bye`, "lines": "a\nb\r\n\tc", "controls": "\x00\x01\x1b[31m\x7f", "html": "<a & b>",
	"umlaut": "größe", "emoji": "👍🏽", "separators": "a\u2028b\u2029c", "direction": "a\u202eb\u200fc", "invisible": "a\u200bb\u00adc\ufeffd",
	"not utf-8": "a\xff\xfeb", "replacement": "\ufffd", "long": strings.Repeat("long ", 400), "braces": "{} {0} {{x}}", "json text": `{"a":1}`,
	"bytes": []byte("bytes\x00\xff"), "no bytes": []byte{}, "nil bytes": []byte(nil), "raw": json.RawMessage(`{"raw":[1,null,{"b":"<>"}]}`),
	"raw with spaces": json.RawMessage("{\n  \"a\" : [ 1,\t2 ]\n}"), "broken raw": json.RawMessage(`{"a":`), "nil raw": json.RawMessage(nil),
	"number": json.Number("12345678901234567890.5"), "duration": 1500 * time.Millisecond, "negative duration": -time.Nanosecond, "zero duration": time.Duration(0),
	"time": time.Date(2026, 11, 21, 12, 34, 56, 123456789, time.UTC), "zoned time": time.Date(2026, 11, 21, 12, 34, 56, 0, zone),
	"local time": time.Unix(1_700_000_000, 5), "zero time": time.Time{}, "far time": time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), "time of old": time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC),
	"month": time.March, "weekday": time.Sunday, "error": errors.New("went \"wrong\""), "wrapped": fmt.Errorf("outer: %w", io.EOF), "joined": errors.Join(io.EOF, io.ErrClosedPipe),
	"pointer error": &erring{7}, "nil pointer error": (*erring)(nil), "json error": jsonError{}, "nil error": error(nil), "ints": []int{1, 2, 3},
	"no ints": []int{}, "nil ints": []int(nil), "texts": []string{"a", "<b>", "\u2028"}, "anys": []any{1, "a", nil, 2.5, []int{1}}, "array": [2]bool{true, false},
	"map": map[string]any{"z": 1, "a": []int{2}}, "int map": map[int]string{2: "b", 1: "a"}, "nil map": map[string]int(nil), "bad map": map[bool]int{true: 1},
	"struct": tagged{Name: "n", Map: map[string]int{"x": 1}, Any: []any{nil}}, "struct pointer": &tagged{Deep: &tagged{}}, "nil struct": (*tagged)(nil), "empty struct": struct{}{},
	"anonymous": struct {
		A int
		b int
	}{1, 2}, "marshaler": marshaled{}, "marshaler pointer": &marshaled{}, "nil marshaler": (*marshaled)(nil), "text marshaler": texted{"t"},
	"broken marshaler": broken{}, "panicking marshaler": panicking{}, "channel": make(chan int), "function": func() {}, "complex": 1 + 2i,
	"url": &url.URL{Scheme: "https", Host: "example.com", Path: "/a b"}, "ip": net.IPv4(1, 2, 3, 4), "address": netip.MustParseAddr("::1"), "prefix": netip.MustParsePrefix("10.0.0.0/8"),
	"big": big.NewInt(0).Exp(big.NewInt(2), big.NewInt(100), nil), "rat": big.NewRat(1, 3), "level": slog.LevelInfo + 1, "rune": 'ß', "byte": byte(200),
	"text pointer": new(string), "int pointer": new(int), "nil int pointer": (*int)(nil), "interface in pointer": new(any), "valuer": valued{5}, "valuer of group": valued{slog.GroupValue(slog.Int("a", 1))},
	"valuer of valuer": valued{valued{"deep"}}, "valuer of nothing": valued{nil}, "group value": slog.GroupValue(slog.Int("a", 1), slog.String("b", "c")), "attrs": []slog.Attr{slog.Int("a", 1)},
	"attr": slog.Int("a", 1), "source": &slog.Source{Function: "f", File: "x.go", Line: 3}, "file mode": os.FileMode(0o644), "header": map[string][]string{"Accept": {"*/*"}},
	"nested maps": map[string]map[string]int{"a": {"b": 1}}, "deep": []any{[]any{[]any{map[string]any{"x": []any{}}}}}, "value of a kind": slog.Int64Value(5), "regexp": regexp.MustCompile("a+"),
}

// oddCalls are records whose form is odd.
var oddCalls = map[string]func(log *slog.Logger){
	"empty message":       func(log *slog.Logger) { log.Info("") },
	"message with braces": func(log *slog.Logger) { log.Info("{} {x} {{y}} %d") },
	"message with lines":  func(log *slog.Logger) { log.Info("a\nb\u2028c") },
	"message not utf-8":   func(log *slog.Logger) { log.Info("a\xffb") },
	"long message":        func(log *slog.Logger) { log.Info(strings.Repeat("long {} ", 3000), "a", 1) },
	"empty key":           func(log *slog.Logger) { log.Info("m", "", 1) },
	"only an empty key":   func(log *slog.Logger) { log.Info("", "", json.RawMessage(`{"a":1}`)) },
	"key with a point":    func(log *slog.Logger) { log.Info("m", "http.status", 200, "http.path", "/") },
	"key with escapes": func(log *slog.Logger) {
		log.Info("m", `a\b`, 1, `a"b`, 2, "a b=c", 3, "a\nb", 4, `\`, 5, `.`, 6, `..`, 7)
	},
	"key not utf-8":      func(log *slog.Logger) { log.Info("m", "a\xff", 1) },
	"keys of the record": func(log *slog.Logger) { log.Info("m", "time", 1, "level", 2, "msg", 3, "source", 4) },
	"equal keys":         func(log *slog.Logger) { log.Info("m", "a", 1, "a", 2) },
	"missing value":      func(log *slog.Logger) { log.Info("m", []any{"a", 1, "b"}...) },
	"no key":             func(log *slog.Logger) { log.Info("m", []any{1, 2}...) },
	"empty attr":         func(log *slog.Logger) { log.Info("m", slog.Attr{}, slog.Int("a", 1)) },
	"group":              func(log *slog.Logger) { log.Info("m", slog.Group("g", "a", 1, slog.Group("h", "b", 2)), "c", 3) },
	"empty group":        func(log *slog.Logger) { log.Info("m", slog.Group("g"), "c", 3) },
	"group of empty":     func(log *slog.Logger) { log.Info("m", slog.Group("g", slog.Group("h")), "c", 3) },
	"inline group":       func(log *slog.Logger) { log.Info("m", slog.Group("", "a", 1), "c", 3) },
	"group with a point": func(log *slog.Logger) {
		log.Info("m", slog.Group("g.h", "a.b", 1), slog.Group("g", slog.Group("h", "c", 2)))
	},
	"groups in turn":      func(log *slog.Logger) { log.Info("m", slog.Group("g", "a", 1), "b", 2, slog.Group("h", "c", 3)) },
	"with":                func(log *slog.Logger) { log.With("a", 1, "d", time.Second, "e", io.EOF).Info("m", "b", 2) },
	"with group":          func(log *slog.Logger) { log.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").Info("m", "c", 3) },
	"with group, nothing": func(log *slog.Logger) { log.With("a", 1).WithGroup("g").Info("m") },
	"with empty group":    func(log *slog.Logger) { log.With(slog.Group("g")).WithGroup("").Info("m", "a", 1) },
	"with group of group": func(log *slog.Logger) { log.WithGroup("g").Info("m", slog.Group("h", "a", 1), slog.Group("i", "b", 2)) },
	"with long text":      func(log *slog.Logger) { log.With("t", strings.Repeat("x", 5000)).WithGroup("g").Info("m", "a", 1) },
	"many":                func(log *slog.Logger) { log.Info("m", many(300)...) },
	"nine":                func(log *slog.Logger) { log.Info("m", many(9)...) },
	"level":               func(log *slog.Logger) { log.Log(gocontext.Background(), slog.LevelInfo+1, "m", "a", 1) },
	"low level":           func(log *slog.Logger) { log.Log(gocontext.Background(), slog.LevelDebug-4, "m", "a", 1) },
	"lower level":         func(log *slog.Logger) { log.Log(gocontext.Background(), slog.LevelDebug-9, "m", "a", 1) },
	"high level":          func(log *slog.Logger) { log.Log(gocontext.Background(), slog.LevelError+4, "m", "a", 1) },
	"zero time":           func(log *slog.Logger) { handle(log, time.Time{}) },
	"time of its own":     func(log *slog.Logger) { handle(log, time.Date(2001, 2, 3, 4, 5, 6, 7, zone)) },
}

func many(count int) (all []any) {
	for at := range count {
		all = append(all, fmt.Sprint("k", at), at)
	}
	return all
}

func handle(log *slog.Logger, when time.Time) {
	record := slog.NewRecord(when, slog.LevelInfo, "m", 0)
	record.Add("a", 1)
	_ = log.Handler().Handle(gocontext.Background(), record)
}

// writtenOtherwise are inputs of which other bytes have the same meaning, with the reason.
var writtenOtherwise = map[string]string{
	"not utf-8": "U+FFFD stands as it is", "message not utf-8": "U+FFFD stands as it is", "key not utf-8": "U+FFFD stands as it is",
	"direction": "what reorders text is escaped", "invisible": "what no reader sees is escaped", "controls": "DEL is escaped",
	"whole float": "a float looks like one", "zero": "a float looks like one",
	"negative zero": "a float looks like one", "large float": "a float has no + in its exponent", "huge float": "a float has no + in its exponent",
}

// different are inputs that mean something else here, with the reason.
var different = map[string]string{
	"far time": "package slog writes no JSON, in some versions", "time of old": "package slog writes no JSON, in some versions",
	"nan": "it is a text without an error in front", "infinity": "it is a text without an error in front", "minus infinity": "it is a text without an error in front",
}

func TestLinesOfJSONAreThoseOfSlog(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Layout, o.Full, o.RingBytes = JSON, FullBlock, 1<<20 })
	var wanted bytes.Buffer
	ours, theirs := logger.Slog(), slog.New(slog.NewJSONHandler(&wanted, &slog.HandlerOptions{Level: slog.Level(-100)}))
	var names []string
	for name, value := range oddValues {
		names = append(names, name, name+" in a group", name+" of with")
		for _, log := range []*slog.Logger{ours, theirs} {
			log.Info("m", "k", value)
			log.Info("m", slog.Group("g", slog.Any("k", value)), slog.Int("l", 1))
			log.With("k", value).WithGroup("g").Info("m", "l", 1)
		}
	}
	for name, call := range oddCalls {
		names = append(names, name)
		call(ours)
		call(theirs)
	}
	found, expected := closed(t, logger, path), strings.Split(strings.TrimSpace(wanted.String()), "\n")
	if len(found) != len(names) || len(expected) != len(names) {
		t.Fatalf("%d and %d lines of %d calls", len(found), len(expected), len(names))
	}
	if len(oddValues)+len(oddCalls) < 127 {
		t.Errorf("%d inputs", len(oddValues)+len(oddCalls))
	}
	for at, name := range names {
		kind := strings.TrimSuffix(strings.TrimSuffix(name, " in a group"), " of with")
		checkLine(t, name, kind, found[at], expected[at])
	}
	for name := range writtenOtherwise {
		if !met[name] {
			t.Errorf("%s is listed, and does not differ", name)
		}
	}
}

// met are the inputs of which lines differ.
var met = map[string]bool{}

// stamp is the time of a line, which two loggers never share.
var stamp = regexp.MustCompile(`^\{"time":"20[^"]*",`)

func checkLine(t *testing.T, name, kind, found, expected string) {
	t.Helper()
	if stamp.MatchString(found) != stamp.MatchString(expected) {
		t.Errorf("%s: %s\n%s", name, found, expected)
	}
	if name != "time of its own" {
		found, expected = stamp.ReplaceAllString(found, "{"), stamp.ReplaceAllString(expected, "{")
	}
	if found == expected {
		return
	}
	var one, other any
	if err := json.Unmarshal([]byte(found), &one); err != nil {
		t.Errorf("%s: %v: %s", name, err, found)
	}
	// Package slog writes text for some values that is no JSON.
	_ = json.Unmarshal([]byte(expected), &other)
	same := reflect.DeepEqual(one, other)
	met[kind] = true
	if same && writtenOtherwise[kind] == "" || !same && different[kind] == "" {
		t.Errorf("%s (same meaning: %v)\n got %.300s\nwant %.300s", name, same, found, expected)
	}
}

func TestReplaceAttrAndSourceAreSlogsInJSON(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Layout = JSON })
	var wanted bytes.Buffer
	replace := func(groups []string, attr slog.Attr) slog.Attr {
		switch {
		case len(groups) == 0 && attr.Key == slog.TimeKey:
			return slog.Attr{}
		case len(groups) == 0 && attr.Key == slog.LevelKey:
			return slog.String("severity", "notice")
		case attr.Key == slog.SourceKey:
			source := attr.Value.Any().(*slog.Source)
			return slog.String("at", source.File[strings.LastIndexByte(source.File, '/')+1:])
		case len(groups) == 1 && groups[0] == "g" && attr.Key == "a":
			return slog.Group("b", "c", 1)
		}
		return attr
	}
	ours := slog.New(NewHandler(logger.With(Int("base", 1)).WithGroup("in"), &HandlerOptions{ReplaceAttr: replace, AddSource: true}))
	theirs := slog.New(slog.NewJSONHandler(&wanted, &slog.HandlerOptions{ReplaceAttr: replace, AddSource: true}).
		WithAttrs([]slog.Attr{slog.Int("base", 1)}).WithGroup("in"))
	for _, log := range []*slog.Logger{ours, theirs} {
		log.With("w", time.Second).Info("replaced", "x", 1, slog.Group("g", "a", 2))
	}
	if found := closed(t, logger, path); len(found) != 1 || found[0]+"\n" != wanted.String() {
		t.Fatalf("%s\n%s", found, wanted.String())
	}
}

func TestTypedCallsNestInJSON(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Layout = JSON })
	nested := logger.With(Duration("took", time.Second), Err(nil)).WithGroup("g.h")
	nested.Info("said", Int("a", 1), Group("i", Any("list", []int{1, 2}), Err(io.EOF)))
	for at := range 40 {
		nested.Info(fmt.Sprint("message ", at), Group("i", Int("at", at), Any("list", []int{1, 2})))
	}
	found := closed(t, logger, path)
	const want = `"level":"INFO","msg":"said","took":1000000000,"error":null,"g.h":{"a":1,"i":{"list":[1,2],"error":"EOF"}}}`
	if len(found) != 41 || !strings.HasSuffix(found[0], want) {
		t.Fatalf("%s\n%s", found[0], want)
	}
	for at, line := range found[1:] {
		want := fmt.Sprintf(`"msg":"message %d","took":1000000000,"error":null,"g.h":{"i":{"at":%d,"list":[1,2]}}}`, at, at)
		if !strings.HasSuffix(line, want) {
			t.Fatalf("%s\n%s", line, want)
		}
	}
}
