// Bench measures loggers of Go, the front end of this repository among them. `cargo xtask bench` calls it once for each
// subject and round, takes turns between them, and shows their rows among those of Rust and C++:
//
//	bench glog     SUBJECT path=FILE lines=N message_bytes=N
//	bench callsite SUBJECT path=FILE threads=N bursts=N batches=N
//	bench fprintf  SUBJECT path=FILE lines=N http_ms=N
//	bench quic     SUBJECT path=FILE bytes=N connections=N
//
// It prints a metric and its value a line.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// settings are what the command line says, as key=value.
type settings map[string]string

func (s settings) number(key string) int {
	number, err := strconv.Atoi(s[key])
	if err != nil || number <= 0 {
		fail(2, "%s=N is missing, with a positive number", key)
	}
	return number
}

// figures are the metrics of one run.
type figures map[string]float64

var workloads = map[string]func(subject string, given settings) (figures, error){
	"glog": glog, "callsite": callsite, "fprintf": fprintf, "quic": transfers,
}

func main() {
	if len(os.Args) < 3 {
		fail(2, "usage: bench glog|callsite|fprintf|quic SUBJECT path=FILE [KEY=VALUE]...")
	}
	workload, ok := workloads[os.Args[1]]
	if !ok {
		fail(2, "there is no workload %q: one of glog, callsite, fprintf, quic", os.Args[1])
	}
	given := settings{}
	for _, word := range os.Args[3:] {
		key, value, _ := strings.Cut(word, "=")
		given[key] = value
	}
	if given["path"] == "" {
		fail(2, "path=FILE is missing: where the log goes")
	}
	got, err := workload(os.Args[2], given)
	if err != nil {
		fail(1, "%s %s: %v", os.Args[1], os.Args[2], err)
	}
	var names []string
	for name := range got {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("%s %.9g\n", name, got[name])
	}
}

func fail(status int, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "error: "+format+"\n", args...)
	os.Exit(status)
}

// cpuSeconds is the time that this process and its ended children have had; the drain is one of them.
func cpuSeconds() (sum float64) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err == nil {
			sum += float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
		}
	}
	return sum
}

// peakMiB is the most memory that this process has had.
func peakMiB() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Maxrss) / 1024
}
