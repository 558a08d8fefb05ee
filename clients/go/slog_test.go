package logdrive

import (
	gocontext "context"
	"encoding/json"
	"log"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"time"
)

// TestHandlerPassesSlogtest gives the file as it lies to the tests of package slog.
func TestHandlerPassesSlogtest(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Layout = JSON })
	err := slogtest.TestHandler(NewHandler(logger, nil), func() []map[string]any {
		var all []map[string]any
		for _, line := range closed(t, logger, path) {
			var parsed map[string]any
			if err := json.Unmarshal([]byte(line), &parsed); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, parsed)
		}
		return all
	})
	if err != nil {
		t.Fatal(err)
	}
}

type secret string

func (secret) LogValue() slog.Value { return slog.StringValue("hidden") }

func TestHandlerKeepsKindsGroupsAndValuers(t *testing.T) {
	logger, path := started(t, nil)
	type key struct{}
	handler := NewHandler(logger, &HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			switch {
			case a.Key == "drop":
				return slog.Attr{}
			case len(groups) == 1 && groups[0] == "g" && a.Key == "a":
				return slog.Int("renamed", 1)
			case a.Key == slog.LevelKey && a.Value.Any() == slog.LevelInfo:
				return slog.Any(slog.LevelKey, slog.LevelWarn)
			case a.Key == slog.MessageKey:
				return slog.String(slog.MessageKey, strings.ToUpper(a.Value.String()))
			}
			return a
		},
		FromContext: func(ctx gocontext.Context) []slog.Attr {
			return []slog.Attr{slog.Any("request", ctx.Value(key{}))}
		},
	})
	ctx := gocontext.WithValue(gocontext.Background(), key{}, "r7")
	slog.New(handler).WithGroup("g").InfoContext(ctx, "said", "a", 5, "drop", 1, "s", secret("x"), "d", 2*time.Second,
		slog.Group("h", "u", uint64(3)), slog.Group("empty"))
	found := closed(t, logger, path)
	if len(found) != 1 || !strings.Contains(found[0], "WARN ") ||
		!strings.HasSuffix(found[0], " SAID g.request=r7 g.renamed=1 g.s=hidden g.d=2s g.h.u=3") ||
		!strings.Contains(found[0], "slog_test.go:") {
		t.Fatalf("%q", found)
	}
}

func TestWriterMakesRecordsOfLines(t *testing.T) {
	logger, path := started(t, nil)
	writer := logger.With(String("from", "log")).Writer(LevelInfo)
	std := log.New(writer, "", 0)
	std.Print("plain")
	std.Print("[warn] disk {is} slow")
	std.Print("2026/11/21 12:00:00 ERROR: gone\nlevel=debug second")
	_, _ = writer.Write([]byte("half "))
	_, _ = writer.Write([]byte("line\r\nrest"))
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range closed(t, logger, path) {
		level, rest, _ := strings.Cut(without(line), " ")
		_, text, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
		got = append(got, level+" "+strings.TrimSpace(text))
	}
	want := []string{"INFO plain from=log", "WARN [warn] disk {is} slow from=log", "ERROR 2026/11/21 12:00:00 ERROR: gone from=log",
		"DEBUG level=debug second from=log", "INFO half line from=log", "INFO rest from=log"}
	for at := range want {
		if at >= len(got) || !strings.HasSuffix(got[at], strings.TrimPrefix(want[at], strings.Fields(want[at])[0]+" ")) ||
			strings.Fields(got[at])[0] != strings.Fields(want[at])[0] {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	}
}

func TestLinesNameTheirLevel(t *testing.T) {
	for line, want := range map[string]string{
		"ERROR x": "error", "[info] x": "info", "2026-01-01 WARN x": "warn", `{"level":"debug"}`: "debug",
		"warning: x": "warn", "level=fatal x": "fatal", "an error happened": "", "information": "", "": "",
	} {
		level, ok := lineLevel([]byte(line))
		if got := level.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %v %v", line, got, ok)
		}
	}
}

func TestCallsAllocateNothing(t *testing.T) {
	if raceIsOn {
		t.Skip("the race detector allocates")
	}
	logger, path := started(t, func(o *Options) { o.Full = FullBlock })
	with, shown, ctx := logger.With(Int("a", 1)), logger.Slog().With("a", 1).WithGroup("g"), gocontext.Background()
	writer := logger.Writer(LevelInfo)
	line := []byte("a line of text\n")
	for name, call := range map[string]func(){
		"typed":    func() { logger.Info("m", Int64("id", 7), Float64("price", 9.5), String("s", "text"), Bool("b", true)) },
		"with":     func() { with.Info("m", Int64("id", 7)) },
		"duration": func() { logger.Info("m", Duration("d", time.Second), Time("t", time.Unix(1, 1))) },
		"off":      func() { logger.Trace("m", Int64("id", 7)) },
		"slog": func() {
			shown.LogAttrs(ctx, slog.LevelInfo, "m", slog.Int("id", 7), slog.Float64("p", 9.5), slog.String("s", "t"), slog.Bool("b", true))
		},
		"line":    func() { _, _ = writer.Write(line) },
		"put":     func() { logger.Put(filled, []uint64{7, 9, 1, 3}, "buy", "raw") },
		"put few": func() { logger.Put(filled, []uint64{7, 9, 1}, "buy") },
	} {
		call()
		if allocs := testing.AllocsPerRun(1000, call); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
	closed(t, logger, path)
}
