package ring

// The checksum of spec/session.md, FNV-1a with 64 bits, over what this process writes once.

const (
	checksumStart = 0xcbf29ce484222325
	checksumPrime = 0x100000001b3
	// checksumBytes follow the configuration.
	checksumBytes = 8
)

// checksum adds bytes to a checksum.
func checksum(sum uint64, bytes []byte) uint64 {
	for _, one := range bytes {
		sum = (sum ^ uint64(one)) * checksumPrime
	}
	return sum
}

// checksumWords adds words to a checksum, each as its eight bytes.
func checksumWords(sum uint64, words ...uint64) uint64 {
	for _, word := range words {
		for range 8 {
			sum = (sum ^ word&0xff) * checksumPrime
			word >>= 8
		}
	}
	return sum
}

// unguarded is the number of a guarded word, and whether the word and those that belong to it are whole.
func unguarded(word uint64, others ...uint64) (uint64, bool) {
	number := word & (1<<48 - 1)
	sum := checksumWords(checksumWords(checksumStart, number), others...)
	return number, word == 0 || uint16(word>>48) == folded(sum)
}

// folded has the four parts of a checksum in one.
func folded(sum uint64) uint16 { return uint16(sum ^ sum>>16 ^ sum>>32 ^ sum>>48) }

// entryCheck is the folded checksum of an entry of the callsite table.
func entryCheck(id uint32, callsite []byte) uint16 {
	var head [8]byte
	length := uint32(len(callsite))
	for at := range 4 {
		head[at], head[4+at] = byte(length>>(8*at)), byte(id>>(8*at))
	}
	return folded(checksum(checksum(checksumStart, head[:]), callsite))
}
