package quicgo

import (
	"time"

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

// RecordEvent is for quic-go: writes an event. It copies what it needs, and keeps nothing of the event.
func (r recorder) RecordEvent(event qlogwriter.Event) {
	switch e := event.(type) {
	case qlog.PacketSent:
		if r.keeps(packetSent) {
			r.sent(&e)
		}
	case qlog.PacketReceived:
		if r.keeps(packetReceived) {
			r.received(&e)
		}
	case qlog.MetricsUpdated:
		if r.keeps(metricsUpdated) {
			r.metrics(&e)
		}
	case qlog.PTOCountUpdated:
		if r.keeps(metricsUpdated) {
			r.logger.Debug("metrics_updated", logdrive.Uint32("pto_count", e.PTOCount))
		}
	case qlog.TimerUpdated:
		if r.keeps(timerUpdated) {
			r.timer(&e)
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
	if len(e.Frames) == 1 {
		switch f := e.Frames[0].Frame.(type) {
		case *qlog.StreamFrame:
			r.logger.Debug("packet_sent", logdrive.String("type", string(h.PacketType)), logdrive.Int64("pn", int64(h.PacketNumber)),
				logdrive.Int("length", e.Raw.Length), logdrive.Int64("stream", int64(f.StreamID)),
				logdrive.Int64("offset", f.Offset), logdrive.Int64("bytes", f.Length), logdrive.Bool("fin", f.Fin))
			return
		case *qlog.AckFrame:
			if len(f.AckRanges) == 1 {
				r.logger.Debug("packet_sent", logdrive.String("type", string(h.PacketType)), logdrive.Int64("pn", int64(h.PacketNumber)),
					logdrive.Int("length", e.Raw.Length), logdrive.Int64("ack_from", int64(f.AckRanges[0].Smallest)),
					logdrive.Int64("ack_to", int64(f.AckRanges[0].Largest)), logdrive.Int64("delay_ns", int64(f.DelayTime)))
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
	if len(e.Frames) == 1 {
		switch f := e.Frames[0].Frame.(type) {
		case *qlog.StreamFrame:
			r.logger.Debug("packet_received", logdrive.String("type", string(h.PacketType)), logdrive.Int64("pn", int64(h.PacketNumber)),
				logdrive.Int("length", e.Raw.Length), logdrive.Int64("stream", int64(f.StreamID)),
				logdrive.Int64("offset", f.Offset), logdrive.Int64("bytes", f.Length), logdrive.Bool("fin", f.Fin))
			return
		case *qlog.AckFrame:
			if len(f.AckRanges) == 1 {
				r.logger.Debug("packet_received", logdrive.String("type", string(h.PacketType)), logdrive.Int64("pn", int64(h.PacketNumber)),
					logdrive.Int("length", e.Raw.Length), logdrive.Int64("ack_from", int64(f.AckRanges[0].Smallest)),
					logdrive.Int64("ack_to", int64(f.AckRanges[0].Largest)), logdrive.Int64("delay_ns", int64(f.DelayTime)))
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

func (r recorder) metrics(e *qlog.MetricsUpdated) {
	r.logger.Debug("metrics_updated", logdrive.Int64("min_rtt_ns", int64(e.MinRTT)),
		logdrive.Int64("smoothed_rtt_ns", int64(e.SmoothedRTT)), logdrive.Int64("latest_rtt_ns", int64(e.LatestRTT)),
		logdrive.Int64("rtt_variance_ns", int64(e.RTTVariance)), logdrive.Int("congestion_window", e.CongestionWindow),
		logdrive.Int("bytes_in_flight", e.BytesInFlight), logdrive.Int("packets_in_flight", e.PacketsInFlight))
}

func (r recorder) timer(e *qlog.TimerUpdated) {
	if e.Time.IsZero() {
		r.logger.Debug("loss_timer_updated", logdrive.String("event", string(e.Type)), logdrive.String("timer", string(e.TimerType)),
			logdrive.Uint8("encryption_level", uint8(e.EncLevel)))
		return
	}
	r.logger.Debug("loss_timer_updated", logdrive.String("event", string(e.Type)), logdrive.String("timer", string(e.TimerType)),
		logdrive.Uint8("encryption_level", uint8(e.EncLevel)), logdrive.Int64("delta_ns", int64(time.Until(e.Time))))
}
