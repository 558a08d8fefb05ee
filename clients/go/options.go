package logdrive

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
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

// Layout is the layout of lines.
type Layout string

// The layouts.
const (
	Text Layout = "text"
	// JSON is that of [slog.JSONHandler]: time, level, msg, and groups as objects.
	JSON   Layout = "json"
	Logfmt Layout = "logfmt"
	Glog   Layout = "glog"
	// Segments are compressed columns in place of lines, a small part of their size; `logdrive cat` shows them as text, JSON
	// or qlog. They need a file.
	Segments Layout = "segments"
)

// Options configure Start. All are optional.
type Options struct {
	// App is the application's name, which names sessions and the log. Default: the name of the executable.
	App string
	// Path is the log file, or [Stdout]. Default: App.log in the working directory.
	Path string `option:"path"`
	// Layout is the layout of lines. Default: Text.
	Layout Layout
	// Level holds level directives, such as "info,example.com/shop/net=trace". The environment variable LOGDRIVE takes
	// precedence; a part of that that cannot be read is left out, and a line in the log says so. Default: debug; info when records go to Fallback.
	Level string
	// Full is the policy of a call when its ring is full. Default: FullWait.
	Full Full
	// RingBytes is the size of the largest ring of each P that logs. A P begins with one of 64 KiB, which is replaced by a
	// larger one when it fills; with an agent all have the largest size. Default: 1 MiB.
	RingBytes int
	// CoarseClock takes times from a word that the drain updates every millisecond, instead of the processor's counter:
	// cheaper and less precise. Default: false.
	CoarseClock bool
	// LocalTime has local times in lines and in the names of rotated files, instead of UTC.
	LocalTime bool `option:"local_time"`
	// RotateBytes begins a new file before one grows beyond this. Default: never.
	RotateBytes int64 `option:"rotate_bytes"`
	// RotateEvery begins a new file with the first record of a new period: "hourly", "daily", or a time such as "6h".
	// Default: never.
	RotateEvery Period `option:"rotate_every"`
	// KeepFiles is how many rotated files are kept. Default: all.
	KeepFiles int `option:"keep_files"`
	// KeepAge removes rotated files whose last record is older than this. Default: never.
	KeepAge time.Duration `option:"keep_age"`
	// KeepBytes is how many bytes the rotated files may take, after compression. Default: any number.
	KeepBytes int64 `option:"keep_bytes"`
	// Compress compresses rotated files: "zstd", "gzip" or "none". Default: none.
	Compress string `option:"compress"`
	// DelayCompress leaves the newest rotated file as it is until the next one comes.
	DelayCompress bool `option:"delay_compress"`
	// ColdDir is a directory for rotated files that are older than ColdAfter, on this disk or another; segments are
	// compressed again on their way there. Default: none.
	ColdDir string `option:"cold_dir"`
	// ColdAfter is the age at which rotated files go to ColdDir. Default: a day.
	ColdAfter time.Duration `option:"cold_after"`
	// NewestLink is a symbolic link that always names the file written last. Default: none.
	NewestLink string `option:"newest_link"`
	// Header has the lines at the top of every new file. Default: none.
	Header string `option:"header"`
	// Mode is the permissions of new files, less the process's umask. Default: 0640.
	Mode os.FileMode `option:"mode"`
	// DirMode is the permissions of directories that have to be made, less the process's umask. Default: 0750.
	DirMode os.FileMode `option:"dir_mode"`
	// TrustDirectory accepts a directory that is a link, that others own or that everybody may write to.
	TrustDirectory bool `option:"trust_directory"`
	// OpenLate opens the file with its first line instead of at the start.
	OpenLate bool `option:"open_late"`
	// Sinks get the same records as the one that the options above describe. Default: none.
	Sinks []Sink
	// RunDir is where the session lives. Default: /dev/shm/logdrive-UID, then .logdrive beside the log.
	RunDir string
	// RunAs is the user and group that the program becomes after a start as root, by syscall.Setgid and syscall.Setuid: the
	// session, the process that drains it and the log are theirs from the start, so that new rings, rotation and the tools of
	// that user work after the change. Directories that are there stay whose they are. It has no effect in a program that
	// has that user already, or whose session an agent drains. Default: nil, for none.
	RunAs *User
	// Agent is the socket of an agent that drains the session, and writes it where its configuration says. With Sinks, or
	// with Stdout as Path, the program writes its log itself, and the agent has it only where the program `logdrive` is
	// missing. The environment variable LOGDRIVE_AGENT takes precedence; "off" there means no agent. Default: none.
	Agent string
	// Bin is the program `logdrive`, which drains the session when there is no agent. The environment variable
	// LOGDRIVE_BIN takes precedence. Default: the one in PATH.
	Bin string
	// FromContext gives further fields for the context of a call, such as the number of its request, to [Logger.InfoContext]
	// and its like. They stand in front of those of the call. Default: none.
	FromContext func(ctx context.Context) []Field
	// sinks are all sinks, with defaults.
	sinks []Sink
	// Fallback receives text when there is neither an agent nor the program. Default: standard error.
	Fallback io.Writer
}

// User is a user and a group, by their numbers.
type User = ring.User

// filled applies the environment and the defaults.
func (o Options) filled() (Options, error) {
	if o.App == "" {
		o.App = filepath.Base(os.Args[0])
	}
	if o.Path == "" {
		o.Path = ring.FilePart(o.App) + ".log"
	}
	var err error
	if o.RunDir != "" {
		if o.RunDir, err = filepath.Abs(o.RunDir); err != nil {
			return o, fmt.Errorf("the path of the run directory: %w", err)
		}
	}
	own := o.sink()
	if o.sinks, err = filledSinks(append([]Sink{own}, o.Sinks...)); err != nil {
		return o, err
	}
	o.Path, o.Layout = o.sinks[0].Path, o.sinks[0].Layout
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
	beside := "."
	if o.Path != Stdout {
		beside = filepath.Dir(o.Path)
	}
	if whole, err := filepath.Abs(beside); err == nil {
		beside = whole
	}
	return []string{ring.DefaultRunDir(o.RunAs), filepath.Join(beside, ".logdrive")}
}

// optionText is the value of an option as a session keeps it.
func optionText(value any) string {
	switch value := value.(type) {
	case bool:
		return map[bool]string{true: "yes", false: "no"}[value]
	case time.Duration:
		return fmt.Sprintf("%d.%09d", value/time.Second, value%time.Second)
	case os.FileMode:
		return strconv.FormatUint(uint64(value), 8)
	case Period:
		if seconds, _ := value.seconds(); seconds > 0 {
			return strconv.FormatInt(seconds, 10)
		}
		return string(value)
	case string:
		return escape(value)
	default:
		return fmt.Sprint(value)
	}
}

// Period is the time after which a file is rotated: "hourly", "daily", or a time in whole seconds such as "6h".
type Period string

// seconds is its length, 0 for a word.
func (p Period) seconds() (int64, error) {
	switch p {
	case "", "hourly", "daily":
		return 0, nil
	}
	length, err := time.ParseDuration(string(p))
	if err != nil || length < time.Minute || length%time.Second != 0 {
		return 0, fmt.Errorf("%q is not a period: hourly, daily, or a time of whole seconds from 1m on", string(p))
	}
	return int64(length / time.Second), nil
}

// escape writes unprintable bytes and the backslash as \xNN.
func escape(plain string) string {
	var text strings.Builder
	for at := range len(plain) {
		if b := plain[at]; b == '\\' || b < ' ' || b > '~' {
			fmt.Fprintf(&text, `\x%02x`, b)
		} else {
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
	// Sinks has the numbers of each sink, as far as its drain has got: at most a second behind. An agent keeps them for
	// itself.
	Sinks []SinkStats
}

// SinkStats are the counts of a sink since the start of the session.
type SinkStats struct {
	// Written is how many records the kernel has, in so many bytes of lines.
	Written, WrittenBytes uint64
	// Dropped is how many records the sink left out, by reason, such as "overflow" where it was too slow.
	Dropped map[string]uint64
	// Errors is how many of its writes failed.
	Errors uint64
}

// DroppedCalls is the sum over all reasons.
func (s Stats) DroppedCalls() (sum uint64) {
	for _, count := range s.Dropped {
		sum += count
	}
	return sum
}
