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

// Shapes of what comes with every packet. They say what most of them have in common by leaving it out, because there are
// some thousands of them for a megabyte, and each byte is written to a file: a packet without a type is a short one, of
// 1-RTT, and a timer without an event is set, for those.
var (
	streamSent     = streamShape("packet_sent")
	streamReceived = streamShape("packet_received")
	ackSent        = ackShape("packet_sent")
	ackReceived    = ackShape("packet_received")
	metricsShape   = logdrive.NewShape(logdrive.LevelDebug, "metrics_updated", logdrive.Int64("min_rtt_ns", 0),
		logdrive.Int64("smoothed_rtt_ns", 0), logdrive.Int64("latest_rtt_ns", 0), logdrive.Int64("rtt_variance_ns", 0),
		logdrive.Int("congestion_window", 0), logdrive.Int("bytes_in_flight", 0), logdrive.Int("packets_in_flight", 0))
	flightShape = logdrive.NewShape(logdrive.LevelDebug, "metrics_updated",
		logdrive.Int("bytes_in_flight", 0), logdrive.Int("packets_in_flight", 0))
	timerShape = logdrive.NewShape(logdrive.LevelDebug, "loss_timer_updated", logdrive.String("timer", ""), logdrive.Int64("delta_ns", 0))
)

func streamShape(name string) *logdrive.Shape {
	return logdrive.NewShape(logdrive.LevelDebug, name, logdrive.Int64("pn", 0), logdrive.Int("length", 0),
		logdrive.Int64("stream", 0), logdrive.Int64("offset", 0), logdrive.Int64("bytes", 0))
}

func ackShape(name string) *logdrive.Shape {
	return logdrive.NewShape(logdrive.LevelDebug, name, logdrive.Int64("pn", 0), logdrive.Int("length", 0),
		logdrive.Int64("ack_from", 0), logdrive.Int64("ack_to", 0), logdrive.Int64("delay_ns", 0))
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
			r.logger.Debug("packet_lost", logdrive.String("type", string(e.Header.PacketType)),
				logdrive.Int64("pn", int64(e.Header.PacketNumber)), logdrive.Bool("mtu_probe", e.IsMTUProbePacket),
				logdrive.String("trigger", string(e.Trigger)))
		}
	case qlog.PacketDropped:
		if r.keeps(packetDropped) {
			r.logger.Debug("packet_dropped", logdrive.String("type", string(e.Header.PacketType)),
				logdrive.Int64("pn", int64(e.Header.PacketNumber)), logdrive.Int("length", e.Raw.Length),
				logdrive.String("trigger", string(e.Trigger)))
		}
	case qlog.PacketBuffered:
		if r.keeps(packetBuffered) {
			r.logger.Debug("packet_buffered", logdrive.String("type", string(e.Header.PacketType)),
				logdrive.Int("length", e.Raw.Length))
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

func (r recorder) sent(e *qlog.PacketSent) {
	h := &e.Header
	if len(e.Frames) == 1 && h.PacketType == qlog.PacketType1RTT {
		switch f := e.Frames[0].Frame.(type) {
		case *qlog.StreamFrame:
			if !f.Fin {
				r.logger.Put(streamSent, []uint64{uint64(h.PacketNumber), uint64(e.Raw.Length), uint64(f.StreamID),
					uint64(f.Offset), uint64(f.Length)})
				return
			}
			r.logger.Debug("packet_sent", logdrive.Int64("pn", int64(h.PacketNumber)), logdrive.Int("length", e.Raw.Length),
				logdrive.Int64("stream", int64(f.StreamID)), logdrive.Int64("offset", f.Offset), logdrive.Int64("bytes", f.Length),
				logdrive.Bool("fin", true))
			return
		case *qlog.AckFrame:
			if len(f.AckRanges) == 1 {
				r.logger.Put(ackSent, []uint64{uint64(h.PacketNumber), uint64(e.Raw.Length), uint64(f.AckRanges[0].Smallest),
					uint64(f.AckRanges[0].Largest), uint64(f.DelayTime)})
				return
			}
		}
	}
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	buffer.text = appendFrames(buffer.text[:0], e.Frames)
	r.logger.Debug("packet_sent", logdrive.String("type", string(h.PacketType)), logdrive.Int64("pn", int64(h.PacketNumber)),
		logdrive.Int("length", e.Raw.Length), logdrive.Bool("mtu_probe", e.IsMTUProbePacket), logdrive.Bytes("frames", buffer.text))
}

func (r recorder) received(e *qlog.PacketReceived) {
	h := &e.Header
	if len(e.Frames) == 1 && h.PacketType == qlog.PacketType1RTT {
		switch f := e.Frames[0].Frame.(type) {
		case *qlog.StreamFrame:
			if !f.Fin {
				r.logger.Put(streamReceived, []uint64{uint64(h.PacketNumber), uint64(e.Raw.Length), uint64(f.StreamID),
					uint64(f.Offset), uint64(f.Length)})
				return
			}
			r.logger.Debug("packet_received", logdrive.Int64("pn", int64(h.PacketNumber)), logdrive.Int("length", e.Raw.Length),
				logdrive.Int64("stream", int64(f.StreamID)), logdrive.Int64("offset", f.Offset), logdrive.Int64("bytes", f.Length),
				logdrive.Bool("fin", true))
			return
		case *qlog.AckFrame:
			if len(f.AckRanges) == 1 {
				r.logger.Put(ackReceived, []uint64{uint64(h.PacketNumber), uint64(e.Raw.Length), uint64(f.AckRanges[0].Smallest),
					uint64(f.AckRanges[0].Largest), uint64(f.DelayTime)})
				return
			}
		}
	}
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	buffer.text = appendFrames(buffer.text[:0], e.Frames)
	r.logger.Debug("packet_received", logdrive.String("type", string(h.PacketType)), logdrive.Int64("pn", int64(h.PacketNumber)),
		logdrive.Int("length", e.Raw.Length), logdrive.Bytes("frames", buffer.text))
}

// metrics writes what the congestion controller knows. With every packet that is sent only its bytes are in flight in
// addition; times and the window are written when they are others than those of the last record that has them.
func (r recorder) metrics(e *qlog.MetricsUpdated) {
	window := window{int64(e.MinRTT), int64(e.SmoothedRTT), int64(e.LatestRTT), int64(e.RTTVariance), int64(e.CongestionWindow)}
	if r.window.is(&window) {
		r.logger.Put(flightShape, []uint64{uint64(e.BytesInFlight), uint64(e.PacketsInFlight)})
		return
	}
	if r.logger.Put(metricsShape, []uint64{uint64(e.MinRTT), uint64(e.SmoothedRTT), uint64(e.LatestRTT), uint64(e.RTTVariance),
		uint64(e.CongestionWindow), uint64(e.BytesInFlight), uint64(e.PacketsInFlight)}) {
		r.window.keep(&window)
	}
}

func (r recorder) timer(e *qlog.TimerUpdated) {
	if e.EncLevel == level1RTT && e.Type == qlog.TimerEventTypeSet && !e.Time.IsZero() {
		r.logger.Put(timerShape, []uint64{uint64(time.Until(e.Time))}, string(e.TimerType))
		return
	}
	if e.Time.IsZero() {
		r.logger.Debug("loss_timer_updated", logdrive.String("event", string(e.Type)), logdrive.String("timer", string(e.TimerType)),
			logdrive.Uint8("encryption_level", uint8(e.EncLevel)))
		return
	}
	r.logger.Debug("loss_timer_updated", logdrive.String("event", string(e.Type)), logdrive.String("timer", string(e.TimerType)),
		logdrive.Uint8("encryption_level", uint8(e.EncLevel)), logdrive.Int64("delta_ns", int64(time.Until(e.Time))))
}
