package logdrive

import (
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// FuzzEncode writes values as a call does, and reads them again: what is put is what a reader of the format finds.
func FuzzEncode(f *testing.F) {
	f.Add("key", "text", int64(-1), 1.5, true, []byte("bytes"))
	f.Add("", "", int64(0), math.Inf(1), false, []byte(nil))
	f.Fuzz(func(t *testing.T, key, text string, number int64, float float64, truth bool, bytes []byte) {
		fields := []Field{String(key, text), Int64(key, number), Float64(key, float), Bool(key, truth), Bytes(key, bytes),
			Int8(key, int8(number)), Uint16(key, uint16(number)), Int32(key, int32(number)), Duration(key, time.Duration(number))}
		scratch := scratches.Get().(*scratch)
		defer scratch.free()
		plain := scratch.resolve(fields)
		var described wire.Callsite
		made := &site{}
		made.take(plain, root, &described)
		made.count = len(plain)
		if !made.means(0, "", plain) || !made.match(plain) {
			t.Fatal("a call does not match its own site")
		}
		record := make([]byte, made.recordBytes(root, plain))
		if len(record) > wire.HeaderBytes {
			putFields(made, record[wire.HeaderBytes:], plain)
		}
		cursor := wire.NewCursor(record[wire.HeaderBytes:])
		for at := range plain {
			value, err := wire.DecodeValue(described.Fields[at].Kind, cursor)
			if err != nil {
				t.Fatal(err)
			}
			if want := plain[at].value(); string(want.Bytes) != string(value.Bytes) {
				t.Fatalf("field %d: %x, expected %x", at, value.Bytes, want.Bytes)
			}
		}
		if cursor.Left() > 7 {
			t.Fatalf("%d bytes too many", cursor.Left())
		}
		if encoded, err := described.Encode(nil); err != nil {
			t.Fatal(err)
		} else if _, err := wire.DecodeCallsite(encoded); err != nil {
			t.Fatal(err)
		}
		dynamic, _ := appendDynamic(nil, root, text, plain, 8192)
		if len(dynamic) > 8192+8 {
			t.Fatalf("%d bytes of a dynamic record", len(dynamic))
		}
		if values, err := wire.DecodeDynamic(dynamic); err != nil && utf8.ValidString(key) {
			t.Fatalf("%d values: %v", len(values), err)
		}
	})
}
