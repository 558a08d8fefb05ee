package wire

import (
	"encoding/binary"
	"unicode/utf8"
)

// Field is a named value of a callsite.
type Field struct {
	Name string
	Kind Kind
	// Argument is set when the message shows the field.
	Argument bool
}

// Callsite is the static description of one log statement.
type Callsite struct {
	Level   Level
	Dynamic bool
	Line    uint32
	File    string
	Module  string
	Target  string
	Message string
	Fields  []Field
}

// GapCallsite is callsite 0 of every session.
func GapCallsite() Callsite {
	return Callsite{
		Level: LevelWarn, Module: "logdrive", Message: "{0} records dropped: {1}",
		Fields: []Field{{Name: "count", Kind: U64, Argument: true}, {Name: "reason", Kind: Str, Argument: true}},
	}
}

// Encode appends the bytes of a callsite. Texts beyond the limits of the format, or not in UTF-8, are errors.
func (c *Callsite) Encode(to []byte) ([]byte, error) {
	start := len(to)
	if c.Level > LevelFatal {
		return nil, fail(ErrUnknown, "level %d", c.Level)
	}
	if len(c.Fields) > FieldsMax {
		return nil, fail(ErrLimit, "%d fields, at most %d", len(c.Fields), FieldsMax)
	}
	var flags uint8
	if c.Dynamic {
		flags = 1
	}
	to = append(to, uint8(c.Level), flags)
	to = binary.LittleEndian.AppendUint16(to, uint16(len(c.Fields)))
	to = binary.LittleEndian.AppendUint32(to, c.Line)
	var err error
	for _, text := range []string{c.File, c.Module, c.Target} {
		if to, err = appendText(to, text, NameBytesMax); err != nil {
			return nil, err
		}
	}
	if to, err = appendText(to, c.Message, MessageBytesMax); err != nil {
		return nil, err
	}
	for _, field := range c.Fields {
		if _, err := CheckKind(uint8(field.Kind)); err != nil {
			return nil, err
		}
		var argument uint8
		if field.Argument {
			argument = 1
		}
		to = append(to, uint8(field.Kind), argument)
		if to, err = appendText(to, field.Name, NameBytesMax); err != nil {
			return nil, err
		}
	}
	if len(to)-start > CallsiteBytesMax {
		return nil, fail(ErrLimit, "a callsite of %d bytes, at most %d", len(to)-start, CallsiteBytesMax)
	}
	return to, nil
}

func appendText(to []byte, text string, most int) ([]byte, error) {
	if len(text) > most {
		return nil, fail(ErrLimit, "a text of %d bytes, at most %d", len(text), most)
	}
	if !utf8.ValidString(text) {
		return nil, fail(ErrNotUTF8, "a text of %d bytes", len(text))
	}
	to = binary.LittleEndian.AppendUint16(to, uint16(len(text)))
	return append(to, text...), nil
}

// DecodeCallsite reads a callsite, which takes all of the bytes.
func DecodeCallsite(bytes []byte) (Callsite, error) {
	var callsite Callsite
	if len(bytes) > CallsiteBytesMax {
		return callsite, fail(ErrLimit, "a callsite of %d bytes, at most %d", len(bytes), CallsiteBytesMax)
	}
	cursor := NewCursor(bytes)
	count, err := callsite.decodeHead(cursor)
	if err != nil {
		return callsite, err
	}
	texts := []struct {
		to   *string
		most int
	}{
		{&callsite.File, NameBytesMax}, {&callsite.Module, NameBytesMax},
		{&callsite.Target, NameBytesMax}, {&callsite.Message, MessageBytesMax},
	}
	for _, text := range texts {
		if *text.to, err = cursor.Text(text.most); err != nil {
			return callsite, err
		}
	}
	for range count {
		field, err := decodeField(cursor)
		if err != nil {
			return callsite, err
		}
		callsite.Fields = append(callsite.Fields, field)
	}
	if cursor.Left() != 0 {
		return callsite, fail(ErrLimit, "%d bytes behind the callsite", cursor.Left())
	}
	return callsite, nil
}

func (c *Callsite) decodeHead(cursor *Cursor) (int, error) {
	level, err := cursor.U8()
	if err != nil {
		return 0, err
	}
	if level > uint8(LevelFatal) {
		return 0, fail(ErrUnknown, "level %d", level)
	}
	flags, err := cursor.U8()
	if err != nil {
		return 0, err
	}
	if flags > 1 {
		return 0, fail(ErrUnknown, "flags %#x", flags)
	}
	count, err := cursor.U16()
	if err != nil {
		return 0, err
	}
	if count > FieldsMax {
		return 0, fail(ErrLimit, "%d fields, at most %d", count, FieldsMax)
	}
	c.Level, c.Dynamic = Level(level), flags == 1
	c.Line, err = cursor.U32()
	return int(count), err
}

func decodeField(cursor *Cursor) (Field, error) {
	code, err := cursor.U8()
	if err != nil {
		return Field{}, err
	}
	kind, err := CheckKind(code)
	if err != nil {
		return Field{}, err
	}
	flags, err := cursor.U8()
	if err != nil {
		return Field{}, err
	}
	if flags > 1 {
		return Field{}, fail(ErrUnknown, "flags %#x of a field", flags)
	}
	name, err := cursor.Text(NameBytesMax)
	return Field{Name: name, Kind: kind, Argument: flags == 1}, err
}
