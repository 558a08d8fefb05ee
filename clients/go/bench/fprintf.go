package main

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"sort"
	"sync"
	"time"
)

// fprintfs is the first half of W6: one line after the other, until all is with the kernel.
func fprintfs() []subject {
	lines := 3_000_000
	if *quick {
		lines = 200_000
	}
	all := []subject{{"fprintf", func(dir string) (figures, error) {
		to, err := newLocked(dir)
		if err != nil {
			return nil, err
		}
		return formatted(lines, func(id uint64) {
			fmt.Fprintf(to, "order filled id=%d price=%g lot=%d side=%s\n", id, 9.5, 3, side)
		}, to.Close)
	}}}
	for _, rival := range rivals() {
		if rival.name == "slog-noop" || rival.name == "logdrive-go-coarse" {
			continue
		}
		all = append(all, subject{rival.name, func(dir string) (figures, error) {
			call, close, err := rival.start(dir)
			if err != nil {
				return nil, err
			}
			return formatted(lines, call, close)
		}})
	}
	return all
}

func formatted(lines int, call func(uint64), close func() error) (figures, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for id := range uint64(lines) {
		call(id)
	}
	if err := close(); err != nil {
		return nil, err
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return figures{
		"ops_per_ms":    float64(lines) / float64(took.Milliseconds()),
		"bytes_per_op":  float64((after.TotalAlloc - before.TotalAlloc) / uint64(lines)),
		"allocs_per_op": float64((after.Mallocs - before.Mallocs) / uint64(lines)),
	}, nil
}

// https is the second half: a server that writes ten debug lines a request, and its load in the same process, so that
// both share the cores.
func https() []subject {
	all := []subject{{"none", func(string) (figures, error) { return serve(func(uint64) {}, func() error { return nil }) }}}
	for _, rival := range rivals() {
		if rival.name == "slog-noop" || rival.name == "logdrive-go-coarse" {
			continue
		}
		all = append(all, subject{rival.name, func(dir string) (figures, error) {
			call, close, err := rival.start(dir)
			if err != nil {
				return nil, err
			}
			return serve(call, close)
		}})
	}
	return all
}

// serve measures requests over connections that stay open.
func serve(call func(uint64), close func() error) (figures, error) {
	span := 3 * time.Second
	if *quick {
		span = 300 * time.Millisecond
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for line := range uint64(10) {
			call(line)
		}
		_, _ = w.Write([]byte("ok\n"))
	})}
	listener, err := listen()
	if err != nil {
		return nil, err
	}
	go func() { _ = server.Serve(listener) }()
	const clients = 64
	var group sync.WaitGroup
	took := make([][]float64, clients)
	request := []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	end := time.Now().Add(span)
	for client := range clients {
		group.Add(1)
		go func() {
			defer group.Done()
			conn, err := dial(listener)
			if err != nil {
				return
			}
			defer conn.Close()
			room := make([]byte, 4096)
			for time.Now().Before(end) {
				began := time.Now()
				if _, err := conn.Write(request); err != nil {
					return
				}
				count, err := conn.Read(room)
				if err != nil || !bytes.HasSuffix(room[:count], []byte("ok\n")) {
					return
				}
				took[client] = append(took[client], time.Since(began).Seconds()*1e3)
			}
		}()
	}
	group.Wait()
	_ = server.Close() // The clients have ended.
	if err := close(); err != nil {
		return nil, err
	}
	var all []float64
	for _, one := range took {
		all = append(all, one...)
	}
	sort.Float64s(all)
	if len(all) == 0 {
		return nil, fmt.Errorf("no request was answered")
	}
	return figures{"http_qps": float64(len(all)) / span.Seconds(), "http_p99_ms": all[len(all)*99/100]}, nil
}
