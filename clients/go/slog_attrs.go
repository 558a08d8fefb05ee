package logdrive

import (
	"log/slog"
	"math"
	"reflect"
	"unsafe"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// Package slog hands out attributes one by one to a function, and checks the kind of each twice. That is half of the cost
// of a handler that copies numbers and texts. If a record has the memory layout that this file expects, its attributes are
// read in place. Reflection and probes check the layout once, at the start; with another layout the public API is used.

// attrWords is the memory of a [slog.Attr].
type attrWords struct {
	key string
	num uint64
	// holds is the type of the value, and data its pointer: to a [slog.Kind] for numbers, to the bytes for a text.
	holds, data unsafe.Pointer
}

// recordLayout is where a [slog.Record] keeps its first attributes.
type recordLayout struct {
	known        bool
	front, count uintptr
	most         int
	// kind and text are the types that values of numbers and of texts hold.
	kind, text unsafe.Pointer
}

var slogLayout = findSlogLayout()

// slogTags is the kind of the format for each kind of package slog that is written as it is; 0 for others.
var slogTags = [16]uint64{
	slog.KindInt64: uint64(wire.I64) << tagKind, slog.KindUint64: uint64(wire.U64) << tagKind,
	slog.KindFloat64: uint64(wire.F64) << tagKind, slog.KindBool: uint64(wire.Bool) << tagKind,
}

func findSlogLayout() recordLayout {
	var none, found recordLayout
	record, attr, value := reflect.TypeFor[slog.Record](), reflect.TypeFor[slog.Attr](), reflect.TypeFor[slog.Value]()
	front, hasFront := record.FieldByName("front")
	count, hasCount := record.FieldByName("nFront")
	num, hasNum := value.FieldByName("num")
	held, hasHeld := value.FieldByName("any")
	inner, hasInner := attr.FieldByName("Value")
	if !hasFront || !hasCount || !hasNum || !hasHeld || !hasInner {
		return none
	}
	var words attrWords
	switch {
	case front.Type.Kind() != reflect.Array, front.Type.Elem() != attr, count.Type.Kind() != reflect.Int,
		attr.Size() != unsafe.Sizeof(words), num.Type.Kind() != reflect.Uint64, held.Type != reflect.TypeFor[any](),
		inner.Offset+num.Offset != unsafe.Offsetof(words.num), inner.Offset+held.Offset != unsafe.Offsetof(words.holds):
		return none
	}
	found.front, found.count, found.most = front.Offset, count.Offset, front.Type.Len()
	one, text := slog.Int("k", 1), slog.String("k", "probe")
	found.kind, found.text = wordsOf(&one).holds, wordsOf(&text).holds
	found.known = true
	for _, probe := range []slog.Attr{slog.Int64("a", -5), slog.Uint64("b", math.MaxUint64), slog.Float64("c", 1.5), slog.Bool("d", true),
		slog.Bool("e", false), slog.String("f", "text"), slog.String("g", "")} {
		var read, asked Field
		if !found.read(wordsOf(&probe), &read) || !asked.setBasic(probe.Key, &probe.Value) ||
			read.tag != asked.tag || read.num != asked.num || read.ptr != asked.ptr || read.key() != probe.Key {
			return none
		}
	}
	for _, probe := range []slog.Attr{slog.Any("a", struct{}{}), slog.Any("b", nil), slog.Duration("c", 1), slog.Group("d", "e", 1)} {
		var read Field
		if found.read(wordsOf(&probe), &read) {
			return none
		}
	}
	return found
}

func wordsOf(attr *slog.Attr) *attrWords { return (*attrWords)(unsafe.Pointer(attr)) }

// read makes a field of an attribute that is a number or a text; false for others.
func (l *recordLayout) read(from *attrWords, to *Field) bool {
	tag, ptr := uint64(wire.Str)<<tagKind, from.data
	if from.holds != l.text {
		if from.holds != l.kind {
			return false
		}
		if tag, ptr = slogTags[*(*slog.Kind)(from.data)&15], nil; tag == 0 {
			return false
		}
	}
	to.name, to.tag, to.ptr, to.num = unsafe.Pointer(unsafe.StringData(from.key)), uint64(len(from.key))|tag, ptr, from.num
	return true
}

// attrs are the attributes of a record, where all of them lie in it.
func (l *recordLayout) attrs(record *slog.Record) ([]attrWords, bool) {
	if !l.known {
		return nil, false
	}
	count := *(*int)(unsafe.Add(unsafe.Pointer(record), l.count))
	if uint(count) > uint(l.most) || count != record.NumAttrs() {
		return nil, false
	}
	return unsafe.Slice((*attrWords)(unsafe.Add(unsafe.Pointer(record), l.front)), count), true
}
