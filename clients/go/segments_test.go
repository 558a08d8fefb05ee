package logdrive

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSegmentsReadBackAsTheTextOfTheSameCalls logs the same to a file of text and to one of segments.
func TestSegmentsReadBackAsTheTextOfTheSameCalls(t *testing.T) {
	log := func(logger *Logger) {
		for at := range 3000 {
			logger.Info("order filled", Int("order_id", at), Float64("price", float64(at)*0.25), String("customer", "acme-ltd"))
			if at%100 == 0 {
				logger.With(String("request", "r")).WithGroup("g").Warn("slow\nline", Duration("took", time.Second), Slice("list", []int{at}))
				logger.Slog().Debug("slog", "b", 2.5)
			}
		}
	}
	logger, path := started(t, nil)
	log(logger)
	text := closed(t, logger, path)
	logger, path = started(t, func(o *Options) {
		o.Layout, o.Path = Segments, filepath.Join(filepath.Dir(o.Path), "test.segment")
	})
	log(logger)
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	shown, err := exec.Command(program(t), "cat", "--no-merge", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	found := slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(shown), "\n"), "\n"), isOfPlace)
	if len(found) != len(text) || len(found) != 3060 {
		t.Fatal(len(found), len(text))
	}
	for at := range found {
		if behindTime(found[at]) != behindTime(text[at]) {
			t.Fatalf("%s, expected %s", found[at], text[at])
		}
	}
	segment, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes := int64(len(strings.Join(text, "\n"))); segment.Size()*5 > bytes {
		t.Errorf("%d bytes of %d", segment.Size(), bytes)
	}
}

func behindTime(line string) string {
	// A goroutine may have changed its P, which stands before the package.
	_, rest, _ := strings.Cut(line, " github.com")
	return rest
}
