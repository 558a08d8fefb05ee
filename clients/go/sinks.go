package logdrive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
)

// Stdout is the path of the program's standard output, as containers have it. One sink may have it.
const Stdout = "-"

// Sink is a further place where records go. Its options are those of [Options].
type Sink struct {
	// Path is the log file, or [Stdout].
	Path string `option:"path"`
	// Layout is the layout of lines. Where one sink has JSON, records that only package slog can write stand in the lines of
	// all others as JSON, too. Default: Text.
	Layout Layout
	// MinLevel is the level below which this sink takes no records. Default: LevelTrace.
	MinLevel       Level
	LocalTime      bool          `option:"local_time"`
	RotateBytes    int64         `option:"rotate_bytes"`
	RotateEvery    Period        `option:"rotate_every"`
	KeepFiles      int           `option:"keep_files"`
	KeepAge        time.Duration `option:"keep_age"`
	KeepBytes      int64         `option:"keep_bytes"`
	Compress       string        `option:"compress"`
	DelayCompress  bool          `option:"delay_compress"`
	ColdDir        string        `option:"cold_dir"`
	ColdAfter      time.Duration `option:"cold_after"`
	NewestLink     string        `option:"newest_link"`
	Header         string        `option:"header"`
	Mode           os.FileMode   `option:"mode"`
	DirMode        os.FileMode   `option:"dir_mode"`
	TrustDirectory bool          `option:"trust_directory"`
	OpenLate       bool          `option:"open_late"`
}

// sink is what the options say of their own sink.
func (o *Options) sink() (made Sink) {
	from, to := reflect.ValueOf(o).Elem(), reflect.ValueOf(&made).Elem()
	for at := range to.NumField() {
		if field := from.FieldByName(to.Type().Field(at).Name); field.IsValid() {
			to.Field(at).Set(field)
		}
	}
	return made
}

// filledSinks checks sinks, and applies the defaults.
func filledSinks(sinks []Sink) ([]Sink, error) {
	if len(sinks) > ring.SinksMax {
		return nil, fmt.Errorf("%d sinks; at most %d", len(sinks), ring.SinksMax)
	}
	paths := map[string]bool{}
	for at := range sinks {
		sink := &sinks[at]
		if err := sink.fill(); err != nil {
			return nil, err
		}
		if paths[sink.Path] {
			return nil, fmt.Errorf("two sinks write to %q", sink.Path)
		}
		paths[sink.Path] = true
	}
	return sinks, nil
}

func (s *Sink) fill() error {
	if s.Path == "" {
		return errors.New("a sink has no path")
	}
	for _, path := range []*string{&s.Path, &s.ColdDir, &s.NewestLink} {
		if *path == "" || *path == Stdout {
			continue
		}
		whole, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("the path %s of the log: %w", *path, err)
		}
		*path = whole
	}
	if s.Layout == "" {
		s.Layout = Text
	}
	switch s.Layout {
	case Text, JSON, Logfmt, Glog:
	case Segments:
		if s.Path == Stdout {
			return errors.New("segments need a file, and standard output is none")
		}
	default:
		return fmt.Errorf("%q is not a layout: one of text, json, logfmt, glog, segments", s.Layout)
	}
	switch s.Compress {
	case "", "zstd", "gzip", "none":
	default:
		return fmt.Errorf("%q is not a compression: one of zstd, gzip, none", s.Compress)
	}
	if _, err := s.RotateEvery.seconds(); err != nil {
		return err
	}
	if !utf8.ValidString(s.Header) {
		return fmt.Errorf("the header is not UTF-8: %q", s.Header)
	}
	return nil
}

// config describes the sinks for the drain, in the words of spec/session.md.
func (o *Options) config() string {
	var text strings.Builder
	for at := range o.sinks {
		o.sinks[at].describe(&text)
	}
	return text.String()
}

// describe writes a sink: of a file, the options that are set.
func (s *Sink) describe(text *strings.Builder) {
	layout, local := s.Layout, ""
	if layout == JSON {
		layout = "slog"
	}
	if s.LocalTime {
		local = " local"
	}
	fmt.Fprintf(text, "[sink]\nlayout = %s%s\nmin_level = %s\n", layout, local, s.MinLevel)
	if s.Path == Stdout {
		return
	}
	text.WriteString("[file]\n")
	fields := reflect.ValueOf(s).Elem()
	for at := range fields.NumField() {
		name := fields.Type().Field(at).Tag.Get("option")
		field := fields.Field(at)
		// A number below zero is the default, too.
		isDefault := field.IsZero() || field.CanInt() && field.Int() < 0
		if name != "" && !isDefault {
			fmt.Fprintf(text, "%s = %s\n", name, optionText(field.Interface()))
		}
	}
}

// console is the number of the sink that is the program's standard output; -1 for none.
func (o *Options) console() int {
	for at := range o.sinks {
		if o.sinks[at].Path == Stdout {
			return at
		}
	}
	return -1
}

// hasOwnSinks reports whether the log is more than one file.
func (o *Options) hasOwnSinks() bool { return len(o.sinks) > 1 || o.console() >= 0 }

// hasJSON reports whether a sink has lines of JSON.
func (o *Options) hasJSON() bool {
	for at := range o.sinks {
		if o.sinks[at].Layout == JSON {
			return true
		}
	}
	return false
}
