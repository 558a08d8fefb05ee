package quicgo

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/logdrive/logdrive/clients/go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	http3qlog "github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// qlogText is what quic-go's own writer of qlog has written.
type qlogText struct {
	lock   sync.Mutex
	text   bytes.Buffer
	closed chan struct{}
}

func (w *qlogText) Write(text []byte) (int, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.text.Write(text)
}

func (w *qlogText) Close() error {
	close(w.closed)
	return nil
}

// both gives each event to two traces, in the same order.
type both struct {
	lock   sync.Mutex
	traces [2]qlogwriter.Trace
}

func (b *both) SupportsSchemas(string) bool { return true }

func (b *both) AddProducer() qlogwriter.Recorder {
	return &bothRecorder{b, [2]qlogwriter.Recorder{b.traces[0].AddProducer(), b.traces[1].AddProducer()}}
}

type bothRecorder struct {
	*both
	recorders [2]qlogwriter.Recorder
}

func (b *bothRecorder) RecordEvent(event qlogwriter.Event) {
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, recorder := range b.recorders {
		recorder.RecordEvent(event)
	}
}

func (b *bothRecorder) Close() error {
	for _, recorder := range b.recorders {
		_ = recorder.Close() // Neither has an error.
	}
	return nil
}

// bothOf traces connections with a tracer and with quic-go's own writer, whose texts it keeps by connection and side.
type bothOf struct {
	tracer *Tracer
	lock   sync.Mutex
	texts  map[string]*qlogText
}

func (b *bothOf) forConnection(ctx context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
	side := "server"
	if isClient {
		side = "client"
	}
	text := &qlogText{closed: make(chan struct{})}
	b.lock.Lock()
	b.texts[id.String()+" "+side] = text
	b.lock.Unlock()
	own := qlogwriter.NewConnectionFileSeq(text, isClient, id)
	go own.Run()
	return &both{traces: [2]qlogwriter.Trace{b.tracer.ForConnection(ctx, isClient, id), own}}
}

// sequence takes a JSON text sequence apart.
func sequence(t *testing.T, text []byte) (all []map[string]any) {
	t.Helper()
	for _, part := range bytes.Split(text, []byte{qlogwriter.RecordSeparator})[1:] {
		var value map[string]any
		if err := json.Unmarshal(part, &value); err != nil {
			t.Fatalf("%v: %s", err, part)
		}
		all = append(all, value)
	}
	return all
}

// withoutSecrets takes away what records do not have, and times, which come from another clock.
func withoutSecrets(event map[string]any) map[string]any {
	delete(event, "time")
	return withoutSecretsOf("", event).(map[string]any)
}

func withoutSecretsOf(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		for _, secret := range []string{"stateless_reset_token", "delta", "preferred_address"} {
			delete(value, secret)
		}
		if key == "token" {
			return "a token"
		}
		if key == "headers" {
			delete(value, "value")
			delete(value, "value_bytes")
		}
		for name, inner := range value {
			value[name] = withoutSecretsOf(name, inner)
		}
	case []any:
		for at := range value {
			value[at] = withoutSecretsOf(key, value[at])
		}
	}
	return value
}

// shown is the trace of a connection that the command makes of the log.
func shown(t *testing.T, path, id, side string) []map[string]any {
	t.Helper()
	text, err := exec.Command(program(t), "cat", "--format", "qlog", "--field", "conn="+id[:min(len(id), 2*connBytes)],
		"--field", "side="+side, path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return sequence(t, text)
}

// compare checks that the command makes the traces of a log that quic-go wrote itself, and returns the names of their events.
func compare(t *testing.T, path string, texts map[string]*qlogText) (names []string) {
	t.Helper()
	for connection, text := range texts {
		select {
		case <-text.closed:
		case <-time.After(time.Minute):
			t.Fatal("a trace has no end")
		}
		id, side, _ := strings.Cut(connection, " ")
		theirs, ours := sequence(t, text.text.Bytes()), shown(t, path, id, side)
		if len(ours) != len(theirs) {
			t.Fatalf("%d events of the %s, quic-go has %d", len(ours), side, len(theirs))
		}
		head, same := ours[0], theirs[0]
		for _, key := range []string{"file_schema", "serialization_format", "qlog_format", "qlog_version"} {
			if head[key] != same[key] {
				t.Errorf("%s is %v, not %v", key, head[key], same[key])
			}
		}
		fields := func(of map[string]any) any {
			return of["trace"].(map[string]any)["common_fields"].(map[string]any)["group_id"]
		}
		if fields(head) != fields(same) || !reflect.DeepEqual(head["trace"].(map[string]any)["vantage_point"], same["trace"].(map[string]any)["vantage_point"]) {
			t.Errorf("the trace is %v, not %v", head["trace"], same["trace"])
		}
		begin := timeOf(ours[1]) - timeOf(theirs[1])
		for at := 1; at < len(ours); at++ {
			if apart := timeOf(ours[at]) - timeOf(theirs[at]) - begin; math.Abs(apart) > 500 {
				t.Fatalf("event %d is %v ms apart", at, apart)
			}
			if ours, theirs := withoutSecrets(ours[at]), withoutSecrets(theirs[at]); !reflect.DeepEqual(ours, theirs) {
				t.Fatalf("event %d of the %s is\n%v\nand not\n%v", at, side, ours, theirs)
			}
			names = append(names, ours[at]["name"].(string))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func timeOf(event map[string]any) float64 { return event["time"].(float64) }

// TestQlogIsThatOfQuicGo traces a transfer with quic-go's own writer of qlog, too, and compares what `logdrive cat` makes of
// the log, and of a segment, with its events.
func TestQlogIsThatOfQuicGo(t *testing.T) {
	segment := filepath.Join(t.TempDir(), "quic.segment")
	logger, path := started(t, logdrive.Sink{Path: segment, Layout: logdrive.Segments})
	traced := &bothOf{tracer: New(logger), texts: map[string]*qlogText{}}
	transferTraced(t, traced.forConnection, 1<<20)
	awaitTraces(t, traced)
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	compare(t, segment, traced.texts)
	names := compare(t, path, traced.texts)
	for _, name := range []string{"transport:packet_sent", "transport:packet_received", "recovery:metrics_updated",
		"recovery:loss_timer_updated", "transport:parameters_set", "transport:connection_started", "transport:connection_closed",
		"security:key_discarded", "transport:alpn_information", "transport:version_information"} {
		if !slices.Contains(names, name) {
			t.Errorf("no event has the name %s: %v", name, names)
		}
	}
}

func awaitTraces(t *testing.T, traced *bothOf) {
	t.Helper()
	traced.lock.Lock()
	defer traced.lock.Unlock()
	for _, text := range traced.texts {
		select {
		case <-text.closed:
		case <-time.After(time.Minute):
			t.Fatal("a trace has no end")
		}
	}
}

// TestQlogOfHTTPIsThatOfQuicGo does the same with requests of HTTP/3, whose frames were written without their names.
func TestQlogOfHTTPIsThatOfQuicGo(t *testing.T) {
	logger, path := started(t)
	traced := &bothOf{tracer: New(logger), texts: map[string]*qlogText{}}
	config := &quic.Config{Tracer: traced.forConnection}
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http3.Server{QUICConfig: config, TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{certificate(t)}}),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "filled") })}
	go func() { _ = server.Serve(socket) }() // It ends with the server.
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, QUICConfig: config}
	client := &http.Client{Transport: transport}
	for range 3 {
		answer, err := client.Get("https://" + socket.LocalAddr().String() + "/order?id=7")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "filled" {
			t.Fatalf("%q %v", text, err)
		}
		answer.Body.Close()
	}
	_ = transport.Close()
	_ = server.Close()
	awaitTraces(t, traced)
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	names := compare(t, path, traced.texts)
	for _, name := range []string{"http3:frame_parsed", "http3:frame_created"} {
		if !slices.Contains(names, name) {
			t.Errorf("no event has the name %s: %v", name, names)
		}
	}
}

// TestQlogOfRareEventsIsThatOfQuicGo records one of each event and frame that a transfer seldom has.
func TestQlogOfRareEventsIsThatOfQuicGo(t *testing.T) {
	logger, path := started(t)
	traced := &bothOf{tracer: New(logger), texts: map[string]*qlogText{}}
	recorder := traced.forConnection(context.Background(), true, quic.ConnectionIDFromBytes([]byte{1, 2, 3, 4, 5, 6, 7, 8})).AddProducer()
	for _, event := range rareEvents() {
		recorder.RecordEvent(event)
	}
	_ = recorder.Close()
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	compare(t, path, traced.texts)
}

func rareEvents() []qlogwriter.Event {
	id := quic.ConnectionIDFromBytes([]byte{1, 2, 3, 4})
	refused, own := qlog.TransportErrorCode(2), qlog.ApplicationErrorCode(7)
	unknown, crypto := qlog.TransportErrorCode(0x77), qlog.TransportErrorCode(0x12a)
	short := qlog.PacketHeader{PacketType: qlog.PacketType1RTT, KeyPhaseBit: qlog.KeyPhaseOne, PacketNumber: 7, Version: 1, DestConnectionID: id}
	initial := qlog.PacketHeader{PacketType: qlog.PacketTypeInitial, PacketNumber: 2, Version: 1, DestConnectionID: id,
		Token: &qlog.Token{Raw: []byte("secret")}}
	raw, omitted := qlog.RawInfo{Length: 100, PayloadLength: 80}, qlog.RawInfo{Length: 100, PayloadLength: qlog.OmitLength}
	events := []qlogwriter.Event{
		qlog.PacketSent{Header: initial, Raw: raw, DatagramPayloadChecksum: 77, ECN: qlog.ECNCE, Trigger: "pto"},
		qlog.PacketReceived{Header: qlog.PacketHeader{PacketType: qlog.PacketTypeRetry, SrcConnectionID: id}, Raw: omitted},
		qlog.PacketReceived{Header: qlog.PacketHeader{}, Raw: omitted},
		qlog.PacketSent{Header: short, Raw: raw, Tuple: "second", IsMTUProbePacket: true, ECN: qlog.ECT0},
		qlog.PacketSent{Header: short, Raw: raw, ECN: qlog.ECT0},
		qlog.PacketSent{Header: short, Raw: raw, ECN: qlog.ECT1},
		qlog.PacketSent{Header: short, Raw: raw, ECN: qlog.ECTNot, DatagramPayloadChecksum: 9},
		qlog.PacketReceived{Header: short, Raw: omitted},
		qlog.PacketReceived{Header: short, Raw: omitted},
		qlog.PacketLost{Header: qlog.PacketHeader{PacketType: qlog.PacketType1RTT, PacketNumber: 7}, Trigger: qlog.PacketLossTimeThreshold, IsMTUProbePacket: true},
		qlog.PacketDropped{Header: qlog.PacketHeader{PacketNumber: -1, DestConnectionID: id}, Raw: omitted, Trigger: qlog.PacketDropUnknownConnectionID},
		qlog.PacketDropped{Header: initial, Raw: raw, Trigger: qlog.PacketDropDuplicate},
		qlog.PacketBuffered{Header: initial, Raw: raw},
		qlog.ConnectionClosed{Initiator: qlog.InitiatorLocal, ConnectionError: &refused, Reason: "no, (100 %) \"no\""},
		qlog.ConnectionClosed{Initiator: qlog.InitiatorRemote, ConnectionError: &unknown},
		qlog.ConnectionClosed{Initiator: qlog.InitiatorRemote, ConnectionError: &crypto},
		qlog.ConnectionClosed{Initiator: qlog.InitiatorRemote, ApplicationError: &own, Trigger: qlog.ConnectionCloseTriggerApplication},
		qlog.ConnectionClosed{Initiator: qlog.InitiatorLocal, Trigger: qlog.ConnectionCloseTriggerIdleTimeout},
		qlog.DatagramDropped{Direction: qlog.DirectionSending, Raw: raw, Trigger: "queue_full"},
		qlog.SpuriousLoss{EncryptionLevel: level1RTT, PacketNumber: 5, PacketReordering: 3, TimeReordering: 1500 * time.Microsecond},
		qlog.KeyUpdated{Trigger: qlog.KeyUpdateRemote, KeyType: qlog.KeyTypeClient1RTT, KeyPhase: 3},
		qlog.KeyUpdated{Trigger: qlog.KeyUpdateTLS, KeyType: qlog.KeyTypeClientHandshake},
		qlog.KeyDiscarded{KeyType: qlog.KeyTypeServer1RTT, KeyPhase: 2},
		qlog.ECNStateUpdated{State: qlog.ECNStateFailed, Trigger: "lost"},
		qlog.VersionInformation{ClientVersions: []qlog.Version{1, 0x6b3343cf}, ServerVersions: []qlog.Version{1}, ChosenVersion: 0x6b3343cf},
		qlog.VersionNegotiationReceived{Header: qlog.PacketHeaderVersionNegotiation{SrcConnectionID: []byte{1}, DestConnectionID: []byte{}}, SupportedVersions: []qlog.Version{1, 2}},
		qlog.VersionNegotiationSent{SupportedVersions: []qlog.Version{1}},
		qlog.StreamPriorityUpdated{StreamID: 4, Urgency: 3, Incremental: true},
		qlog.DebugEvent{EventName: "own", Message: "a text"}, qlog.DebugEvent{Message: "b"},
		qlog.RecoveryParametersSet{ReorderingThreshold: 3, TimeThreshold: 1.125, TimerGranularity: time.Millisecond, InitialRTT: 333 * time.Millisecond},
		qlog.RecoveryParametersSet{PacketThresholdDisabled: true, TimeThreshold: 2, InitialCongestionWindow: 40000},
		qlog.ParametersRestored{InitialMaxData: 5, EnableResetStreamAt: true, MaxDatagramFrameSize: -1},
		qlog.ParametersSet{Initiator: qlog.InitiatorRemote, SentBy: perspectiveServer, OriginalDestinationConnectionID: id,
			RetrySourceConnectionID: id, InitialSourceConnectionID: id, MaxIdleTimeout: 30 * time.Second, MaxDatagramFrameSize: 1200},
		qlog.PTOCountUpdated{PTOCount: 2}, qlog.CongestionStateUpdated{State: qlog.CongestionStateRecovery},
		qlog.MTUUpdated{Value: 1452, Done: true}, qlog.TimerUpdated{Type: qlog.TimerEventTypeCancelled},
		qlog.TimerUpdated{Type: qlog.TimerEventTypeExpired, TimerType: qlog.TimerTypePTO, EncLevel: 1, Time: time.Now()},
		qlog.TimerUpdated{Type: qlog.TimerEventTypeSet, TimerType: qlog.TimerTypeACK, EncLevel: 2, Time: time.Now()},
		qlog.MetricsUpdated{SmoothedRTT: time.Millisecond, CongestionWindow: 1}, qlog.MetricsUpdated{SmoothedRTT: time.Millisecond, CongestionWindow: 1, BytesInFlight: 2},
		http3qlog.StreamTypeSet{Initiator: http3qlog.InitiatorLocal, StreamID: 3, StreamType: http3qlog.StreamTypeUnknown, StreamTypeBytes: 0x21},
		http3qlog.DatagramParsed{QuarterStreamID: 3, Raw: http3qlog.RawInfo{Length: 9, PayloadLength: 8}},
		foreign{},
	}
	for _, frame := range []any{&qlog.PingFrame{}, &qlog.ImmediateAckFrame{}, &qlog.HandshakeDoneFrame{},
		&qlog.AckFrame{AckRanges: []qlog.AckRange{{Smallest: 7, Largest: 9}, {Smallest: 1, Largest: 1}}, DelayTime: 25 * time.Microsecond, ECT0: 5, ECNCE: 1},
		&qlog.ResetStreamFrame{StreamID: 4, ErrorCode: 1, FinalSize: 9}, &qlog.ResetStreamFrame{StreamID: 4, FinalSize: 9, ReliableSize: 3},
		&qlog.StopSendingFrame{StreamID: 4, ErrorCode: 1}, &qlog.CryptoFrame{Offset: 1, Length: 2}, &qlog.NewTokenFrame{Token: []byte("secret")},
		&qlog.StreamFrame{StreamID: 4, Offset: 1, Length: 2, Fin: true}, &qlog.MaxDataFrame{MaximumData: 4}, &qlog.MaxStreamDataFrame{StreamID: 4, MaximumStreamData: 9},
		&qlog.MaxStreamsFrame{Type: bidirectional, MaxStreamNum: 9}, &qlog.MaxStreamsFrame{MaxStreamNum: 9}, &qlog.DataBlockedFrame{MaximumData: 9},
		&qlog.StreamDataBlockedFrame{StreamID: 4, MaximumStreamData: 9}, &qlog.StreamsBlockedFrame{StreamLimit: 9},
		&qlog.NewConnectionIDFrame{SequenceNumber: 3, RetirePriorTo: 1, ConnectionID: id}, &qlog.RetireConnectionIDFrame{SequenceNumber: 3},
		&qlog.PathChallengeFrame{Data: [8]byte{1, 2}}, &qlog.PathResponseFrame{Data: [8]byte{3}}, &qlog.DatagramFrame{Length: 7},
		&qlog.AckFrequencyFrame{SequenceNumber: 1, AckElicitingThreshold: 2, RequestMaxAckDelay: 1500 * time.Microsecond, ReorderingThreshold: 3},
		&qlog.ConnectionCloseFrame{ErrorCode: 10, FrameType: 8, ReasonPhrase: "a (b), 100 %"}, &qlog.ConnectionCloseFrame{IsApplicationError: true, ErrorCode: 9},
		&qlog.ConnectionCloseFrame{ErrorCode: 10, FrameType: 0x7777, ReasonPhrase: "\xff"}} {
		events = append(events, qlog.PacketReceived{Header: short, Raw: raw, Frames: []qlog.Frame{{Frame: frame}, {Frame: &qlog.PingFrame{}}}},
			qlog.PacketReceived{Header: short, Raw: raw, Frames: []qlog.Frame{{Frame: frame}}})
	}
	for _, frame := range []any{http3qlog.DataFrame{}, http3qlog.HeadersFrame{HeaderFields: []http3qlog.HeaderField{{Name: ":status", Value: "200"}, {Name: "x-a", Value: "b"}}},
		http3qlog.GoAwayFrame{StreamID: 4}, http3qlog.SettingsFrame{MaxFieldSectionSize: -1, Datagram: 1, ExtendedConnect: 0},
		http3qlog.SettingsFrame{MaxFieldSectionSize: 4, Datagram: -1, ExtendedConnect: -1, Other: map[uint64]uint64{9: 8}},
		http3qlog.PushPromiseFrame{}, http3qlog.CancelPushFrame{}, http3qlog.MaxPushIDFrame{}, http3qlog.PriorityUpdateFrame{StreamID: 4, PriorityFieldValue: "u=1, i"},
		http3qlog.ReservedFrame{Type: 0x21}, http3qlog.UnknownFrame{Type: 0x2a}} {
		events = append(events, http3qlog.FrameCreated{StreamID: 4, Raw: http3qlog.RawInfo{Length: 9, PayloadLength: http3qlog.OmitLength}, Frame: http3qlog.Frame{Frame: frame}})
	}
	return events
}
