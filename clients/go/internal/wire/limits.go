package wire

// Every bound of the record format, from the table of limits in spec/record.md.
const (
	// HeaderBytes is what stands in front of the values.
	HeaderBytes = 16
	// RecordBytesMax bounds a record: it is a line; what is larger belongs in a file of its own.
	RecordBytesMax = 65536
	// FieldsMax bounds the fields of a callsite: one byte indexes them, and InlineKey is the mark of an inline key.
	FieldsMax = 255
	// InlineKey stands for the index of a dynamic value that brings its key along.
	InlineKey = 0xff
	// NameBytesMax bounds a name: more is a mistake of the producer.
	NameBytesMax = 1024
	// MessageBytesMax bounds a message: it is stored once, but shown often.
	MessageBytesMax = 16384
	// CallsiteBytesMax bounds a callsite: all strings at their limits are past any use.
	CallsiteBytesMax = 65536
	// SpansMax bounds the spans of a record: deeper nesting says nothing to a reader.
	SpansMax = 64
	// ValuesMax bounds the values of a dynamic record that are shown.
	ValuesMax = 255
)
