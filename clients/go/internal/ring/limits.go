package ring

import "time"

// Every bound of the ring and the session, each with the reason for the number. Those of the formats are those of
// crates/ring/src/limits.rs.
const (
	// BytesMin is the smallest ring: an eighth of it is a useful record.
	BytesMin = 64 << 10
	// BytesMax is the largest ring; it bounds a mistaken or hostile header.
	BytesMax = 1 << 30
	// firstBytes is the size of the first ring of a P: one that fills is replaced by one growth times as large.
	firstBytes = BytesMin
	growth     = 4
	// BytesDefault holds 7,000 lines of 150 bytes, which is a drain pause of some 100 µs at full speed.
	BytesDefault = 1 << 20
	// HeaderBytes is the end of a ring's file.
	HeaderBytes = 4096
	// RingsMax bounds the rings of a session.
	RingsMax = 4096
	// CallsitesMax bounds the callsites of a session; large programs have some ten thousand log statements.
	CallsitesMax = 64 << 10
	// TableBytesMax holds the most callsites at 256 bytes each.
	TableBytesMax = 16 << 20
	// ReserveStepBytes is how much of a growing file gets its blocks at a time.
	ReserveStepBytes = 64 << 10
	// RecordBytesMax bounds a record; a ring takes an eighth of its own bytes at most.
	RecordBytesMax = 64 << 10
	// RecordBytesSure fits every ring; longer records are compared with the ring that they go to.
	RecordBytesSure = BytesMin / 8
	// WaitMax is how long a call with policy Wait parks, once in an overload episode.
	WaitMax = 10 * time.Millisecond
	// BlockRecheck is how long a call with policy Block parks before it checks that a drain exists.
	BlockRecheck = 100 * time.Millisecond
	// RingRetry is how long no ring is tried after one, or a larger one, found no room: each try reserves and frees memory.
	RingRetry = time.Second
	// RulesFileBytes is the size of the file of rules.
	RulesFileBytes = 64 << 10
	// RulesMax bounds the rules of a session.
	RulesMax = 256
	// ruleReadsMax is how often a reader of rules begins anew because they changed meanwhile.
	ruleReadsMax = 100
	// settleRoundsMax is how often a control word is made again because rules changed meanwhile.
	settleRoundsMax = 100
	// SinksMax bounds the sinks of a session.
	SinksMax = 16
	// BuffersPerSink is the number of output buffers of a sink.
	BuffersPerSink = 8
	// ReadyBuffers is the number of them that have their memory from the start.
	ReadyBuffers = 2
	// BufferBytes is the size of one.
	BufferBytes = 1 << 20
	// ConfigBytesMax bounds the text that describes the sinks.
	ConfigBytesMax = 32 << 10
	// sessionNamesMax is how many names of a session directory are tried: each that is taken was left by an earlier
	// process of the same number.
	sessionNamesMax = 10000
)
