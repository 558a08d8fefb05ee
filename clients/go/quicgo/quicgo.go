// Package quicgo traces quic-go (0.65 or newer) with Logdrive: its debug log can stay on. Every event goes into the
// ring as typed values, without an allocation of the tracer's own.
//
//	tracer := quicgo.New(log)
//	config := &quic.Config{Tracer: tracer.ForConnection}
//
// Records have the level debug, the event's name as their message, and the front of the connection's ID and its side as
// fields; trace_started has the whole ID. A packet without a type is one of 1-RTT; its connection ID, version, ECN mark,
// key phase and payload are told when they, or the bytes of its header, are others than those of the last one of its
// direction. Metrics tell their times and the window when these have changed, and a timer without an event has been set for
// 1-RTT packets. `logdrive cat --format qlog` makes qlog of all this, as quic-go writes it; secrets are left out: tokens,
// and values of headers. Each kind
// of event has callsites of its own, so that `logdrive level`, `mute` and `sample` reach them from outside while the
// program runs; [Tracer.SampleEvent] does it from inside.
package quicgo

import (
	"context"
	"sync/atomic"

	"github.com/logdrive/logdrive/clients/go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

// Tracer makes the traces of connections. It is safe for use by many goroutines.
type Tracer struct {
	logger *logdrive.Logger
	every  atomic.Uint64
	// connections are counted for each side, so that both ends in one process keep the same ones.
	connections [2]atomic.Uint64
	events      [eventKinds]atomic.Uint32
}

// Target is the name that the records of traces bear in the place of a package's: `logdrive level shop quic-go=info`.
const Target = "quic-go"

// New is a tracer that keeps every event of every connection.
func New(logger *logdrive.Logger) *Tracer { return &Tracer{logger: logger.WithTarget(Target)} }

// SampleConnections keeps one connection of each side in so many from now on, beginning with the next one; 0 and 1 keep
// all.
// Connections that are left out cost nothing at all. Those that have begun stay as they are.
func (t *Tracer) SampleConnections(every uint64) {
	t.every.Store(every)
	t.connections[0].Store(0)
	t.connections[1].Store(0)
}

// SampleEvent keeps one in so many of the events of a name, such as "packet_sent", on each connection; 1 keeps all, and
// 0 none. It takes effect from the next event on, and reports whether there is such an event.
func (t *Tracer) SampleEvent(name string, every uint32) bool {
	for kind, known := range eventNames {
		if known == name {
			// Stored one less, so that the zero of a new tracer keeps all; none is the largest number.
			t.events[kind].Store(every - 1)
			return true
		}
	}
	return false
}

// ForConnection is for the field Tracer of [quic.Config].
func (t *Tracer) ForConnection(_ context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
	side, counted := "server", &t.connections[0]
	if isClient {
		side, counted = "client", &t.connections[1]
	}
	if every := t.every.Load(); every > 1 && (counted.Add(1)-1)%every != 0 {
		return nil
	}
	whole := id.String()
	logger := t.logger.With(logdrive.String("conn", whole[:min(len(whole), 2*connBytes)]), logdrive.String("side", side))
	logger.Debug("trace_started", logdrive.String("id", whole))
	return &trace{tracer: t, logger: logger}
}

// connBytes is how much of its connection's ID each record has: enough to tell connections apart. IDs have up to 20 bytes.
const connBytes = 6

// trace is one connection.
type trace struct {
	tracer *Tracer
	logger *logdrive.Logger
	counts [eventKinds]atomic.Uint32
	// lastWindow is what the last record says that the congestion controller has measured, and what it allows.
	lastWindow lastValues
	// lastSent and lastReceived have the parts of the last packet of 1-RTT, see [packet.parts].
	lastSent, lastReceived lastValues
}

type values [5]int64

// lastValues are the values of the last record that had them. One goroutine at a time records packets and metrics; where
// several do, a value may be recorded twice, and none is torn.
type lastValues [5]atomic.Int64

func (l *lastValues) is(now *values) bool {
	for at := range l {
		if l[at].Load() != now[at] {
			return false
		}
	}
	return true
}

func (l *lastValues) keep(now *values) {
	for at := range l {
		if l[at].Load() != now[at] {
			l[at].Store(now[at])
		}
	}
}

// AddProducer is for quic-go.
func (t *trace) AddProducer() qlogwriter.Recorder { return recorder{t} }

// SupportsSchemas is for quic-go: events of all schemas are taken.
func (t *trace) SupportsSchemas(string) bool { return true }

// recorder is one of those who record events of a connection.
type recorder struct{ *trace }

// Close is for quic-go. Nothing is left to be done.
func (recorder) Close() error { return nil }

// keeps reports whether an event is kept by the sampling.
func (t *trace) keeps(kind eventKind) bool {
	less := t.tracer.events[kind].Load()
	switch less {
	case 0:
		return true
	case ^uint32(0):
		return false
	}
	return (t.counts[kind].Add(1)-1)%(less+1) == 0
}
