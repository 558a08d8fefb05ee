package quicgo

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strconv"
	"time"

	"github.com/logdrive/logdrive/clients/go"
	http3 "github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
	"github.com/quic-go/quic-go/qlogwriter/jsontext"
)

// rare writes what happens some times on a connection.
func (r recorder) rare(event qlogwriter.Event) {
	switch e := event.(type) {
	case qlog.StartedConnection:
		r.tuple("connection_started", "", e.Local, e.Remote)
	case qlog.TupleAssigned:
		r.tuple("tuple_assigned", e.TupleID, e.Local, e.Remote)
	case qlog.ConnectionClosed:
		code, space := int64(-1), ""
		if e.ConnectionError != nil {
			code, space = int64(*e.ConnectionError), "transport"
		} else if e.ApplicationError != nil {
			code, space = int64(*e.ApplicationError), "application"
		}
		r.logger.Debug("connection_closed", logdrive.String("initiator", string(e.Initiator)), logdrive.Int64("code", code),
			logdrive.String("space", space),
			logdrive.String("reason", e.Reason), logdrive.String("trigger", string(e.Trigger)))
	case qlog.ConnectionStateUpdated:
		r.logger.Debug("connection_state_updated", logdrive.String("state", string(e.State)))
	case qlog.DatagramDropped:
		r.logger.Debug("datagram_dropped", logdrive.String("direction", string(e.Direction)), logdrive.Int("length", e.Raw.Length),
			logdrive.Int("payload", e.Raw.PayloadLength),
			logdrive.String("trigger", e.Trigger))
	case qlog.MTUUpdated:
		r.logger.Debug("mtu_updated", logdrive.Int("mtu", e.Value), logdrive.Bool("done", e.Done))
	case qlog.SpuriousLoss:
		r.logger.Debug("spurious_loss", logdrive.String("space", spaceOf(e.EncryptionLevel)), logdrive.Int64("pn", int64(e.PacketNumber)), logdrive.Uint64("reordering", e.PacketReordering),
			logdrive.Int64("time_reordering_ns", int64(e.TimeReordering)))
	case qlog.KeyUpdated:
		r.logger.Debug("key_updated", logdrive.String("key", string(e.KeyType)), logdrive.String("trigger", string(e.Trigger)),
			logdrive.Uint64("phase", uint64(e.KeyPhase)))
	case qlog.KeyDiscarded:
		r.logger.Debug("key_discarded", logdrive.String("key", string(e.KeyType)), logdrive.Uint64("phase", uint64(e.KeyPhase)))
	case qlog.ECNStateUpdated:
		r.logger.Debug("ecn_state_updated", logdrive.String("state", string(e.State)), logdrive.String("trigger", e.Trigger))
	case qlog.ALPNInformation:
		r.logger.Debug("alpn_information", logdrive.String("alpn", e.ChosenALPN))
	case qlog.VersionInformation:
		r.versions(&e)
	case qlog.VersionNegotiationReceived:
		r.negotiated("version_negotiation_received", &e.Header, e.SupportedVersions)
	case qlog.VersionNegotiationSent:
		r.negotiated("version_negotiation_sent", &e.Header, e.SupportedVersions)
	case qlog.StreamPriorityUpdated:
		r.logger.Debug("priority_updated", logdrive.Int64("stream", int64(e.StreamID)), logdrive.Int8("urgency", e.Urgency),
			logdrive.Bool("incremental", e.Incremental))
	case qlog.DebugEvent:
		r.logger.Debug("debug", logdrive.String("event", e.EventName), logdrive.String("text", e.Message))
	case qlog.RecoveryParametersSet:
		r.logger.Debug("recovery_parameters_set", logdrive.Uint16("reordering_threshold", e.ReorderingThreshold),
			logdrive.Bool("packet_threshold_disabled", e.PacketThresholdDisabled), logdrive.Float64("time_threshold", e.TimeThreshold),
			logdrive.Int64("timer_granularity_ns", int64(e.TimerGranularity)),
			logdrive.Int64("initial_congestion_window", int64(e.InitialCongestionWindow)), logdrive.Int64("initial_rtt_ns", int64(e.InitialRTT)))
	case qlog.ParametersSet:
		r.parameters(&e)
	case qlog.ParametersRestored:
		r.logger.Debug("parameters_restored", logdrive.Uint64("active_connection_id_limit", e.ActiveConnectionIDLimit),
			logdrive.Int64("max_data", int64(e.InitialMaxData)),
			logdrive.Int64("max_stream_data_bidi_local", int64(e.InitialMaxStreamDataBidiLocal)),
			logdrive.Int64("max_stream_data_bidi_remote", int64(e.InitialMaxStreamDataBidiRemote)),
			logdrive.Int64("max_stream_data_uni", int64(e.InitialMaxStreamDataUni)),
			logdrive.Int64("max_streams_bidi", e.InitialMaxStreamsBidi), logdrive.Int64("max_streams_uni", e.InitialMaxStreamsUni),
			logdrive.Int64("max_datagram_frame_size", int64(e.MaxDatagramFrameSize)), logdrive.Bool("reset_stream_at", e.EnableResetStreamAt))
	default:
		r.overHTTP(event)
	}
}

// tuple writes an event about the two ends of a path.
func (r recorder) tuple(name, id string, local, remote qlog.TupleEndpointInfo) {
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	text := appendAddress(buffer.text[:0], local)
	split := len(text)
	text = appendAddress(text, remote)
	buffer.text = text
	r.logger.Debug(name, logdrive.String("tuple", id), logdrive.Bytes("local", text[:split]), logdrive.Bytes("remote", text[split:]))
}

func appendAddress(to []byte, tuple qlog.TupleEndpointInfo) []byte {
	for _, of := range [...]netip.AddrPort{tuple.IPv4, tuple.IPv6} {
		if of.IsValid() {
			return of.AppendTo(to)
		}
	}
	return to
}

func (r recorder) negotiated(name string, h *qlog.PacketHeaderVersionNegotiation, versions []qlog.Version) {
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	text := hex.AppendEncode(buffer.text[:0], h.DestConnectionID.Bytes())
	first := len(text)
	text = hex.AppendEncode(text, h.SrcConnectionID.Bytes())
	second := len(text)
	text = appendVersions(text, versions)
	buffer.text = text
	r.logger.Debug(name, logdrive.Bytes("dcid", text[:first]), logdrive.Bytes("scid", text[first:second]),
		logdrive.Bytes("versions", text[second:]))
}

// versions writes the versions that both ends know, as far as they are known, and the one that they use.
func (r recorder) versions(e *qlog.VersionInformation) {
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	text := appendVersions(buffer.text[:0], e.ClientVersions)
	split := len(text)
	text = appendVersions(text, e.ServerVersions)
	buffer.text = text
	r.logger.Debug("version_information", logdrive.Uint32("version", uint32(e.ChosenVersion)), logdrive.Bytes("client", text[:split]),
		logdrive.Bytes("server", text[split:]))
}

func appendVersions(to []byte, versions []qlog.Version) []byte {
	for at, version := range versions {
		if at > 0 {
			to = append(to, ' ')
		}
		to = strconv.AppendUint(to, uint64(version), 16)
	}
	return to
}

// perspectiveServer is quic-go's own number of the server's end.
const perspectiveServer = 1

// parameters writes what one end asks of the other. The token that resets a connection is a secret, and left out.
func (r recorder) parameters(e *qlog.ParametersSet) {
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	text := hex.AppendEncode(buffer.text[:0], e.OriginalDestinationConnectionID.Bytes())
	first := len(text)
	text = hex.AppendEncode(text, e.InitialSourceConnectionID.Bytes())
	second := len(text)
	text = hex.AppendEncode(text, e.RetrySourceConnectionID.Bytes())
	buffer.text = text
	r.logger.Debug("parameters_set", logdrive.String("initiator", string(e.Initiator)), logdrive.Bool("by_server", e.SentBy == perspectiveServer),
		logdrive.Bool("has_retry", e.RetrySourceConnectionID.Valid()),
		logdrive.Bytes("original_destination", text[:first]), logdrive.Bytes("initial_source", text[first:second]),
		logdrive.Bytes("retry_source", text[second:]),
		logdrive.Bool("disable_active_migration", e.DisableActiveMigration), logdrive.Int64("max_idle_timeout_ns", int64(e.MaxIdleTimeout)),
		logdrive.Int64("max_udp_payload_size", int64(e.MaxUDPPayloadSize)), logdrive.Uint8("ack_delay_exponent", e.AckDelayExponent),
		logdrive.Int64("max_ack_delay_ns", int64(e.MaxAckDelay)), logdrive.Uint64("active_connection_id_limit", e.ActiveConnectionIDLimit),
		logdrive.Int64("max_data", int64(e.InitialMaxData)),
		logdrive.Int64("max_stream_data_bidi_local", int64(e.InitialMaxStreamDataBidiLocal)),
		logdrive.Int64("max_stream_data_bidi_remote", int64(e.InitialMaxStreamDataBidiRemote)),
		logdrive.Int64("max_stream_data_uni", int64(e.InitialMaxStreamDataUni)),
		logdrive.Int64("max_streams_bidi", e.InitialMaxStreamsBidi), logdrive.Int64("max_streams_uni", e.InitialMaxStreamsUni),
		logdrive.Int64("max_datagram_frame_size", int64(e.MaxDatagramFrameSize)), logdrive.Bool("reset_stream_at", e.EnableResetStreamAt))
}

// overHTTP writes events of HTTP/3. Values of headers are left out: they are the program's, and may be secrets.
func (r recorder) overHTTP(event qlogwriter.Event) {
	switch e := event.(type) {
	case http3.FrameParsed:
		buffer := buffers.Get().(*buffer)
		defer buffers.Put(buffer)
		buffer.text = appendHTTPFrame(buffer.text[:0], e.Frame.Frame)
		r.logger.Debug("http3_frame_parsed", logdrive.Int64("stream", int64(e.StreamID)), logdrive.Int("length", e.Raw.Length),
			logdrive.Int("payload", e.Raw.PayloadLength), logdrive.Bytes("frame", buffer.text))
	case http3.FrameCreated:
		buffer := buffers.Get().(*buffer)
		defer buffers.Put(buffer)
		buffer.text = appendHTTPFrame(buffer.text[:0], e.Frame.Frame)
		r.logger.Debug("http3_frame_created", logdrive.Int64("stream", int64(e.StreamID)), logdrive.Int("length", e.Raw.Length),
			logdrive.Int("payload", e.Raw.PayloadLength), logdrive.Bytes("frame", buffer.text))
	case http3.DatagramCreated:
		r.logger.Debug("http3_datagram_created", logdrive.Uint64("quarter_stream", e.QuarterStreamID), logdrive.Int("length", e.Raw.Length),
			logdrive.Int("payload", e.Raw.PayloadLength))
	case http3.DatagramParsed:
		r.logger.Debug("http3_datagram_parsed", logdrive.Uint64("quarter_stream", e.QuarterStreamID), logdrive.Int("length", e.Raw.Length),
			logdrive.Int("payload", e.Raw.PayloadLength))
	case http3.StreamTypeSet:
		r.logger.Debug("http3_stream_type_set", logdrive.String("initiator", string(e.Initiator)), logdrive.Int64("stream", int64(e.StreamID)),
			logdrive.String("type", string(e.StreamType)), logdrive.Uint64("type_number", e.StreamTypeBytes))
	default:
		r.foreign(event)
	}
}

func appendHTTPFrame(to []byte, frame any) []byte {
	switch f := frame.(type) {
	case http3.DataFrame:
		return append(to, "data"...)
	case http3.HeadersFrame:
		to = append(to, "headers("...)
		for at := range f.HeaderFields {
			if at > 0 {
				to = append(to, ',')
			}
			to = appendForeign(to, f.HeaderFields[at].Name)
		}
		return append(to, ')')
	case http3.GoAwayFrame:
		return appendCall(to, "goaway", int64(f.StreamID))
	case http3.SettingsFrame:
		to = appendCall(to, "settings", f.MaxFieldSectionSize, f.Datagram, f.ExtendedConnect)
		to = to[:len(to)-1]
		for number, value := range f.Other {
			to = strconv.AppendUint(append(to, ','), number, 10)
			to = strconv.AppendUint(append(to, '='), value, 10)
		}
		return append(to, ')')
	case http3.PushPromiseFrame:
		return append(to, "push_promise"...)
	case http3.CancelPushFrame:
		return append(to, "cancel_push"...)
	case http3.MaxPushIDFrame:
		return append(to, "max_push_id"...)
	case http3.PriorityUpdateFrame:
		to = appendCall(to, "priority_update", int64(f.StreamID))
		return append(appendForeign(append(to[:len(to)-1], ','), f.PriorityFieldValue), ')')
	case http3.ReservedFrame:
		return appendCall(to, "reserved", int64(f.Type))
	case http3.UnknownFrame:
		return appendCall(to, "unknown", int64(f.Type))
	}
	return append(to, "frame"...)
}

// foreign writes what this package knows nothing of: events of programs that record their own, and of later versions. It is
// the JSON that the event makes of itself, which allocates.
func (r recorder) foreign(event qlogwriter.Event) {
	var text bytes.Buffer
	encoder := jsontext.NewEncoder(&text)
	if err := event.Encode(encoder, time.Now()); err != nil {
		r.logger.Debug("event", logdrive.String("name", event.Name()), logdrive.Err(err))
		return
	}
	r.logger.Debug("event", logdrive.String("name", event.Name()), logdrive.Bytes("data", bytes.TrimSpace(text.Bytes())))
}
