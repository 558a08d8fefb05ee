package main

import (
	"strings"
	"sync"
	"time"
)

// goroutines write one log file, as many as the threads of the workload.
const goroutines = 12

// glog is W1: the clock stops when the last byte is with the kernel. Who calls counts the lines.
func glog(name string, given settings) (figures, error) {
	each, length := given.number("lines")/goroutines, given.number("message_bytes")
	text := strings.Repeat("filled by the matching engine, quantity and price agreed. ", length/50+1)[:length]
	logger, err := start(name, given["path"])
	if err != nil {
		return nil, err
	}
	var group sync.WaitGroup
	cpu, began := cpuSeconds(), time.Now()
	for range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for range each {
				logger.line(text)
			}
		}()
	}
	group.Wait()
	if err := logger.finish(); err != nil {
		return nil, err
	}
	return figures{"wall_s": time.Since(began).Seconds(), "cpu_s": cpuSeconds() - cpu, "peak_rss_mib": peakMiB()}, nil
}
