package wire

import (
	"encoding/binary"
	"unicode/utf8"
)

// Header is the front of a record.
type Header struct {
	LengthBytes uint32
	CallsiteID  uint32
	TimeTicks   uint64
}

// DecodeHeader reads the front of a record; what follows is not looked at.
func DecodeHeader(bytes []byte) (Header, error) {
	cursor := NewCursor(bytes)
	taken, err := cursor.Take(HeaderBytes)
	if err != nil {
		return Header{}, err
	}
	header := Header{
		LengthBytes: binary.LittleEndian.Uint32(taken),
		CallsiteID:  binary.LittleEndian.Uint32(taken[4:]),
		TimeTicks:   binary.LittleEndian.Uint64(taken[8:]),
	}
	length := header.LengthBytes
	if length < HeaderBytes || length > RecordBytesMax || length%8 != 0 {
		return Header{}, fail(ErrLimit, "a record of %d bytes", length)
	}
	return header, nil
}

// Encode appends the bytes of a header.
func (h Header) Encode(to []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, h.LengthBytes)
	to = binary.LittleEndian.AppendUint32(to, h.CallsiteID)
	return binary.LittleEndian.AppendUint64(to, h.TimeTicks)
}

// Value is a value of a record: its kind and its bytes, without a length in front and without the presence byte.
type Value struct {
	Kind    Kind
	Present bool
	Bytes   []byte
}

// DecodeValue reads one value of a kind.
func DecodeValue(kind Kind, cursor *Cursor) (Value, error) {
	if kind.IsOptional() {
		present, err := cursor.U8()
		if err != nil {
			return Value{}, err
		}
		if present > 1 {
			return Value{}, fail(ErrLimit, "a presence byte of %d", present)
		}
		if present == 0 {
			return Value{Kind: kind}, nil
		}
	}
	var bytes []byte
	var err error
	if kind.HasLength() {
		bytes, err = cursor.Counted()
	} else {
		bytes, err = cursor.Take(kind.FixedBytes())
	}
	if err != nil {
		return Value{}, err
	}
	return Value{Kind: kind, Present: true, Bytes: bytes}, checkValue(kind.Base(), bytes)
}

func checkValue(kind Kind, bytes []byte) error {
	switch kind {
	case Bool:
		if bytes[0] > 1 {
			return fail(ErrLimit, "a bool of %d", bytes[0])
		}
	case Char:
		scalar := binary.LittleEndian.Uint32(bytes)
		if scalar > utf8.MaxRune || scalar >= 0xd800 && scalar < 0xe000 {
			return fail(ErrLimit, "a char of %#x", scalar)
		}
	}
	return nil
}

// Encode appends a value as a record holds it.
func (v Value) Encode(to []byte) []byte {
	if v.Kind.IsOptional() {
		if !v.Present {
			return append(to, 0)
		}
		to = append(to, 1)
	}
	if v.Kind.HasLength() {
		to = binary.LittleEndian.AppendUint32(to, uint32(len(v.Bytes)))
	}
	return append(to, v.Bytes...)
}

// Named is a value of a dynamic record. Index is InlineKey where the key stands in the record.
type Named struct {
	Index int
	Key   string
	Value Value
}

// Encode appends a value of a dynamic record.
func (n Named) Encode(to []byte) []byte {
	to = append(to, uint8(n.Value.Kind), uint8(n.Index))
	if n.Index == InlineKey {
		to = binary.LittleEndian.AppendUint16(to, uint16(len(n.Key)))
		to = append(to, n.Key...)
	}
	return n.Value.Encode(to)
}

// DecodeDynamic reads the values of a dynamic record, up to a tag of 0 or the end. Values read before an error are
// returned with it.
func DecodeDynamic(bytes []byte) ([]Named, error) {
	cursor := NewCursor(bytes)
	var values []Named
	for cursor.Left() > 0 {
		tag, err := cursor.U8()
		if err != nil || tag == 0 {
			return values, err
		}
		if len(values) == ValuesMax {
			return values, fail(ErrLimit, "more than %d values", ValuesMax)
		}
		named, err := decodeNamed(tag, cursor)
		if err != nil {
			return values, err
		}
		values = append(values, named)
	}
	return values, nil
}

func decodeNamed(tag uint8, cursor *Cursor) (Named, error) {
	kind, err := CheckKind(tag)
	if err != nil {
		return Named{}, err
	}
	index, err := cursor.U8()
	if err != nil {
		return Named{}, err
	}
	named := Named{Index: int(index)}
	if index == InlineKey {
		// At most what two bytes of length can express.
		if named.Key, err = cursor.Text(1<<16 - 1); err != nil {
			return Named{}, err
		}
	}
	named.Value, err = DecodeValue(kind, cursor)
	return named, err
}

// Span is one of the spans around a record.
type Span struct {
	Name   string
	Fields []Named
}

// DecodeScope reads a value of kind Scope. The spans before an error are returned with it.
func DecodeScope(bytes []byte) ([]Span, error) {
	cursor := NewCursor(bytes)
	var spans []Span
	for cursor.Left() > 0 {
		if len(spans) == SpansMax {
			return spans, fail(ErrLimit, "more than %d spans", SpansMax)
		}
		name, err := cursor.Text(1<<16 - 1)
		if err != nil {
			return spans, err
		}
		length, err := cursor.U16()
		if err != nil {
			return spans, err
		}
		inside, err := cursor.Take(int(length))
		if err != nil {
			return spans, err
		}
		fields, err := DecodeDynamic(inside)
		if err != nil {
			return spans, err
		}
		for _, field := range fields {
			if field.Index != InlineKey || field.Value.Kind.Base() == Scope {
				return spans, fail(ErrLimit, "a field of a span that has an index or is a scope")
			}
		}
		spans = append(spans, Span{Name: name, Fields: fields})
	}
	return spans, nil
}

// GapValues appends the values of a gap record.
func GapValues(to []byte, count uint64, reason string) []byte {
	to = binary.LittleEndian.AppendUint64(to, count)
	to = binary.LittleEndian.AppendUint32(to, uint32(len(reason)))
	return append(to, reason...)
}
