package logdrive

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
)

// Full is the policy of a call when its ring is full.
type Full uint8

const (
	// FullWait waits at most 10 ms, once in an overload; after that calls are dropped, and counted, until half of the
	// ring is free. This is the default.
	FullWait Full = iota
	// FullDrop drops the call, and counts it.
	FullDrop
	// FullBlock waits without limit while a drain exists: for benchmarks and batch jobs in which nothing may be lost.
	FullBlock
)

func (f Full) policy() ring.Policy {
	switch f {
	case FullDrop:
		return ring.PolicyDrop
	case FullBlock:
		return ring.PolicyBlock
	}
	return ring.PolicyWait
}

// Format is the layout of lines.
type Format string

// The formats.
const (
	Text   Format = "text"
	JSON   Format = "json"
	Logfmt Format = "logfmt"
	Glog   Format = "glog"
)

// Options configure Start. All are optional.
type Options struct {
	// App is the application's name, which names sessions and the log. Default: the name of the executable.
	App string
	// Path is the log file. Default: App.log in the working directory.
	Path string
	// Format is the layout of lines. Default: Text.
	Format Format
	// Level holds level directives, such as "info,example.com/shop/net=trace". The environment variable LOGDRIVE takes
	// precedence. Default: debug; info when records go to Fallback.
	Level string
	// Full is the policy of a call when its ring is full. Default: FullWait.
	Full Full
	// RingBytes is the size of each ring; there is one for each P that logs. Default: 1 MiB.
	RingBytes int
	// CoarseClock takes times from a word that the drain updates every millisecond, instead of the processor's counter:
	// cheaper and less precise. Default: false.
	CoarseClock bool
	// RotateBytes begins a new file before one grows beyond this. Default: never.
	RotateBytes int64
	// KeepFiles is how many rotated files are kept. Default: all.
	KeepFiles int
	// Compress compresses rotated files with zstd.
	Compress bool
	// RunDir is where the session lives. Default: /dev/shm/logdrive-UID, then .logdrive beside the log.
	RunDir string
	// Agent is the socket of an agent that drains the session. The environment variable LOGDRIVE_AGENT takes precedence;
	// "off" there means no agent. Default: none.
	Agent string
	// Bin is the program `logdrive`, which drains the session when there is no agent. The environment variable
	// LOGDRIVE_BIN takes precedence. Default: the one in PATH.
	Bin string
	// Fallback receives text when there is neither an agent nor the program. Default: standard error.
	Fallback io.Writer
}

// filled applies the environment and the defaults.
func (o Options) filled() (Options, error) {
	if o.App == "" {
		o.App = filepath.Base(os.Args[0])
	}
	if o.Path == "" {
		o.Path = ring.FilePart(o.App) + ".log"
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return o, fmt.Errorf("the log's path: %w", err)
	}
	o.Path = path
	if o.Format == "" {
		o.Format = Text
	}
	switch o.Format {
	case Text, JSON, Logfmt, Glog:
	default:
		return o, fmt.Errorf("%q is not a format: one of text, json, logfmt, glog", o.Format)
	}
	if level := os.Getenv("LOGDRIVE"); level != "" {
		o.Level = level
	}
	if o.RingBytes == 0 {
		o.RingBytes = ring.BytesDefault
	}
	if agent, ok := os.LookupEnv("LOGDRIVE_AGENT"); ok {
		if o.Agent = agent; agent == "off" {
			o.Agent = ""
		}
	}
	if bin := os.Getenv("LOGDRIVE_BIN"); bin != "" {
		o.Bin = bin
	}
	if o.Fallback == nil {
		o.Fallback = os.Stderr
	}
	return o, nil
}

func (o *Options) runDirs() []string {
	if o.RunDir != "" {
		return []string{o.RunDir}
	}
	return []string{ring.DefaultRunDir(), filepath.Join(filepath.Dir(o.Path), ".logdrive")}
}

// config describes the one sink for the drain, in the words of spec/session.md.
func (o *Options) config() string {
	var text strings.Builder
	fmt.Fprintf(&text, "[sink]\nlayout = %s\nmin_level = trace\n[file]\npath = %s\n", o.Format, escapePath(o.Path))
	if o.RotateBytes > 0 {
		fmt.Fprintf(&text, "rotate_bytes = %d\n", o.RotateBytes)
	}
	if o.KeepFiles > 0 {
		fmt.Fprintf(&text, "keep_files = %d\n", o.KeepFiles)
	}
	if o.Compress {
		text.WriteString("compress = zstd\n")
	}
	return text.String()
}

// escapePath writes unprintable bytes as \xNN and doubles backslashes.
func escapePath(path string) string {
	var text strings.Builder
	for at := range len(path) {
		switch b := path[at]; {
		case b == '\\':
			text.WriteString(`\\`)
		case b < ' ' || b > '~':
			fmt.Fprintf(&text, `\x%02x`, b)
		default:
			text.WriteByte(b)
		}
	}
	return text.String()
}

// noProgress is the timeout of Flush and Close without progress of the drain.
const noProgress = 5 * time.Second

// Stats are the counts of a session since its start.
type Stats struct {
	// Records is how many records were written.
	Records uint64
	// Cut is how many of them have texts that were cut.
	Cut uint64
	// PendingBytes are still in rings.
	PendingBytes uint64
	// Dropped is how many calls left no record, by reason.
	Dropped map[string]uint64
	// Disabled is how many calls were counted while their callsite was off, which `logdrive callsites` asks for.
	Disabled uint64
	// SampledOut is how many calls sampling left out.
	SampledOut uint64
	// Late is how many calls came after Close.
	Late uint64
	// Rings and Callsites are how many there are.
	Rings, Callsites int
}

// DroppedCalls is the sum over all reasons.
func (s Stats) DroppedCalls() (sum uint64) {
	for _, count := range s.Dropped {
		sum += count
	}
	return sum
}
