package quicgo

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/logdrive/logdrive/clients/go"
	"github.com/quic-go/quic-go"
	http3 "github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
	"github.com/quic-go/quic-go/qlogwriter/jsontext"
)

func program(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("LOGDRIVE_BIN"); bin != "" {
		return bin
	}
	for _, profile := range []string{"release", "debug"} {
		if bin, err := filepath.Abs(filepath.Join("..", "..", "..", "target", profile, "logdrive")); err == nil {
			if _, err := os.Stat(bin); err == nil {
				return bin
			}
		}
	}
	bin, err := exec.LookPath("logdrive")
	if err != nil {
		t.Skip("the program logdrive is missing: cargo build -p logdrive-cli")
	}
	return bin
}

func started(t testing.TB, sinks ...logdrive.Sink) (*logdrive.Logger, string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("LOGDRIVE", "")
	t.Setenv("LOGDRIVE_AGENT", "off")
	path := filepath.Join(dir, "quic.log")
	logger, err := logdrive.Start(logdrive.Options{App: "quic", Path: path, RunDir: filepath.Join(dir, "run"), Level: "debug",
		Bin: program(t), Full: logdrive.FullBlock, Sinks: sinks})
	if err != nil {
		t.Fatal(err)
	}
	return logger, path
}

func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	bytes, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{bytes}, PrivateKey: key}
}

// transfer sends bytes over one stream of one connection.
func transfer(t testing.TB, tracer *Tracer, bytes int) {
	t.Helper()
	transferTraced(t, tracer.ForConnection, bytes)
}

func transferTraced(t testing.TB, tracer func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace, bytes int) {
	t.Helper()
	config := &quic.Config{Tracer: tracer}
	listener, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate(t)}, NextProtos: []string{"x"}}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	got := make(chan int64, 1)
	go func() {
		conn, err := listener.Accept(ctx)
		if err != nil {
			got <- -1
			return
		}
		stream, err := conn.AcceptUniStream(ctx)
		if err != nil {
			got <- -1
			return
		}
		count, _ := io.Copy(io.Discard, stream)
		got <- count
	}()
	conn, err := quic.DialAddr(ctx, listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"x"}}, config)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := conn.OpenUniStream()
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 8192)
	for left := bytes; left > 0; left -= len(chunk) {
		if _, err := stream.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	stream.Close()
	if count := <-got; count != int64(bytes) {
		t.Fatalf("%d bytes arrived of %d", count, bytes)
	}
	_ = conn.CloseWithError(0, "done")
}

func TestATransferLeavesItsEventsInTheLog(t *testing.T) {
	logger, path := started(t)
	transfer(t, New(logger), 1<<20)
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" trace_started conn=", " connection_started conn=", " packet_sent conn=", " packet_received conn=", " metrics_updated conn=",
		" stream=2 offset=", " ack_from=", " frames=", " side=client ", " side=server ",
		" parameters_set conn=", " recovery_parameters_set conn=", " quic-go events.go:"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no line has %q", want)
		}
	}
	// The last frame of the stream comes alone, or with others.
	if !strings.Contains(string(text), " fin=true") && !strings.Contains(string(text), ",fin)") {
		t.Error("no line has the stream's end")
	}
	if strings.Contains(string(text), " event conn=") {
		t.Error("an event of quic-go has no fields of its own")
	}
	if strings.Contains(string(text), "records dropped") {
		t.Error("events were lost")
	}
}

// TestMetricsTellWhatHasChanged records metrics as quic-go does with every packet: most of them are those before.
func TestMetricsTellWhatHasChanged(t *testing.T) {
	logger, path := started(t)
	recorder := New(logger).ForConnection(context.Background(), true, quic.ConnectionIDFromBytes([]byte{1, 2, 3, 4})).AddProducer()
	now := qlog.MetricsUpdated{MinRTT: 1, SmoothedRTT: 2, LatestRTT: 3, RTTVariance: 4, CongestionWindow: 5, BytesInFlight: 6, PacketsInFlight: 7}
	for range 2 {
		recorder.RecordEvent(now)
		now.BytesInFlight++
	}
	now.LatestRTT = 9
	recorder.RecordEvent(now)
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	// The log says so if the directory of the session is on a disk.
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "the session is in ") })
	want := []string{
		" trace_started conn=01020304 side=client id=01020304",
		" metrics_updated conn=01020304 side=client min_rtt_ns=1 smoothed_rtt_ns=2 latest_rtt_ns=3 rtt_variance_ns=4 congestion_window=5 bytes_in_flight=6 packets_in_flight=7",
		" metrics_updated conn=01020304 side=client bytes_in_flight=7 packets_in_flight=7",
		" metrics_updated conn=01020304 side=client min_rtt_ns=1 smoothed_rtt_ns=2 latest_rtt_ns=9 rtt_variance_ns=4 congestion_window=5 bytes_in_flight=8 packets_in_flight=7",
	}
	if len(lines) != len(want) {
		t.Fatalf("%s", text)
	}
	for at := range want {
		if !strings.HasSuffix(lines[at], want[at]) {
			t.Errorf("%s, expected %s", lines[at], want[at])
		}
	}
}

func TestConnectionsAndEventsAreSampled(t *testing.T) {
	logger, path := started(t)
	tracer := New(logger)
	tracer.SampleConnections(4)
	var kept []qlogwriter.Trace
	for range 8 {
		if trace := tracer.ForConnection(context.Background(), true, quic.ConnectionIDFromBytes([]byte{1, 2, 3, 4})); trace != nil {
			kept = append(kept, trace)
		}
	}
	if len(kept) != 2 {
		t.Fatalf("%d connections of 8 are kept", len(kept))
	}
	if !tracer.SampleEvent("packet_sent", 10) || tracer.SampleEvent("nothing", 1) {
		t.Fatal("the names of events are not told apart")
	}
	recorder := kept[0].AddProducer()
	for range 100 {
		recorder.RecordEvent(qlog.PacketSent{Header: qlog.PacketHeader{PacketType: qlog.PacketType1RTT}})
	}
	tracer.SampleEvent("packet_sent", 0)
	recorder.RecordEvent(qlog.PacketSent{})
	tracer.SampleEvent("packet_sent", 1)
	recorder.RecordEvent(qlog.PacketSent{})
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if count := strings.Count(string(text), " packet_sent "); count != 11 {
		t.Fatalf("%d lines", count)
	}
}

// foreign is an event of a program's own.
type foreign struct{}

func (foreign) Name() string { return "shop:filled" }
func (foreign) Encode(to *jsontext.Encoder, _ time.Time) error {
	for _, token := range []jsontext.Token{jsontext.BeginObject, jsontext.String("id"), jsontext.Int(7), jsontext.EndObject} {
		if err := to.WriteToken(token); err != nil {
			return err
		}
	}
	return nil
}

func TestEventsThatAreNotKnownTellTheirJSON(t *testing.T) {
	logger, path := started(t)
	trace := New(logger).ForConnection(context.Background(), false, quic.ConnectionIDFromBytes([]byte{1, 2, 3, 4}))
	recorder := trace.AddProducer()
	recorder.RecordEvent(foreign{})
	recorder.RecordEvent(http3.FrameParsed{StreamID: 4, Frame: http3.Frame{Frame: http3.HeadersFrame{
		HeaderFields: []http3.HeaderField{{Name: "authorization", Value: "secret"}}}}})
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	if err := logger.Close(); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	for _, want := range []string{` event conn=01020304 side=server name=shop:filled data="{\"id\":7}"`, " stream=4 ", " frame=headers(authorization)"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no line has %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "secret") {
		t.Error("the value of a header is in the log")
	}
}

func TestEventsAllocateNothing(t *testing.T) {
	logger, _ := started(t)
	defer logger.Close()
	trace := New(logger).ForConnection(context.Background(), true, quic.ConnectionIDFromBytes([]byte{1, 2, 3, 4}))
	recorder := trace.AddProducer()
	if level1RTT == 0 {
		t.Error("the number of 1-RTT's level is not found")
	}
	short := qlog.PacketHeader{PacketType: qlog.PacketType1RTT}
	for name, event := range map[string]qlogwriter.Event{
		"typed":   qlog.PacketSent{Frames: []qlog.Frame{{Frame: &qlog.StreamFrame{StreamID: 4, Length: 1200}}}},
		"stream":  qlog.PacketSent{Header: short, Frames: []qlog.Frame{{Frame: &qlog.StreamFrame{StreamID: 4, Length: 1200}}}},
		"last":    qlog.PacketReceived{Header: short, Frames: []qlog.Frame{{Frame: &qlog.StreamFrame{StreamID: 4, Fin: true}}}},
		"set":     qlog.TimerUpdated{Type: qlog.TimerEventTypeSet, TimerType: "pto", EncLevel: level1RTT, Time: time.Now()},
		"ack":     qlog.PacketReceived{Header: short, Frames: []qlog.Frame{{Frame: &qlog.AckFrame{AckRanges: []qlog.AckRange{{Smallest: 1, Largest: 9}}}}}},
		"several": qlog.PacketSent{Frames: []qlog.Frame{{Frame: &qlog.PingFrame{}}, {Frame: &qlog.MaxDataFrame{MaximumData: 7}}}},
		"metrics": qlog.MetricsUpdated{SmoothedRTT: time.Millisecond},
		"timer":   qlog.TimerUpdated{Time: time.Now()},
		"started": qlog.StartedConnection{Local: qlog.TupleEndpointInfo{IPv4: netip.MustParseAddrPort("127.0.0.1:4433")}},
		"asked":   qlog.ParametersSet{InitialSourceConnectionID: quic.ConnectionIDFromBytes([]byte{1, 2})},
		"lost":    qlog.PacketLost{Trigger: qlog.PacketLossTimeThreshold},
		"closed":  qlog.ConnectionClosed{Reason: "done"},
		"dropped": qlog.PacketDropped{Trigger: qlog.PacketDropDuplicate},
		"http3":   http3.FrameParsed{StreamID: 4, Frame: http3.Frame{Frame: http3.DataFrame{}}},
	} {
		recorder.RecordEvent(event)
		if allocs := testing.AllocsPerRun(500, func() { recorder.RecordEvent(event) }); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

// BenchmarkPacketSent is the event of which there are the most.
func BenchmarkPacketSent(b *testing.B) {
	dir := b.TempDir()
	b.Setenv("LOGDRIVE", "")
	b.Setenv("LOGDRIVE_AGENT", "off")
	logger, err := logdrive.Start(logdrive.Options{App: "quic test", Path: filepath.Join(dir, "quic.log"), RunDir: filepath.Join(dir, "run"),
		Level: "debug", Bin: program(b), Full: logdrive.FullBlock})
	if err != nil {
		b.Fatal(err)
	}
	defer logger.Close()
	recorder := New(logger).ForConnection(context.Background(), true, quic.ConnectionIDFromBytes([]byte{1, 2, 3, 4, 5, 6, 7, 8})).AddProducer()
	var event qlogwriter.Event = qlog.PacketSent{Header: qlog.PacketHeader{PacketType: qlog.PacketType1RTT},
		Frames: []qlog.Frame{{Frame: &qlog.StreamFrame{StreamID: 4, Length: 1200}}}}
	b.ReportAllocs()
	for b.Loop() {
		recorder.RecordEvent(event)
	}
}
