// Bench measures the Go front end beside its rivals, in turn, in one run: the workloads callsite, glog, fprintf and quic.
// `cargo xtask bench NAME` shows its rows among those of Rust; it is called as `bench WORKLOAD [--json] [--quick]
// [--only SUBJECT,...]`. Each row is an object as the harness of Rust prints them.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	logdrive "github.com/logdrive/logdrive/clients/go"
)

// row is a metric of a subject.
type row struct {
	Workload string         `json:"workload"`
	Subject  string         `json:"subject"`
	Params   map[string]any `json:"params"`
	Metric   string         `json:"metric"`
	Unit     string         `json:"unit"`
	Median   float64        `json:"median"`
	Min      float64        `json:"min"`
	Max      float64        `json:"max"`
	Rounds   int            `json:"rounds"`
}

// figures are what one round of a subject gives.
type figures map[string]float64

// subject is one of those that are compared.
type subject struct {
	name string
	run  func(dir string) (figures, error)
}

// units are those of the metrics.
var units = map[string]string{
	"tight_ns": "ns", "mean20_p50_ns": "ns", "mean20_p99_ns": "ns", "call_p99_ns": "ns", "allocs": "allocs", "bytes_per_op": "B",
	"allocs_per_op": "allocs", "ops_per_ms": "1/ms", "wall_s": "s", "cpu_s": "s", "lost_lines": "lines", "http_qps": "1/s",
	"http_p99_ms": "ms", "mb_per_s": "MB/s", "lost_events": "events", "log_bytes": "B",
}

var (
	asJSON = flag.Bool("json", false, "one object a line on standard output")
	quick  = flag.Bool("quick", false, "a smoke test of some seconds")
	only   = flag.String("only", "", "these subjects, with commas")
	rounds = flag.Int("rounds", 3, "rounds that count")
	place  = flag.String("dir", "", "where logs are written; default: a directory of its own in the working directory")
)

func main() {
	workload := "callsite"
	args := os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		workload, args = args[0], args[1:]
	}
	_ = flag.CommandLine.Parse(args) // It ends the program by itself.
	workloads := map[string]func() []subject{"callsite": callsites, "glog": glogs, "fprintf": fprintfs, "http": https, "quic": quics}
	make, ok := workloads[workload]
	if !ok {
		fmt.Fprintf(os.Stderr, "error: %q is not a workload: one of callsite, glog, fprintf, http, quic\n", workload)
		os.Exit(2)
	}
	if err := run(workload, make()); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(workload string, subjects []subject) error {
	if *quick {
		*rounds = 1
	}
	var chosen []subject
	for _, one := range subjects {
		if *only == "" || strings.Contains(","+*only+",", ","+one.name+",") {
			chosen = append(chosen, one)
		}
	}
	found := map[string]map[string][]float64{}
	for round := range *rounds {
		for at := range chosen {
			// Another order in each round.
			one := chosen[(at+round)%len(chosen)]
			dir, err := os.MkdirTemp(*place, "bench-")
			if err != nil {
				return err
			}
			dir, _ = filepath.Abs(dir)
			got, err := one.run(dir)
			_ = os.RemoveAll(dir) // What stays is seen by whoever looks.
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			if found[one.name] == nil {
				found[one.name] = map[string][]float64{}
			}
			for metric, value := range got {
				found[one.name][metric] = append(found[one.name][metric], value)
			}
		}
	}
	for _, one := range chosen {
		show(workload, one.name, found[one.name])
	}
	return nil
}

func show(workload, name string, metrics map[string][]float64) {
	var names []string
	for metric := range metrics {
		names = append(names, metric)
	}
	sort.Strings(names)
	line := fmt.Sprintf("%-22s", name)
	for _, metric := range names {
		values := metrics[metric]
		sort.Float64s(values)
		made := row{Workload: workload, Subject: name, Params: map[string]any{"language": "go"}, Metric: metric, Unit: units[metric],
			Median: values[len(values)/2], Min: values[0], Max: values[len(values)-1], Rounds: len(values)}
		if *asJSON {
			text, err := json.Marshal(made)
			if err == nil {
				fmt.Println(string(text))
			}
			continue
		}
		line += fmt.Sprintf("  %s %.4g", metric, made.Median)
	}
	if !*asJSON {
		fmt.Println(line)
	}
}

// ours starts a logger whose log lies in the directory.
func ours(dir string, change func(*logdrive.Options)) (*logdrive.Logger, error) {
	options := logdrive.Options{App: "bench", Path: filepath.Join(dir, "bench.log"), Level: "debug", Full: logdrive.FullBlock}
	if change != nil {
		change(&options)
	}
	return logdrive.Start(options)
}
