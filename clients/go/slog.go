package logdrive

import (
	"bytes"
	gocontext "context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// HandlerOptions configure a [Handler]. The zero value is valid.
type HandlerOptions struct {
	// ReplaceAttr is as in [slog.HandlerOptions]: it is asked for each attribute that is no group, with the groups that
	// it lies in, and for the record's own. In lines of JSON these are time, level, source and message; in others level
	// and message, because time and source are the ring's. It runs in the caller's goroutine, once for each record.
	ReplaceAttr func(groups []string, a slog.Attr) slog.Attr
	// AddSource adds the function, file and line of the call to lines of JSON. Other lines always have file and line.
	AddSource bool
	// FromContext gives further attributes for the context of a call, such as the number of its request. They stand in
	// front of those of the record.
	FromContext func(ctx gocontext.Context) []slog.Attr
}

// Handler is a [slog.Handler] that writes attributes into the ring as they are. Levels between those of package slog
// count as the next one below; from 12 on as fatal, and below -4 as trace.
//
// The time of a record is that of the ring's clock; it is taken some nanoseconds after the one that package slog takes.
//
// With [JSON] lines are those of [slog.JSONHandler]. A record with ReplaceAttr, AddSource, a level between those of package
// slog, or a time that is not the present is rendered by the call, by that handler itself; it costs what that costs.
type Handler struct {
	logger  *Logger
	options HandlerOptions
	groups  []string
	// steps make of a handler of package slog what this one was made of; renderers have the result.
	steps     []func(slog.Handler) slog.Handler
	renderers *rendererPool
}

var _ slog.Handler = (*Handler)(nil)

// NewHandler returns a handler that writes with a logger, with the logger's fields. nil options are the defaults.
func NewHandler(logger *Logger, options *HandlerOptions) *Handler {
	handler := &Handler{logger: logger}
	if options != nil {
		handler.options = *options
	}
	context := logger.context
	if attrs := context.attrs(); context.nested && len(attrs) > 0 {
		handler.step(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
	}
	if prefix := strings.TrimSuffix(context.prefix, "."); context.nested && prefix != "" {
		for _, name := range nameParts(prefix) {
			handler.step(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
		}
	}
	handler.step(nil)
	return handler
}

// step adds a step, if there is one.
func (h *Handler) step(step func(slog.Handler) slog.Handler) {
	if !h.logger.context.nested {
		return
	}
	if step != nil {
		h.steps = append(h.steps[:len(h.steps):len(h.steps)], step)
	}
	h.renderers = newRendererPool(slog.HandlerOptions{AddSource: h.options.AddSource, ReplaceAttr: h.options.ReplaceAttr}, h.steps)
}

// isRendered reports whether the line of a record has parts that only package slog can write.
func (h *Handler) isRendered(record *slog.Record) bool {
	if h.options.ReplaceAttr != nil || h.options.AddSource {
		return true
	}
	switch record.Level {
	case slog.LevelDebug - 4, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, slog.LevelError + 4:
	default:
		return true
	}
	// A time without a reading of the monotonic clock was not taken just now.
	return record.Time == record.Time.Round(0)
}

// handleRendered writes a record as a line that is rendered here.
func (h *Handler) handleRendered(ctx gocontext.Context, record *slog.Record) error {
	c := h.logger.core
	switch c.state.Load() {
	case stateClosed:
		c.late.Add(1)
		return nil
	case stateText:
		return h.handleAny(ctx, *record)
	}
	site := c.registerRendered(record.PC, h.logger.context, levelOf(record.Level))
	if site == nil {
		c.countUnregistered()
		return nil
	}
	if !c.isDue(site, nil) {
		return nil
	}
	line := *record
	if h.options.FromContext != nil {
		line = slog.NewRecord(record.Time, record.Level, record.Message, record.PC)
		line.AddAttrs(h.options.FromContext(ctx)...)
		record.Attrs(func(attr slog.Attr) bool {
			line.AddAttrs(attr)
			return true
		})
	}
	h.logger.writeRendered(site, func(to *bytes.Buffer) { h.renderers.render(ctx, line, to) })
	return nil
}

// Slog returns a [slog.Logger] that writes with this logger.
func (l *Logger) Slog() *slog.Logger { return slog.New(NewHandler(l, nil)) }

// levelOf is our level for one of package slog.
func levelOf(level slog.Level) wire.Level {
	switch {
	case level < slog.LevelDebug:
		return wire.LevelTrace
	case level < slog.LevelInfo:
		return wire.LevelDebug
	case level < slog.LevelWarn:
		return wire.LevelInfo
	case level < slog.LevelError:
		return wire.LevelWarn
	case level < slog.LevelError+4:
		return wire.LevelError
	}
	return wire.LevelFatal
}

// Enabled reports whether records of a level may be written by some callsite.
func (h *Handler) Enabled(_ gocontext.Context, level slog.Level) bool {
	return h.logger.core.enabled(Level(levelOf(level)))
}

// basicMax is the number of attributes up to which a record of numbers and texts takes the fast path.
const basicMax = 8

// Handle writes a record. It never returns an error: dropped records are counted.
func (h *Handler) Handle(ctx gocontext.Context, record slog.Record) error {
	if h.renderers != nil && h.isRendered(&record) {
		return h.handleRendered(ctx, &record)
	}
	if record.NumAttrs() > basicMax || h.options.ReplaceAttr != nil || h.options.FromContext != nil || record.Time.IsZero() {
		return h.handleAny(ctx, record)
	}
	var room [basicMax]Field
	count, basic := readAttrs(&record, &room)
	if !basic {
		return h.handleAny(ctx, record)
	}
	h.logger.logAt(record.PC, levelOf(record.Level), record.Message, room[:count])
	return nil
}

// readAttrs makes fields of a record's attributes, if all of them are numbers and texts.
func readAttrs(record *slog.Record, room *[basicMax]Field) (count int, basic bool) {
	attrs, ok := slogLayout.attrs(record)
	if !ok {
		return askAttrs(record, room)
	}
	for ; count < min(len(attrs), basicMax); count++ {
		if !slogLayout.read(&attrs[count], &room[count]) {
			return 0, false
		}
	}
	return count, true
}

// askAttrs is readAttrs through the public API of package slog.
func askAttrs(record *slog.Record, room *[basicMax]Field) (count int, basic bool) {
	basic = true
	record.Attrs(func(attr slog.Attr) bool {
		basic = room[count].setBasic(attr.Key, &attr.Value)
		count++
		return basic
	})
	return count, basic
}

// handleAny writes a record with attributes of any kind, rendered into a scratch buffer.
func (h *Handler) handleAny(ctx gocontext.Context, record slog.Record) error {
	message, level := record.Message, levelOf(record.Level)
	if h.options.ReplaceAttr == nil && h.logger.core.isOff(record.PC, h.logger.context, level, message) {
		return nil
	}
	made := scratches.Get().(*scratch)
	defer made.free()
	made.json = h.renderers != nil
	if h.options.FromContext != nil {
		for _, attr := range h.options.FromContext(ctx) {
			h.add(made, h.groups, attr)
		}
	}
	if h.options.ReplaceAttr != nil {
		message, level = h.replaceOwn(message, record.Level)
	}
	if record.Time.IsZero() {
		// The record has no time of its own; the line shows that of the ring.
		made.fields = append(made.fields, number(slog.TimeKey, wire.None, 0))
	}
	record.Attrs(func(attr slog.Attr) bool {
		h.add(made, h.groups, attr)
		return true
	})
	h.logger.logAt(record.PC, level, message, made.finish())
	return nil
}

// replaceOwn calls ReplaceAttr for the record's own level and message.
func (h *Handler) replaceOwn(message string, level slog.Level) (string, wire.Level) {
	replaced := h.options.ReplaceAttr(nil, slog.Any(slog.LevelKey, level))
	if other, ok := replaced.Value.Resolve().Any().(slog.Level); ok {
		level = other
	}
	replaced = h.options.ReplaceAttr(nil, slog.String(slog.MessageKey, message))
	if replaced.Key == "" {
		return "", levelOf(level)
	}
	return replaced.Value.Resolve().String(), levelOf(level)
}

// setBasic makes a field of an attribute that is a number or a text, which most are; false for others.
func (f *Field) setBasic(key string, value *slog.Value) bool {
	switch value.Kind() {
	case slog.KindString:
		*f = String(key, value.String())
	case slog.KindInt64:
		*f = Int64(key, value.Int64())
	case slog.KindUint64:
		*f = Uint64(key, value.Uint64())
	case slog.KindFloat64:
		*f = Float64(key, value.Float64())
	case slog.KindBool:
		*f = Bool(key, value.Bool())
	default:
		return false
	}
	return true
}

// add appends an attribute as fields. Empty attributes are left out, as package slog requires.
func (h *Handler) add(to *scratch, groups []string, attr slog.Attr) {
	value := attr.Value
	if value.Kind() == slog.KindLogValuer {
		value = value.Resolve()
	}
	if value.Kind() == slog.KindGroup {
		h.addGroup(to, groups, attr.Key, value.Group())
		return
	}
	if h.options.ReplaceAttr != nil {
		replaced := h.options.ReplaceAttr(groups, slog.Attr{Key: attr.Key, Value: value})
		attr.Key, value = replaced.Key, replaced.Value.Resolve()
		if value.Kind() == slog.KindGroup {
			h.addGroup(to, groups, attr.Key, value.Group())
			return
		}
	}
	addValue(to, attr.Key, value)
}

// addValue appends a value as a field, rendered where it is none of the format; nothing for one that is empty.
func addValue(to *scratch, key string, value slog.Value) {
	var field Field
	switch {
	case field.setBasic(key, &value):
		to.fields = append(to.fields, field)
		return
	case value.Kind() == slog.KindDuration:
		field = Duration(key, value.Duration())
	case value.Kind() == slog.KindTime && to.json:
		to.showAs(key, wire.Str, value.Time().AppendFormat(to.text, time.RFC3339Nano))
		return
	case value.Kind() == slog.KindTime:
		field = Time(key, value.Time())
	default:
		held := value.Any()
		if key == "" && held == nil {
			return
		}
		if field = Any(key, held); to.json && held != nil {
			field = anyField(key, held)
		}
	}
	to.put(&field)
}

// addGroup appends the attributes of a group. The attributes of a group without a name belong to the surrounding group.
func (h *Handler) addGroup(to *scratch, groups []string, key string, attrs []slog.Attr) {
	if key == "" {
		for _, attr := range attrs {
			h.add(to, groups, attr)
		}
		return
	}
	if h.options.ReplaceAttr != nil {
		groups = append(groups[:len(groups):len(groups)], key)
	}
	before := len(to.fields)
	to.fields = append(to.fields, open(key))
	for _, attr := range attrs {
		h.add(to, groups, attr)
	}
	if len(to.fields) == before+1 {
		to.fields = to.fields[:before]
		return
	}
	to.fields = append(to.fields, closing)
}

// WithAttrs returns a handler that adds these attributes to its records. Their values are encoded now.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	scratch := scratches.Get().(*scratch)
	defer scratch.free()
	scratch.json = h.renderers != nil
	for _, attr := range attrs {
		h.add(scratch, h.groups, attr)
	}
	if len(scratch.fields) == 0 {
		return h
	}
	made := *h
	made.logger = h.logger.With(scratch.finish()...)
	kept := slices.Clone(attrs)
	made.step(func(to slog.Handler) slog.Handler { return to.WithAttrs(kept) })
	return &made
}

// WithGroup returns a handler whose further attributes lie in a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	made := *h
	made.groups = append(h.groups[:len(h.groups):len(h.groups)], name)
	made.logger = h.logger.WithGroup(name)
	made.step(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
	return &made
}
