package ring

// DropReason says why a call left no record: the index of its counters.
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

// Text is what a gap record says.
func (r DropReason) Text() string {
	return [DropReasons]string{
		"ring full", "record too large", "log call interrupted by a signal handler that logs",
		"no ring for the thread", "logging not running", "logged by the backend itself",
		"callsite table full", "other",
	}[r]
}

// Policy says what a call does when its ring is full.
type Policy uint32

// The policies, with their codes in spec/agent.md.
const (
	// PolicyDrop counts the call and returns.
	PolicyDrop Policy = iota
	// PolicyWait parks at most WaitMax, once in an overload episode.
	PolicyWait
	// PolicyBlock waits as long as anybody drains.
	PolicyBlock
)
