package logdrive

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
)

// States of a core.
const (
	stateRunning int32 = iota
	// stateText: there is no drain; records go to slog.TextHandler.
	stateText
	// stateClosed: calls are only counted.
	stateClosed
)

// core is the state that all loggers of one session share.
type core struct {
	sites   siteTable
	session *ring.Session
	// coarse is the word of the coarse clock; nil for the machine's clock. hasCounter is set when that is the
	// processor's counter.
	coarse     *uint64
	hasCounter bool
	recordMax  int
	policy     ring.Policy
	state      atomic.Int32
	// abandoned is set when no drain is left: no drain makes room any more.
	abandoned atomic.Bool
	filter    atomic.Pointer[filter]
	late      atomic.Uint64
	drain     drain
	text      *textLog
	closing   sync.Mutex
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
	c := &core{policy: options.Full.policy()}
	c.sites.slots.Store(newSlots(256))
	c.filter.Store(parsed)
	if err := c.start(&options); err != nil {
		return nil, err
	}
	return &Logger{core: c, context: root}, nil
}

// errNoDrain is returned when neither an agent nor a sidecar can drain the session.
var errNoDrain = errors.New("no drain")

func (c *core) start(options *Options) error {
	var problems []error
	if options.Agent != "" {
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
	if options.Level == "" {
		// Debug records are cheap in a ring, but not on a terminal.
		c.filter.Store(&filter{all: LevelInfo})
	}
	c.text = newTextLog(options.Fallback, c)
	c.state.Store(stateText)
	c.text.reportOnce(errors.Join(problems...))
	return nil
}

// use makes the session that of this core, and registers callsite 0.
func (c *core) use(session *ring.Session, options *Options) error {
	gap := gapCallsite()
	if _, err := session.Register(gap, ring.On); err != nil {
		return err
	}
	c.session = session
	c.recordMax = session.RecordBytesMax()
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
		logger := &Logger{core: c, context: root}
		logger.logAt(0, noticeLevel, text, nil)
	}()
}

func (c *core) enabled(level Level) bool {
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
	if c.state.Load() != stateRunning {
		c.state.Store(stateClosed)
		return nil
	}
	c.reportTallies()
	c.state.Store(stateClosed)
	// With an empty table, calls take the slow path, which checks the state.
	c.sites.slots.Store(newSlots(2))
	c.session.EndRings()
	return c.drain.stop()
}

func (c *core) stats() Stats {
	stats := Stats{Dropped: map[string]uint64{}, Late: c.late.Load()}
	if c.session == nil {
		return stats
	}
	c.reportTallies()
	c.sites.lock.Lock()
	for _, site := range c.sites.all {
		stats.SampledOut += site.entry.Counts.SampledOut()
	}
	c.sites.lock.Unlock()
	found := c.session.Stats()
	stats.Disabled = found.Disabled
	stats.Records, stats.Cut, stats.PendingBytes = found.Records, found.Cut, found.Pending
	stats.Rings, stats.Callsites = found.Rings, found.Callsites
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

// Default returns the logger of the package's functions; nil before Init and SetDefault.
func Default() *Logger { return std.Load() }
