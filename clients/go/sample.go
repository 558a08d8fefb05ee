package logdrive

import (
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// tally is the count of a sampled callsite by shard, as far as it is not in the session yet.
type tally struct {
	groups [ring.Shards/tallyGroup + 1]atomic.Pointer[[tallyGroup]shardTally]
}

// tallyGroup is the number of shards that are allocated together: most machines have no more.
const tallyGroup = 16

// shardTally is the part of one shard. The holder of the shard writes it.
type shardTally struct {
	// left is the number of calls before the next one that passes; of is the parameter that it was made from.
	left, of uint32
	// unreported is increased by the holder of the shard, and taken by any goroutine.
	unreported atomic.Uint32
	_          [52]byte
}

// unreportedMax is the number of calls that a shard counts for itself, which is also what a kill may leave uncounted.
const unreportedMax = 256

// logSampled decides whether a call of a sampled callsite passes, and writes it.
func (l *Logger) logSampled(site *site, fields []Field) bool {
	c := l.core
	word := site.entry.Control.Word()
	if !c.passes(site, word, fields) {
		return false
	}
	if word == ring.Every {
		return l.logSampledVariant(site, fields)
	}
	return c.write(site, l.context, fields)
}

// passes reports whether a call passes its control word, and counts it if not.
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
		site.countSampledOut()
		return false
	case ring.PerKey:
		parameter := control.Parameter()
		if keys.pass(site.hashKey(parameter, fields), uint32(parameter), uint64(time.Now().Unix())) {
			return true
		}
		site.countSampledOut()
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

// pinTally holds a shard until ring.Release, and returns its tally of the site.
func (s *site) pinTally() (int, *shardTally) {
	tally := s.tally()
	for {
		shard := ring.Hold()
		place := &tally.groups[shard/tallyGroup]
		if group := place.Load(); group != nil {
			return shard, &group[shard%tallyGroup]
		}
		ring.Release(shard)
		place.CompareAndSwap(nil, new([tallyGroup]shardTally))
	}
}

// passEvery lets one call of every pass. The first call of the process passes at once; each shard starts at a random
// point of its count, so that kept calls times every is an unbiased estimate.
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
	unreported := s.countCall(own, passes)
	ring.Release(shard)
	if unreported != 0 {
		s.entry.Counts.AddSampledOut(uint64(unreported))
	}
	return passes
}

// countCall counts a call that is sampled out, and returns the count to report now.
func (s *site) countCall(own *shardTally, passes bool) uint32 {
	if !passes && own.unreported.Add(1) < unreportedMax || passes && own.unreported.Load() == 0 {
		return 0
	}
	return own.unreported.Swap(0)
}

func (s *site) countSampledOut() {
	shard, own := s.pinTally()
	unreported := s.countCall(own, false)
	ring.Release(shard)
	if unreported != 0 {
		s.entry.Counts.AddSampledOut(uint64(unreported))
	}
}

// reportTallies moves the counts of all shards to the session.
func (c *core) reportTallies() {
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
				if unreported := site.countCall(&group[shard], true); unreported != 0 {
					site.entry.Counts.AddSampledOut(uint64(unreported))
				}
			}
		}
	}
}

// sampleField is the field of a kept record with the sampling rate: one of so many calls.
const sampleField = "sample_every"

// logSampledVariant writes a kept record of a sample, with its sampling rate.
func (l *Logger) logSampledVariant(original *site, fields []Field) bool {
	c := l.core
	variant := c.sampledVariantOf(original)
	if variant == nil {
		return c.write(original, l.context, fields)
	}
	var room [16]Field
	all := append(append(room[:0], fields...), Uint64(sampleField, max(1, original.entry.Control.Parameter())))
	return c.write(variant, l.context, all)
}

// sampledVariantOf returns the callsite of kept records of a sample; nil where there can be none.
func (c *core) sampledVariantOf(original *site) *site {
	original.variantLock.Lock()
	defer original.variantLock.Unlock()
	if original.variant != nil {
		return original.variant
	}
	number := original.entry.Control.SampledVariant()
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
			variant := &site{context: original.context, level: original.level, message: original.message, entry: entry}
			sampled := Uint64(sampleField, 0)
			variant.fields = append(append([]known(nil), original.fields...), knownOf(&sampled, 8))
			variant.count, variant.head = len(variant.fields), original.head+8
			original.entry.Control.SetSampledVariant(entry.ID)
			original.variant = variant
			return variant
		}
	}
	original.entry.Control.SetSampledVariant(original.entry.ID)
	return nil
}

// hashSeed is random for each process, so that a peer cannot choose colliding keys.
var hashSeed = maphash.MakeSeed()

// hashKey hashes the value that is the key of a keyed limit. Records without the field share one key.
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

// keys counts calls by key in the current second, for all callsites. Each slot is a word: 24 bits of the key's hash, 20
// bits of the second, 20 bits of calls. Keys beyond the number of slots share slots.
var keys keyTable

type keyTable struct{ places [4096]atomic.Uint64 }

const (
	keyProbes = 4
	keyPart   = 1<<20 - 1
)

// pass reports whether another call of a key passes in this second.
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
