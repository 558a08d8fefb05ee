package quicgo

import (
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
		to = append(to, "ack("...)
		for at := range f.AckRanges {
			if at > 0 {
				to = append(to, ',')
			}
			to = strconv.AppendInt(to, int64(f.AckRanges[at].Smallest), 10)
			to = append(to, ".."...)
			to = strconv.AppendInt(to, int64(f.AckRanges[at].Largest), 10)
		}
		return append(to, ')')
	case *qlog.CryptoFrame:
		return appendCall(to, "crypto", f.Offset, f.Length)
	case *qlog.DatagramFrame:
		return appendCall(to, "datagram", f.Length)
	case *qlog.MaxDataFrame:
		return appendCall(to, "max_data", int64(f.MaximumData))
	case *qlog.MaxStreamDataFrame:
		return appendCall(to, "max_stream_data", int64(f.StreamID), int64(f.MaximumStreamData))
	case *qlog.MaxStreamsFrame:
		return appendCall(to, "max_streams", int64(f.Type), int64(f.MaxStreamNum))
	case *qlog.DataBlockedFrame:
		return appendCall(to, "data_blocked", int64(f.MaximumData))
	case *qlog.StreamDataBlockedFrame:
		return appendCall(to, "stream_data_blocked", int64(f.StreamID), int64(f.MaximumStreamData))
	case *qlog.StreamsBlockedFrame:
		return appendCall(to, "streams_blocked", int64(f.Type), int64(f.StreamLimit))
	case *qlog.ResetStreamFrame:
		return appendCall(to, "reset_stream", int64(f.StreamID), int64(f.ErrorCode), int64(f.FinalSize))
	case *qlog.StopSendingFrame:
		return appendCall(to, "stop_sending", int64(f.StreamID), int64(f.ErrorCode))
	case *qlog.NewConnectionIDFrame:
		return appendCall(to, "new_connection_id", int64(f.SequenceNumber), int64(f.RetirePriorTo))
	case *qlog.RetireConnectionIDFrame:
		return appendCall(to, "retire_connection_id", int64(f.SequenceNumber))
	case *qlog.ConnectionCloseFrame:
		to = appendCall(to, "connection_close", int64(f.ErrorCode))
		to = append(to[:len(to)-1], ',')
		return append(strconv.AppendQuote(to, f.ReasonPhrase), ')')
	case *qlog.NewTokenFrame:
		return appendCall(to, "new_token", int64(len(f.Token)))
	}
	return append(to, nameOf(frame)...)
}

// nameOf is the name of a frame without anything in it that is worth a word.
func nameOf(frame any) string {
	switch frame.(type) {
	case *qlog.PingFrame:
		return "ping"
	case *qlog.HandshakeDoneFrame:
		return "handshake_done"
	case *qlog.PathChallengeFrame:
		return "path_challenge"
	case *qlog.PathResponseFrame:
		return "path_response"
	case *qlog.AckFrequencyFrame:
		return "ack_frequency"
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
