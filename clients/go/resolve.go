package logdrive

import (
	"fmt"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// scratch is where fields are made that are not written as they are. It comes from a pool and is kept by one call.
type scratch struct {
	fields []Field
	text   []byte
	// lengths of texts in `text`, in the order of the fields that show them; their pointers are set at the end, because
	// the text may move while it grows.
	places []place
	// json is set for a log whose lines are JSON.
	json bool
}

type place struct{ field, start, end int }

var scratches = sync.Pool{New: func() any { return &scratch{fields: make([]Field, 0, 16), text: make([]byte, 0, 256)} }}

// scratchTextMax is how much text a scratch may keep for the next call.
const scratchTextMax = 64 << 10

func (s *scratch) free() {
	clear(s.fields)
	s.fields, s.text, s.places = s.fields[:0], s.text[:0], s.places[:0]
	if cap(s.text) <= scratchTextMax {
		scratches.Put(s)
	}
}

// isPlain reports whether a field is written as it is.
func (f *Field) isPlain() bool { return f.kind() <= wire.Message }

func arePlain(fields []Field) bool {
	for at := range fields {
		if !fields[at].isPlain() && fields[at].kind() != kindOpen && fields[at].kind() != kindClose {
			return false
		}
	}
	return true
}

// resolve makes fields that can be written: texts of what shows itself, and groups taken apart; for JSON as package slog
// writes them there.
func (s *scratch) resolve(fields []Field, json bool) []Field {
	s.json = json
	s.add(fields)
	return s.finish()
}

// finish sets the pointers of texts, which lie still from here on.
func (s *scratch) finish() []Field {
	for _, place := range s.places {
		s.fields[place.field].ptr = unsafe.Pointer(unsafe.SliceData(s.text[place.start:place.end]))
		s.fields[place.field].num = uint64(place.end - place.start)
	}
	s.places = s.places[:0]
	return s.fields
}

func (s *scratch) add(fields []Field) {
	for at := range fields {
		s.put(&fields[at])
	}
}

// put adds a field as one that can be written.
func (s *scratch) put(field *Field) {
	switch field.kind() {
	case kindGroup:
		if field.key() == "" {
			s.add(field.group())
			return
		}
		s.fields = append(s.fields, open(field.key()))
		s.add(field.group())
		s.fields = append(s.fields, closing)
	case kindDuration:
		if s.json {
			s.fields = append(s.fields, Int64(field.key(), int64(field.num)))
			return
		}
		s.show(field.key(), appendDuration(s.text, time.Duration(field.num)))
	case kindTime:
		s.show(field.key(), appendTime(s.text, int64(field.num)))
	case kindJSON:
		s.showAs(field.key(), wire.Debug, appendJSON(s.text, field))
	case kindError, kindStringer, kindAny:
		if s.json && field.kind() != kindStringer {
			s.showAs(field.key(), wire.Debug, appendJSON(s.text, field))
			return
		}
		s.show(field.key(), appendShown(s.text, field))
	default:
		s.fields = append(s.fields, *field)
	}
}

// show adds a field whose text was put behind the text.
func (s *scratch) show(key string, text []byte) { s.showAs(key, wire.Display, text) }

func (s *scratch) showAs(key string, kind wire.Kind, text []byte) {
	s.places = append(s.places, place{len(s.fields), len(s.text), len(text)})
	s.text = text
	s.fields = append(s.fields, number(key, kind, 0))
}

// appendShown renders a value. Its code is foreign: a panic is rendered as fmt does it.
func appendShown(to []byte, field *Field) (shown []byte) {
	defer func() {
		if cause := recover(); cause != nil {
			shown = fmt.Appendf(to, "!PANIC: %v", cause)
		}
	}()
	switch field.kind() {
	case kindError:
		return append(to, field.err().Error()...)
	case kindStringer:
		return append(to, field.stringer().String()...)
	}
	if value, ok := field.any().(fmt.Stringer); ok {
		return append(to, value.String()...)
	}
	return fmt.Append(to, field.any())
}

// appendTime is the time of some nanoseconds since 1970 in RFC 3339 and UTC, with as many digits as it needs.
func appendTime(to []byte, ns int64) []byte {
	const day = 24 * 60 * 60
	seconds, rest := ns/1_000_000_000, ns%1_000_000_000
	if rest < 0 {
		seconds, rest = seconds-1, rest+1_000_000_000
	}
	days, clock := seconds/day, seconds%day
	if clock < 0 {
		days, clock = days-1, clock+day
	}
	// Years that begin in March, in eras of 400 of them, of which the year 0 begins one.
	days += 719_468
	era := days / 146_097
	of := days % 146_097
	year := (of - of/1460 + of/36_524 - of/146_096) / 365
	of -= 365*year + year/4 - year/100
	month := (5*of + 2) / 153
	of -= (153*month + 2) / 5
	year += 400 * era
	if month += 3; month > 12 {
		year, month = year+1, month-12
	}
	to = append(to, byte('0'+year/1000), byte('0'+year/100%10))
	to = appendPair(to, year%100, '-')
	to = appendPair(to, month, '-')
	to = appendPair(to, of+1, 'T')
	to = appendPair(to, clock/3600, ':')
	to = appendPair(to, clock/60%60, ':')
	to = append(to, byte('0'+clock%60/10), byte('0'+clock%10))
	if rest != 0 {
		to = append(to, '.')
		for unit := int64(100_000_000); rest != 0; unit /= 10 {
			to = append(to, byte('0'+rest/unit))
			rest %= unit
		}
	}
	return append(to, 'Z')
}

func appendPair(to []byte, number int64, behind byte) []byte {
	return append(to, byte('0'+number/10), byte('0'+number%10), behind)
}

// appendDuration is time.Duration.String without an allocation.
func appendDuration(to []byte, d time.Duration) []byte {
	if d == 0 {
		return append(to, "0s"...)
	}
	u := uint64(d)
	if d < 0 {
		to = append(to, '-')
		u = -u
	}
	switch {
	case u < 1000:
		return append(strconv.AppendUint(to, u, 10), "ns"...)
	case u < 1000_000:
		return append(appendFraction(to, u, 1000), "µs"...)
	case u < 1000_000_000:
		return append(appendFraction(to, u, 1000_000), "ms"...)
	}
	if minutes := u / 60_000_000_000; minutes > 0 {
		if hours := minutes / 60; hours > 0 {
			to = append(strconv.AppendUint(to, hours, 10), 'h')
		}
		to = append(strconv.AppendUint(to, minutes%60, 10), 'm')
		u %= 60_000_000_000
	}
	return append(appendFraction(to, u, 1000_000_000), 's')
}

// appendFraction appends value/unit with as many digits as it needs.
func appendFraction(to []byte, value, unit uint64) []byte {
	to = strconv.AppendUint(to, value/unit, 10)
	rest := value % unit
	if rest == 0 {
		return to
	}
	to = append(to, '.')
	for unit /= 10; rest != 0; unit /= 10 {
		to = append(to, byte('0'+rest/unit))
		rest %= unit
	}
	return to
}
