package wire

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"
)

type object = map[string]any

// load reads a file of the shared vectors.
func load(t *testing.T, file string) object {
	t.Helper()
	text, err := os.ReadFile("../../../../vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var parsed object
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}

// each runs every case of a list; how many there were.
func each(t *testing.T, file object, list string, run func(t *testing.T, c object)) int {
	t.Helper()
	cases, _ := file[list].([]any)
	if len(cases) == 0 {
		t.Fatalf("the list %s is missing or empty", list)
	}
	for _, one := range cases {
		c := one.(object)
		t.Run(list+": "+c["name"].(string), func(t *testing.T) { run(t, c) })
	}
	return len(cases)
}

// unhex reads `GROUP GROUP*N`.
func unhex(t *testing.T, text any) []byte {
	t.Helper()
	var bytes []byte
	for _, group := range strings.Fields(text.(string)) {
		digits, times, found := strings.Cut(group, "*")
		count := 1
		if found {
			count, _ = strconv.Atoi(times)
		}
		part, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		for range count {
			bytes = append(bytes, part...)
		}
	}
	return bytes
}

func longText(value any) string {
	if repeated, ok := value.(object); ok {
		return strings.Repeat(repeated["text"].(string), int(repeated["times"].(float64)))
	}
	return value.(string)
}

var kindNames = []string{"", "bool", "i8", "i16", "i32", "i64", "i128", "u8", "u16", "u32", "u64", "u128", "f32", "f64",
	"char", "str", "bytes", "display", "debug", "pointer", "none", "scope", "message"}

func kindNamed(t *testing.T, name string) Kind {
	t.Helper()
	plain, optional := strings.CutSuffix(name, "?")
	for code, known := range kindNames {
		if known == plain && code > 0 {
			kind := Kind(code)
			if optional {
				kind |= Optional
			}
			return kind
		}
	}
	t.Fatalf("no kind is called %s", name)
	return 0
}

// kindsOf reads a list of kinds.
func kindsOf(t *testing.T, c object) []Kind {
	var kinds []Kind
	for _, name := range c["kinds"].([]any) {
		kinds = append(kinds, kindNamed(t, name.(string)))
	}
	return kinds
}

// plainBytes are the bytes of an expected value, without a length in front.
func plainBytes(t *testing.T, kind Kind, expected any) []byte {
	t.Helper()
	switch value := expected.(type) {
	case bool:
		if value {
			return []byte{1}
		}
		return []byte{0}
	case object:
		if text, ok := value["utf8"]; ok {
			return []byte(text.(string))
		}
		if bits, ok := value["bits"]; ok {
			return reversed(unhex(t, bits))
		}
		return unhex(t, value["hex"])
	case string:
		switch kind.Base() {
		case Char:
			return binary.LittleEndian.AppendUint32(nil, uint32([]rune(value)[0]))
		case Str, Bytes, Display, Debug, Message:
			return []byte(value)
		}
		number, ok := new(big.Int).SetString(value, 10)
		if !ok {
			t.Fatalf("%q is no number", value)
		}
		size := kind.FixedBytes()
		if number.Sign() < 0 {
			number.Add(number, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
		}
		return reversed(number.FillBytes(make([]byte, size)))
	}
	return nil
}

func reversed(bytes []byte) []byte {
	for low, high := 0, len(bytes)-1; low < high; low, high = low+1, high-1 {
		bytes[low], bytes[high] = bytes[high], bytes[low]
	}
	return bytes
}

func same(t *testing.T, found Value, kind Kind, expected any) {
	t.Helper()
	if found.Kind != kind {
		t.Errorf("kind %d, expected %d", found.Kind, kind)
	}
	if expected == nil {
		if found.Present && kind.Base() != None {
			t.Errorf("%x is there and should be absent", found.Bytes)
		}
		return
	}
	if want := plainBytes(t, kind, expected); string(want) != string(found.Bytes) || !found.Present {
		t.Errorf("%x, expected %x", found.Bytes, want)
	}
}

func refused(t *testing.T, err error, c object) {
	t.Helper()
	families := map[string]error{"truncated": ErrTruncated, "limit": ErrLimit, "unknown": ErrUnknown, "not_utf8": ErrNotUTF8}
	family := families[c["error"].(string)]
	if family == nil || !errors.Is(err, family) {
		t.Errorf("%v, expected %v", err, c["error"])
	}
}

func sameFields(t *testing.T, found []Named, expected any) {
	t.Helper()
	list := expected.([]any)
	if len(found) != len(list) {
		t.Fatalf("%d fields, expected %d", len(found), len(list))
	}
	for at, one := range list {
		want := one.(object)
		if index, ok := want["index"]; ok {
			if found[at].Index != int(index.(float64)) {
				t.Errorf("index %d, expected %v", found[at].Index, index)
			}
		} else if found[at].Index != InlineKey || found[at].Key != want["key"] {
			t.Errorf("key %q, expected %v", found[at].Key, want["key"])
		}
		if name, ok := want["kind"].(string); ok {
			same(t, found[at].Value, kindNamed(t, name), want["value"])
		}
	}
}

func TestRecordVectors(t *testing.T) {
	file := load(t, "record.json")
	valid := each(t, file, "headers", func(t *testing.T, c object) {
		bytes := unhex(t, c["hex"])
		header, err := DecodeHeader(bytes)
		if err != nil {
			t.Fatal(err)
		}
		if float64(header.LengthBytes) != c["length_bytes"] || float64(header.CallsiteID) != c["callsite_id"] ||
			fmt.Sprint(header.TimeTicks) != c["time_ticks"] || string(header.Encode(nil)) != string(bytes[:16]) {
			t.Errorf("%+v", header)
		}
	})
	valid += each(t, file, "values", func(t *testing.T, c object) {
		bytes := unhex(t, c["hex"])
		cursor, written := NewCursor(bytes), []byte{}
		for at, kind := range kindsOf(t, c) {
			value, err := DecodeValue(kind, cursor)
			if err != nil {
				t.Fatal(err)
			}
			same(t, value, kind, c["values"].([]any)[at])
			written = value.Encode(written)
		}
		if string(written) != string(bytes[:len(bytes)-cursor.Left()]) {
			t.Errorf("written again as %x", written)
		}
	})
	valid += each(t, file, "dynamic", func(t *testing.T, c object) {
		found, err := DecodeDynamic(unhex(t, c["hex"]))
		if err != nil {
			t.Fatal(err)
		}
		sameFields(t, found, c["fields"])
	})
	valid += each(t, file, "scopes", func(t *testing.T, c object) {
		spans, err := DecodeScope(unhex(t, c["hex"]))
		expected := c["spans"].([]any)
		if err != nil || len(spans) != len(expected) {
			t.Fatalf("%d spans: %v", len(spans), err)
		}
		for at, span := range spans {
			if span.Name != expected[at].(object)["name"] {
				t.Errorf("span %q", span.Name)
			}
			sameFields(t, span.Fields, expected[at].(object)["fields"])
		}
	})
	invalid := invalidRecords(t, file)
	t.Logf("vectors: record.json: %d valid, %d invalid", valid, invalid)
	if valid < 60 || invalid < 65 {
		t.Fatalf("cases have gone missing: %d %d", valid, invalid)
	}
}

func invalidRecords(t *testing.T, file object) int {
	invalid := each(t, file, "invalid_headers", func(t *testing.T, c object) {
		_, err := DecodeHeader(unhex(t, c["hex"]))
		refused(t, err, c)
	})
	invalid += each(t, file, "invalid_kinds", func(t *testing.T, c object) {
		_, err := CheckKind(uint8(c["code"].(float64)))
		refused(t, err, c)
	})
	invalid += each(t, file, "invalid_values", func(t *testing.T, c object) {
		cursor := NewCursor(unhex(t, c["hex"]))
		var err error
		for _, kind := range kindsOf(t, c) {
			if _, err = DecodeValue(kind, cursor); err != nil {
				break
			}
		}
		refused(t, err, c)
	})
	invalid += each(t, file, "invalid_dynamic", func(t *testing.T, c object) {
		found, err := DecodeDynamic(unhex(t, c["hex"]))
		refused(t, err, c)
		sameFields(t, found, c["fields"])
	})
	return invalid + each(t, file, "invalid_scopes", func(t *testing.T, c object) {
		spans, err := DecodeScope(unhex(t, c["hex"]))
		refused(t, err, c)
		if float64(len(spans)) != c["good_spans"] {
			t.Errorf("%d spans before the error", len(spans))
		}
	})
}

func TestCallsiteVectors(t *testing.T) {
	levels := []string{"trace", "debug", "info", "warn", "error", "fatal"}
	file := load(t, "callsite.json")
	valid := each(t, file, "valid", func(t *testing.T, c object) {
		bytes, want := unhex(t, c["hex"]), c["callsite"].(object)
		found, err := DecodeCallsite(bytes)
		if err != nil {
			t.Fatal(err)
		}
		if levels[found.Level] != want["level"] || found.Dynamic != want["dynamic"] || float64(found.Line) != want["line"] ||
			found.File != longText(want["file"]) || found.Module != longText(want["module"]) ||
			found.Target != longText(want["target"]) || found.Message != longText(want["message"]) {
			t.Errorf("%+v", found)
		}
		fields := want["fields"].([]any)
		if len(fields) != len(found.Fields) {
			t.Fatalf("%d fields", len(found.Fields))
		}
		for at, one := range fields {
			field, got := one.(object), found.Fields[at]
			if got.Name != longText(field["name"]) || got.Kind != kindNamed(t, field["kind"].(string)) || got.Argument != field["argument"] {
				t.Errorf("field %d: %+v", at, got)
			}
		}
		written, err := found.Encode(nil)
		if err != nil || string(written) != string(bytes) {
			t.Errorf("written again otherwise: %v", err)
		}
		for length := range min(len(bytes), 2000) {
			if _, err := DecodeCallsite(bytes[:length]); !errors.Is(err, ErrTruncated) {
				t.Fatalf("the first %d bytes: %v", length, err)
			}
		}
	})
	invalid := each(t, file, "invalid", func(t *testing.T, c object) {
		_, err := DecodeCallsite(unhex(t, c["hex"]))
		refused(t, err, c)
	})
	t.Logf("vectors: callsite.json: %d valid, %d invalid", valid, invalid)
	if valid < 18 || invalid < 60 {
		t.Fatalf("cases have gone missing: %d %d", valid, invalid)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 15, 0, 0, 0})
	f.Add([]byte{21, 255, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if callsite, err := DecodeCallsite(bytes); err == nil {
			again, err := callsite.Encode(nil)
			if err != nil || string(again) != string(bytes) {
				t.Fatalf("%x is written as %x: %v", bytes, again, err)
			}
		}
		_, _ = DecodeDynamic(bytes)
		_, _ = DecodeScope(bytes)
		_, _ = DecodeHeader(bytes)
	})
}
