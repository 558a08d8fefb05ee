package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"
)

// fprintf is W6: the same line again and again until all is with the kernel, and a server that writes ten debug lines a
// request.
func fprintf(name string, given settings) (figures, error) {
	got := figures{}
	if name != "none" {
		if err := formatted(name, given, got); err != nil {
			return nil, err
		}
	}
	var logger subject = none{}
	if name != "none" {
		var err error
		if logger, err = start(name, given["path"]); err != nil {
			return nil, err
		}
	}
	if err := serve(logger, time.Duration(given.number("http_ms"))*time.Millisecond, got); err != nil {
		return nil, err
	}
	return got, logger.finish()
}

func formatted(name string, given settings, got figures) error {
	logger, err := start(name, given["path"])
	if err != nil {
		return err
	}
	defer os.Remove(given["path"]) // The server's log is another one.
	calls := given.number("lines")
	var before, after runtime.MemStats
	call(logger, 0)
	runtime.ReadMemStats(&before)
	began := time.Now()
	for number := range uint64(calls) {
		call(logger, number)
	}
	if err := logger.finish(); err != nil {
		return err
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	got["ops_per_ms"] = float64(calls) / (took.Seconds() * 1e3)
	got["bytes_per_op"] = float64((after.TotalAlloc - before.TotalAlloc) / uint64(calls))
	got["allocs_per_op"] = float64((after.Mallocs - before.Mallocs) / uint64(calls))
	return nil
}

const (
	// clients are connections that stay open and ask for the next answer when they have one: the load is in the same
	// process as the server, so that both have the same cores.
	clients         = 64
	linesPerRequest = 10
	// warmUp is how long the clients run before the clock starts.
	warmUp = 300 * time.Millisecond
)

var (
	request = []byte("GET /order?id=7 HTTP/1.1\r\nHost: x\r\n\r\n")
	answer  = []byte("filled\n")
)

// serve measures requests a second, and how long one takes.
func serve(logger subject, span time.Duration, got figures) error {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for line := range uint64(linesPerRequest) {
			logger.four(line, 9.5, int32(line), r.URL.Path)
		}
		_, _ = w.Write(answer) // A client that has gone is missed below.
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = server.Serve(listener) }() // It ends with the listener.
	begin := time.Now().Add(warmUp)
	end := begin.Add(span)
	var group sync.WaitGroup
	took, failed := make([][]float64, clients), make([]error, clients)
	for client := range clients {
		group.Add(1)
		go func() {
			defer group.Done()
			took[client], failed[client] = ask(listener.Addr().String(), begin, end)
		}()
	}
	group.Wait()
	_ = server.Close() // The clients have ended.
	var all []float64
	for client := range clients {
		if failed[client] != nil {
			return failed[client]
		}
		all = append(all, took[client]...)
	}
	got["http_qps"] = float64(len(all)) / span.Seconds()
	got["http_p50_ms"], got["http_p99_ms"] = quantile(all, 0.5), quantile(all, 0.99)
	return nil
}

// ask is one client; the times of its requests in milliseconds.
func ask(address string, begin, end time.Time) ([]float64, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	took, room := make([]float64, 0, 1<<13), make([]byte, 4096)
	for {
		asked := time.Now()
		if asked.After(end) {
			return took, nil
		}
		if _, err := conn.Write(request); err != nil {
			return nil, err
		}
		count, err := conn.Read(room)
		if err != nil {
			return nil, err
		}
		if !bytes.HasSuffix(room[:count], answer) {
			return nil, fmt.Errorf("an answer of %d bytes that is none", count)
		}
		if asked.After(begin) {
			took = append(took, time.Since(asked).Seconds()*1e3)
		}
	}
}
