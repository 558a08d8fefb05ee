package logdrive

import (
	gocontext "context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"sync"
	"sync/atomic"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// States of a core.
const (
	stateRunning int32 = iota
	// stateText: there is no drain; records go to slog.TextHandler.
	stateText
	// stateClosed: calls are only counted.
	stateClosed
	// stateNop: calls do nothing.
	stateNop
)

// core is the state that all loggers of one session share.
type core struct {
	sites   siteTable
	session *ring.Session
	// coarse is the word of the coarse clock; nil for the machine's clock. hasCounter is set when that is the
	// processor's counter.
	coarse     *uint64
	hasCounter bool
	policy     ring.Policy
	// nested is set when lines are JSON as of package slog.
	nested bool
	state  atomic.Int32
	// abandoned is set when no drain is left: no drain makes room any more.
	abandoned atomic.Bool
	filter    atomic.Pointer[filter]
	late      atomic.Uint64
	drain     drain
	text      *textLog
	closing   sync.Mutex
	// fromContext is that of the options.
	fromContext func(gocontext.Context) []Field
	// fallback is where records go without a drain; outageTold is set when it has been told of one that was lost.
	fallback   io.Writer
	outageTold atomic.Bool
	// final holds the numbers of a session that was closed; counting is held while they are taken.
	final    *Stats
	counting sync.Mutex
}

// drain is the process that takes records out of the rings: a sidecar or an agent.
type drain interface {
	// flush waits until the kernel has all records, or, if durable, the disk.
	flush(durable bool) error
	// stop ends the session and waits until the kernel has all records.
	stop() error
}

// Start creates a session and a drain for it: the agent whose socket is in the options or in LOGDRIVE_AGENT, or else the
// program `logdrive` as a sidecar. Without either it reports that once, and writes records to [Options.Fallback] through
// [log/slog.TextHandler]. It waits for the agent at most half a second, and for the sidecar at most a minute.
//
// It returns an error when the options are invalid or the log cannot be opened.
func Start(options Options) (*Logger, error) {
	options, err := options.filled()
	if err != nil {
		return nil, err
	}
	parsed, err := parseFilter(options.Level)
	if err != nil {
		return nil, err
	}
	var wrong []error
	if text := os.Getenv("LOGDRIVE"); text != "" {
		parsed, wrong = readFilter(text, parsed)
		options.Level = text
	}
	c := &core{policy: options.Full.policy(), fallback: options.Fallback, fromContext: options.FromContext}
	c.sites.slots.Store(newSlots(256))
	c.filter.Store(parsed)
	if err := c.start(&options); err != nil {
		return nil, err
	}
	logger := &Logger{core: c, context: c.root()}
	for _, problem := range wrong {
		logger.logAt(0, wire.LevelWarn, fmt.Sprintf("LOGDRIVE: %v; this part is left out", problem), nil)
	}
	return logger, nil
}

// root is the context without fields.
func (c *core) root() *fieldContext {
	if c.nested {
		return nestedRoot
	}
	return root
}

// errNoDrain is returned when neither an agent nor a sidecar can drain the session.
var errNoDrain = errors.New("no drain")

func (c *core) start(options *Options) error {
	var problems []error
	// An agent writes files of its own. What the program wants besides one file is written by a sidecar, which has its
	// standard output, too.
	ownSinks := options.hasOwnSinks()
	if options.Agent != "" && !ownSinks {
		err := c.joinAgent(options)
		if err == nil {
			return nil
		}
		problems = append(problems, err)
	}
	err := c.startSidecar(options)
	switch {
	case err == nil:
		for _, problem := range problems {
			c.notice("%v; the program drains itself", problem)
		}
		return nil
	case !errors.Is(err, errNoDrain):
		return err
	}
	problems = append(problems, err)
	if options.Agent != "" && ownSinks {
		joined := c.joinAgent(options)
		if joined == nil {
			c.notice("the agent at %s has the log, and the sinks of the program have nothing: %v", options.Agent, err)
			return nil
		}
		problems = append(problems, joined)
	}
	if options.Level == "" {
		// Debug records are cheap in a ring, but not on a terminal.
		c.filter.Store(&filter{all: LevelInfo})
	}
	c.text = newTextLog(options.Fallback, c)
	c.state.Store(stateText)
	c.text.say("logdrive: records go here as text", errors.Join(problems...))
	return nil
}

// use makes the session that of this core, and registers callsite 0.
func (c *core) use(session *ring.Session, options *Options) error {
	gap := gapCallsite()
	if _, err := session.Register(gap, ring.On); err != nil {
		return err
	}
	c.session = session
	c.hasCounter = ring.HasCounter() && !options.CoarseClock
	if options.CoarseClock {
		c.coarse = session.CoarseTicks()
	}
	return nil
}

// notice writes a line about the logger itself to the log.
func (c *core) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.state.Load() != stateRunning || c.session == nil {
		return
	}
	// In a goroutine of its own: the caller may hold the lock of a registration.
	go func() {
		logger := &Logger{core: c, context: c.root()}
		logger.logAt(0, noticeLevel, text, nil)
	}()
}

// reportOutage says that no drain can be started, once in the life of the logger: in the log, which has the line when a
// drain is back, and where records go when there is none.
func (c *core) reportOutage(err error) {
	if c.outageTold.Swap(true) {
		return
	}
	c.notice("the drain of this log could not be started: %v; it is tried again, and rings keep what they have room for", err)
	newTextLog(c.fallback, c).say("logdrive: nothing drains the log; records wait in their rings, and are dropped when these are full", err)
}

func (c *core) enabled(level Level) bool {
	if c.state.Load() == stateNop {
		return false
	}
	if c.state.Load() == stateRunning && c.session.HasRules() {
		// Rules may switch single callsites on; their control words say which.
		return true
	}
	return level >= c.filter.Load().lowest()
}

func (c *core) setLevel(directives string) error {
	parsed, err := parseFilter(directives)
	if err != nil {
		return err
	}
	c.filter.Store(parsed)
	if c.state.Load() != stateRunning {
		return nil
	}
	c.sites.lock.Lock()
	defer c.sites.lock.Unlock()
	var problem error
	for _, site := range c.sites.all {
		if site.wrapper {
			continue
		}
		site.entry.Control.SetBase(parsed.base(&site.encoded))
		if err := c.session.Settle(site.entry, site.shape); err != nil {
			problem = err
		}
	}
	return problem
}

func (c *core) flush(durable bool) error {
	if c.state.Load() != stateRunning {
		return nil
	}
	return c.drain.flush(durable)
}

func (c *core) close() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	switch c.state.Load() {
	case stateRunning:
	case stateNop:
		return nil
	default:
		c.state.Store(stateClosed)
		return nil
	}
	c.sites.lock.Lock()
	c.state.Store(stateClosed)
	// With an empty table, calls take the slow path, which checks the state.
	c.sites.slots.Store(newSlots(2))
	c.sites.lock.Unlock()
	c.session.EndRings()
	c.reportTallies()
	err := c.drain.stop()
	final := c.stats()
	c.counting.Lock()
	defer c.counting.Unlock()
	c.final = &final
	return errors.Join(err, c.session.Release())
}

func (c *core) stats() Stats {
	stats := Stats{Dropped: map[string]uint64{}, Late: c.late.Load()}
	if c.session == nil {
		return stats
	}
	c.counting.Lock()
	defer c.counting.Unlock()
	if c.final != nil {
		stats = *c.final
		stats.Dropped, stats.Late = maps.Clone(stats.Dropped), c.late.Load()
		return stats
	}
	c.reportTallies()
	c.sites.lock.Lock()
	for _, site := range c.sites.all {
		if site.wrapper {
			continue
		}
		stats.SampledOut += site.entry.Counts.SampledOut()
	}
	c.sites.lock.Unlock()
	found := c.session.Stats()
	stats.Disabled = found.Disabled
	stats.Records, stats.Cut, stats.PendingBytes = found.Records, found.Cut, found.Pending
	stats.Rings, stats.Callsites = found.Rings, found.Callsites
	for _, sink := range found.Sinks {
		dropped := map[string]uint64{}
		for reason, count := range sink.Dropped {
			if count != 0 {
				dropped[ring.SinkDropText[reason]] = count
			}
		}
		stats.Sinks = append(stats.Sinks, SinkStats{sink.Written, sink.WrittenBytes, dropped, sink.Errors})
	}
	for reason, count := range found.Dropped {
		if count != 0 {
			stats.Dropped[ring.DropReason(reason).Text()] = count
		}
	}
	return stats
}

// NotePanic logs a panic with its stack as an error, and panics again. Defer it at the top of a goroutine.
//
//	defer log.NotePanic()
func (l *Logger) NotePanic() {
	cause := recover()
	if cause == nil {
		return
	}
	if l.core.session != nil {
		l.core.session.NotePanic()
	}
	l.Error("panic", Any("cause", cause), String("stack", string(stack())))
	// No wait: the session outlives the process.
	panic(cause)
}

var std atomic.Pointer[Logger]

// Init calls [Start] for a program with one log, App.log in the working directory, and makes the logger that of the
// package's functions.
func Init(app string) (*Logger, error) {
	logger, err := Start(Options{App: app})
	if err != nil {
		return nil, err
	}
	SetDefault(logger)
	return logger, nil
}

// SetDefault sets the logger of the package's functions.
func SetDefault(logger *Logger) { std.Store(logger) }

// Default returns the logger of the package's functions; one that does nothing before Init and SetDefault.
func Default() *Logger {
	if logger := std.Load(); logger != nil {
		return logger
	}
	return nop
}

var nop = Nop()

// Nop returns a logger that does nothing: for libraries whose user gives none, and for tests.
func Nop() *Logger {
	c := &core{}
	c.sites.slots.Store(newSlots(2))
	c.filter.Store(&filter{all: levelOff})
	c.state.Store(stateNop)
	return &Logger{core: c, context: root}
}
