package logdrive

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestPCIsKnown(t *testing.T) {
	if !pcIsKnown {
		t.Fatal("the frame pointers of this compiler are not understood; calls take the slow way to their callsite")
	}
}

func TestRecordsReachTheLog(t *testing.T) {
	logger, path := started(t, nil)
	logger.Info("order filled", Int64("id", 7), Float64("price", 9.5), String("side", "buy"), Bool("last", true))
	logger.Debug("a {brace}", Int8("a", -1), Uint16("b", 65535), Float32("c", 1.5), Rune("d", 'ß'), Bytes("e", []byte("hi")))
	logger.Warn("spans", Duration("took", 1500*time.Millisecond), Time("at", time.Unix(1, 5).UTC()), Err(errors.New("broken")))
	logger.With(String("request", "r1")).WithGroup("g").Error("nested", Int("x", 1), Group("h", Int("y", 2)))
	logger.Trace("any", Any("nil", nil), Any("list", []int{1, 2}), Stringer("s", time.Second))
	found := closed(t, logger, path)
	want := []string{
		`INFO  P. .*logger_test.go:\d+ order filled id=7 price=9.5 side=buy last=true`,
		`DEBUG P. .*logger_test.go:\d+ a {brace} a=-1 b=65535 c=1.5 d=ß e=hi`,
		`WARN  P. .*logger_test.go:\d+ spans took=1.5s at=1970-01-01T00:00:01.000000005Z error=broken`,
		`ERROR P. .*logger_test.go:\d+ nested request=r1 g.x=1 g.h.y=2`,
		`TRACE P. .*logger_test.go:\d+ any list="?\[1 2\]"? s=1s`,
	}
	if len(found) != len(want) {
		t.Fatalf("%d lines:\n%s", len(found), strings.Join(found, "\n"))
	}
	for at, pattern := range want {
		if !regexp.MustCompile(`^` + pattern + `$`).MatchString(without(found[at])) {
			t.Errorf("line %d\n got %s\nwant %s", at, without(found[at]), pattern)
		}
	}
}

func TestTimesOfOtherCenturiesAreShown(t *testing.T) {
	logger, path := started(t, nil)
	var deadline time.Time
	for _, when := range []time.Time{deadline, time.Date(1066, 10, 14, 9, 0, 0, 5, time.UTC), time.Date(9999, 1, 2, 3, 4, 5, 0, time.UTC),
		time.Unix(0, math.MaxInt64), time.Unix(0, math.MinInt64)} {
		logger.Info("due", Time("at", when), Any("any", when))
		logger.Slog().Info("due", "at", when, "any", when)
	}
	found := closed(t, logger, path)
	for at, want := range []string{"0001-01-01T00:00:00Z", "1066-10-14T09:00:00.000000005Z", "9999-01-02T03:04:05Z",
		"2262-04-11T23:47:16.854775807Z", "1677-09-21T00:12:43.145224192Z"} {
		for _, line := range found[2*at : 2*at+2] {
			if !strings.HasSuffix(line, " due at="+want+" any="+want) {
				t.Errorf("%s, expected %s", line, want)
			}
		}
	}
}

// TestLoggersOfEqualNamesHaveValuesOfTheirOwn logs at one place with contexts whose values are of different lengths: they
// share a callsite, whose records were once taken to be all as long as the first.
func TestLoggersOfEqualNamesHaveValuesOfTheirOwn(t *testing.T) {
	logger, path := started(t, nil)
	const most = 40
	for length := range most {
		request := logger.With(String("request", strings.Repeat("r", length*7%most)), Int("n", length))
		request.Info("of its own", String("text", strings.Repeat("t", length)))
	}
	callsites := logger.Stats().Callsites
	found := closed(t, logger, path)
	if len(found) != most || callsites != 2 {
		t.Fatalf("%d lines, %d callsites", len(found), callsites)
	}
	quoted := func(text string) string {
		if text == "" {
			return `""`
		}
		return text
	}
	for length, line := range found {
		want := fmt.Sprintf(" of its own request=%s n=%d text=%s", quoted(strings.Repeat("r", length*7%most)), length, quoted(strings.Repeat("t", length)))
		if !strings.HasSuffix(line, want) {
			t.Errorf("%s\nwant %s", line, want)
		}
	}
}

func TestATargetStandsForThePackage(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Level = "off,orders=debug" })
	orders := logger.WithTarget("orders").With(Int("shard", 3))
	for _, one := range []*Logger{logger, orders} {
		one.Debug("looked at", Int("id", 7))
	}
	found := closed(t, logger, path)
	if len(found) != 1 || !regexp.MustCompile(`^DEBUG P\d+ orders logger_test.go:\d+ looked at shard=3 id=7$`).MatchString(without(found[0])) {
		t.Fatal(found)
	}
}

func TestASessionThatEndsInOrderLeavesNothing(t *testing.T) {
	logger, path := started(t, nil)
	run := logger.core.session.Path()
	logger.Info("x")
	closed(t, logger, path)
	if _, err := os.Stat(run); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is still there: %v", run, err)
	}
}

func TestFlushWritesWhatWasWrittenBefore(t *testing.T) {
	logger, path := started(t, nil)
	defer logger.Close()
	for round := range 20 {
		logger.Info("round", Int("round", round))
		if err := logger.Flush(); err != nil {
			t.Fatal(err)
		}
		if found := lines(t, path); len(found) != round+1 {
			t.Fatalf("round %d: %d lines", round, len(found))
		}
	}
	if err := logger.Sync(); err != nil {
		t.Fatal(err)
	}
}

func TestManyGoroutinesLoseNothingWhenTheyBlock(t *testing.T) {
	const goroutines, each = 40, 2000
	logger, path := started(t, func(o *Options) { o.Full = FullBlock })
	var group sync.WaitGroup
	for number := range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for at := range each {
				logger.Info("call", Int("goroutine", number), Int("at", at), String("text", "some text of a usual length"))
			}
		}()
	}
	group.Wait()
	rings := logger.Stats().Rings
	found := closed(t, logger, path)
	seen := map[string]bool{}
	for _, line := range found {
		if _, rest, ok := strings.Cut(line, " call "); ok {
			seen[rest] = true
		}
	}
	if len(seen) != goroutines*each || len(found) != len(seen) {
		t.Fatalf("%d lines, %d different, of %d", len(found), len(seen), goroutines*each)
	}
	if rings > 64 {
		t.Fatalf("%d rings for %d goroutines", rings, goroutines)
	}
}

func TestGoroutinesThatComeAndGoLeaveNoRings(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Full = FullBlock })
	const goroutines = 20000
	var group sync.WaitGroup
	for at := range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			logger.Info("came", Int("at", at))
		}()
	}
	group.Wait()
	if rings := logger.Stats().Rings; rings > 64 {
		t.Fatalf("%d rings", rings)
	}
	if found := closed(t, logger, path); len(found) != goroutines {
		t.Fatalf("%d lines of %d", len(found), goroutines)
	}
}

func TestDropsAreCountedAndTold(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Full = FullDrop })
	const calls = 200000
	for at := range calls {
		logger.Info("flood", Int("at", at))
	}
	stats := logger.Stats()
	if stats.Records+stats.DroppedCalls() != calls {
		t.Fatalf("%d written and %d dropped of %d", stats.Records, stats.DroppedCalls(), calls)
	}
	found := closed(t, logger, path)
	written, reported := 0, 0
	for _, line := range found {
		var count int
		if strings.Contains(line, " flood ") {
			written++
		} else if _, rest, ok := strings.Cut(line, "logdrive"); ok {
			if at := strings.Index(rest, " records dropped: ring full"); at >= 0 {
				fmt.Sscanf(rest[strings.LastIndexByte(rest[:at], ' ')+1:], "%d", &count)
				reported += count
			}
		}
	}
	if uint64(written) != stats.Records || uint64(reported) != stats.DroppedCalls() {
		t.Fatalf("%d lines of %d records, %d drops reported of %d", written, stats.Records, reported, stats.DroppedCalls())
	}
}

func TestLongTextsAreCutAndCounted(t *testing.T) {
	logger, path := started(t, nil)
	logger.Info("long", String("a", strings.Repeat("ä", 20000)), String("b", "short"))
	stats := logger.Stats()
	found := closed(t, logger, path)
	if len(found) != 1 || !strings.Contains(found[0], "ä… b=short") || stats.Cut != 1 {
		t.Fatalf("%d cut, %d lines, the first of %d bytes", stats.Cut, len(found), len(found[0]))
	}
}

func TestMessagesThatDifferDoNotFillTheTable(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Full = FullBlock })
	for at := range 1000 {
		logger.Info(fmt.Sprintf("message %d {}", at), Int("at", at))
	}
	callsites := logger.Stats().Callsites
	found := closed(t, logger, path)
	if callsites > 2*variantsMax {
		t.Errorf("%d callsites", callsites)
	}
	for at, line := range found {
		if want := fmt.Sprintf(" message %d {} at=%d", at, at); !strings.HasSuffix(line, want) {
			t.Fatalf("line %d: %s", at, line)
		}
	}
}

func TestLevelsDecideWhatIsOn(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.Level = "warn" })
	say := func() {
		logger.Info("info")
		logger.Warn("warn")
	}
	say()
	if logger.Enabled(LevelInfo) || !logger.Enabled(LevelWarn) {
		t.Error("what is enabled is not what the filter says")
	}
	if err := logger.SetLevel("off,github.com/logdrive=info"); err != nil {
		t.Fatal(err)
	}
	say()
	if err := logger.SetLevel("loud"); err == nil {
		t.Error("a level that there is not was taken")
	}
	found := closed(t, logger, path)
	var words []string
	for _, line := range found {
		words = append(words, line[strings.LastIndexByte(line, ' ')+1:])
	}
	if got := strings.Join(words, " "); got != "warn info warn" {
		t.Fatal(got)
	}
}

func TestDebugIsOnUnlessSaidOtherwise(t *testing.T) {
	t.Setenv("LOGDRIVE", "")
	logger, path := started(t, func(o *Options) { o.Level = "" })
	logger.Debug("debug")
	logger.Trace("trace")
	if found := closed(t, logger, path); len(found) != 1 || !strings.HasSuffix(found[0], " debug") {
		t.Fatal(found)
	}
}

func TestAPartOfTheVariableThatCannotBeReadIsToldAndTheRestHolds(t *testing.T) {
	for _, text := range []string{"infoo,net=trace", "5", "net=debgu"} {
		dir := t.TempDir()
		t.Setenv("LOGDRIVE", text)
		t.Setenv("LOGDRIVE_AGENT", "")
		path := filepath.Join(dir, "test.log")
		logger, err := Start(Options{App: "go test", Path: path, RunDir: filepath.Join(dir, "run"), Level: "warn", Bin: program(t)})
		if err != nil {
			t.Fatal(err)
		}
		logger.Info("hidden by the level of the options")
		found := closed(t, logger, path)
		if len(found) != 1 || !strings.Contains(found[0], "LOGDRIVE: cannot read the level") {
			t.Errorf("%s: %q", text, found)
		}
	}
}

func TestAnErrorOfTheLogEndsTheStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	logger, err := Start(Options{App: "x", Path: filepath.Join(file, "x.log"), RunDir: filepath.Join(dir, "run"), Bin: program(t)})
	if err == nil {
		logger.Close()
		t.Fatal("a log below a file was opened")
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, options := range []Options{{App: "x", Level: "loud"}, {App: "x", Layout: "xml"}} {
		if logger, err := Start(options); err == nil {
			logger.Close()
			t.Errorf("%+v was taken", options)
		}
	}
}

func TestWithoutAProgramTextGoesToTheFallback(t *testing.T) {
	var text strings.Builder
	t.Setenv("LOGDRIVE", "")
	t.Setenv("LOGDRIVE_BIN", "")
	t.Setenv("LOGDRIVE_AGENT", "off")
	logger, err := Start(Options{App: "x", Bin: filepath.Join(t.TempDir(), "missing"), Fallback: &text})
	if err != nil {
		t.Fatal(err)
	}
	logger.With(Int("a", 1)).Info("first", Float64("b", 2.5), Group("g", Bool("c", true)))
	logger.Debug("off")
	logger.Info("second")
	logger.Close()
	found := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(found) != 3 || !strings.Contains(found[0], "records go here as text") || !strings.Contains(found[0], "LOGDRIVE_BIN") {
		t.Fatalf("%s", text.String())
	}
	if !strings.Contains(found[1], "msg=first a=1 b=2.5 g.c=true") || !strings.Contains(found[1], "logger_test.go") {
		t.Error(found[1])
	}
}

func TestCallsAfterCloseAreCounted(t *testing.T) {
	logger, path := started(t, nil)
	say := func() { logger.Info("x") }
	say()
	closed(t, logger, path)
	say()
	if late := logger.Stats().Late; late != 1 {
		t.Fatalf("%d late calls", late)
	}
}

// signalSidecar sends a signal to the process that drains a logger's session.
func signalSidecar(t *testing.T, logger *Logger, signal syscall.Signal) {
	t.Helper()
	pid := sidecarOf(logger)
	if pid == 0 {
		t.Fatal("the sidecar is not found")
	}
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

// sidecarOf is the process that drains a logger's session; 0 while there is none.
func sidecarOf(logger *Logger) int {
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, word := range strings.Fields(string(text)) {
			line, _ := os.ReadFile("/proc/" + word + "/cmdline")
			if pid, err := strconv.Atoi(word); err == nil && strings.Contains(string(line), logger.core.session.Path()) {
				return pid
			}
		}
	}
	return 0
}

// TestWarningsHaveRoomWhenAFloodHasNone fills the rings without a drain: calls come back soon in either policy, and the
// last eighth is for warnings.
func TestWarningsHaveRoomWhenAFloodHasNone(t *testing.T) {
	for name, policy := range map[string]Full{"drop": FullDrop, "wait": FullWait} {
		t.Run(name, func(t *testing.T) {
			logger, path := started(t, func(o *Options) { o.Full = policy })
			logger.Info("first")
			signalSidecar(t, logger, syscall.SIGSTOP)
			// Ten milliseconds for each of them would be a quarter of an hour.
			const calls = 100_000
			for at := range calls {
				logger.Info("flood", Int("at", at))
			}
			before := logger.Stats()
			const warnings = 20
			for at := range warnings {
				logger.Warn("urgent", Int("at", at))
			}
			after := logger.Stats()
			signalSidecar(t, logger, syscall.SIGCONT)
			if before.DroppedCalls() == 0 || after.DroppedCalls() != before.DroppedCalls() || after.Records != before.Records+warnings {
				t.Errorf("%+v before the warnings, %+v behind them", before, after)
			}
			if sum := after.Records + after.DroppedCalls(); sum != calls+warnings+1 {
				t.Errorf("%d calls are reported, %d were made", sum, calls+warnings+1)
			}
			found := closed(t, logger, path)
			if urgent := strings.Count(strings.Join(found, "\n"), " urgent at="); urgent != warnings {
				t.Errorf("%d warnings in the log", urgent)
			}
		})
	}
}

func TestTimesOfTheCoarseClockAreNearTheTruth(t *testing.T) {
	logger, path := started(t, func(o *Options) { o.CoarseClock = true })
	began := time.Now()
	for at := range 50 {
		logger.Info("coarse", Int("at", at))
		if err := logger.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	ended := time.Now()
	// The word is as old as the drain's last pass, and this machine may keep that waiting.
	const slack = 5 * time.Second
	last := began.Add(-slack)
	for _, line := range closed(t, logger, path) {
		stamp, _, _ := strings.Cut(line, " ")
		when, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil || when.Before(last) || when.After(ended.Add(slack)) {
			t.Fatalf("%s, between %v and %v: %v", line, last, ended, err)
		}
		last = when
	}
}
