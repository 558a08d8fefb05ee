package quicgo

import (
	"encoding/hex"
	"strconv"
	"sync"

	"github.com/quic-go/quic-go/qlog"
)

// Frames of packets that are neither one stream frame nor one acknowledgement, which have fields of their own, become a
// text, such as "ack(7..12) stream(0,8192,1200)".

type buffer struct{ text []byte }

var buffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, 512)} }}

func appendFrames(to []byte, frames []qlog.Frame) []byte {
	for at := range frames {
		if at > 0 {
			to = append(to, ' ')
		}
		to = appendFrame(to, frames[at].Frame)
	}
	return to
}

func appendFrame(to []byte, frame any) []byte {
	switch f := frame.(type) {
	case *qlog.StreamFrame:
		to = appendCall(to, "stream", int64(f.StreamID), f.Offset, f.Length)
		if f.Fin {
			to = append(to[:len(to)-1], ",fin)"...)
		}
		return to
	case *qlog.AckFrame:
		return appendAck(to, f)
	case *qlog.CryptoFrame:
		return appendCall(to, "crypto", f.Offset, f.Length)
	case *qlog.DatagramFrame:
		return appendCall(to, "datagram", f.Length)
	case *qlog.MaxDataFrame:
		return appendCall(to, "max_data", int64(f.MaximumData))
	case *qlog.MaxStreamDataFrame:
		return appendCall(to, "max_stream_data", int64(f.StreamID), int64(f.MaximumStreamData))
	case *qlog.MaxStreamsFrame:
		return appendStreams(to, "max_streams", f.Type == bidirectional, int64(f.MaxStreamNum))
	case *qlog.DataBlockedFrame:
		return appendCall(to, "data_blocked", int64(f.MaximumData))
	case *qlog.StreamDataBlockedFrame:
		return appendCall(to, "stream_data_blocked", int64(f.StreamID), int64(f.MaximumStreamData))
	case *qlog.StreamsBlockedFrame:
		return appendStreams(to, "streams_blocked", f.Type == bidirectional, int64(f.StreamLimit))
	case *qlog.ResetStreamFrame:
		if f.ReliableSize > 0 {
			return appendCall(to, "reset_stream_at", int64(f.StreamID), int64(f.ErrorCode), int64(f.FinalSize), int64(f.ReliableSize))
		}
		return appendCall(to, "reset_stream", int64(f.StreamID), int64(f.ErrorCode), int64(f.FinalSize))
	case *qlog.StopSendingFrame:
		return appendCall(to, "stop_sending", int64(f.StreamID), int64(f.ErrorCode))
	case *qlog.NewConnectionIDFrame:
		to = appendCall(to, "new_connection_id", int64(f.SequenceNumber), int64(f.RetirePriorTo))
		to = append(to[:len(to)-1], ',')
		return append(hex.AppendEncode(to, f.ConnectionID.Bytes()), ')')
	case *qlog.RetireConnectionIDFrame:
		return appendCall(to, "retire_connection_id", int64(f.SequenceNumber))
	case *qlog.ConnectionCloseFrame:
		return appendClose(to, f)
	case *qlog.NewTokenFrame:
		return appendCall(to, "new_token", int64(len(f.Token)))
	case *qlog.PathChallengeFrame:
		return append(hex.AppendEncode(append(to, "path_challenge("...), f.Data[:]), ')')
	case *qlog.PathResponseFrame:
		return append(hex.AppendEncode(append(to, "path_response("...), f.Data[:]), ')')
	case *qlog.AckFrequencyFrame:
		return appendCall(to, "ack_frequency", int64(f.SequenceNumber), int64(f.AckElicitingThreshold), int64(f.RequestMaxAckDelay),
			int64(f.ReorderingThreshold))
	}
	return append(to, nameOf(frame)...)
}

// bidirectional is the type of streams that both ends write, whose number is quic-go's own.
const bidirectional = 1

// appendAck appends "ack(1..5,7..9,delay=25000,ecn=5/0/0)": ranges, the delay in nanoseconds, and counts of ECN marks.
func appendAck(to []byte, f *qlog.AckFrame) []byte {
	to = append(to, "ack("...)
	for at := range f.AckRanges {
		if at > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(to, int64(f.AckRanges[at].Smallest), 10)
		to = append(to, ".."...)
		to = strconv.AppendInt(to, int64(f.AckRanges[at].Largest), 10)
	}
	if f.DelayTime > 0 {
		to = strconv.AppendInt(append(to, ",delay="...), int64(f.DelayTime), 10)
	}
	if f.ECT0 > 0 || f.ECT1 > 0 || f.ECNCE > 0 {
		to = strconv.AppendUint(append(to, ",ecn="...), f.ECT0, 10)
		to = strconv.AppendUint(append(to, '/'), f.ECT1, 10)
		to = strconv.AppendUint(append(to, '/'), f.ECNCE, 10)
	}
	return append(to, ')')
}

func appendStreams(to []byte, name string, isBidirectional bool, number int64) []byte {
	to = append(append(to, name...), '(')
	if isBidirectional {
		to = append(to, "bidirectional,"...)
	} else {
		to = append(to, "unidirectional,"...)
	}
	return append(strconv.AppendInt(to, number, 10), ')')
}

// appendClose appends "connection_close(transport,CODE,FRAME,REASON)". The reason is the peer's.
func appendClose(to []byte, f *qlog.ConnectionCloseFrame) []byte {
	name := "connection_close(transport"
	if f.IsApplicationError {
		name = "connection_close(application"
	}
	to = strconv.AppendUint(append(append(to, name...), ','), f.ErrorCode, 10)
	to = strconv.AppendUint(append(to, ','), f.FrameType, 10)
	return append(appendForeign(append(to, ','), f.ReasonPhrase), ')')
}

// appendForeign appends a text of the peer, with a percent sign and two digits for each byte that is not a letter, a digit,
// a space, or one of a few marks that have no meaning in the text of frames.
func appendForeign(to []byte, text string) []byte {
	const digits = "0123456789abcdef"
	for at := range len(text) {
		switch b := text[at]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == ' ', b == '-', b == '_', b == '.', b == ':', b == '=', b == '/':
			to = append(to, b)
		default:
			to = append(to, '%', digits[b>>4], digits[b&15])
		}
	}
	return to
}

// nameOf is the name of a frame without anything in it that is worth a word.
func nameOf(frame any) string {
	switch frame.(type) {
	case *qlog.PingFrame:
		return "ping"
	case *qlog.HandshakeDoneFrame:
		return "handshake_done"
	case *qlog.ImmediateAckFrame:
		return "immediate_ack"
	}
	return "frame"
}

func appendCall(to []byte, name string, numbers ...int64) []byte {
	to = append(append(to, name...), '(')
	for at, number := range numbers {
		if at > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(to, number, 10)
	}
	return append(to, ')')
}
