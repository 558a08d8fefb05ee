package logdrive

import (
	"unsafe"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// Shape is a message and its keys, made ready once, for tracers and whatever else writes the same record by the million:
// [Logger.Put] takes the values alone. It is safe for use by many goroutines, and by many loggers.
type Shape struct {
	level   wire.Level
	message string
	keys    []Field
	// widths are the bytes of each value; textual for a text.
	widths         []uint8
	numbers, texts int
}

// NewShape makes a shape of fields whose values do not matter:
//
//	var filled = logdrive.NewShape(logdrive.LevelDebug, "order filled", logdrive.Int64("id", 0), logdrive.String("side", ""))
//
// Its fields are numbers, truth values, texts and bytes. It panics where there is another one, because that
// is a mistake in the program, and is found when it starts.
func NewShape(level Level, message string, keys ...Field) *Shape {
	made := &Shape{level: wire.Level(min(level, LevelFatal)), message: message, keys: append([]Field(nil), keys...)}
	for at := range keys {
		switch kind := keys[at].kind(); {
		case kind.HasLength() && keys[at].isPlain():
			made.widths = append(made.widths, textual)
			made.texts++
		case kind.FixedBytes() > 0 && kind.FixedBytes() <= 8 && kind != wire.Char:
			made.widths = append(made.widths, uint8(kind.FixedBytes()))
			made.numbers++
		default:
			panic("logdrive: the field " + keys[at].key() + " of a shape is neither a number nor a text")
		}
		made.keys[at].ptr, made.keys[at].num = nil, 0
	}
	return made
}

// Put writes a record of a shape, whose numbers and texts come in the order of its fields. Numbers are signed as Go
// converts them, floating-point ones are the bits that package math gives, and truth values are 0 and 1. Where there are
// too few of them, the rest is zero and empty; where there are too many, the rest is left out. It reports whether there is a
// record: the shape may be off here, or sampled, or its ring full.
//
//	log.Put(filled, []uint64{uint64(id)}, side)
//
//go:noinline
func (l *Logger) Put(shape *Shape, numbers []uint64, texts ...string) bool {
	pc := placed(callerPC(), 4)
	c, context := l.core, l.context
	site := c.sites.find(pc ^ context.seed)
	if site == nil || site.shaped.Load() != shape || len(numbers) != shape.numbers || len(texts) != shape.texts {
		return l.putSlow(pc, shape, numbers, texts)
	}
	if word := site.entry.Control.Word(); word != ring.On {
		if word == ring.Off {
			return false
		}
		return l.putSlow(pc, shape, numbers, texts)
	}
	fixed := site.head + uint64(len(context.values))
	for at := range texts {
		fixed += uint64(len(texts[at]))
	}
	// What follows is as in logAt.
	shard := ring.Pin()
	producer := c.session.Shard(shard)
	if producer == nil {
		ring.Unpin(shard)
		return l.putSlow(pc, shape, numbers, texts)
	}
	record, room := producer.Room()
	if room < fixed {
		ring.Unpin(shard)
		return l.putSlow(pc, shape, numbers, texts)
	}
	at := unsafe.Add(record, wire.HeaderBytes)
	if bytes := uintptr(len(context.values)); bytes != 0 {
		putBytes(at, unsafe.Pointer(unsafe.SliceData(context.values)), bytes)
		at = unsafe.Add(at, bytes)
	}
	number, text := 0, 0
	for _, width := range shape.widths {
		if width != textual {
			*(*uint64)(at) = numbers[number]
			at = unsafe.Add(at, width)
			number++
			continue
		}
		bytes := uintptr(len(texts[text]))
		*(*uint32)(at) = uint32(bytes)
		putBytes(unsafe.Add(at, 4), unsafe.Pointer(unsafe.StringData(texts[text])), bytes)
		at = unsafe.Add(at, bytes+4)
		text++
	}
	*(*uint64)(at) = 0
	length := (uint64(uintptr(at)-uintptr(record)) + 7) &^ 7
	if c.hasCounter {
		producer.Seal(record, length, site.entry.ID)
	} else {
		producer.SealAt(record, length, site.entry.ID, c.ticks())
	}
	ring.Unpin(shard)
	return true
}

// putSlow writes a record of a shape as any other one, and notes the shape with the first site of its place.
//
//go:noinline
func (l *Logger) putSlow(pc uintptr, shape *Shape, numbers []uint64, texts []string) bool {
	made := scratches.Get().(*scratch)
	defer made.free()
	made.fields = append(made.fields, shape.keys...)
	for at := range made.fields {
		field := &made.fields[at]
		switch {
		case shape.widths[at] != textual && len(numbers) > 0:
			field.num, numbers = numbers[0], numbers[1:]
		case shape.widths[at] == textual && len(texts) > 0:
			field.ptr, field.num = unsafe.Pointer(unsafe.StringData(texts[0])), uint64(len(texts[0]))
			texts = texts[1:]
		}
	}
	written := l.logAt(pc, shape.level, shape.message, made.fields)
	c := l.core
	if site := c.sites.find(pc ^ l.context.seed); site != nil && site.couldMatch(shape.level, shape.message, made.fields) && site.match(made.fields) {
		site.shaped.CompareAndSwap(nil, shape)
	}
	return written
}
