package logdrive

import (
	gocontext "context"
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"time"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// noticeLevel is that of lines about the logger itself.
const noticeLevel = wire.LevelWarn

func stack() []byte { return debug.Stack() }

func gapCallsite() []byte {
	callsite := wire.GapCallsite()
	// Its bytes are those of a constant, which fits every limit.
	bytes, _ := callsite.Encode(nil)
	return bytes
}

// textLog writes records as text when there is no drain.
type textLog struct {
	handler slog.Handler
	core    *core
}

func newTextLog(to io.Writer, core *core) *textLog {
	// The level is decided by the filter.
	handler := slog.NewTextHandler(to, &slog.HandlerOptions{AddSource: true, Level: slog.Level(math.MinInt)})
	return &textLog{handler: handler, core: core}
}

// say writes a line of the logger itself, with its cause.
func (t *textLog) say(message string, why error) {
	text := strings.ReplaceAll(why.Error(), "\n", "; ")
	record := slog.NewRecord(time.Now(), slog.LevelWarn, message, 0)
	record.AddAttrs(slog.String("why", text),
		slog.String("advice", "install the program logdrive, name it in LOGDRIVE_BIN, or an agent's socket in LOGDRIVE_AGENT"))
	_ = t.handler.Handle(gocontext.Background(), record) // There is no other place to report to.
}

func (t *textLog) write(l *Logger, pc uintptr, level wire.Level, message string, fields []Field) bool {
	callsite := t.core.describe(pc, level)
	callsite.Target = l.context.target
	if t.core.filter.Load().base(&callsite) == ring.Off {
		return false
	}
	record := slog.NewRecord(time.Now(), slogLevel(level), strings.Clone(message), pc)
	cursor := wire.NewCursor(l.context.values)
	for _, field := range l.context.fields {
		if value, err := wire.DecodeValue(field.Kind, cursor); err == nil {
			record.AddAttrs(slog.Any(field.Name, plainValue(value.Kind, value.Bytes)))
		}
	}
	scratch := scratches.Get().(*scratch)
	defer scratch.free()
	prefix := l.context.prefix
	var prefixes []string
	for _, field := range scratch.resolve(fields, false) {
		switch field.kind() {
		case kindOpen:
			prefixes = append(prefixes, prefix)
			prefix += field.key() + "."
		case kindClose:
			prefix, prefixes = prefixes[len(prefixes)-1], prefixes[:len(prefixes)-1]
		default:
			value := field.value()
			record.AddAttrs(slog.Any(prefix+field.key(), plainValue(value.Kind, value.Bytes)))
		}
	}
	return t.handler.Handle(gocontext.Background(), record) == nil
}

// plainValue is a value of the format as one of Go.
func plainValue(kind wire.Kind, bytes []byte) any {
	var padded [8]byte
	copy(padded[:], bytes)
	word := binary.LittleEndian.Uint64(padded[:])
	switch kind {
	case wire.Bool:
		return word != 0
	case wire.I8:
		return int64(int8(word))
	case wire.I16:
		return int64(int16(word))
	case wire.I32:
		return int64(int32(word))
	case wire.I64:
		return int64(word)
	case wire.U8, wire.U16, wire.U32, wire.U64, wire.Pointer:
		return word
	case wire.F32:
		return float64(math.Float32frombits(uint32(word)))
	case wire.F64:
		return math.Float64frombits(word)
	case wire.Char:
		return string(rune(word))
	case wire.None:
		return nil
	}
	return string(bytes)
}

// slogLevel is the level of log/slog for one of ours.
func slogLevel(level wire.Level) slog.Level { return slog.Level(level)*4 - 8 }
