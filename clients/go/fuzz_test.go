package logdrive

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// FuzzEncode writes values as a call does, and reads them again: what is put is what a reader of the format finds.
func FuzzEncode(f *testing.F) {
	f.Add("key", "text", int64(-1), 1.5, true, []byte("bytes"))
	f.Add("", "", int64(0), math.Inf(1), false, []byte(nil))
	f.Fuzz(func(t *testing.T, key, text string, number int64, float float64, truth bool, raw []byte) {
		fields := []Field{String(key, text), Int64(key, number), Float64(key, float), Bool(key, truth), Bytes(key, raw),
			Int8(key, int8(number)), Uint16(key, uint16(number)), Int32(key, int32(number)), Duration(key, time.Duration(number))}
		scratch := scratches.Get().(*scratch)
		defer scratch.free()
		plain := scratch.resolve(fields, false)
		var described wire.Callsite
		made := &site{}
		made.take(plain, root, &described)
		made.count = len(plain)
		if !made.couldMatch(0, "", plain) || !made.match(plain) {
			t.Fatal("a call does not match its own site")
		}
		length := made.recordBytes(root, plain)
		record := bytes.Repeat([]byte{0xa5}, int(length)+8)
		texts := uint64(0)
		for at := range plain {
			if plain[at].kind().HasLength() {
				texts += plain[at].num
			}
		}
		from := unsafe.Pointer(unsafe.SliceData(record[wire.HeaderBytes:]))
		if texts > 0 {
			if _, tried := made.put(from, texts-1, plain); tried != noRoom {
				t.Fatal("more was written than there was room for")
			}
		}
		end, tried := made.put(from, texts, plain)
		if used := uint64(uintptr(end) - uintptr(from)); tried != wrote || (used+7)&^7 != length-wire.HeaderBytes {
			t.Fatalf("%d bytes of values in a record of %d", used, length)
		}
		record = record[:length]
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
		if rest, err := cursor.Take(cursor.Left()); err != nil || len(rest) > 7 || strings.Trim(string(rest), "\x00") != "" {
			t.Fatalf("the padding is %x", rest)
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
