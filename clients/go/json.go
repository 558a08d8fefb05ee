package logdrive

import (
	"bytes"
	gocontext "context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// Lines of JSON are those of [slog.JSONHandler]. Usual records go into the ring as they are, and the drain
// writes their lines; what only package slog itself can write is rendered here, by its own handler, and is a whole line.

// appendJSON renders an error or a value of any type as [slog.JSONHandler] does.
func appendJSON(to []byte, field *Field) (shown []byte) {
	var value any
	if field.kind() == kindError {
		value = field.err()
	} else {
		value = field.any()
	}
	defer func() {
		if cause := recover(); cause != nil {
			if held := reflect.ValueOf(value); held.Kind() == reflect.Pointer && held.IsNil() {
				shown = appendJSONText(to, "<nil>")
				return
			}
			shown = appendJSONText(to, fmt.Sprintf("!PANIC: %v", cause))
		}
	}()
	_, marshals := value.(json.Marshaler)
	if err, ok := value.(error); ok && !marshals {
		return appendJSONText(to, err.Error())
	}
	text, err := marshalJSON(value)
	if err != nil {
		return appendJSONText(to, "!ERROR:"+err.Error())
	}
	return append(to, text...)
}

func marshalJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'}), nil
}

func appendJSONText(to []byte, text string) []byte {
	if isPlainJSON(text) {
		return append(append(append(to, '"'), text...), '"')
	}
	quoted, _ := marshalJSON(text) // A string always has its JSON.
	return append(to, quoted...)
}

// isPlainJSON reports whether a text has nothing to escape in JSON.
func isPlainJSON(text string) bool {
	for at := range len(text) {
		if b := text[at]; b < ' ' || b > '~' || b == '"' || b == '\\' {
			return false
		}
	}
	return true
}

// lineRenderer renders whole lines with a handler of package slog.
type lineRenderer struct {
	text    bytes.Buffer
	handler slog.Handler
}

// rendererPool has renderers of one handler, each for one goroutine at a time.
type rendererPool struct{ pool sync.Pool }

// newRendererPool makes handlers with these options and steps.
func newRendererPool(options slog.HandlerOptions, steps []func(slog.Handler) slog.Handler) *rendererPool {
	options.Level = slog.Level(math.MinInt)
	made := &rendererPool{}
	made.pool.New = func() any {
		renderer := &lineRenderer{}
		renderer.handler = slog.NewJSONHandler(&renderer.text, &options)
		for _, step := range steps {
			renderer.handler = step(renderer.handler)
		}
		return renderer
	}
	return made
}

// render appends the line of a record, without its end.
func (p *rendererPool) render(ctx gocontext.Context, record slog.Record, to *bytes.Buffer) {
	renderer := p.pool.Get().(*lineRenderer)
	defer p.pool.Put(renderer)
	renderer.text.Reset()
	_ = renderer.handler.Handle(ctx, record) // A buffer takes everything.
	to.Write(bytes.TrimSuffix(renderer.text.Bytes(), []byte{'\n'}))
}

// plainRenderers have no options.
var plainRenderers = newRendererPool(slog.HandlerOptions{}, nil)

// renderJSON renders a record of this logger.
func (l *Logger) renderJSON(to *bytes.Buffer, level wire.Level, message string, fields []Field) {
	record := slog.NewRecord(time.Now(), slogLevel(level), message, 0)
	attrs := append(l.context.attrs(), wrapped(l.context.prefix, attrsOf(fields))...)
	record.AddAttrs(attrs...)
	plainRenderers.render(gocontext.Background(), record, to)
}

// attrs are the fields of the context in the groups of their names.
func (c *fieldContext) attrs() []slog.Attr {
	var all []slog.Attr
	cursor := wire.NewCursor(c.values)
	for _, field := range c.fields {
		value, err := wire.DecodeValue(field.Kind, cursor)
		if err != nil {
			break
		}
		parts := nameParts(field.Name)
		key := parts[len(parts)-1]
		all = append(all, inGroups(parts[:len(parts)-1], []slog.Attr{{Key: key, Value: jsonValue(value.Kind, value.Bytes)}})...)
	}
	return all
}

// wrapped puts attributes into the groups of a prefix.
func wrapped(prefix string, attrs []slog.Attr) []slog.Attr {
	if prefix == "" {
		return attrs
	}
	return inGroups(nameParts(strings.TrimSuffix(prefix, ".")), attrs)
}

func inGroups(groups []string, attrs []slog.Attr) []slog.Attr {
	for at := len(groups) - 1; at >= 0; at-- {
		attrs = []slog.Attr{{Key: groups[at], Value: slog.GroupValue(attrs...)}}
	}
	return attrs
}

// attrsOf makes attributes of fields that were resolved.
func attrsOf(fields []Field) []slog.Attr {
	levels := [][]slog.Attr{nil}
	var names []string
	for at := range fields {
		last := len(levels) - 1
		switch field := &fields[at]; field.kind() {
		case kindOpen:
			names, levels = append(names, field.key()), append(levels, nil)
		case kindClose:
			group := slog.Attr{Key: names[last-1], Value: slog.GroupValue(levels[last]...)}
			names, levels = names[:last-1], levels[:last]
			levels[last-1] = append(levels[last-1], group)
		default:
			value := field.value()
			levels[last] = append(levels[last], slog.Attr{Key: strings.Clone(field.key()), Value: jsonValue(value.Kind, value.Bytes)})
		}
	}
	return levels[0]
}

// jsonValue is a value of the format as one that a handler of JSON writes in the same way.
func jsonValue(kind wire.Kind, bytes []byte) slog.Value {
	if kind == wire.Debug && json.Valid(bytes) {
		return slog.AnyValue(json.RawMessage(bytes))
	}
	return slog.AnyValue(plainValue(kind, bytes))
}

// nameParts takes a name apart that nests.
func nameParts(name string) []string {
	parts := []string{""}
	for at := 0; at < len(name); at++ {
		last := len(parts) - 1
		switch {
		case name[at] == '.':
			parts = append(parts, "")
			continue
		case name[at] == '\\':
			if at++; at == len(name) {
				continue
			}
		}
		parts[last] += name[at : at+1]
	}
	return parts
}

// writeRendered writes a record that is a whole line. One that is too long is cut to a line that says so.
func (l *Logger) writeRendered(site *site, render func(to *bytes.Buffer)) bool {
	c := l.core
	text := renderBuffers.Get().(*bytes.Buffer)
	defer renderBuffers.Put(text)
	text.Reset()
	render(text)
	most, cut := c.session.RecordBytesMax()-wire.HeaderBytes-4, false
	if text.Len() > most {
		cut = true
		record := slog.NewRecord(time.Now(), slogLevel(site.level), "", 0)
		// Escapes take six bytes for one at most.
		record.AddAttrs(slog.String("cut", cutMarked(text.String(), most/6-64)))
		text.Reset()
		plainRenderers.render(gocontext.Background(), record, text)
	}
	scratch := scratches.Get().(*scratch)
	defer scratch.free()
	length := uint32(text.Len())
	scratch.text = append(scratch.text[:0], byte(length), byte(length>>8), byte(length>>16), byte(length>>24))
	scratch.text = append(scratch.text, text.Bytes()...)
	return c.writeValues(site, scratch.text, cut)
}

var renderBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
