package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"time"

	logdrive "github.com/logdrive/logdrive/clients/go"
	"github.com/logdrive/logdrive/clients/go/quicgo"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

type tracerOf func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace

// quics is W5 for quic-go: one stream, 8 KB writes, the server counts.
func quics() []subject {
	traced := func(bothEnds bool, sample uint64) func(string) (figures, error) {
		return func(dir string) (figures, error) {
			logger, err := ours(dir, func(o *logdrive.Options) { o.RingBytes = 4 << 20 })
			if err != nil {
				return nil, err
			}
			tracer := quicgo.New(logger)
			tracer.SampleConnections(sample)
			client := tracerOf(tracer.ForConnection)
			server := client
			if !bothEnds {
				server = nil
			}
			got, err := transfer(client, server)
			lost := logger.Stats().DroppedCalls()
			if closing := logger.Close(); err == nil {
				err = closing
			}
			if err == nil {
				info, _ := os.Stat(filepath.Join(dir, "bench.log"))
				got["log_bytes"], got["lost_events"] = float64(info.Size()), float64(lost)
			}
			return got, err
		}
	}
	debug := func(to func(dir string) (io.WriteCloser, error)) func(string) (figures, error) {
		return func(dir string) (figures, error) {
			out, err := to(dir)
			if err != nil {
				return nil, err
			}
			defer out.Close()
			files := func(_ context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
				trace := qlogwriter.NewConnectionFileSeq(shared{out}, isClient, id)
				go trace.Run()
				return trace
			}
			return transfer(files, files)
		}
	}
	return []subject{
		{"none", func(string) (figures, error) { return transfer(nil, nil) }},
		{"logdrive", traced(true, 1)},
		{"logdrive-one-end", traced(false, 1)},
		{"logdrive-sampled-16", traced(true, 16)},
		{"text-file", debug(func(dir string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, "qlog")) })},
		{"slow-terminal", debug(func(string) (io.WriteCloser, error) { return slow{}, nil })},
	}
}

// shared is a writer that the end of one trace does not close.
type shared struct{ io.Writer }

func (shared) Close() error { return nil }

// slow takes two megabytes a second, as a terminal does.
type slow struct{}

func (slow) Write(text []byte) (int, error) {
	time.Sleep(time.Duration(len(text)) * time.Second / 2_000_000)
	return len(text), nil
}

func (slow) Close() error { return nil }

func transfer(client, server tracerOf) (figures, error) {
	bytes := 400 << 20
	if *quick {
		bytes = 20 << 20
	}
	certificate, err := newCertificate()
	if err != nil {
		return nil, err
	}
	listener, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"x"}},
		&quic.Config{Tracer: server})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	arrived := make(chan int64, 1)
	go func() {
		count := int64(-1)
		if conn, err := listener.Accept(ctx); err == nil {
			if stream, err := conn.AcceptUniStream(ctx); err == nil {
				count, _ = io.Copy(io.Discard, stream)
			}
		}
		arrived <- count
	}()
	conn, err := quic.DialAddr(ctx, listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"x"}},
		&quic.Config{Tracer: client})
	if err != nil {
		return nil, err
	}
	stream, err := conn.OpenUniStream()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	chunk := make([]byte, 8192)
	limit := 20 * time.Second
	sent := 0
	for ; sent < bytes && time.Since(began) < limit; sent += len(chunk) {
		if _, err := stream.Write(chunk); err != nil {
			return nil, err
		}
	}
	_ = stream.Close() // The other end says whether all has arrived.
	if count := <-arrived; count != int64(sent) {
		return nil, fmt.Errorf("%d bytes arrived of %d", count, sent)
	}
	rate := float64(sent) / 1e6 / time.Since(began).Seconds()
	_ = conn.CloseWithError(0, "")
	return figures{"mb_per_s": rate}, nil
}

func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	bytes, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{bytes}, PrivateKey: key}, err
}
