package quicgo

import (
	"time"
	"unsafe"

	"github.com/logdrive/logdrive/clients/go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// eventKind numbers the names of events.
type eventKind int

const (
	packetSent eventKind = iota
	packetReceived
	metricsUpdated
	timerUpdated
	packetLost
	packetDropped
	packetBuffered
	congestionUpdated
	otherEvent
	eventKinds
)

var eventNames = [eventKinds]string{"packet_sent", "packet_received", "metrics_updated", "loss_timer_updated",
	"packet_lost", "packet_dropped", "packet_buffered", "congestion_state_updated", "other"}

// Shapes of metrics and timers. They leave out what most of them have in common: a timer without an event is set, for 1-RTT.
var (
	metricsShape = logdrive.NewShape(logdrive.LevelDebug, "metrics_updated", logdrive.Int64("min_rtt_ns", 0),
		logdrive.Int64("smoothed_rtt_ns", 0), logdrive.Int64("latest_rtt_ns", 0), logdrive.Int64("rtt_variance_ns", 0),
		logdrive.Int("congestion_window", 0), logdrive.Int("bytes_in_flight", 0), logdrive.Int("packets_in_flight", 0))
	flightShape = logdrive.NewShape(logdrive.LevelDebug, "metrics_updated",
		logdrive.Int("bytes_in_flight", 0), logdrive.Int("packets_in_flight", 0))
	timerShape = logdrive.NewShape(logdrive.LevelDebug, "loss_timer_updated", logdrive.String("timer", ""), logdrive.Int64("delta_ns", 0))
)

// spaces are the packet number spaces of quic-go's levels of encryption, whose numbers are its own.
var spaces = func() (spaces []string) {
	// quic-go panics at a number that it does not know.
	defer func() { _ = recover() }()
	spaces = append(spaces, "")
	for number := qlog.EncryptionLevel(1); ; number++ {
		space := "application_data"
		switch qlog.EncryptionLevelToPacketType(number) {
		case qlog.PacketTypeInitial:
			space = "initial"
		case qlog.PacketTypeHandshake:
			space = "handshake"
		}
		spaces = append(spaces, space)
	}
}()

// spaceOf is the packet number space of a level of encryption; "" where that has none.
func spaceOf(level qlog.EncryptionLevel) string {
	if int(level) < len(spaces) {
		return spaces[level]
	}
	return ""
}

// level1RTT is the level of encryption of short packets, whose number is quic-go's own; 0 where that does not tell it.
var level1RTT = func() (level qlog.EncryptionLevel) {
	// quic-go panics at a number that it does not know.
	defer func() { _ = recover() }()
	for number := qlog.EncryptionLevel(1); level == 0; number++ {
		if qlog.EncryptionLevelToPacketType(number) == qlog.PacketType1RTT {
			level = number
		}
	}
	return level
}()

// held is the event behind its interface, whose type has been asked for: what comes with every packet is two hundred
// bytes, which a type switch would copy. An interface refers to a value of several words by a pointer.
func held[T any](event qlogwriter.Event) *T {
	return (*T)((*[2]unsafe.Pointer)(unsafe.Pointer(&event))[1])
}

// RecordEvent is for quic-go: writes an event. It copies what it needs, and keeps nothing of the event.
func (r recorder) RecordEvent(event qlogwriter.Event) {
	switch event.(type) {
	case qlog.PacketSent:
		if r.keeps(packetSent) {
			r.sent(held[qlog.PacketSent](event))
		}
	case qlog.PacketReceived:
		if r.keeps(packetReceived) {
			r.received(held[qlog.PacketReceived](event))
		}
	case qlog.MetricsUpdated:
		if r.keeps(metricsUpdated) {
			r.metrics(held[qlog.MetricsUpdated](event))
		}
	case qlog.TimerUpdated:
		if r.keeps(timerUpdated) {
			r.timer(held[qlog.TimerUpdated](event))
		}
	default:
		r.seldom(event)
	}
}

// seldom writes what does not come with every packet.
func (r recorder) seldom(event qlogwriter.Event) {
	switch e := event.(type) {
	case qlog.PTOCountUpdated:
		if r.keeps(metricsUpdated) {
			r.logger.Debug("metrics_updated", logdrive.Uint32("pto_count", e.PTOCount))
		}
	case qlog.PacketLost:
		if r.keeps(packetLost) {
			r.lost(&e)
		}
	case qlog.PacketDropped:
		if r.keeps(packetDropped) {
			r.dropped(&e)
		}
	case qlog.PacketBuffered:
		if r.keeps(packetBuffered) {
			r.buffered(&e)
		}
	case qlog.CongestionStateUpdated:
		if r.keeps(congestionUpdated) {
			r.logger.Debug("congestion_state_updated", logdrive.String("state", e.State.String()))
		}
	default:
		if r.keeps(otherEvent) {
			r.rare(event)
		}
	}
}

// metrics writes what the congestion controller knows. With every packet that is sent only its bytes are in flight in
// addition; times and the window are written when they are others than those of the last record that has them.
func (r recorder) metrics(e *qlog.MetricsUpdated) {
	now := values{int64(e.MinRTT), int64(e.SmoothedRTT), int64(e.LatestRTT), int64(e.RTTVariance), int64(e.CongestionWindow)}
	if r.lastWindow.is(&now) {
		r.logger.Put(flightShape, []uint64{uint64(e.BytesInFlight), uint64(e.PacketsInFlight)})
		return
	}
	if r.logger.Put(metricsShape, []uint64{uint64(e.MinRTT), uint64(e.SmoothedRTT), uint64(e.LatestRTT), uint64(e.RTTVariance),
		uint64(e.CongestionWindow), uint64(e.BytesInFlight), uint64(e.PacketsInFlight)}) {
		r.lastWindow.keep(&now)
	}
}

func (r recorder) timer(e *qlog.TimerUpdated) {
	if e.EncLevel == level1RTT && e.Type == qlog.TimerEventTypeSet && !e.Time.IsZero() {
		r.logger.Put(timerShape, []uint64{uint64(time.Until(e.Time))}, string(e.TimerType))
		return
	}
	if e.Time.IsZero() {
		r.logger.Debug("loss_timer_updated", logdrive.String("event", string(e.Type)), logdrive.String("timer", string(e.TimerType)),
			logdrive.String("space", spaceOf(e.EncLevel)))
		return
	}
	r.logger.Debug("loss_timer_updated", logdrive.String("event", string(e.Type)), logdrive.String("timer", string(e.TimerType)),
		logdrive.String("space", spaceOf(e.EncLevel)), logdrive.Int64("delta_ns", int64(time.Until(e.Time))))
}
