package quicgo

import (
	"encoding/binary"
	"encoding/hex"
	"unsafe"

	"github.com/logdrive/logdrive/clients/go"
	"github.com/quic-go/quic-go/qlog"
)

// Shapes of packets. A packet of 1-RTT whose connection ID, version, ECN mark, key phase and bytes of header are those of
// the last one of its direction leaves these out: there are some thousands of packets for a megabyte, and each byte is
// written to a file.
var (
	streamSent     = streamShape("packet_sent")
	streamReceived = streamShape("packet_received")
	ackSent        = ackShape("packet_sent")
	ackReceived    = ackShape("packet_received")
	markedSent     = ackShape("packet_sent", logdrive.Uint64("ect0", 0))
	markedReceived = ackShape("packet_received", logdrive.Uint64("ect0", 0))
	framesSent     = framesShape("packet_sent")
	framesReceived = framesShape("packet_received")
	shortSent      = shortShape("packet_sent")
	shortReceived  = shortShape("packet_received")
	longSent       = longShape("packet_sent")
	longReceived   = longShape("packet_received")
	lostShape      = logdrive.NewShape(logdrive.LevelDebug, "packet_lost", logdrive.String("type", ""), logdrive.Int64("pn", 0),
		logdrive.Bool("mtu_probe", false), logdrive.String("trigger", ""))
	droppedShape  = unreadShape("packet_dropped", logdrive.String("trigger", ""))
	bufferedShape = unreadShape("packet_buffered")
)

func packetShape(name string, fields ...logdrive.Field) *logdrive.Shape {
	return logdrive.NewShape(logdrive.LevelDebug, name,
		append([]logdrive.Field{logdrive.Int64("pn", 0), logdrive.Int("length", 0)}, fields...)...)
}

func streamShape(name string) *logdrive.Shape {
	return packetShape(name, logdrive.Int64("stream", 0), logdrive.Int64("offset", 0), logdrive.Int64("bytes", 0))
}

func ackShape(name string, fields ...logdrive.Field) *logdrive.Shape {
	return packetShape(name, append([]logdrive.Field{logdrive.Int64("ack_from", 0), logdrive.Int64("ack_to", 0),
		logdrive.Int64("delay_ns", 0)}, fields...)...)
}

func framesShape(name string) *logdrive.Shape {
	return packetShape(name, logdrive.String("frames", ""))
}

func shortShape(name string) *logdrive.Shape {
	return packetShape(name, logdrive.Int("payload", 0), logdrive.Int8("key_phase", 0), logdrive.Uint32("version", 0),
		logdrive.Uint32("checksum", 0), logdrive.Bool("mtu_probe", false), logdrive.String("dcid", ""), logdrive.String("ecn", ""),
		logdrive.String("tuple", ""), logdrive.String("trigger", ""), logdrive.String("frames", ""))
}

func longShape(name string) *logdrive.Shape {
	return packetShape(name, logdrive.Int("payload", 0), logdrive.Uint32("version", 0), logdrive.Int("token", 0),
		logdrive.Uint32("checksum", 0), logdrive.String("type", ""), logdrive.String("dcid", ""), logdrive.String("scid", ""),
		logdrive.String("ecn", ""), logdrive.String("tuple", ""), logdrive.String("trigger", ""), logdrive.String("frames", ""))
}

// unreadShape is that of a packet whose frames are not known.
func unreadShape(name string, fields ...logdrive.Field) *logdrive.Shape {
	return packetShape(name, append([]logdrive.Field{logdrive.Int("payload", 0), logdrive.Uint32("version", 0), logdrive.Int("token", 0),
		logdrive.Uint32("checksum", 0), logdrive.Int8("key_phase", 0), logdrive.String("type", ""), logdrive.String("dcid", ""),
		logdrive.String("scid", "")}, fields...)...)
}

// packet is what events of packets that were sent and that were received have in common.
type packet struct {
	isSent         bool
	header         *qlog.PacketHeader
	raw            qlog.RawInfo
	frames         []qlog.Frame
	ecn            qlog.ECN
	checksum       qlog.DatagramPayloadChecksum
	tuple, trigger string
	isProbe        bool
}

func (r recorder) sent(e *qlog.PacketSent) {
	r.packet(&packet{true, &e.Header, e.Raw, e.Frames, e.ECN, e.DatagramPayloadChecksum, e.Tuple, e.Trigger, e.IsMTUProbePacket},
		&r.lastSent)
}

func (r recorder) received(e *qlog.PacketReceived) {
	r.packet(&packet{false, &e.Header, e.Raw, e.Frames, e.ECN, e.DatagramPayloadChecksum, e.Tuple, e.Trigger, false},
		&r.lastReceived)
}

// packet writes a packet; last has the parts of the last one of its direction.
func (r recorder) packet(p *packet, last *lastValues) {
	if p.header.PacketType != qlog.PacketType1RTT {
		r.long(p)
		return
	}
	now := p.parts()
	if p.checksum != 0 || p.tuple != "" || p.trigger != "" || p.isProbe || !last.is(&now) {
		if r.short(p) {
			last.keep(&now)
		}
		return
	}
	if len(p.frames) == 1 && r.single(p) {
		return
	}
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	buffer.text = appendFrames(buffer.text[:0], p.frames)
	numbers := []uint64{uint64(p.header.PacketNumber), uint64(p.raw.Length)}
	if p.isSent {
		r.logger.Put(framesSent, numbers, textOf(buffer.text))
		return
	}
	r.logger.Put(framesReceived, numbers, textOf(buffer.text))
}

// single writes a packet of one usual frame; false for another one.
func (r recorder) single(p *packet) bool {
	switch f := p.frames[0].Frame.(type) {
	case *qlog.StreamFrame:
		if f.Fin {
			return false
		}
		numbers := []uint64{uint64(p.header.PacketNumber), uint64(p.raw.Length), uint64(f.StreamID), uint64(f.Offset), uint64(f.Length)}
		if p.isSent {
			r.logger.Put(streamSent, numbers)
		} else {
			r.logger.Put(streamReceived, numbers)
		}
		return true
	case *qlog.AckFrame:
		if len(f.AckRanges) != 1 || f.ECT1 != 0 || f.ECNCE != 0 {
			return false
		}
		numbers := []uint64{uint64(p.header.PacketNumber), uint64(p.raw.Length), uint64(f.AckRanges[0].Smallest),
			uint64(f.AckRanges[0].Largest), uint64(f.DelayTime), f.ECT0}
		switch {
		case f.ECT0 == 0 && p.isSent:
			r.logger.Put(ackSent, numbers[:5])
		case f.ECT0 == 0:
			r.logger.Put(ackReceived, numbers[:5])
		case p.isSent:
			r.logger.Put(markedSent, numbers)
		default:
			r.logger.Put(markedReceived, numbers)
		}
		return true
	}
	return false
}

// parts are what most packets of 1-RTT have in common: the connection ID, and in the last two words the bytes of the header,
// the ECN mark, the key phase and the version.
func (p *packet) parts() (now values) {
	var id [24]byte
	id[23] = byte(copy(id[:], p.header.DestConnectionID.Bytes())) + 1
	if !p.header.DestConnectionID.Valid() {
		id[23] = 0
	}
	for at := range 3 {
		now[at] = int64(binary.LittleEndian.Uint64(id[8*at:]))
	}
	header := int64(-1)
	if p.raw.PayloadLength != qlog.OmitLength {
		header = int64(p.raw.Length - p.raw.PayloadLength)
	}
	now[3] = header<<16 | int64(p.header.KeyPhaseBit)
	// Texts of marks differ in their length and their fifth letter.
	if len(p.ecn) > 4 {
		now[3] |= int64(p.ecn[4]) << 8
	}
	now[4] = int64(p.header.Version)<<8 | int64(len(p.ecn))
	return now
}

// short writes a packet of 1-RTT with all its fields. It reports whether there is a record.
func (r recorder) short(p *packet) bool {
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	text := appendID(buffer.text[:0], p.header.DestConnectionID)
	split := len(text)
	text = appendFrames(text, p.frames)
	buffer.text = text
	numbers := []uint64{uint64(p.header.PacketNumber), uint64(p.raw.Length), uint64(p.raw.PayloadLength),
		keyPhase(p.header), uint64(p.header.Version), uint64(p.checksum), oneIf(p.isProbe)}
	if p.isSent {
		return r.logger.Put(shortSent, numbers, textOf(text[:split]), string(p.ecn), p.tuple, p.trigger, textOf(text[split:]))
	}
	return r.logger.Put(shortReceived, numbers, textOf(text[:split]), string(p.ecn), p.tuple, p.trigger, textOf(text[split:]))
}

// long writes a packet with a long header.
func (r recorder) long(p *packet) {
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	text, first, second := appendIDs(buffer.text[:0], p.header)
	text = appendFrames(text, p.frames)
	buffer.text = text
	numbers := []uint64{uint64(p.header.PacketNumber), uint64(p.raw.Length), uint64(p.raw.PayloadLength), uint64(p.header.Version),
		tokenBytes(p.header), uint64(p.checksum)}
	if p.isSent {
		r.logger.Put(longSent, numbers, string(p.header.PacketType), textOf(text[:first]), textOf(text[first:second]), string(p.ecn),
			p.tuple, p.trigger, textOf(text[second:]))
		return
	}
	r.logger.Put(longReceived, numbers, string(p.header.PacketType), textOf(text[:first]), textOf(text[first:second]), string(p.ecn),
		p.tuple, p.trigger, textOf(text[second:]))
}

func (r recorder) lost(e *qlog.PacketLost) {
	r.logger.Put(lostShape, []uint64{uint64(e.Header.PacketNumber), oneIf(e.IsMTUProbePacket)}, string(e.Header.PacketType),
		string(e.Trigger))
}

func (r recorder) dropped(e *qlog.PacketDropped) {
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	text, first, second := appendIDs(buffer.text[:0], &e.Header)
	buffer.text = text
	r.logger.Put(droppedShape, unread(&e.Header, &e.Raw, e.DatagramPayloadChecksum), string(e.Header.PacketType),
		textOf(text[:first]), textOf(text[first:second]), string(e.Trigger))
}

func (r recorder) buffered(e *qlog.PacketBuffered) {
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	text, first, second := appendIDs(buffer.text[:0], &e.Header)
	buffer.text = text
	r.logger.Put(bufferedShape, unread(&e.Header, &e.Raw, e.DatagramPayloadChecksum), string(e.Header.PacketType),
		textOf(text[:first]), textOf(text[first:second]))
}

// unread are the numbers of a packet whose frames are not known.
func unread(h *qlog.PacketHeader, raw *qlog.RawInfo, checksum qlog.DatagramPayloadChecksum) []uint64 {
	return []uint64{uint64(h.PacketNumber), uint64(raw.Length), uint64(raw.PayloadLength), uint64(h.Version), tokenBytes(h),
		uint64(checksum), keyPhase(h)}
}

// appendIDs appends both connection IDs, and tells where each ends.
func appendIDs(to []byte, h *qlog.PacketHeader) (text []byte, first, second int) {
	to = appendID(to, h.DestConnectionID)
	first = len(to)
	to = appendID(to, h.SrcConnectionID)
	return to, first, len(to)
}

// appendID appends a connection ID, or "-" where there is none: an ID may be empty.
func appendID(to []byte, id qlog.ConnectionID) []byte {
	if !id.Valid() {
		return append(to, '-')
	}
	return hex.AppendEncode(to, id.Bytes())
}

// keyPhase is the bit of a packet's header, -1 where it has none.
func keyPhase(h *qlog.PacketHeader) uint64 {
	switch h.KeyPhaseBit {
	case qlog.KeyPhaseZero:
		return 0
	case qlog.KeyPhaseOne:
		return 1
	}
	return ^uint64(0)
}

// tokenBytes is the length of the token in a packet's header, -1 where it has none. The token itself is a secret.
func tokenBytes(h *qlog.PacketHeader) uint64 {
	if h.Token == nil {
		return ^uint64(0)
	}
	return uint64(len(h.Token.Raw))
}

// textOf is a buffer as a text, for a call that copies it.
func textOf(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

func oneIf(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}
