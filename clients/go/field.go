package logdrive

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// Field is a named value of a record. It is made by the functions below, lies on the caller's stack, and is written
// into the ring as it is: numbers stay numbers.
type Field struct {
	key  string
	ptr  unsafe.Pointer // of a text, of bytes, or the second word of an interface
	num  uint64         // the number, the length of a text, or the first word of an interface
	kind wire.Kind
}

// Kinds of fields that become one of the format when the record is written.
const (
	kindDuration wire.Kind = 0x40 + iota
	kindTime
	kindError
	kindStringer
	kindAny
	kindGroup
	kindOpen
	kindClose
)

// Bool is a field with a truth value.
func Bool(key string, value bool) Field {
	var num uint64
	if value {
		num = 1
	}
	return Field{key: key, num: num, kind: wire.Bool}
}

// Int is a field with a signed number.
func Int(key string, value int) Field { return Field{key: key, num: uint64(value), kind: wire.I64} }

// Int8 is a field with a signed number of 8 bits.
func Int8(key string, value int8) Field { return Field{key: key, num: uint64(value), kind: wire.I8} }

// Int16 is a field with a signed number of 16 bits.
func Int16(key string, value int16) Field { return Field{key: key, num: uint64(value), kind: wire.I16} }

// Int32 is a field with a signed number of 32 bits.
func Int32(key string, value int32) Field { return Field{key: key, num: uint64(value), kind: wire.I32} }

// Int64 is a field with a signed number of 64 bits.
func Int64(key string, value int64) Field { return Field{key: key, num: uint64(value), kind: wire.I64} }

// Uint is a field with a number that is not negative.
func Uint(key string, value uint) Field { return Field{key: key, num: uint64(value), kind: wire.U64} }

// Uint8 is a field with a number of 8 bits that is not negative.
func Uint8(key string, value uint8) Field { return Field{key: key, num: uint64(value), kind: wire.U8} }

// Uint16 is a field with a number of 16 bits that is not negative.
func Uint16(key string, value uint16) Field {
	return Field{key: key, num: uint64(value), kind: wire.U16}
}

// Uint32 is a field with a number of 32 bits that is not negative.
func Uint32(key string, value uint32) Field {
	return Field{key: key, num: uint64(value), kind: wire.U32}
}

// Uint64 is a field with a number of 64 bits that is not negative.
func Uint64(key string, value uint64) Field { return Field{key: key, num: value, kind: wire.U64} }

// Uintptr is a field with an address, shown in hexadecimal.
func Uintptr(key string, value uintptr) Field {
	return Field{key: key, num: uint64(value), kind: wire.Pointer}
}

// Float32 is a field with a floating-point number of 32 bits.
func Float32(key string, value float32) Field {
	return Field{key: key, num: uint64(math.Float32bits(value)), kind: wire.F32}
}

// Float64 is a field with a floating-point number.
func Float64(key string, value float64) Field {
	return Field{key: key, num: math.Float64bits(value), kind: wire.F64}
}

// Rune is a field with a character. What is no character is shown as U+FFFD.
func Rune(key string, value rune) Field {
	if value < 0 || value > 0x10ffff || value >= 0xd800 && value < 0xe000 {
		value = 0xfffd
	}
	return Field{key: key, num: uint64(value), kind: wire.Char}
}

// String is a field with a text. What a record has no room for is cut, and counted.
func String(key, value string) Field {
	return Field{key: key, ptr: unsafe.Pointer(unsafe.StringData(value)), num: uint64(len(value)), kind: wire.Str}
}

// Bytes is a field with bytes, which are copied by the call.
func Bytes(key string, value []byte) Field {
	return Field{key: key, ptr: unsafe.Pointer(unsafe.SliceData(value)), num: uint64(len(value)), kind: wire.Bytes}
}

// Duration is a field with a time span, shown as Go shows it.
func Duration(key string, value time.Duration) Field {
	return Field{key: key, num: uint64(value), kind: kindDuration}
}

// Time is a field with a time, shown in UTC.
func Time(key string, value time.Time) Field {
	return Field{key: key, num: uint64(value.UnixNano()), kind: kindTime}
}

// Err is a field named "error" with what the error says. It is asked by the call, and only where the record is kept.
func Err(err error) Field { return NamedErr("error", err) }

// NamedErr is as [Err], with a name.
func NamedErr(key string, err error) Field {
	if err == nil {
		return Field{key: key, kind: wire.None}
	}
	words := (*[2]unsafe.Pointer)(unsafe.Pointer(&err))
	return Field{key: key, ptr: words[1], num: uint64(uintptr(words[0])), kind: kindError}
}

// Stringer is a field with what the value's String says. It is asked by the call, and only where the record is kept.
func Stringer(key string, value fmt.Stringer) Field {
	if value == nil {
		return Field{key: key, kind: wire.None}
	}
	words := (*[2]unsafe.Pointer)(unsafe.Pointer(&value))
	return Field{key: key, ptr: words[1], num: uint64(uintptr(words[0])), kind: kindStringer}
}

// Group is fields under a common name: their keys become "key.name". Its fields move to the heap; where that counts,
// write the keys out.
func Group(key string, fields ...Field) Field {
	kept := append([]Field(nil), fields...)
	return Field{key: key, ptr: unsafe.Pointer(unsafe.SliceData(kept)), num: uint64(len(kept)), kind: kindGroup}
}

// Any is a field with a value of any type. Numbers, texts, times and errors are kept as such; other values are shown as
// fmt.Sprint shows them, by the call, and only where the record is kept.
func Any(key string, value any) Field {
	switch value := value.(type) {
	case nil:
		return Field{key: key, kind: wire.None}
	case string:
		return String(key, value)
	case int:
		return Int(key, value)
	case int64:
		return Int64(key, value)
	case int32:
		return Int32(key, value)
	case int16:
		return Int16(key, value)
	case int8:
		return Int8(key, value)
	case uint:
		return Uint(key, value)
	case uint64:
		return Uint64(key, value)
	case uint32:
		return Uint32(key, value)
	case uint16:
		return Uint16(key, value)
	case uint8:
		return Uint8(key, value)
	case uintptr:
		return Uintptr(key, value)
	case bool:
		return Bool(key, value)
	case float64:
		return Float64(key, value)
	case float32:
		return Float32(key, value)
	case []byte:
		return Bytes(key, value)
	case time.Duration:
		return Duration(key, value)
	case time.Time:
		return Time(key, value)
	case error:
		return NamedErr(key, value)
	case []Field:
		return Group(key, value...)
	}
	words := (*[2]unsafe.Pointer)(unsafe.Pointer(&value))
	return Field{key: key, ptr: words[1], num: uint64(uintptr(words[0])), kind: kindAny}
}

// open and close stand around the fields of a group in a list of fields.
func open(key string) Field { return Field{key: key, kind: kindOpen} }

var closing = Field{kind: kindClose}

// text is the text or bytes of a field that has a length.
func (f *Field) text() string { return unsafe.String((*byte)(f.ptr), int(f.num)) }

// words puts the two words of an interface together again. The first one points to a type or a table of methods, which
// the runtime never moves or frees.
func (f *Field) words() [2]unsafe.Pointer {
	first := uintptr(f.num)
	return [2]unsafe.Pointer{*(*unsafe.Pointer)(unsafe.Pointer(&first)), f.ptr}
}

func (f *Field) err() error {
	words := f.words()
	return *(*error)(unsafe.Pointer(&words))
}

func (f *Field) stringer() fmt.Stringer {
	words := f.words()
	return *(*fmt.Stringer)(unsafe.Pointer(&words))
}

func (f *Field) any() any {
	words := f.words()
	return *(*any)(unsafe.Pointer(&words))
}

func (f *Field) group() []Field { return unsafe.Slice((*Field)(f.ptr), int(f.num)) }
