package ring

// DropReason is the reason why a call left no record, and the index of its counter.
type DropReason int

// The reasons of spec/ring.md.
const (
	DropFull DropReason = iota
	DropTooLarge
	DropReentrant
	DropNoRing
	DropClosed
	DropBackend
	DropNoCallsite
	DropOther
	DropReasons
)

// Text returns the reason as gap records show it.
func (r DropReason) Text() string {
	return [DropReasons]string{
		"ring full", "record too large", "log call interrupted by a signal handler that logs",
		"no ring for the thread", "logging not running", "logged by the backend itself",
		"callsite table full", "other",
	}[r]
}

// Policy is the behaviour of a call when its ring is full.
type Policy uint32

// The policies, with their codes in spec/agent.md.
const (
	// PolicyDrop counts the call and returns.
	PolicyDrop Policy = iota
	// PolicyWait parks at most WaitMax, once in an overload episode.
	PolicyWait
	// PolicyBlock waits without limit while a drain exists.
	PolicyBlock
)

// SinkDropReasons is the number of reasons for which a sink leaves a record out.
const SinkDropReasons = 8

// SinkDropText has their names, which the command `logdrive stats` uses, too.
var SinkDropText = [SinkDropReasons]string{"overflow", "gone", "below_level", "unknown_callsite", "too_long", "elsewhere",
	"records_per_second", "disk_bytes_per_day"}

// SinkStats are the numbers of one sink, as its drain has stored them in the file `drain`.
type SinkStats struct {
	Written, WrittenBytes, Errors uint64
	Dropped                       [SinkDropReasons]uint64
}
