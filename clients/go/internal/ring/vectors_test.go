package ring

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"unsafe"
)

type object = map[string]any

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

func number(value any) uint64 {
	if text, ok := value.(string); ok {
		found, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			panic(err)
		}
		return found
	}
	return uint64(value.(float64))
}

func unhex(t *testing.T, text any) []byte {
	t.Helper()
	bytes, err := hex.DecodeString(text.(string))
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func TestClockVectors(t *testing.T) {
	valid := each(t, load(t, "clock.json"), "valid", func(t *testing.T, c object) {
		clock := Calibration{number(c["base_ticks"]), number(c["base_unix_ns"]), number(c["ns_per_tick_q32"])}
		if found := clock.UnixNs(number(c["ticks"])); found != number(c["unix_ns"]) {
			t.Errorf("%d, expected %v", found, c["unix_ns"])
		}
	})
	t.Logf("vectors: clock.json: %d valid", valid)
	if valid < 22 {
		t.Fatalf("cases have gone missing: %d", valid)
	}
}

// newRing is a ring in a file of its own.
func newRing(t *testing.T, capacity int) *Ring {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "ring"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(FileBytes(capacity)); err != nil {
		t.Fatal(err)
	}
	ring, err := create(file, capacity, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ring.memory.unmap() })
	return ring
}

func testBell() *Bell { return &Bell{asleep: new(uint32)} }

func gapValues(to []byte, count uint64, reason string) []byte {
	to = binary.LittleEndian.AppendUint64(to, count)
	to = binary.LittleEndian.AppendUint32(to, uint32(len(reason)))
	return append(to, reason...)
}

// call is one call of a producer as spec/ring.md has it; returns the gap records that it wrote.
func call(producer *Producer, length uint64, urgent bool, told func(count uint64, reason string, at, length uint64)) bool {
	for {
		admission := Granted
		if !producer.Fits(length) {
			admission = producer.Admit(length, urgent, PolicyDrop, false)
		}
		switch admission {
		case Granted:
			*(*uint64)(producer.Space()) = length | 1<<32
			producer.Commit(length)
			return true
		case GapDue:
			from := producer.position
			producer.WriteGaps(gapValues, func() uint64 { return 0 })
			for at := from; at < producer.position; {
				record := unsafe.Add(producer.data, at&producer.mask)
				length := uint64(*(*uint32)(record))
				texts := uint64(*(*uint32)(unsafe.Add(record, 24)))
				told(*(*uint64)(unsafe.Add(record, 16)), unsafe.String((*byte)(unsafe.Add(record, 28)), int(texts)), at, length)
				at += length
			}
		default:
			return false
		}
	}
}

func runSequence(t *testing.T, c object) {
	capacity := int(number(c["capacity"]))
	ring := newRing(t, capacity)
	store64(ring.header(), headerCommitted, number(c["start"]))
	store64(ring.header(), headerConsumed, number(c["start"]))
	producer := newProducer(ring, testBell(), 0, "vectors")
	for index, one := range c["steps"].([]any) {
		step := one.(object)
		if _, ok := step["push"]; ok {
			runPush(t, index, step, producer, uint64(capacity))
		} else if consume, ok := step["consume"]; ok {
			pending, err := ring.pending(ring.Consumed())
			if err != nil || pending != number(step["pending"]) {
				t.Fatalf("step %d: %d are pending: %v", index, pending, err)
			}
			store64(ring.header(), headerConsumed, ring.Consumed()+number(consume))
			if ring.Consumed() != number(step["consumed"]) {
				t.Fatalf("step %d: consumed %d", index, ring.Consumed())
			}
		} else {
			producer.End()
			producer = newProducer(ring, testBell(), 0, "vectors")
			if ring.Committed() != number(step["committed"]) {
				t.Fatalf("step %d: committed %d", index, ring.Committed())
			}
		}
	}
	if ring.Records() != number(c["records"]) {
		t.Errorf("%d records, expected %v", ring.Records(), c["records"])
	}
	names := []string{"full", "too_large", "reentrant", "no_ring", "closed", "backend", "no_callsite", "other"}
	dropped, unreported := ring.Dropped(), ring.TakeUnreported()
	for reason, name := range names {
		for list, found := range map[string]uint64{"dropped": dropped[reason], "unreported": unreported[reason]} {
			want := uint64(0)
			if value, ok := c[list].(object)[name]; ok {
				want = number(value)
			}
			if found != want {
				t.Errorf("%s %s: %d, expected %d", list, name, found, want)
			}
		}
	}
}

func runPush(t *testing.T, index int, step object, producer *Producer, capacity uint64) {
	t.Helper()
	type gap struct {
		count      uint64
		reason     string
		at, length uint64
	}
	var gaps []gap
	length, times, committed := number(step["push"]), uint64(1), false
	if value, ok := step["times"]; ok {
		times = number(value)
	}
	for range times {
		gaps = nil
		committed = call(producer, length, step["urgent"].(bool), func(count uint64, reason string, at, length uint64) {
			gaps = append(gaps, gap{count, reason, at % capacity, length})
		})
	}
	if committed != (step["got"] == "committed") || producer.ring.Committed() != number(step["committed"]) {
		t.Fatalf("step %d: committed %v up to %d, expected %v", index, committed, producer.ring.Committed(), step)
	}
	if committed && (producer.position-length)%capacity != number(step["offset"]) {
		t.Fatalf("step %d: at %d", index, (producer.position-length)%capacity)
	}
	told, _ := step["gaps"].([]any)
	if len(told) != len(gaps) {
		t.Fatalf("step %d: gaps %v, expected %v", index, gaps, told)
	}
	for at, one := range told {
		want := one.(object)
		if found := (gap{number(want["count"]), want["reason"].(string), number(want["offset"]), number(want["length_bytes"])}); found != gaps[at] {
			t.Errorf("step %d: gap %v, expected %v", index, gaps[at], found)
		}
	}
}

// openPatched opens a ring whose header was patched, in a file of a size.
func openPatched(t *testing.T, c object) error {
	ring := newRing(t, BytesMin)
	head := append([]byte(nil), unsafe.Slice((*byte)(ring.header()), HeaderBytes)...)
	file, err := os.Create(filepath.Join(t.TempDir(), "patched"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	size := int64(number(c["file_bytes"]))
	at := max(0, size-HeaderBytes)
	write := func(bytes []byte, at int64) {
		if _, err := file.WriteAt(bytes, at); err != nil {
			t.Fatal(err)
		}
	}
	write(head, at)
	for _, one := range c["patches"].([]any) {
		patch := one.(object)
		write(unhex(t, patch["hex"]), at+int64(number(patch["offset"])))
	}
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	opened, err := open(file, false)
	if opened != nil {
		_ = opened.memory.unmap()
	}
	return err
}

func damaged(t *testing.T, err error, c object) {
	t.Helper()
	var damage *DamageError
	if !errors.As(err, &damage) || damage.Field != c["error"] {
		t.Errorf("%v, expected %v", err, c["error"])
	}
}

func TestRingVectors(t *testing.T) {
	file := load(t, "ring.json")
	valid := each(t, file, "sequences", runSequence)
	position := func(t *testing.T, c object) (uint64, error) {
		ring := newRing(t, int(number(c["capacity"])))
		store64(ring.header(), headerCommitted, number(c["committed"]))
		return ring.pending(number(c["consumed"]))
	}
	valid += each(t, file, "positions", func(t *testing.T, c object) {
		if pending, err := position(t, c); err != nil || pending != number(c["pending"]) {
			t.Errorf("%d: %v", pending, err)
		}
	})
	valid += each(t, file, "headers", func(t *testing.T, c object) {
		if err := openPatched(t, c); err != nil {
			t.Error(err)
		}
	})
	valid += each(t, file, "resume", func(t *testing.T, c object) {
		ring := newRing(t, BytesMin)
		store64(ring.header(), headerConsumed, number(c["consumed"]))
		for at, one := range c["cells"].([]any) {
			cell := one.(object)
			store64(ring.header(), headerCells+16*uintptr(at), number(cell["word"]))
			store64(ring.header(), headerCells+16*uintptr(at)+8, number(cell["position"]))
		}
		if found := ring.resumePosition(number(c["epoch"])); found != number(c["position"]) {
			t.Errorf("%d, expected %v", found, c["position"])
		}
	})
	invalid := each(t, file, "invalid_positions", func(t *testing.T, c object) {
		_, err := position(t, c)
		damaged(t, err, c)
	})
	invalid += each(t, file, "invalid_headers", func(t *testing.T, c object) { damaged(t, openPatched(t, c), c) })
	t.Logf("vectors: ring.json: %d valid, %d invalid", valid, invalid)
	if valid < 42 || invalid < 35 {
		t.Fatalf("cases have gone missing: %d %d", valid, invalid)
	}
}

func TestSessionVectors(t *testing.T) {
	file := load(t, "session.json")
	table := func(t *testing.T, c object) {
		bytes := unhex(t, c["hex"])
		entries := SplitTable(bytes[:min(uint64(len(bytes)), number(c["table_bytes"]))])
		want := c["entries"].([]any)
		if len(entries) != len(want) {
			t.Fatalf("%d entries, expected %d", len(entries), len(want))
		}
		for at, one := range want {
			entry := one.(object)
			if uint64(entries[at].ID) != number(entry["id"]) || string(entries[at].Bytes) != entry["text"] {
				t.Errorf("%+v, expected %v", entries[at], entry)
			}
		}
	}
	valid := each(t, file, "tables", table)
	invalid := each(t, file, "damaged_tables", table)
	invalid += each(t, file, "invalid_headers", func(t *testing.T, c object) {
		words := make([]uint64, sessionBytes/8)
		header := unsafe.Pointer(&words[0])
		formatHeader(header, "vectors")
		if err := checkHeader(header); err != nil {
			t.Fatal(err)
		}
		for _, one := range c["patches"].([]any) {
			patch := one.(object)
			copy(unsafe.Slice((*byte)(header), sessionBytes)[number(patch["offset"]):], unhex(t, patch["hex"]))
		}
		damaged(t, checkHeader(header), c)
	})
	t.Logf("vectors: session.json: %d valid, %d invalid", valid, invalid)
	if valid < 6 || invalid < 15 {
		t.Fatalf("cases have gone missing: %d %d", valid, invalid)
	}
}
