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
	segments := ""
	logger, path := started(t, func(o *Options) {
		segments = filepath.Join(filepath.Dir(o.Path), "test.segment")
		o.Sinks = []Sink{{Path: segments, Layout: Segments, MinLevel: LevelTrace}}
	})
	for at := range 3000 {
		logger.Info("order filled", Int("order_id", at), Float64("price", float64(at)*0.25), String("customer", "acme-ltd"))
		if at%100 == 0 {
			logger.With(String("request", "r")).WithGroup("g").Warn("slow\nline", Duration("took", time.Second), Slice("list", []int{at}))
			logger.Slog().Debug("slog", "b", 2.5)
		}
	}
	text := closed(t, logger, path)
	shown, err := exec.Command(program(t), "cat", "--no-merge", segments).Output()
	if err != nil {
		t.Fatal(err)
	}
	found := slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(shown), "\n"), "\n"), isOfPlace)
	if len(text) != 3060 || !slices.Equal(found, text) {
		t.Fatal(len(found), len(text), found[0], text[0])
	}
	segment, err := os.Stat(segments)
	if err != nil {
		t.Fatal(err)
	}
	if bytes := int64(len(strings.Join(text, "\n"))); segment.Size()*5 > bytes {
		t.Errorf("%d bytes of %d", segment.Size(), bytes)
	}
}
