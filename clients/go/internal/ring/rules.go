package ring

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// Action is the effect of a rule of live control.
type Action uint8

// The actions of spec/session.md.
const (
	ActLevel Action = iota + 1
	ActMute
	ActEvery
	ActPerSecond
	ActPerKey
)

// Selection is which callsites a rule is about.
type selection uint8

const (
	selectAll selection = iota + 1
	selectModule
	selectFile
	selectLine
	selectCallsite
)

// rule is one rule of live control.
type rule struct {
	action      Action
	selects     selection
	level       uint8
	madeUnixNs  uint64
	untilUnixNs uint64
	parameter   uint32
	number      uint32
	name, field string
}

// rulesFile is the file of rules: a header with a sequence, and two tables, of which the sequence selects the valid one.
type rulesFile struct {
	file   *ownFile
	memory mapping
}

const (
	rulesMagic      = 0x0153_454c_5552_444c
	rulesSequence   = 8
	rulesOffControl = 16
	rulesTableAt    = 4096
	rulesTableBytes = 30720
)

func formatRules(file *os.File) (*rulesFile, error) {
	memory, err := mapPlain(file, 4096)
	if err != nil {
		return nil, err
	}
	// SYNC(rules): stored last; a reader that sees it sees an empty file behind it.
	store64(memory.base, 0, rulesMagic)
	owned, err := own(file)
	return &rulesFile{owned, memory}, err
}

func openRules(file *os.File) (*rulesFile, error) {
	memory, err := mapPlain(file, 4096)
	if err != nil {
		return nil, err
	}
	if magic := load64(memory.base, 0); magic != rulesMagic {
		return nil, &DamageError{"table of rules", "magic", magic, "LDRULES and version 1"}
	}
	owned, err := own(file)
	return &rulesFile{owned, memory}, err
}

// sequence changes with every change of the rules; 0 before the first. SYNC(rules)
func (f *rulesFile) sequence() uint64 { return load64(f.memory.base, rulesSequence) }

// read gives the rules in force.
func (f *rulesFile) read() ([]rule, error) {
	sequence := f.sequence()
	for range ruleReadsMax {
		if sequence == 0 {
			return nil, nil
		}
		table := make([]byte, rulesTableBytes)
		err := f.file.use(func(file *os.File) error {
			_, err := file.ReadAt(table, int64(rulesTableAt+rulesTableBytes*(sequence%2)))
			return err
		})
		now := f.sequence()
		if now == sequence {
			if err != nil {
				return nil, fmt.Errorf("read the rules: %w", err)
			}
			return readRules(table, sequence)
		}
		sequence = now
	}
	return nil, &DamageError{"table of rules", "sequence", sequence, "a number that stays for some microseconds"}
}

func damagedRules(field string, found uint64) error {
	return &DamageError{"table of rules", field, found, "what spec/session.md draws"}
}

// readRules reads a table. Any violation of the format makes all of it damaged.
func readRules(table []byte, sequence uint64) ([]rule, error) {
	if found := binary.LittleEndian.Uint64(table); found != sequence {
		return nil, damagedRules("sequence", found)
	}
	count := binary.LittleEndian.Uint32(table[8:])
	length := binary.LittleEndian.Uint32(table[12:])
	if count > RulesMax || length > rulesTableBytes-32 {
		return nil, damagedRules("length", uint64(length))
	}
	bytes := table[32 : 32+length]
	sum := fnv1a64(fnv1a64(fnvOffset, table[:12]), bytes)
	if found := binary.LittleEndian.Uint64(table[16:]); found != sum {
		return nil, damagedRules("checksum", found)
	}
	var rules []rule
	for range count {
		rule, rest, err := readRule(bytes)
		if err != nil {
			return nil, err
		}
		rules, bytes = append(rules, rule), rest
	}
	if len(bytes) != 0 {
		return nil, damagedRules("bytes behind the last rule", uint64(len(bytes)))
	}
	return rules, nil
}

func readRule(bytes []byte) (rule, []byte, error) {
	if len(bytes) < 40 {
		return rule{}, nil, damagedRules("rule", uint64(len(bytes)))
	}
	length := binary.LittleEndian.Uint32(bytes)
	nameBytes := int(binary.LittleEndian.Uint16(bytes[32:]))
	fieldBytes := int(binary.LittleEndian.Uint16(bytes[34:]))
	whole := (40 + nameBytes + fieldBytes + 7) &^ 7
	if int(length) != whole || whole > len(bytes) || nameBytes > 1024 || fieldBytes > 1024 {
		return rule{}, nil, damagedRules("rule's length", uint64(length))
	}
	texts := bytes[40:]
	found := rule{
		action: Action(bytes[4]), selects: selection(bytes[5]), level: bytes[6],
		madeUnixNs:  binary.LittleEndian.Uint64(bytes[8:]),
		untilUnixNs: binary.LittleEndian.Uint64(bytes[16:]),
		parameter:   binary.LittleEndian.Uint32(bytes[24:]),
		number:      binary.LittleEndian.Uint32(bytes[28:]),
		name:        string(texts[:nameBytes]),
		field:       string(texts[nameBytes : nameBytes+fieldBytes]),
	}
	switch {
	case found.action < ActLevel || found.action > ActPerKey:
		return rule{}, nil, damagedRules("action", uint64(found.action))
	case found.selects < selectAll || found.selects > selectCallsite:
		return rule{}, nil, damagedRules("selector", uint64(found.selects))
	case bytes[7] != 0:
		return rule{}, nil, damagedRules("reserved", uint64(bytes[7]))
	case !utf8.ValidString(found.name) || !utf8.ValidString(found.field):
		return rule{}, nil, damagedRules("text", 0)
	}
	return found, bytes[whole:], nil
}

const fnvOffset = 0xcbf2_9ce4_8422_2325

func fnv1a64(hash uint64, bytes []byte) uint64 {
	for _, b := range bytes {
		hash = (hash ^ uint64(b)) * 0x0000_0100_0000_01b3
	}
	return hash
}

// Described holds the parts of a callsite that rules match.
type Described struct {
	Level                uint8
	Dynamic              bool
	File, Module, Target string
	Line                 uint32
	Fields               []string
}

// Settle computes the control word of a callsite from base and rules. After each store it checks that base and rules
// have not changed meanwhile. SYNC(settle): the stores of sync/atomic are fences on every processor.
func (s *Session) Settle(entry Entry, callsite *Described) error {
	var damage error
	for range settleRoundsMax {
		sequence, base := s.rules.sequence(), load32(entry.Control.at, controlBase)
		if sequence == 0 && load32(entry.Control.at, 0) == base {
			return nil
		}
		rules, err := s.rules.read()
		if err != nil {
			// Then no rule holds, and the drain reports it in the log.
			rules, damage = nil, err
		}
		off := load32(s.rules.memory.base, rulesOffControl)
		word, parameter := switchOf(rules, entry.ID, callsite, base, off, unixNow())
		entry.Control.set(word, parameter)
		if s.rules.sequence() == sequence && load32(entry.Control.at, controlBase) == base {
			return damage
		}
	}
	return damage
}

// SetBase stores the control word that the process's own filter gives a callsite.
func (c Control) SetBase(word uint32) { store32(c.at, controlBase, word) }

// SetOffControl notes which control word callsites have that are off.
func (s *Session) SetOffControl(word uint32) { store32(s.rules.memory.base, rulesOffControl, word) }

func (c Control) set(word uint32, parameter uint64) {
	if c.Word() == word && c.Parameter() == parameter {
		return
	}
	store64(c.at, controlParameter, parameter)
	budget := uint32(0)
	switch word {
	case Every:
		// A line that has just been sampled is seen once without a wait.
		budget = 1
	case PerSecond:
		budget = uint32(min(parameter, 1<<32-1))
	}
	store32(c.at, controlBudget, budget)
	store32(c.at, 0, word)
}

// switchOf returns the control word and parameter that the rules give a callsite.
func switchOf(rules []rule, id uint32, callsite *Described, base, off uint32, now uint64) (uint32, uint64) {
	if off != OffCounted {
		off = Off
	}
	isOff := base == Off || base == OffCounted
	allowed, said := !isOff, false
	var level, sample rank
	word, parameter := uint32(On), uint64(0)
	sampled := false
	for at := range rules {
		rule := &rules[at]
		if rule.untilUnixNs != 0 && now >= rule.untilUnixNs || !rule.couldMatch(id, callsite) {
			continue
		}
		switch rule.action {
		case ActMute:
			return off, 0
		case ActLevel:
			if found := rule.rank(); !said || level.below(found) {
				level, said = found, true
				allowed = rule.level != 255 && callsite.Level >= rule.level
			}
		default:
			w, p, ok := sampleOf(rule, callsite)
			if found := rule.rank(); ok && (!sampled || sample.below(found)) {
				sample, sampled, word, parameter = found, true, w, p
			}
		}
	}
	switch {
	case !allowed && !said:
		return base, 0
	case !allowed:
		return off, 0
	case sampled:
		return word, parameter
	case !said:
		return base, 0
	}
	return On, 0
}

// rank orders rules: narrower selectors first, then newer rules.
type rank struct {
	kind, length int
	made         uint64
}

func (a rank) below(b rank) bool {
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	if a.length != b.length {
		return a.length < b.length
	}
	return a.made < b.made
}

func (r *rule) rank() rank {
	switch r.selects {
	case selectAll, selectCallsite:
		return rank{int(r.selects), 0, r.madeUnixNs}
	}
	return rank{int(r.selects), len(r.name), r.madeUnixNs}
}

func (r *rule) couldMatch(id uint32, callsite *Described) bool {
	switch r.selects {
	case selectAll:
		return true
	case selectModule:
		target := callsite.Target
		if target == "" {
			target = callsite.Module
		}
		return IsBelow(target, r.name) || IsBelow(callsite.Module, r.name)
	case selectFile:
		return isFile(callsite.File, r.name)
	case selectLine:
		return callsite.Line == r.number && isFile(callsite.File, r.name)
	}
	return r.number == id
}

// IsBelow reports whether a module path is another one or lies below it.
func IsBelow(path, above string) bool {
	if !strings.HasPrefix(path, above) {
		return false
	}
	rest := path[len(above):]
	return rest == "" || strings.IndexByte(":./", rest[0]) >= 0
}

func isFile(path, end string) bool {
	front, ok := strings.CutSuffix(path, end)
	return ok && end != "" && (front == "" || strings.HasSuffix(front, "/") || strings.HasSuffix(front, "\\"))
}

// perKeyByName marks a key that is found by the hash of its name.
const perKeyByName = 1 << 31

func sampleOf(rule *rule, callsite *Described) (word uint32, parameter uint64, ok bool) {
	switch rule.action {
	case ActEvery:
		if rule.parameter <= 1 {
			return On, 0, true
		}
		return Every, uint64(rule.parameter), true
	case ActPerSecond:
		return PerSecond, uint64(rule.parameter), true
	}
	for index, name := range callsite.Fields {
		if name == rule.field && index < 255 {
			return PerKey, uint64(index)<<32 | uint64(rule.parameter), true
		}
	}
	if callsite.Dynamic && len(callsite.Fields) < 255 {
		return PerKey, uint64(KeyHash(rule.field)|perKeyByName)<<32 | uint64(rule.parameter), true
	}
	return 0, 0, false
}

// KeyHash is the low 31 bits of the FNV-1a hash of a field's name.
func KeyHash(name string) uint32 {
	hash := uint32(0x811c_9dc5)
	for at := range len(name) {
		hash = (hash ^ uint32(name[at])) * 0x0100_0193
	}
	return hash &^ perKeyByName
}

// offControl is the control word of callsites that are off.
func (s *Session) offControl() *uint32 { return word32(s.rules.memory.base, rulesOffControl) }

// OffControl is the control word of callsites that are off.
func (s *Session) OffControl() uint32 { return atomic.LoadUint32(s.offControl()) }

// HasRules reports whether a rule was ever set.
func (s *Session) HasRules() bool { return s.rules.sequence() != 0 }
