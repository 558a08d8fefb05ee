package logdrive

import (
	gocontext "context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// embedding has the methods of a logger, and says so by an interface.
type embedding struct{ *Logger }

type sayer interface {
	Info(message string, fields ...Field)
}

func lineHere() int {
	_, _, line, _ := runtime.Caller(1)
	return line
}

// TestCallsThroughWrappersKeepTheirPlace calls a logger in every way in which code of the compiler comes between.
func TestCallsThroughWrappersKeepTheirPlace(t *testing.T) {
	logger, path := started(t, nil)
	captured, kept := NewCapture()
	for _, log := range []*Logger{logger, captured} {
		info, other := log.Info, log.With(Int("with", 1)).Info
		var through sayer = embedding{log}
		expression := (*Logger).Info
		for range 2 {
			info("value", Int("a", 1), Int("line", lineHere()))
			info("value", Int("a", 1), Int("line", lineHere()))
			info("slow", Duration("d", time.Second), Int("line", lineHere()))
			other("with", Int("line", lineHere()))
			through.Info("interface", Int("line", lineHere()))
			expression(log, "expression", Int("line", lineHere()))
			log.InfoContext(gocontext.Background(), "context", Int("line", lineHere()))
			func() { defer log.Info("deferred", Int("line", lineHere())) }()
		}
	}
	found := closed(t, logger, path)
	if len(found) != 16 {
		t.Fatal(found)
	}
	for _, line := range found {
		_, number, _ := strings.Cut(line, " line=")
		if !strings.Contains(line, fmt.Sprintf(" usage_test.go:%s ", number)) {
			t.Errorf("a call has the place of another: %s", line)
		}
	}
	for _, record := range kept.Records() {
		if record.Fields["line"] != int64(record.Line) {
			t.Errorf("%+v", record)
		}
	}
}

func TestALoggerThatDoesNothing(t *testing.T) {
	before := std.Load()
	std.Store(nil)
	defer std.Store(before)
	for _, log := range []*Logger{Default(), Nop(), FromContext(gocontext.Background())} {
		log.With(Int("a", 1)).WithGroup("g").Info("x", Duration("d", 1))
		log.Slog().With("a", 1).Error("x")
		log.Put(NewShape(LevelInfo, "x", Int("a", 0)), []uint64{1})
		fmt.Fprintln(log.Writer(LevelInfo), "a line")
		log.InfoContext(gocontext.Background(), "x")
		if log.Enabled(LevelFatal) || log.Flush() != nil || log.Sync() != nil || log.SetLevel("trace") != nil || log.Close() != nil {
			t.Error("it does something")
		}
		if stats := log.Stats(); stats.Late != 0 || stats.Records != 0 {
			t.Errorf("%+v", stats)
		}
	}
	Info("before there is one")
}

func TestRecordsCanBeCaptured(t *testing.T) {
	log, captured := NewCapture()
	line := lineHere() + 1
	log.With(String("request", "r")).WithGroup("g").Warn("said", Int("a", 1), Err(io.EOF), Slice("list", []int{1, 2}))
	log.Slog().Debug("slog", "b", 2.5)
	records := captured.Records()
	if len(records) != 2 || records[0].Line != line || !strings.HasSuffix(records[0].File, "usage_test.go") || records[0].Level != LevelWarn ||
		records[0].Message != "said" || records[0].Time.IsZero() || records[1].Level != LevelDebug {
		t.Fatalf("%+v", records)
	}
	want := map[string]any{"request": "r", "g.a": int64(1), "g.error": "EOF", "g.list": "[1,2]"}
	if !reflect.DeepEqual(records[0].Fields, want) || records[1].Fields["b"] != 2.5 {
		t.Errorf("%+v", records)
	}
	if captured.Reset(); len(captured.Records()) != 0 {
		t.Error("records are kept")
	}
}

func TestContextsBringFieldsAndLoggers(t *testing.T) {
	type key struct{}
	logger, path := started(t, func(o *Options) {
		o.FromContext = func(ctx gocontext.Context) []Field {
			if request, ok := ctx.Value(key{}).(string); ok {
				return []Field{String("request", request)}
			}
			return nil
		}
	})
	ctx := NewContext(gocontext.WithValue(gocontext.Background(), key{}, "r7"), logger)
	FromContext(ctx).InfoContext(ctx, "one", Int("a", 1))
	logger.TraceContext(ctx, "two")
	logger.ErrorContext(gocontext.Background(), "three")
	found := closed(t, logger, path)
	for at, want := range []string{" one request=r7 a=1", " two request=r7", " three"} {
		if !strings.HasSuffix(found[at], want) {
			t.Errorf("%s, expected %s", found[at], want)
		}
	}
}

func TestSlicesAndObjectsAreJSONInEveryLayout(t *testing.T) {
	for layout, want := range map[Layout]string{
		Text: ` said list=[1,2] object="{\"name\":\"n\"}" none=null`,
		JSON: `"msg":"said","list":[1,2],"object":{"name":"n"},"none":null}`,
	} {
		logger, path := started(t, func(o *Options) { o.Layout = layout })
		type named struct {
			Name string `json:"name"`
		}
		logger.Info("said", Slice("list", []int{1, 2}), Object("object", named{"n"}), Slice("none", []string(nil)))
		if found := closed(t, logger, path); len(found) != 1 || !strings.HasSuffix(found[0], want) {
			t.Errorf("%s, expected %s", found, want)
		}
	}
}

func TestLevelsAreTextForFlagsAndConfigurations(t *testing.T) {
	var config struct{ Level Level }
	if err := json.Unmarshal([]byte(`{"Level":"Warn"}`), &config); err != nil || config.Level != LevelWarn {
		t.Fatal(config, err)
	}
	if text, err := json.Marshal(config); err != nil || string(text) != `{"Level":"warn"}` {
		t.Error(string(text), err)
	}
	flags := flag.NewFlagSet("x", flag.ContinueOnError)
	flags.TextVar(&config.Level, "level", LevelInfo, "")
	if err := flags.Parse([]string{"-level=trace"}); err != nil || config.Level != LevelTrace {
		t.Error(config, err)
	}
	if _, err := ParseLevel("debgu"); err == nil || !strings.Contains(err.Error(), "which may mean debug") {
		t.Error(err)
	}
	var leveler slog.Leveler = LevelError
	if leveler.Level() != slog.LevelError {
		t.Error(leveler.Level())
	}
}

// TestTimesAreShownAsPackageTimeShowsThem compares the times of records with those of package time.
func TestTimesAreShownAsPackageTimeShowsThem(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	times := []int64{0, 1, -1, 999_999_999, -1_000_000_000, 951_782_400e9, 951_868_800e9, 4_107_542_400e9, math.MaxInt64 / 1e9 * 1e9, math.MinInt64/1e9*1e9 + 1e9}
	for range 20_000 {
		times = append(times, random.Int64()-random.Int64(), random.Int64N(4e18)/1e9*1e9, random.Int64N(4e18)/1e6*1e6)
	}
	for _, ns := range times {
		if shown, wanted := string(appendTime(nil, ns)), time.Unix(0, ns).UTC().Format(time.RFC3339Nano); shown != wanted {
			t.Fatalf("%d is shown as %s, not %s", ns, shown, wanted)
		}
	}
}
