package logdrive

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// site is the callsite of one program counter, one context, one message and one list of fields.
type site struct {
	key     uintptr
	context *fieldContext
	level   wire.Level
	dynamic bool
	// wrapper is set for a program counter in code that the compiler makes, such as that of a method value, through which
	// calls of many places come.
	wrapper bool
	message string
	// fields of the call, without those of its context; count is their number, and -1 for a dynamic site, which no call
	// matches.
	fields []known
	count  int
	// head is the length of the header, the numbers and the lengths of texts. The bytes of the context come on top:
	// contexts of equal names share their sites, and have values of their own.
	head    uint64
	entry   ring.Entry
	shape   *ring.Described
	encoded wire.Callsite
	next    atomic.Pointer[site]
	// shaped is the shape whose records Put writes here; nil for a site that no shape uses.
	shaped      atomic.Pointer[Shape]
	sampled     atomic.Pointer[tally]
	variantLock sync.Mutex
	variant     *site
}

// known is a field of a callsite: its key and kind as the call gave them, and how many bytes its value has.
type known struct {
	name  unsafe.Pointer
	tag   uint64
	bytes uint8
}

func knownOf(field *Field, bytes uint8) known { return known{field.name, field.tag, bytes} }

// is reports whether a field has this key and this kind. Keys are mostly constants, so their addresses are equal.
func (k *known) is(field *Field) bool {
	return field.tag == k.tag && (field.name == k.name || k.hasKey(field.key()))
}

//go:noinline
func (k *known) hasKey(key string) bool {
	return key == unsafe.String((*byte)(k.name), len(key))
}

// textual stands in known.bytes for a value with a length of its own.
const textual = 0xff

// siteTable finds sites by program counter and context. Readers take no lock; add needs the lock.
type siteTable struct {
	slots atomic.Pointer[slots]
	lock  sync.Mutex
	count int
	all   []*site
}

type slots struct {
	mask  uintptr
	first []atomic.Pointer[site]
}

func newSlots(count uintptr) *slots {
	return &slots{mask: count - 1, first: make([]atomic.Pointer[site], count)}
}

func spread(key uintptr) uintptr {
	mixed := uint64(key) * 0x9e37_79b9_7f4a_7c15
	return uintptr(mixed >> 32)
}

// find returns the first site of a key, or nil.
func (t *siteTable) find(key uintptr) *site {
	slots := t.slots.Load()
	for at := spread(key); ; at++ {
		found := slots.first[at&slots.mask].Load()
		if found == nil || found.key == key {
			return found
		}
	}
}

// add puts a site behind the others of its key. Called with the lock.
func (t *siteTable) add(site *site) {
	t.all = append(t.all, site)
	if first := t.find(site.key); first != nil {
		for first.next.Load() != nil {
			first = first.next.Load()
		}
		first.next.Store(site)
		return
	}
	old := t.slots.Load()
	if t.count++; uintptr(t.count)*2 > old.mask {
		larger := newSlots(2 * (old.mask + 1))
		for at := range old.first {
			if moved := old.first[at].Load(); moved != nil {
				larger.put(moved)
			}
		}
		larger.put(site)
		t.slots.Store(larger)
		return
	}
	old.put(site)
}

func (s *slots) put(site *site) {
	for at := spread(site.key); ; at++ {
		if slot := &s.first[at&s.mask]; slot.Load() == nil {
			slot.Store(site)
			return
		}
	}
}

// couldMatch reports whether level, message and number of fields are those of this site. Keys and kinds are not compared.
func (s *site) couldMatch(level wire.Level, message string, fields []Field) bool {
	if len(fields) != s.count || level != s.level || len(message) != len(s.message) {
		return false
	}
	return unsafe.StringData(message) == unsafe.StringData(s.message) || message == s.message
}

// hasSameKeys reports whether the fields of a call are those of this site, with keys at the same addresses.
func (s *site) hasSameKeys(fields []Field) bool {
	expected := s.fields[:len(fields)]
	for at := range fields {
		if fields[at].tag != expected[at].tag || fields[at].name != expected[at].name {
			return false
		}
	}
	return true
}

// match reports whether the fields of a call are those of this site.
func (s *site) match(fields []Field) bool {
	for at := range fields {
		if !s.fields[at].is(&fields[at]) {
			return false
		}
	}
	return true
}

// recordBytes returns the length of the record of a matching call.
func (s *site) recordBytes(context *fieldContext, fields []Field) uint64 {
	length := s.head + uint64(len(context.values))
	for at := range fields {
		if s.fields[at].bytes == textual {
			length += fields[at].num
		}
	}
	return (length + 7) &^ 7
}

// put writes the values of a call, with at most left bytes of texts, and compares keys and kinds with those of the site
// on the way. It returns the address behind the values, or nil when it stopped early; then the bytes written are void.
// It writes up to seven bytes behind the values.
func (s *site) put(at unsafe.Pointer, left uint64, fields []Field) (unsafe.Pointer, tried) {
	begin, most := at, left
	expected := s.fields[:len(fields)]
	for index := range fields {
		field, known := &fields[index], &expected[index]
		if field.tag != known.tag {
			return nil, differs
		}
		if field.name != known.name {
			// A function call inside the loop would spill the registers of every iteration.
			return s.putRenamed(begin, most, fields)
		}
		switch known.bytes {
		case 8:
			*(*uint64)(at) = field.num
			at = unsafe.Add(at, 8)
		case textual:
			if field.num > left {
				return nil, noRoom
			}
			left -= field.num
			*(*uint32)(at) = uint32(field.num)
			putBytes(unsafe.Add(at, 4), field.ptr, uintptr(field.num))
			at = unsafe.Add(at, field.num+4)
		default:
			// Writes the value's bytes; the next value overwrites the excess.
			*(*uint32)(at) = uint32(field.num)
			at = unsafe.Add(at, known.bytes)
		}
	}
	// The padding.
	*(*uint64)(at) = 0
	return at, wrote
}

// putRenamed is put for a call whose keys lie at other addresses and may be equal.
func (s *site) putRenamed(at unsafe.Pointer, left uint64, fields []Field) (unsafe.Pointer, tried) {
	if !s.match(fields) {
		return nil, differs
	}
	var room [8]Field
	renamed := append(room[:0], fields...)
	for index := range renamed {
		renamed[index].name = s.fields[index].name
	}
	return s.put(at, left, renamed)
}

// putBytes copies a text. Short texts are copied as two words that may overlap, without a function call.
func putBytes(to, from unsafe.Pointer, count uintptr) {
	switch {
	case count-4 <= 8-4:
		*(*uint32)(to) = *(*uint32)(from)
		*(*uint32)(unsafe.Add(to, count-4)) = *(*uint32)(unsafe.Add(from, count-4))
		return
	case count-8 <= 16-8:
		*(*uint64)(to) = *(*uint64)(from)
		*(*uint64)(unsafe.Add(to, count-8)) = *(*uint64)(unsafe.Add(from, count-8))
		return
	case count-16 <= 32-16:
		*(*[16]byte)(to) = *(*[16]byte)(from)
		*(*[16]byte)(unsafe.Add(to, count-16)) = *(*[16]byte)(unsafe.Add(from, count-16))
		return
	case count-32 <= 64-32:
		*(*[32]byte)(to) = *(*[32]byte)(from)
		*(*[32]byte)(unsafe.Add(to, count-32)) = *(*[32]byte)(unsafe.Add(from, count-32))
		return
	}
	copy(unsafe.Slice((*byte)(to), count), unsafe.Slice((*byte)(from), count))
}

// variantsMax is how many lists of fields and messages a program counter may have before its further records bring
// their keys and messages along: a message that is built anew for every call must not fill the table.
const variantsMax = 16

// register adds the site of a call to the table. Its fields are plain, or open and close groups.
func (c *core) register(pc uintptr, context *fieldContext, level wire.Level, message string, fields []Field) *site {
	table := &c.sites
	table.lock.Lock()
	defer table.lock.Unlock()
	key := pc ^ context.seed
	variants := 0
	for site := table.find(key); site != nil; site = site.next.Load() {
		if variants++; site.wrapper || site.dynamic && site.level == level {
			return site
		}
		if site.couldMatch(level, message, fields) && site.match(fields) {
			return site
		}
	}
	made := &site{key: key, context: context, level: level, count: -1}
	if variants == 0 && isWrapper(pc) {
		made.wrapper = true
		table.add(made)
		return made
	}
	made.dynamic = variants >= variantsMax || context.seed == crowded || !fitsCallsite(message, fields, context)
	described := c.describe(pc, level)
	described.Target = context.target
	if !made.dynamic {
		made.message = message
		described.Message = escapeTemplate(message)
		described.Fields = append(described.Fields, context.fields...)
		made.take(fields, context, &described)
		made.count = len(fields)
	}
	if made.dynamic && context.nested {
		// Its values are whole lines.
		described.Fields = []wire.Field{{Kind: wire.Debug}}
	}
	described.Dynamic = made.dynamic && !context.nested
	if c.state.Load() == stateClosed || !c.enter(made, described) {
		return nil
	}
	table.add(made)
	return made
}

// registerRendered is register for records that are rendered by the call.
func (c *core) registerRendered(pc uintptr, context *fieldContext, level wire.Level) *site {
	for site := c.sites.find(pc ^ context.seed); site != nil; site = site.next.Load() {
		if site.dynamic && site.level == level {
			return site
		}
	}
	return c.register(pc, context, level, unfit, nil)
}

// unfit is a message that fits no callsite.
var unfit = strings.Repeat(" ", wire.MessageBytesMax+1)

// take stores the fields of a call under their full names, with the prefixes of groups.
func (s *site) take(fields []Field, context *fieldContext, described *wire.Callsite) {
	s.head = wire.HeaderBytes
	prefix := context.prefix
	var prefixes []string
	for at := range fields {
		field := &fields[at]
		entry := knownOf(field, uint8(field.kind().FixedBytes()))
		switch {
		case field.kind() == kindOpen:
			prefixes = append(prefixes, prefix)
			prefix += context.part(field.key()) + "."
			entry.bytes = 0
		case field.kind() == kindClose:
			prefix, prefixes = prefixes[len(prefixes)-1], prefixes[:len(prefixes)-1]
			entry.bytes = 0
		default:
			if field.kind().HasLength() {
				entry.bytes = textual
				s.head += 4
			} else {
				s.head += uint64(entry.bytes)
			}
			described.Fields = append(described.Fields, wire.Field{Name: context.name(prefix, field.key()), Kind: field.kind()})
		}
		s.fields = append(s.fields, entry)
	}
}

// enter registers a site with the session. It returns false when the table is full.
func (c *core) enter(made *site, described wire.Callsite) bool {
	bytes, err := described.Encode(nil)
	if err != nil {
		c.notice("a callsite at %s:%d cannot be registered: %v", described.File, described.Line, err)
		return false
	}
	base := c.filter.Load().base(&described)
	entry, err := c.session.Register(bytes, base)
	if err != nil {
		return false
	}
	made.entry, made.encoded = entry, described
	made.shape = describedFor(&described)
	if err := c.session.Settle(entry, made.shape); err != nil {
		c.notice("the rules of live control cannot be read: %v", err)
	}
	return true
}

func describedFor(callsite *wire.Callsite) *ring.Described {
	described := &ring.Described{
		Level: uint8(callsite.Level), Dynamic: callsite.Dynamic, File: callsite.File, Line: callsite.Line,
		Module: callsite.Module, Target: callsite.Target,
	}
	for _, field := range callsite.Fields {
		described.Fields = append(described.Fields, field.Name)
	}
	return described
}

// describe returns file, line and package of a program counter.
func (c *core) describe(pc uintptr, level wire.Level) wire.Callsite {
	callsite := wire.Callsite{Level: level}
	if pc == 0 {
		return callsite
	}
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	callsite.File = cleanName(shortFile(frame.File))
	callsite.Line = uint32(frame.Line)
	callsite.Module = cleanName(packageOf(frame.Function))
	return callsite
}

// shortFile returns the last two parts of a path: file names repeat, and the directories of a build are noise.
func shortFile(path string) string {
	if last := strings.LastIndexByte(path, '/'); last > 0 {
		if before := strings.LastIndexByte(path[:last], '/'); before >= 0 {
			return path[before+1:]
		}
	}
	return path
}

// packageOf returns the package of a function's name, such as example.com/shop/net.(*Conn).Read.
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/')
	if dot := strings.IndexByte(function[slash+1:], '.'); dot >= 0 {
		return function[:slash+1+dot]
	}
	return function
}

// cleanName cuts a text to the limits of a name: valid UTF-8, at most NameBytesMax.
func cleanName(name string) string {
	return ring.CutText(strings.ToValidUTF8(name, "\ufffd"), wire.NameBytesMax)
}

// escapeTemplate escapes the braces of a message, which would be placeholders otherwise.
func escapeTemplate(message string) string {
	message = strings.ToValidUTF8(message, "\ufffd")
	if !strings.ContainsAny(message, "{}") {
		return message
	}
	return strings.NewReplacer("{", "{{", "}", "}}").Replace(message)
}

// fitsCallsite reports whether a callsite can describe a call within the limits of the format.
func fitsCallsite(message string, fields []Field, context *fieldContext) bool {
	if len(escapeTemplate(message)) > wire.MessageBytesMax || len(fields)+len(context.fields) > wire.FieldsMax {
		return false
	}
	bytes := 8 + 8 + 3*wire.NameBytesMax + wire.MessageBytesMax
	for _, field := range context.fields {
		bytes += 4 + len(field.Name)
	}
	for _, field := range fields {
		bytes += 4 + min(len(field.key())+len(context.prefix)+256, wire.NameBytesMax)
	}
	return bytes <= wire.CallsiteBytesMax
}
