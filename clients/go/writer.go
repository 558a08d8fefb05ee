package logdrive

import (
	"bytes"
	"fmt"
	"sync"
	"unsafe"

	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// Writer is an [io.Writer] that writes each line as a record, for the package log and for code that prints lines. It is
// safe for concurrent use.
type Writer struct {
	logger *Logger
	level  Level
	lock   sync.Mutex
	// partial is the beginning of an incomplete line.
	partial []byte
}

// lineBytesMax is the length at which an incomplete line is written as a record.
const lineBytesMax = wire.RecordBytesMax

// Writer returns a writer of lines. A line that names a level, such as "[WARN] disk is slow" or "level=error", has that
// level; others have the given one.
//
//	log.SetFlags(0)
//	log.SetOutput(logger.Writer(logdrive.LevelInfo))
func (l *Logger) Writer(level Level) *Writer {
	return &Writer{logger: l, level: min(level, LevelFatal)}
}

// Write takes lines, and keeps an incomplete one until its end comes. It never fails: dropped records are counted.
func (w *Writer) Write(text []byte) (int, error) {
	written := len(text)
	w.lock.Lock()
	defer w.lock.Unlock()
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			w.keep(text)
			break
		}
		line := text[:end]
		if len(w.partial) > 0 {
			w.partial = append(w.partial, line...)
			line = w.partial
		}
		w.line(line)
		w.partial = w.partial[:0]
		text = text[end+1:]
	}
	return written, nil
}

// keep stores the beginning of a line.
func (w *Writer) keep(text []byte) {
	for len(text) > 0 {
		taken := min(len(text), lineBytesMax-len(w.partial))
		w.partial = append(w.partial, text[:taken]...)
		if text = text[taken:]; len(w.partial) == lineBytesMax {
			w.line(w.partial)
			w.partial = w.partial[:0]
		}
	}
}

// Close writes an incomplete line as a record.
func (w *Writer) Close() error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if len(w.partial) > 0 {
		w.line(w.partial)
		w.partial = w.partial[:0]
	}
	return nil
}

func (w *Writer) line(line []byte) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(line) == 0 {
		return
	}
	level := w.level
	if named, ok := lineLevel(line); ok {
		level = named
	}
	fields := [1]Field{pointer("", wire.Str, unsafe.Pointer(unsafe.SliceData(line)), uint64(len(line)))}
	w.logger.logLine(level, fields[:])
}

// lineKey is the key of the callsites of lines. No program counter is so small.
const lineKey = 1

// lineMessage stands for the message of lines in the table of sites. The session knows it as a template.
const lineMessage = "\x00line"

// logLine writes a line as the message of a record, which is its only field.
func (l *Logger) logLine(level Level, fields []Field) {
	c := l.core
	if c.state.Load() == stateText {
		c.text.write(l, 0, wire.Level(level), fields[0].text(), nil)
		return
	}
	for site := c.sites.find(lineKey ^ l.context.seed); site != nil; site = site.next.Load() {
		if site.couldMatch(wire.Level(level), lineMessage, fields) {
			l.logAt(lineKey, wire.Level(level), lineMessage, fields)
			return
		}
	}
	switch c.state.Load() {
	case stateClosed:
		c.late.Add(1)
		return
	case stateNop:
		return
	}
	if c.registerLine(l.context, wire.Level(level)) {
		l.logAt(lineKey, wire.Level(level), lineMessage, fields)
	}
}

func (c *core) registerLine(context *fieldContext, level wire.Level) bool {
	table := &c.sites
	table.lock.Lock()
	defer table.lock.Unlock()
	key := lineKey ^ context.seed
	for site := table.find(key); site != nil; site = site.next.Load() {
		if site.level == level && site.message == lineMessage {
			return true
		}
	}
	made := &site{key: key, context: context, level: level, message: lineMessage, count: 1}
	field := String("", "")
	made.fields = []known{knownOf(&field, textual)}
	made.head = wire.HeaderBytes + 4
	described := wire.Callsite{Level: level, Target: context.target, Message: fmt.Sprintf("{%d}", len(context.fields))}
	described.Fields = append(append(described.Fields, context.fields...), wire.Field{Kind: wire.Str, Argument: true})
	if c.state.Load() == stateClosed || !c.enter(made, described) {
		c.countUnregistered()
		return false
	}
	table.add(made)
	return true
}

// lineWords is how many words of a line are looked at for a level: a date, a time, a place, and the level.
const lineWords = 6

// lineLevel finds the level that a line names near its front: in capitals, in brackets, before a colon, or after
// "level=".
func lineLevel(line []byte) (Level, bool) {
	line = line[:min(len(line), 96)]
	words := 0
	for at := 0; at < len(line) && words < lineWords; {
		if !isLetter(line[at]) {
			at++
			continue
		}
		start := at
		for at < len(line) && isLetter(line[at]) {
			at++
		}
		words++
		level, ok := wordLevel(line[start:at])
		if ok && (isCapital(line[start:at]) || isDelimited(line, start, at)) {
			return level, true
		}
	}
	return 0, false
}

// isDelimited reports whether brackets, quotes or a colon mark the word as a level.
func isDelimited(line []byte, start, end int) bool {
	before, after := byte(' '), byte(' ')
	if start > 0 {
		before = line[start-1]
	}
	if end < len(line) {
		after = line[end]
	}
	return before == '[' || before == '<' || before == '=' || before == '"' && after == '"' || after == ']' || after == ':'
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func isCapital(word []byte) bool {
	for _, b := range word {
		if b >= 'a' {
			return false
		}
	}
	return true
}

func wordLevel(word []byte) (Level, bool) {
	if len(word) < 3 || len(word) > 9 {
		return 0, false
	}
	var lower [9]byte
	for at, b := range word {
		lower[at] = b | 0x20
	}
	switch string(lower[:len(word)]) {
	case "trace", "trc":
		return LevelTrace, true
	case "debug", "dbg":
		return LevelDebug, true
	case "info", "inf", "notice":
		return LevelInfo, true
	case "warn", "warning", "wrn":
		return LevelWarn, true
	case "error", "err":
		return LevelError, true
	case "fatal", "critical", "crit", "panic", "emergency", "alert":
		return LevelFatal, true
	}
	return 0, false
}
