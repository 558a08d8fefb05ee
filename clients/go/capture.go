package logdrive

import (
	gocontext "context"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Captured is a record that a [Capture] has kept.
type Captured struct {
	Time    time.Time
	Level   Level
	Message string
	// File and Line are those of the call.
	File string
	Line int
	// Fields are the values by their names, in which groups stand before a point. Numbers are int64, uint64 or float64.
	Fields map[string]any
}

// Capture keeps the records of a logger in memory, for tests. It is safe for use by many goroutines.
type Capture struct {
	lock    sync.Mutex
	records []Captured
}

// NewCapture returns a logger without a file, a drain or a session, and what it has logged.
//
//	log, captured := logdrive.NewCapture()
//	serve(log)
//	if len(captured.Records()) != 1 { ... }
func NewCapture() (*Logger, *Capture) {
	kept := &Capture{}
	c := &core{}
	c.sites.slots.Store(newSlots(2))
	c.filter.Store(&filter{all: LevelTrace})
	c.text = &textLog{handler: captureHandler{kept}, core: c}
	c.state.Store(stateText)
	return &Logger{core: c, context: root}, kept
}

// Records returns the records so far, in the order of their calls.
func (c *Capture) Records() []Captured {
	c.lock.Lock()
	defer c.lock.Unlock()
	return slices.Clone(c.records)
}

// Reset forgets the records so far.
func (c *Capture) Reset() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.records = nil
}

// captureHandler gets the records of a text log.
type captureHandler struct{ kept *Capture }

func (h captureHandler) Enabled(gocontext.Context, slog.Level) bool { return true }
func (h captureHandler) WithAttrs([]slog.Attr) slog.Handler         { return h }
func (h captureHandler) WithGroup(string) slog.Handler              { return h }

func (h captureHandler) Handle(_ gocontext.Context, record slog.Record) error {
	made := Captured{
		Time: record.Time, Level: Level(levelOf(record.Level)), Message: record.Message, Fields: map[string]any{},
	}
	if record.PC != 0 {
		frame, _ := runtime.CallersFrames([]uintptr{record.PC}).Next()
		made.File, made.Line = frame.File, frame.Line
	}
	record.Attrs(func(attr slog.Attr) bool {
		made.Fields[attr.Key] = attr.Value.Any()
		return true
	})
	h.kept.lock.Lock()
	defer h.kept.lock.Unlock()
	h.kept.records = append(h.kept.records, made)
	return nil
}
