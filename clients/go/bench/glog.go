package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// glogs is W1 from 12 goroutines: text, nothing lost, until the last byte is with the kernel.
func glogs() []subject {
	lines := 2_000_000
	if *quick {
		lines = 120_000
	}
	var all []subject
	for _, rival := range rivals() {
		switch rival.name {
		case "slog-noop", "logdrive-go-coarse", "logdrive-go-slog", "phuslu-async", "slog-text":
			continue
		}
		all = append(all, subject{rival.name, func(dir string) (figures, error) { return glog(dir, rival, lines) }})
	}
	return all
}

func glog(dir string, rival rival, lines int) (figures, error) {
	const goroutines = 12
	call, close, err := rival.start(dir)
	if err != nil {
		return nil, err
	}
	call(0)
	began, cpuBefore := time.Now(), cpu()
	var group sync.WaitGroup
	for range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for at := range uint64(lines / goroutines) {
				call(at)
			}
		}()
	}
	group.Wait()
	if err := close(); err != nil {
		return nil, err
	}
	wall := time.Since(began).Seconds()
	found, err := countLines(dir)
	if err != nil {
		return nil, err
	}
	want := lines/goroutines*goroutines + 1
	return figures{"wall_s": wall, "cpu_s": cpu() - cpuBefore, "lost_lines": float64(want - found)}, nil
}

func countLines(dir string) (int, error) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	if len(paths) != 1 {
		return 0, fmt.Errorf("%d logs in %s", len(paths), dir)
	}
	file, err := os.Open(paths[0])
	if err != nil {
		return 0, err
	}
	defer file.Close()
	reader, room, count := bufio.NewReader(file), make([]byte, 1<<20), 0
	for {
		read, err := reader.Read(room)
		count += bytes.Count(room[:read], []byte{'\n'})
		if err == io.EOF {
			return count, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
