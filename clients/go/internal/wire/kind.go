// Package wire holds the bytes of records and callsites, as spec/record.md draws them. It has no I/O and no clock:
// bytes in, bytes out. Foreign bytes are hostile: each length is checked before use.
package wire

// Kind is the type of a value. Bit 7 marks an optional.
type Kind uint8

// The kinds of spec/record.md.
const (
	Bool Kind = iota + 1
	I8
	I16
	I32
	I64
	I128
	U8
	U16
	U32
	U64
	U128
	F32
	F64
	Char
	Str
	Bytes
	Display
	Debug
	Pointer
	None
	Scope
	Message

	// Optional is the bit of kinds whose value may be absent.
	Optional Kind = 0x80
)

var fixedBytes = [Message + 1]int{
	Bool: 1, I8: 1, I16: 2, I32: 4, I64: 8, I128: 16,
	U8: 1, U16: 2, U32: 4, U64: 8, U128: 16,
	F32: 4, F64: 8, Char: 4, Pointer: 8,
}

// Base is the kind without the mark of an optional.
func (k Kind) Base() Kind { return k &^ Optional }

// IsOptional reports whether a value of the kind may be absent.
func (k Kind) IsOptional() bool { return k&Optional != 0 }

// HasLength reports whether a value begins with a length: texts, bytes and scopes.
func (k Kind) HasLength() bool {
	switch k.Base() {
	case Str, Bytes, Display, Debug, Scope, Message:
		return true
	}
	return false
}

// FixedBytes is the size of a value of a kind without a length.
func (k Kind) FixedBytes() int {
	if base := k.Base(); base <= Message {
		return fixedBytes[base]
	}
	return 0
}

// CheckKind reads the code of a kind.
func CheckKind(code uint8) (Kind, error) {
	kind := Kind(code)
	base := kind.Base()
	if base < Bool || base > Message || kind.IsOptional() && base >= None {
		return 0, fail(ErrUnknown, "kind %d is not one of record.md", code)
	}
	return kind, nil
}

// Level is the code of a level in a callsite.
type Level uint8

// The levels of spec/record.md. Warn and above are urgent.
const (
	LevelTrace Level = iota
	LevelDebug
	LevelInfo
	LevelWarn
	LevelError
	LevelFatal
)

// IsUrgent reports whether records of the level may use the last eighth of a ring.
func (l Level) IsUrgent() bool { return l >= LevelWarn }
