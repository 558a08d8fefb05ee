package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/logdrive/logdrive/clients/go/quicgo"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

type tracerOf func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace

// transfers is W5 for quic-go: one stream of 8 KB writes on each connection, one connection after the other; the server
// counts the bytes. The clock stops when the last one has arrived.
func transfers(name string, given settings) (figures, error) {
	size, connections := given.number("bytes"), given.number("connections")
	switch name {
	case "none":
		return transfer(size, connections, nil, nil)
	case "empty-tracer":
		return transfer(size, connections, emptyTracer, emptyTracer)
	case "empty-tracer-one-end":
		return transfer(size, connections, emptyTracer, nil)
	case "logdrive", "logdrive-one-end", "logdrive-sampled":
		return traced(name, given)
	case "text-file", "slow-terminal":
		return debugText(name, given)
	}
	return nil, fmt.Errorf("there is no subject of this name")
}

// emptyTracer makes quic-go build its events, without a reader: the least cost of any tracer.
func emptyTracer(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return nothing{} }

func traced(name string, given settings) (figures, error) {
	logger, err := ours(given["path"], nil)
	if err != nil {
		return nil, err
	}
	tracer := quicgo.New(logger)
	client, server := tracerOf(tracer.ForConnection), tracerOf(tracer.ForConnection)
	switch name {
	case "logdrive-one-end":
		server = nil
	case "logdrive-sampled":
		tracer.SampleConnections(16)
	}
	began := time.Now()
	got, err := transfer(given.number("bytes"), given.number("connections"), client, server)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	if err := logger.Close(); err != nil {
		return nil, err
	}
	events := logger.Stats().Records + logger.Stats().DroppedCalls()
	text, err := os.ReadFile(given["path"])
	if err != nil {
		return nil, err
	}
	got["events_per_s"] = float64(events) / took.Seconds()
	got["lost_events"] = float64(events) - float64(bytes.Count(text, []byte("\n")))
	got["log_bytes"] = float64(len(text))
	return got, nil
}

// debugText is quic-go's own debug log, as the environment switches it on: formatted where it happens, and handed to
// package log.
func debugText(name string, given settings) (figures, error) {
	const variable = "QUIC_GO_LOG_LEVEL"
	if os.Getenv(variable) == "" {
		// quic-go looks at it once, when the program starts.
		environment := append(os.Environ(), variable+"=debug")
		return nil, fmt.Errorf("begin anew: %w", syscall.Exec("/proc/self/exe", os.Args, environment))
	}
	file, err := os.Create(given["path"])
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var to io.Writer = file
	if name == "slow-terminal" {
		to = &terminal{to: file}
	}
	log.SetOutput(to)
	got, err := transfer(given.number("bytes"), given.number("connections"), nil, nil)
	log.SetOutput(io.Discard)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		got["log_bytes"] = float64(info.Size())
	}
	return got, err
}

// terminalBytesPerSecond is what a terminal takes: it is scrolled and painted line by line.
const terminalBytesPerSecond = 4_000_000

// terminal takes text as slowly as one.
type terminal struct {
	to   io.Writer
	free time.Time
}

// Write is called by package log, with its lock.
func (t *terminal) Write(text []byte) (int, error) {
	now := time.Now()
	if t.free.Before(now) {
		t.free = now
	}
	t.free = t.free.Add(time.Duration(len(text)) * time.Second / terminalBytesPerSecond)
	// Some lines at a time, because a sleep is never as short as one of them takes.
	if ahead := t.free.Sub(now); ahead > 2*time.Millisecond {
		time.Sleep(ahead)
	}
	return t.to.Write(text)
}

// nothing takes events and forgets them: what quic-go pays to make them.
type nothing struct{}

func (nothing) AddProducer() qlogwriter.Recorder { return nothing{} }
func (nothing) SupportsSchemas(string) bool      { return true }
func (nothing) RecordEvent(qlogwriter.Event)     {}
func (nothing) Close() error                     { return nil }

const protocol = "logdrive-bench"

// transferMax is how long a transfer may take: the slow terminal must not hold a run up.
const transferMax = 30 * time.Second

func transfer(size, connections int, client, server tracerOf) (figures, error) {
	certificate, err := newCertificate()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	listener, err := quic.ListenAddr("127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{protocol}}, &quic.Config{Tracer: server})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	arrived := make(chan int64)
	go func() {
		for range connections {
			arrived <- receive(ctx, listener)
		}
	}()
	began, sum := time.Now(), 0
	for range connections {
		sent, err := send(ctx, listener.Addr().String(), client, size/connections, arrived, began.Add(transferMax))
		if err != nil {
			return nil, err
		}
		sum += sent
	}
	return figures{"mb_per_s": float64(sum) / 1e6 / time.Since(began).Seconds()}, nil
}

// receive counts the bytes of a connection; -1 for one that failed.
func receive(ctx context.Context, listener *quic.Listener) int64 {
	conn, err := listener.Accept(ctx)
	if err != nil {
		return -1
	}
	stream, err := conn.AcceptUniStream(ctx)
	if err != nil {
		return -1
	}
	count, err := io.Copy(io.Discard, stream)
	if err != nil {
		return -1
	}
	return count
}

func send(ctx context.Context, address string, tracer tracerOf, size int, arrived chan int64, end time.Time) (int, error) {
	conn, err := quic.DialAddr(ctx, address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}, &quic.Config{Tracer: tracer})
	if err != nil {
		return 0, err
	}
	stream, err := conn.OpenUniStream()
	if err != nil {
		return 0, err
	}
	chunk, sent := []byte(strings.Repeat("x", 8192)), 0
	for sent < size && time.Now().Before(end) {
		count, err := stream.Write(chunk)
		if sent += count; err != nil {
			return sent, err
		}
	}
	if err := stream.Close(); err != nil {
		return sent, err
	}
	if count := <-arrived; count != int64(sent) {
		return sent, fmt.Errorf("%d bytes arrived of %d", count, sent)
	}
	return sent, conn.CloseWithError(0, "")
}

func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
