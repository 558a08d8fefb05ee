package logdrive

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var filled = NewShape(LevelInfo, "order filled", Int64("id", 0), String("side", ""), Float64("price", 0), Bool("last", false),
	Int32("lot", 0), Bytes("raw", nil))

func TestShapesWriteWhatCallsWrite(t *testing.T) {
	logger, path := started(t, nil)
	of := logger.With(String("request", "r1"), Int("n", 3)).WithGroup("g")
	// Texts of all lengths that are copied in one way or another.
	const longest = 130
	text := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", 4)
	for at := range longest {
		id, side := int64(at)-5, text[at%7:][:at]
		of.Put(filled, []uint64{uint64(id), math.Float64bits(9.5), uint64(at % 2), uint64(int32(-at))}, side, "raw")
		of.Info("order filled", Int64("id", id), String("side", side), Float64("price", 9.5), Bool("last", at%2 == 1),
			Int32("lot", int32(-at)), Bytes("raw", []byte("raw")))
	}
	if callsites := logger.Stats().Callsites; callsites != 3 {
		t.Errorf("%d callsites", callsites)
	}
	found := closed(t, logger, path)
	if len(found) != 2*longest {
		t.Fatalf("%d lines:\n%s", len(found), strings.Join(found, "\n"))
	}
	for at, line := range found {
		number := at / 2
		want := fmt.Sprintf(" order filled request=r1 n=3 g.id=%d g.side=%s g.price=9.5 g.last=%v g.lot=%d g.raw=raw",
			number-5, text[number%7:][:number], number%2 == 1, -number)
		if !strings.HasSuffix(strings.Replace(line, `side=""`, "side=", 1), want) || !strings.Contains(line, "shape_test.go:2") {
			t.Errorf("%s, expected %s", line, want)
		}
	}
}

func TestShapesTakeWhateverComes(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Level = "info" })
	quiet := NewShape(LevelDebug, "quiet", Int("a", 0))
	long := strings.Repeat("long ", 4000)
	for range 2 {
		logger.Put(filled, nil)
		logger.Put(filled, []uint64{1, 2, 3, 4, 5}, "side", "raw", "more")
		logger.Put(filled, []uint64{7, 0, 0, 0}, long, "raw")
		logger.Put(quiet, []uint64{1})
	}
	// Two shapes at one place have sites of their own.
	for at, shape := range []*Shape{NewShape(LevelInfo, "one", Int("a", 0)), NewShape(LevelWarn, "two", Int("a", 0)), filled, quiet} {
		logger.Put(shape, []uint64{uint64(at)})
	}
	stats := logger.Stats()
	found := closed(t, logger, path)
	logger.Put(filled, []uint64{1, 2, 3, 4}, "late", "raw")
	if stats.Cut != 2 || logger.Stats().Late != 1 {
		t.Errorf("%+v", stats)
	}
	want := []string{" order filled id=0 side= price=0", " order filled id=1 side=side price=", " order filled id=7 side=\"long long "}
	want = append(append(want, want...), " one a=0", " two a=1", " order filled id=2 ")
	if len(found) != len(want) {
		t.Fatalf("%d lines:\n%s", len(found), strings.Join(found, "\n"))
	}
	for at := range want {
		if !strings.Contains(strings.ReplaceAll(found[at], `side=""`, "side="), want[at]) {
			t.Errorf("no %q in %s", want[at], found[at])
		}
	}
}

func TestShapesAreSampledAndFallBackToText(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Full = FullBlock })
	one := NewShape(LevelInfo, "often", Int("at", 0))
	put := func(calls int) {
		for at := range calls {
			logger.Put(one, []uint64{uint64(at)})
		}
	}
	put(1)
	place := []string{"sample", "--callsite", "all", "--every", "10", "--run-dir", filepath.Dir(logger.core.session.Path()), fmt.Sprint(os.Getpid())}
	if text, err := exec.Command(program(t), place...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	put(1000)
	stats := logger.Stats()
	found := strings.Join(closed(t, logger, path), "\n")
	sampled := strings.Count(found, " often at=")
	if kept := strings.Count(found, " sample_every=10"); kept+1 != sampled || uint64(sampled)+stats.SampledOut != 1001 || kept < 99 {
		t.Errorf("%d kept, %d left out", sampled, stats.SampledOut)
	}
	var text strings.Builder
	t.Setenv("LOGDRIVE_AGENT", "off")
	t.Setenv("LOGDRIVE_BIN", "")
	logger, err := Start(Options{App: "x", Bin: filepath.Join(t.TempDir(), "missing"), Fallback: &text})
	if err != nil {
		t.Fatal(err)
	}
	logger.Put(filled, []uint64{7, math.Float64bits(2.5), 1, 3}, "buy", "raw")
	if !strings.Contains(text.String(), "msg=\"order filled\" id=7 side=buy price=2.5 last=true lot=3 raw=raw") {
		t.Errorf("%s", text.String())
	}
}

func TestShapesHaveNumbersAndTexts(t *testing.T) {
	for name, key := range map[string]Field{"duration": Duration("d", 1), "any": Any("a", t), "rune": Rune("r", 'r'), "none": Err(nil), "group": Group("g")} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was taken", name)
				}
			}()
			NewShape(LevelInfo, "x", key)
		}()
	}
}

func TestAttributesAreReadWhereTheyLie(t *testing.T) {
	if !slogLayout.known {
		t.Fatal("records of package slog are not understood; their attributes are asked for one by one")
	}
	all := []slog.Attr{slog.Int("a", -7), slog.Uint64("b", math.MaxUint64), slog.Float64("c", -0.5), slog.Bool("d", true), slog.String("e", "text"),
		slog.String("", ""), slog.Duration("f", time.Second), slog.Time("g", time.Now()), slog.Any("h", all0{}), slog.Any("i", nil),
		slog.Any("j", slog.KindInt64), slog.Group("k", slog.Int("l", 1)), slog.Any("m", secret("x")), slog.Any("n", new(byte))}
	for count := range 7 {
		for from := range all {
			record := slog.NewRecord(time.Now(), slog.LevelInfo, "m", 0)
			for at := range count {
				record.AddAttrs(all[(from+at)%len(all)])
			}
			var read, asked [basicMax]Field
			readCount, isRead := readAttrs(&record, &read)
			askedCount, isAsked := askAttrs(&record, &asked)
			if isRead != isAsked || isRead && (readCount != askedCount || read != asked) {
				t.Fatalf("%d attributes from %d: %v and %v", count, from, read, asked)
			}
		}
	}
}

type all0 struct{}
