package logdrive

import (
	"strings"
	"sync"

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
	fields []wire.Field
	values []byte
}

var root = &fieldContext{}

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
	made := &fieldContext{prefix: c.prefix, target: c.target}
	made.fields = append(made.fields, c.fields...)
	made.values = append(made.values, c.values...)
	prefix := c.prefix
	var prefixes []string
	for _, field := range scratch.resolve(fields) {
		switch field.kind() {
		case kindOpen:
			prefixes = append(prefixes, prefix)
			prefix += field.key() + "."
		case kindClose:
			prefix, prefixes = prefixes[len(prefixes)-1], prefixes[:len(prefixes)-1]
		default:
			if len(made.fields) == wire.FieldsMax || len(made.values)+int(field.num) > contextBytesMax && field.kind().HasLength() {
				continue
			}
			made.fields = append(made.fields, wire.Field{Name: cleanName(prefix + field.key()), Kind: field.kind()})
			made.values = field.value().Encode(made.values)
		}
	}
	made.seed = seedOf(made.target, made.prefix, made.fields)
	return made
}

// contextBytesMax bounds what a context adds to each record. A field that does not fit is left out.
const contextBytesMax = 4096

// group returns a context whose further fields lie in a group.
func (c *fieldContext) group(name string) *fieldContext {
	if name == "" {
		return c
	}
	made := *c
	made.prefix = c.prefix + strings.Clone(name) + "."
	made.seed = seedOf(made.target, made.prefix, made.fields)
	return &made
}

// aim returns a context with another target.
func (c *fieldContext) aim(target string) *fieldContext {
	made := *c
	made.target = cleanName(strings.Clone(target))
	made.seed = seedOf(made.target, made.prefix, made.fields)
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
