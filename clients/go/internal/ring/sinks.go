//go:build linux

package ring

import "unsafe"

// Offsets of the words of a sink.
const (
	sinkFill         = 0
	sinkFillWords    = 16
	sinkFillDropped  = 3
	sinkSettled      = 272
	sinkSettledWords = 4
	sinkErrors       = 352
	sinkGone         = 1
	// sinkLooks is how often numbers are read whose writer is at work, before those that were whole last are taken.
	sinkLooks = 64
)

// sinkStats reads the numbers of the first sinks of a file whose head is mapped here.
func sinkStats(head unsafe.Pointer, sinks int) []SinkStats {
	all := make([]SinkStats, sinks)
	for sink := range all {
		stats, words := &all[sink], unsafe.Add(head, drainSinkWords+512*sink)
		epoch, _ := unguarded(load64(head, drainEpoch))
		if fill := newestCell(unsafe.Add(words, sinkFill), sinkFillWords, epoch); fill != nil {
			copy(stats.Dropped[:], fill[sinkFillDropped:])
		}
		if settled := newestCell(unsafe.Add(words, sinkSettled), sinkSettledWords, ^uint64(0)); settled != nil {
			stats.Written, stats.WrittenBytes = settled[1], settled[2]
			stats.Dropped[sinkGone] += settled[3]
		}
		stats.Errors = load64(words, sinkErrors)
	}
	return all
}

// newestCell is the newest of two cells up to an epoch that is whole; nil where there is none.
func newestCell(cells unsafe.Pointer, count int, most uint64) (found []uint64) {
	for range sinkLooks {
		best := uint64(0)
		for cell := range 2 {
			at := unsafe.Add(cells, cell*8*(1+count))
			word, numbers := load64(at, 0), make([]uint64, count)
			for index := range numbers {
				numbers[index] = load64(at, uintptr(8*(1+index)))
			}
			if epoch, whole := unguarded(word, numbers...); whole && word != 0 && epoch <= most && epoch > best {
				best, found = epoch, numbers
			}
		}
		if found != nil {
			return found
		}
	}
	return nil
}
