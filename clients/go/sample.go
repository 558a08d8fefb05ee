package logdrive

import (
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// tally is what the shards have counted of a sampled callsite and not yet told the session.
type tally struct {
	groups [ring.Shards/tallyGroup + 1]atomic.Pointer[[tallyGroup]tallied]
}

// tallyGroup is how many shards get their memory together: most machines have no more.
const tallyGroup = 16

// tallied belongs to whoever has the shard.
type tallied struct {
	// left is how many calls come before the next one that passes; until is the parameter that it was made of.
	left, of uint32
	// untold is added to by whoever has the shard, and taken by anybody.
	untold atomic.Uint32
	_      [52]byte
}

// untoldMax is how many calls a shard counts for itself: what a kill may leave uncounted.
const untoldMax = 256

// logSampled decides whether a call passes whose control word is neither on nor off, and writes it.
func (l *Logger) logSampled(site *site, fields []Field) bool {
	c := l.core
	word := site.entry.Control.Word()
	if !c.passes(site, word, fields) {
		return false
	}
	if word == ring.Every {
		return l.logTwin(site, fields)
	}
	return c.write(site, l.context, fields)
}

// passes says whether a call goes on, and counts it if not.
func (c *core) passes(site *site, word uint32, fields []Field) bool {
	control := site.entry.Control
	switch word {
	case ring.Off:
		return false
	case ring.OffCounted:
		c.session.AddDisabled(1)
		return false
	case ring.Every:
		return site.passEvery(uint32(min(max(control.Parameter(), 1), 1<<31)))
	case ring.PerSecond:
		if control.TakeBudget() {
			return true
		}
		site.leaveOut()
		return false
	case ring.PerKey:
		parameter := control.Parameter()
		if keys.pass(site.hashKey(parameter, fields), uint32(parameter), uint64(time.Now().Unix())) {
			return true
		}
		site.leaveOut()
		return false
	}
	return true
}

func (s *site) tally() *tally {
	if found := s.sampled.Load(); found != nil {
		return found
	}
	s.sampled.CompareAndSwap(nil, new(tally))
	return s.sampled.Load()
}

// pinTally gives the calling goroutine a shard until ring.Release, and what that has counted of the site.
func (s *site) pinTally() (int, *tallied) {
	tally := s.tally()
	for {
		shard := ring.Hold()
		place := &tally.groups[shard/tallyGroup]
		if group := place.Load(); group != nil {
			return shard, &group[shard%tallyGroup]
		}
		ring.Release(shard)
		place.CompareAndSwap(nil, new([tallyGroup]tallied))
	}
}

// passEvery lets one call of so many pass. The first one of the process passes at once; each shard begins at a random
// place of its own count, so that kept calls times the number are an estimate without bias.
func (s *site) passEvery(every uint32) bool {
	first := s.entry.Control.TakeBudget()
	shard, own := s.pinTally()
	if own.of != every {
		own.of, own.left = every, rand.Uint32N(every)
	}
	passes := own.left == 0 || first
	if own.left == 0 {
		own.left = every
	}
	own.left--
	untold := s.count1(own, passes)
	ring.Release(shard)
	if untold != 0 {
		s.entry.Counts.AddSampledOut(uint64(untold))
	}
	return passes
}

// count1 counts a call that is left out; what is to be told now.
func (s *site) count1(own *tallied, passes bool) uint32 {
	if !passes && own.untold.Add(1) < untoldMax || passes && own.untold.Load() == 0 {
		return 0
	}
	return own.untold.Swap(0)
}

func (s *site) leaveOut() {
	shard, own := s.pinTally()
	untold := s.count1(own, false)
	ring.Release(shard)
	if untold != 0 {
		s.entry.Counts.AddSampledOut(uint64(untold))
	}
}

// tellTallies tells what all shards have counted.
func (c *core) tellTallies() {
	c.sites.lock.Lock()
	all := c.sites.all
	c.sites.lock.Unlock()
	for _, site := range all {
		found := site.sampled.Load()
		if found == nil {
			continue
		}
		for at := range found.groups {
			group := found.groups[at].Load()
			if group == nil {
				continue
			}
			for shard := range group {
				if untold := site.count1(&group[shard], true); untold != 0 {
					site.entry.Counts.AddSampledOut(uint64(untold))
				}
			}
		}
	}
}

// sampleField says in a kept record of how many calls it is one.
const sampleField = "sample_every"

// logTwin writes a kept record of a sample, which says of how many calls it is one.
func (l *Logger) logTwin(original *site, fields []Field) bool {
	c := l.core
	twin := c.twinOf(original)
	if twin == nil {
		return c.write(original, l.context, fields)
	}
	var room [16]Field
	all := append(append(room[:0], fields...), Uint64(sampleField, max(1, original.entry.Control.Parameter())))
	return c.write(twin, l.context, all)
}

// twinOf is the callsite under which kept records of a sample go; nil where there can be none.
func (c *core) twinOf(original *site) *site {
	original.twinned.Lock()
	defer original.twinned.Unlock()
	if original.twin != nil {
		return original.twin
	}
	number := original.entry.Control.Twin()
	if number == original.entry.ID {
		return nil
	}
	described := original.encoded
	described.Fields = append(append([]wire.Field(nil), described.Fields...), wire.Field{Name: sampleField, Kind: wire.U64})
	bytes, err := described.Encode(nil)
	if err == nil {
		var entry ring.Entry
		// Off, and bound to no call: tools leave it out.
		if entry, err = c.session.Register(bytes, ring.Off); err == nil {
			twin := &site{context: original.context, level: original.level, message: original.message, entry: entry}
			sampled := Uint64(sampleField, 0)
			twin.fields = append(append([]known(nil), original.fields...), knownOf(&sampled, 8))
			twin.count, twin.head = len(twin.fields), original.head+8
			original.entry.Control.SetTwin(entry.ID)
			original.twin = twin
			return twin
		}
	}
	original.entry.Control.SetTwin(original.entry.ID)
	return nil
}

// hashSeed makes the hashes of keys this process's own.
var hashSeed = maphash.MakeSeed()

// hashKey is the hash of the value that is the key of a keyed limit. Records without the field have one key together.
func (s *site) hashKey(parameter uint64, fields []Field) uint64 {
	high := uint32(parameter >> 32)
	var hash maphash.Hash
	hash.SetSeed(hashSeed)
	var number [8]byte
	putNumber := func(value uint64) {
		for at := range number {
			number[at] = byte(value >> (8 * at))
		}
		_, _ = hash.Write(number[:])
	}
	putNumber(uint64(s.entry.ID))
	index := int(high&0xff) - len(s.context.fields)
	for at := range fields {
		field := &fields[at]
		if field.kind() == kindOpen || field.kind() == kindClose {
			continue
		}
		isKey := index == 0
		if high>>31 == 1 {
			isKey = ring.KeyHash(s.context.prefix+field.key()) == high&(1<<31-1)
		}
		if isKey {
			putNumber(field.num)
			if field.kind().HasLength() {
				_, _ = hash.WriteString(field.text())
			}
			return hash.Sum64()
		}
		index--
	}
	return hash.Sum64()
}

// keys are the keys that have passed in this second, of all callsites: each place is a word of 24 bits of the key's
// hash, 20 bits of the second, and 20 bits of calls in it. So many keys are told apart; further ones share places.
var keys keyTable

type keyTable struct{ places [4096]atomic.Uint64 }

const (
	keyProbes = 4
	keyPart   = 1<<20 - 1
)

// pass says whether another call of a key passes in this second.
func (t *keyTable) pass(hash uint64, limit uint32, second uint64) bool {
	key, second := hash>>40, second&keyPart
	most := min(uint64(limit), keyPart)
	for probe := range uint64(keyProbes) {
		if passes, known := passAt(&t.places[(hash+probe)%4096], key, most, second, false); known {
			return passes
		}
	}
	passes, _ := passAt(&t.places[hash%4096], key, most, second, true)
	return passes
}

func passAt(place *atomic.Uint64, key, limit, second uint64, shared bool) (passes, known bool) {
	for {
		seen := place.Load()
		calls := seen & keyPart
		isFree := calls == 0 || seen>>20&keyPart != second
		owner := seen >> 40
		if !isFree && owner != key && !shared {
			return false, false
		}
		if isFree {
			calls, owner = 0, key
		}
		if calls >= limit {
			return false, true
		}
		if place.CompareAndSwap(seen, owner<<40|second<<20|(calls+1)) {
			return true, true
		}
	}
}
