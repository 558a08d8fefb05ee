package logdrive

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
)

// What a core does with calls.
const (
	stateRunning int32 = iota
	// stateText: there is nobody who drains; records go to slog.TextHandler.
	stateText
	// stateClosed: calls are counted, and that is all.
	stateClosed
)

// core is what all loggers of one session share.
type core struct {
	sites   siteTable
	session *ring.Session
	// coarse is the word of the coarse clock; nil for the machine's own. hasCounter says that this is a counter of the
	// processor and nothing else.
	coarse     *uint64
	hasCounter bool
	recordMax  int
	policy     ring.Policy
	state      atomic.Int32
	// given says that the drain is given up: nobody makes room any more.
	given   atomic.Bool
	filter  atomic.Pointer[filter]
	late    atomic.Uint64
	drain   drain
	text    *textLog
	closing sync.Mutex
}

// drain is who takes records out of the rings: a sidecar or an agent, in another process.
type drain interface {
	// flush waits until all is with the kernel, or on disk.
	flush(durable bool) error
	// stop says that nothing more comes, and waits until all is with the kernel.
	stop() error
}

// Start makes a session and finds somebody to drain it: the agent whose socket is given or in LOGDRIVE_AGENT, or else
// the program `logdrive`, as a sidecar. Where there is neither, that is said once, and records go to [Options.Fallback]
// through [log/slog.TextHandler].
//
// An error means that the options make no sense, or that the log cannot be opened; there is no logger then.
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

// errNoDrain says that there is nobody to drain a session.
var errNoDrain = errors.New("no drain")

func (c *core) start(options *Options) error {
	var why []error
	if options.Agent != "" {
		err := c.joinAgent(options)
		if err == nil {
			return nil
		}
		why = append(why, err)
	}
	err := c.startSidecar(options)
	switch {
	case err == nil:
		for _, problem := range why {
			c.notice("%v; the program drains itself", problem)
		}
		return nil
	case !errors.Is(err, errNoDrain):
		return err
	}
	why = append(why, err)
	if options.Level == "" {
		// A terminal is no place for what costs nothing in a ring.
		c.filter.Store(&filter{all: LevelInfo})
	}
	c.text = newTextLog(options.Fallback, c)
	c.state.Store(stateText)
	c.text.say(errors.Join(why...))
	return nil
}

// use takes a session, and registers callsite 0.
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

// notice leaves a line about the logger itself in the log.
func (c *core) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.state.Load() != stateRunning || c.session == nil {
		return
	}
	// From a goroutine of its own, because a notice may come from the middle of a registration.
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
	c.tellTallies()
	c.state.Store(stateClosed)
	// Calls do not find their callsites any more, and come to the slow path, which looks at the state.
	c.sites.slots.Store(newSlots(2))
	c.session.EndRings()
	return c.drain.stop()
}

func (c *core) stats() Stats {
	stats := Stats{Dropped: map[string]uint64{}, Late: c.late.Load()}
	if c.session == nil {
		return stats
	}
	c.tellTallies()
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

// NotePanic is for a deferred call at the top of a goroutine: a panic that passes is logged with its stack as an error,
// and goes on its way.
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
	// The session outlives the process, so that nothing has to be waited for.
	panic(cause)
}

var std atomic.Pointer[Logger]

// Init is as [Start], for a program with one log: App.log in the working directory. The package's functions use it from
// then on.
func Init(app string) (*Logger, error) {
	logger, err := Start(Options{App: app})
	if err != nil {
		return nil, err
	}
	SetDefault(logger)
	return logger, nil
}

// SetDefault makes a logger that of the package's functions.
func SetDefault(logger *Logger) { std.Store(logger) }

// Default is the logger of the package's functions; nil before Init and SetDefault.
func Default() *Logger { return std.Load() }
