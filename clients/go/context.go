package logdrive

import (
	"strings"
	"sync"
	"unsafe"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// fieldContext holds the encoded fields of With, and the group of further fields, which a logger adds to each record.
// Contexts of equal names and kinds share their callsites, so that a logger for each request does not fill the table.
type fieldContext struct {
	// seed separates the callsites of one list of names from those of another.
	seed   uintptr
	prefix string
	// target replaces the package, if set.
	target string
	// nested has names whose parts nest in lines of JSON.
	nested bool
	fields []wire.Field
	values []byte
}

// name is the name of a field with a key in a group.
func (c *fieldContext) name(prefix, key string) string {
	return cleanName(prefix + c.part(key))
}

// nestedEscapes escape what has a meaning in names that nest.
var nestedEscapes = strings.NewReplacer(".", `\.`, `\`, `\\`)

// part is a key as a part of a name. Where names nest, a point in it is escaped, and an empty one is a single backslash.
func (c *fieldContext) part(key string) string {
	switch {
	case !c.nested:
		return key
	case key == "":
		return `\`
	case !strings.ContainsAny(key, `.\`):
		return key
	}
	return nestedEscapes.Replace(key)
}

var root, nestedRoot = &fieldContext{}, &fieldContext{nested: true}

// seeds gives each list of names its seed.
var seeds = struct {
	sync.Mutex
	of map[string]uintptr
}{of: map[string]uintptr{}}

// contextsMax bounds the lists of names with seeds of their own. Further lists share one, and their records carry their
// keys.
const contextsMax = 16384

// crowded is the seed of all lists of names beyond contextsMax.
const crowded = 0x5bd1_e995

// seedOf returns the seed of a list of names.
func seedOf(target, prefix string, fields []wire.Field) uintptr {
	var name strings.Builder
	name.WriteString(target)
	name.WriteByte(0)
	name.WriteString(prefix)
	for _, field := range fields {
		name.WriteByte(0)
		name.WriteByte(byte(field.Kind))
		name.WriteString(field.Name)
	}
	seeds.Lock()
	defer seeds.Unlock()
	if seed, ok := seeds.of[name.String()]; ok {
		return seed
	}
	if len(seeds.of) >= contextsMax {
		return crowded
	}
	// Multiples of an odd number differ from each other, and program counters that lie near each other do not meet them.
	seed := uintptr(uint64(len(seeds.of)+1) * 0x28be_60db_9391_054b)
	seeds.of[name.String()] = seed
	return seed
}

// with returns a context with more fields, which are copied.
func (c *fieldContext) with(fields []Field) *fieldContext {
	if len(fields) == 0 {
		return c
	}
	scratch := scratches.Get().(*scratch)
	defer scratch.free()
	made := &fieldContext{prefix: c.prefix, target: c.target, nested: c.nested}
	made.fields = append(made.fields, c.fields...)
	made.values = append(made.values, c.values...)
	prefix := c.prefix
	var prefixes []string
	for _, field := range scratch.resolve(fields, c.nested) {
		switch field.kind() {
		case kindOpen:
			prefixes = append(prefixes, prefix)
			prefix += c.part(field.key()) + "."
		case kindClose:
			prefix, prefixes = prefixes[len(prefixes)-1], prefixes[:len(prefixes)-1]
		default:
			if field.kind().HasLength() && field.num > uint64(wire.RecordBytesMax) {
				text := cutMarked(field.text(), wire.RecordBytesMax)
				field.ptr, field.num = unsafe.Pointer(unsafe.StringData(text)), uint64(len(text))
			}
			made.fields = append(made.fields, wire.Field{Name: c.name(prefix, field.key()), Kind: field.kind()})
			made.values = field.value().Encode(made.values)
		}
	}
	made.seed = made.newSeed()
	return made
}

// contextBytesMax and contextFieldsMax bound what a context adds to each record of the fast path. With more, records carry
// their keys, and are cut where they are too long.
const (
	contextBytesMax  = 4096
	contextFieldsMax = wire.FieldsMax / 2
)

// newSeed is the seed of the context's names.
func (c *fieldContext) newSeed() uintptr {
	if len(c.values) > contextBytesMax || len(c.fields) > contextFieldsMax {
		return crowded
	}
	return seedOf(c.target, c.prefix, c.fields)
}

// group returns a context whose further fields lie in a group.
func (c *fieldContext) group(name string) *fieldContext {
	if name == "" {
		return c
	}
	made := *c
	made.prefix = c.prefix + c.part(strings.Clone(name)) + "."
	made.seed = made.newSeed()
	return &made
}

// aim returns a context with another target.
func (c *fieldContext) aim(target string) *fieldContext {
	made := *c
	made.target = cleanName(strings.Clone(target))
	made.seed = made.newSeed()
	return &made
}

// value converts a plain field to a value of the record format.
func (f *Field) value() wire.Value {
	value := wire.Value{Kind: f.kind(), Present: true}
	if f.kind().HasLength() {
		value.Bytes = []byte(f.text())
		return value
	}
	num := f.num
	for range f.kind().FixedBytes() {
		value.Bytes = append(value.Bytes, byte(num))
		num >>= 8
	}
	return value
}
