package logdrive

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// here stands for the program counter of the caller of the method that calls logAt. No real program counter is so large.
const here = ^uintptr(0)

// logAt is the hot path: find the callsite, check its control word, write into the ring of this P. It compares the fields
// with those of the site while it writes them; on a mismatch nothing is committed. It is one function because each call
// in it would cost as much as a field; every uncommon case goes to logOther.
//
//go:noinline
func (l *Logger) logAt(pc uintptr, level wire.Level, message string, fields []Field) bool {
	if pc == here {
		pc = placed(calledFrom(), 5)
	}
	c, context := l.core, l.context
	site := c.sites.find(pc ^ context.seed)
	if site == nil || !site.couldMatch(level, message, fields) {
		return l.logOther(pc, level, message, fields)
	}
	if word := site.entry.Control.Word(); word != ring.On {
		if word == ring.Off && site.hasSameKeys(fields) {
			return false
		}
		return l.logOther(pc, level, message, fields)
	}
	shard := ring.Pin()
	producer := c.session.Shard(shard)
	if producer == nil {
		ring.Unpin(shard)
		return l.logOther(pc, level, message, fields)
	}
	record, room := producer.Room()
	fixed := site.head + uint64(len(context.values))
	if room < fixed {
		ring.Unpin(shard)
		return l.logOther(pc, level, message, fields)
	}
	at := unsafe.Add(record, wire.HeaderBytes)
	if bytes := uintptr(len(context.values)); bytes != 0 {
		putBytes(at, unsafe.Pointer(unsafe.SliceData(context.values)), bytes)
		at = unsafe.Add(at, bytes)
	}
	left := room - fixed
	expected := site.fields[:len(fields)]
	for index := range fields {
		field, known := &fields[index], &expected[index]
		if field.tag != known.tag || field.name != known.name {
			ring.Unpin(shard)
			return l.logOther(pc, level, message, fields)
		}
		if known.bytes == 8 {
			*(*uint64)(at) = field.num
			at = unsafe.Add(at, 8)
			continue
		}
		// Writes the value's bytes, or a text's length; the next value overwrites the excess.
		*(*uint32)(at) = uint32(field.num)
		if known.bytes != textual {
			at = unsafe.Add(at, known.bytes)
			continue
		}
		if field.num > left {
			ring.Unpin(shard)
			return l.logOther(pc, level, message, fields)
		}
		left -= field.num
		at = unsafe.Add(at, 4)
		if field.num-8 <= 16-8 {
			*(*uint64)(at) = *(*uint64)(field.ptr)
			*(*uint64)(unsafe.Add(at, field.num-8)) = *(*uint64)(unsafe.Add(field.ptr, field.num-8))
		} else {
			putBytes(at, field.ptr, uintptr(field.num))
		}
		at = unsafe.Add(at, field.num)
	}
	// Padding. An eighth of the ring lies behind the limit, so these bytes are free.
	*(*uint64)(at) = 0
	length := (uint64(uintptr(at)-uintptr(record)) + 7) &^ 7
	if c.hasCounter {
		producer.Seal(record, length, site.entry.ID)
	} else {
		producer.SealAt(record, length, site.entry.ID, c.ticks())
	}
	ring.Unpin(shard)
	return true
}

// logOther handles the uncommon cases of logAt: a call that is not the first of its place, keys at other addresses, a
// callsite that is off or sampled, a ring without room.
//
//go:noinline
func (l *Logger) logOther(pc uintptr, level wire.Level, message string, fields []Field) bool {
	c, context := l.core, l.context
	if !arePlain(fields) {
		return l.logSlow(pc, level, message, fields)
	}
	for site := c.sites.find(pc ^ context.seed); site != nil; site = site.next.Load() {
		if !site.couldMatch(level, message, fields) {
			continue
		}
		switch site.entry.Control.Word() {
		case ring.On:
			if tried := c.try(site, context, fields); tried == wrote {
				return true
			} else if tried == noRoom && site.match(fields) {
				return c.write(site, context, fields)
			}
		case ring.Off:
			if site.match(fields) {
				return false
			}
		default:
			if site.match(fields) {
				return l.logSampled(site, fields)
			}
		}
	}
	return l.logSlow(pc, level, message, fields)
}

// tried is the outcome of try.
type tried uint8

const (
	wrote tried = iota
	// differs: the call belongs to another site.
	differs
	// noRoom: the ring does not exist yet, is full, or has drops to report; or the record is long.
	noRoom
)

// try writes a record of a site that is on into the ring of this P, as logAt does.
func (c *core) try(site *site, context *fieldContext, fields []Field) tried {
	shard := ring.Pin()
	defer ring.Unpin(shard)
	producer := c.session.Shard(shard)
	if producer == nil {
		return noRoom
	}
	record, room := producer.Room()
	fixed := site.head + uint64(len(context.values))
	if room < fixed {
		return noRoom
	}
	at := unsafe.Add(record, wire.HeaderBytes)
	if bytes := uintptr(len(context.values)); bytes != 0 {
		putBytes(at, unsafe.Pointer(unsafe.SliceData(context.values)), bytes)
		at = unsafe.Add(at, bytes)
	}
	end, tried := site.put(at, room-fixed, fields)
	if tried == wrote {
		length := (uint64(uintptr(end)-uintptr(record)) + 7) &^ 7
		producer.SealAt(record, length, site.entry.ID, c.ticks())
	}
	return tried
}

// ticks reads the session's clock.
func (c *core) ticks() uint64 {
	if c.coarse != nil {
		return atomic.LoadUint64(c.coarse)
	}
	return ring.Ticks()
}

// write writes a record that try had no room for. The call matches the site.
func (c *core) write(site *site, context *fieldContext, fields []Field) bool {
	length := site.recordBytes(context, fields)
	if length > uint64(c.session.RecordBytesMax()) {
		return c.writeCut(site, context, fields)
	}
	return c.writeMade(site, context, fields, int(length)-wire.HeaderBytes, false)
}

// writeMade encodes the values into a scratch buffer first: a ring that is nearly full has no room for the bytes that put
// writes behind the values.
func (c *core) writeMade(site *site, context *fieldContext, fields []Field, length int, cut bool) bool {
	scratch := scratches.Get().(*scratch)
	defer scratch.free()
	before := len(context.values)
	values := slices.Grow(append(scratch.text[:0], context.values...), length-before+8)[:length]
	site.put(unsafe.Add(unsafe.Pointer(unsafe.SliceData(values)), before), math.MaxUint64, fields)
	scratch.text = values
	return c.writeValues(site, values, cut)
}

// writeValues writes a record whose values are encoded already.
func (c *core) writeValues(site *site, values []byte, cut bool) bool {
	length := uint64(wire.HeaderBytes+len(values)+7) &^ 7
	return c.admit(site, length, func(producer *ring.Producer) {
		if cut {
			producer.Ring().CountCut()
		}
		at := producer.Space()
		*(*uint64)(at) = length | uint64(site.entry.ID)<<32
		*(*uint64)(unsafe.Add(at, 8)) = c.ticks()
		if length > wire.HeaderBytes {
			// Padding; the values overwrite it.
			*(*uint64)(unsafe.Add(at, length-8)) = 0
		}
		copy(unsafe.Slice((*byte)(unsafe.Add(at, wire.HeaderBytes)), len(values)), values)
		producer.Commit(length)
	})
}

// admit gets room for a record, as the policy says, and calls fill.
func (c *core) admit(site *site, length uint64, fill func(*ring.Producer)) bool {
	urgent := site.level.IsUrgent()
	parked, shared, gapsWritten, grows := false, false, false, true
	var until time.Time
	for {
		hold := ring.Hold
		if shared {
			hold = ring.HoldShared
		}
		shard := hold()
		producer := c.session.Shard(shard)
		if producer == nil {
			ring.Release(shard)
			err := c.session.Attach(shard)
			switch {
			case err == nil:
				continue
			case errors.Is(err, ring.ErrEnded):
				c.late.Add(1)
				return false
			case !shared:
				shared = true
				c.session.UseShared()
				continue
			case c.state.Load() == stateClosed:
				c.late.Add(1)
				return false
			}
			c.session.CountDrop(ring.DropNoRing)
			site.entry.Counts.AddDropped(1)
			return false
		}
		admission := ring.Granted
		if grows && !producer.Fits(length) && producer.WantsLarger(length, urgent) {
			replaced := c.session.Replace(shard, producer)
			ring.Release(shard)
			if !replaced && !c.session.MakeLarger(shard, producer) {
				// The policy says what becomes of the call.
				grows = false
				c.session.NoLarger(producer, length)
			}
			continue
		}
		if !producer.Fits(length) {
			policy := c.policy
			if c.abandoned.Load() && policy != ring.PolicyDrop {
				// Without a drain no room is ever made.
				policy = ring.PolicyDrop
			}
			admission = producer.Admit(length, urgent, policy, parked)
			if admission == ring.GapDue && gapsWritten {
				// Gap records that found no room are written later, behind this record.
				admission = ring.Granted
			}
		}
		switch admission {
		case ring.Granted:
			fill(producer)
			ring.Release(shard)
			return true
		case ring.GapDue:
			producer.WriteGaps(wire.GapValues, c.ticks)
			ring.Release(shard)
			gapsWritten = true
			continue
		case ring.Dropped:
			ring.Release(shard)
			site.entry.Counts.AddDropped(1)
			return false
		}
		full := producer.Ring()
		full.Enter()
		ring.Release(shard)
		if c.policy == ring.PolicyBlock {
			full.Park(length, urgent, ring.BlockRecheck, c.session.Bell())
			continue
		}
		if until.IsZero() {
			until = time.Now().Add(ring.WaitMax)
		}
		full.Park(length, urgent, time.Until(until), c.session.Bell())
		// A waiter that was woken in time, and found that others had taken the room, waits on.
		parked = !time.Now().Before(until)
	}
}

// logSlow handles a call whose callsite is not registered, or whose fields have to be rendered first.
func (l *Logger) logSlow(pc uintptr, level wire.Level, message string, fields []Field) bool {
	c := l.core
	switch c.state.Load() {
	case stateText:
		if isWrapper(pc) {
			pc = pcBehindWrapper()
		}
		return c.text.write(l, pc, level, message, fields)
	case stateClosed:
		c.late.Add(1)
		return false
	case stateNop:
		return false
	}
	if !arePlain(fields) {
		if c.isOff(pc, l.context, level, message) {
			return false
		}
		if site := c.sites.find(pc ^ l.context.seed); site != nil && site.wrapper {
			pc = pcBehindWrapper()
		}
		scratch := scratches.Get().(*scratch)
		defer scratch.free()
		return l.logAt(pc, level, message, scratch.resolve(fields, l.context.nested))
	}
	site := c.register(pc, l.context, level, message, fields)
	if site == nil {
		c.countUnregistered()
		return false
	}
	switch {
	case site.wrapper:
		return l.logAt(pcBehindWrapper(), level, message, fields)
	case site.dynamic:
		return l.logDynamic(site, message, fields)
	case site.entry.Control.Word() == ring.Off:
		return false
	}
	if site.entry.Control.Word() == ring.On {
		return c.write(site, l.context, fields)
	}
	return l.logSampled(site, fields)
}

// countUnregistered counts a call whose callsite could not be registered.
func (c *core) countUnregistered() {
	if c.state.Load() == stateClosed {
		c.late.Add(1)
		return
	}
	c.session.CountDrop(ring.DropNoCallsite)
}

// isOff reports whether a callsite is known to be off, so that nothing has to be rendered for it.
func (c *core) isOff(pc uintptr, context *fieldContext, level wire.Level, message string) bool {
	for site := c.sites.find(pc ^ context.seed); site != nil; site = site.next.Load() {
		if !site.wrapper && site.level == level && site.message == message && site.entry.Control.Word() == ring.Off {
			return true
		}
	}
	return false
}

// logDynamic writes a record that carries its message and its keys.
func (l *Logger) logDynamic(site *site, message string, fields []Field) bool {
	c := l.core
	if !c.isDue(site, fields) {
		return false
	}
	if l.context.nested {
		return l.writeRendered(site, func(to *bytes.Buffer) { l.renderJSON(to, site.level, message, fields) })
	}
	scratch := scratches.Get().(*scratch)
	defer scratch.free()
	most := c.session.RecordBytesMax() - wire.HeaderBytes
	values, cut := appendDynamic(scratch.text[:0], l.context, message, fields, most)
	scratch.text = values
	return c.writeValues(site, values, cut)
}

// isDue reports whether the control word of a site lets a call pass.
func (c *core) isDue(site *site, fields []Field) bool {
	word := site.entry.Control.Word()
	return word == ring.On || word != ring.Off && c.passes(site, word, fields)
}

// dynamic collects the values of a dynamic record.
type dynamic struct {
	bytes []byte
	// most is how many bytes there may be.
	most, count int
	// cut is set when a text was cut; left is the number of fields that found no room.
	cut  bool
	left uint64
}

// leftKey is the key of the number of fields that a record had no room for.
const leftKey = "…"

// leftBytes is what that field takes.
const leftBytes = 4 + len(leftKey) + 8

// add appends a value, cut where there is no room for all of it.
func (d *dynamic) add(key string, value wire.Value) {
	key = cleanName(key)
	head := 4 + len(key)
	if value.Kind.HasLength() {
		head += 4
	}
	// The message and the field of those that are left out count, too.
	if d.count == wire.ValuesMax-1 {
		d.left++
		return
	}
	if room := d.most - leftBytes - len(d.bytes) - head; room < len(value.Bytes) {
		if !value.Kind.HasLength() || room < 4 {
			d.left++
			return
		}
		d.cut = true
		value.Bytes = []byte(cutMarked(string(value.Bytes), room))
	}
	named := wire.Named{Index: wire.InlineKey, Key: key, Value: value}
	d.bytes = named.Encode(d.bytes)
	d.count++
}

// appendDynamic makes the values of a dynamic record of at most so many bytes; whether something was cut or left out.
func appendDynamic(to []byte, context *fieldContext, message string, fields []Field, most int) ([]byte, bool) {
	made := dynamic{bytes: to, most: most}
	if len(message) > most/2 {
		message, made.cut = cutMarked(message, most/2), true
	}
	named := wire.Named{Index: wire.InlineKey, Value: wire.Value{Kind: wire.Message, Present: true, Bytes: []byte(message)}}
	made.bytes, made.count = named.Encode(made.bytes), 1
	cursor := wire.NewCursor(context.values)
	for _, field := range context.fields {
		value, err := wire.DecodeValue(field.Kind, cursor)
		if err != nil {
			break
		}
		made.add(field.Name, value)
	}
	prefix := context.prefix
	var prefixes []string
	for at := range fields {
		switch field := &fields[at]; field.kind() {
		case kindOpen:
			prefixes = append(prefixes, prefix)
			prefix += context.part(field.key()) + "."
		case kindClose:
			prefix, prefixes = prefixes[len(prefixes)-1], prefixes[:len(prefixes)-1]
		default:
			made.add(context.name(prefix, field.key()), field.value())
		}
	}
	if made.left > 0 {
		left := Uint64(leftKey, made.left)
		named := wire.Named{Index: wire.InlineKey, Key: leftKey, Value: left.value()}
		made.bytes = named.Encode(made.bytes)
	}
	return made.bytes, made.cut || made.left > 0
}

// cutMarked is the front of a text, with a mark that there was more.
func cutMarked(text string, most int) string {
	const mark = "…"
	if len(text) <= most {
		return text
	}
	return ring.CutText(text, max(0, most-len(mark))) + mark
}

// writeCut writes a record that is too long, with its longest texts cut.
func (c *core) writeCut(site *site, context *fieldContext, fields []Field) bool {
	fixed := int(site.head) + len(context.values)
	texts, longest := 0, 0
	for at := range fields {
		if site.fields[at].bytes == textual {
			texts++
			longest = max(longest, int(fields[at].num))
		}
	}
	room := c.session.RecordBytesMax() - fixed - 8
	if texts == 0 || room < 0 {
		return c.admit(site, uint64(fixed+7)&^7, func(*ring.Producer) {})
	}
	// The largest bound under which all texts fit, found by halving.
	low, high := 0, longest
	for low < high {
		middle := (low + high + 1) / 2
		sum := 0
		for at := range fields {
			if site.fields[at].bytes == textual {
				sum += min(int(fields[at].num), middle)
			}
		}
		if sum <= room {
			low = middle
		} else {
			high = middle - 1
		}
	}
	cut := append([]Field(nil), fields...)
	for at := range cut {
		if site.fields[at].bytes != textual {
			continue
		}
		if int(cut[at].num) > low {
			text := cutMarked(cut[at].text(), low)
			cut[at].ptr, cut[at].num = unsafe.Pointer(unsafe.StringData(text)), uint64(len(text))
		}
	}
	return c.writeMade(site, context, cut, int(site.recordBytes(context, cut))-wire.HeaderBytes, true)
}
