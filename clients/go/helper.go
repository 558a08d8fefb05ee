package logdrive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
)

// helper is the program `logdrive drain`, which drains the session from a process of its own: it reads the rings from
// the session's files, and what we say from its standard input. When that ends, we are dead, and it finishes the
// session. When the helper dies, another one goes on where it stopped.
//
//	to it:    flush NUMBER DURABLE    bye
//	from it:  ready    error TEXT    flushed NUMBER REACHED    done COMPLETE
type helper struct {
	session *ring.Session
	core    *core
	program string
	args    []string

	lock     sync.Mutex
	input    io.WriteCloser
	marks    map[uint64]*mark
	nextMark uint64
	saidBye  bool
	done     chan bool
}

type mark struct {
	durable bool
	reached chan bool
}

const (
	// helperReady is how long a helper may take to open the log and say that it is ready: it recovers what earlier
	// processes left first.
	helperReady = 60 * time.Second
	// helperRestarts is how often a helper is started anew that ends before it is ready.
	helperRestarts = 8
	helperPauseMin = 10 * time.Millisecond
	helperPauseMax = time.Second
	// helperWords bounds what is kept of what a helper says when it fails.
	helperWords = 4096
)

// startHelper makes a session in the run directory and starts its helper. The error is errNoDrain where there is no
// program, or no place for a session.
func (c *core) startHelper(options *Options) error {
	program, err := findProgram(options.Bin)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoDrain, err)
	}
	session, failed, err := ring.Create(ring.Options{
		App: options.App, RunDirs: options.runDirs(), RingBytes: options.RingBytes, Config: options.config(), Sinks: 1,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errNoDrain, errors.Join(append(failed, err)...))
	}
	if err := c.use(session, options); err != nil {
		return err
	}
	h := &helper{session: session, core: c, program: program, marks: map[uint64]*mark{}, done: make(chan bool, 1)}
	h.args = []string{"drain", session.Path()}
	if options.CoarseClock {
		h.args = append(h.args, "--coarse")
	}
	if options.Full == FullBlock {
		h.args = append(h.args, "--hold")
	}
	lines, err := h.run()
	if err != nil {
		_ = session.Remove() // It holds nothing yet; the error that ended the start is the one to tell.
		return err
	}
	c.drain = h
	go h.watch(lines)
	for _, problem := range failed {
		c.notice("%v; the session is in %s instead", problem, session.Path())
	}
	return nil
}

func findProgram(given string) (string, error) {
	if given == "" {
		given = "logdrive"
	}
	program, err := exec.LookPath(given)
	if err != nil {
		return "", fmt.Errorf("the program that drains the log: %w", err)
	}
	return program, nil
}

// run starts the program and waits until it is ready; what it says from then on comes through the scanner.
func (h *helper) run() (*bufio.Scanner, error) {
	command := exec.Command(h.program, h.args...)
	command.Dir = "/"
	// Keys of the terminal are for the program, and the helper ends when it has nothing left to do.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	words := &firstWords{}
	command.Stderr = words
	input, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: start %s: %w", errNoDrain, h.program, err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: start %s: %w", errNoDrain, h.program, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%w: start %s: %w", errNoDrain, h.program, err)
	}
	lines := bufio.NewScanner(output)
	first := make(chan string, 1)
	go func() {
		lines.Scan()
		first <- lines.Text()
	}()
	select {
	case line := <-first:
		if line == "ready" {
			h.lock.Lock()
			h.input = input
			h.lock.Unlock()
			// What it says is read to its end first; see watch.
			return lines, nil
		}
		_ = input.Close()
		_ = command.Wait() // It has said why.
		if text, ok := strings.CutPrefix(line, "error "); ok {
			return nil, errors.New(text)
		}
		return nil, fmt.Errorf("%w: %s drains no session; is it of another version? %s", errNoDrain, h.program, words)
	case <-time.After(helperReady):
		_ = command.Process.Kill() // Its end is waited for below.
		_ = command.Wait()
		return nil, fmt.Errorf("%w: %s is not ready after %v", errNoDrain, h.program, helperReady)
	}
}

// watch reads what the helper says, and starts another one when it ends before its time.
func (h *helper) watch(lines *bufio.Scanner) {
	pause, failures := helperPauseMin, 0
	for {
		for lines != nil && lines.Scan() {
			h.hear(lines.Text())
			pause, failures = helperPauseMin, 0
		}
		h.lock.Lock()
		saidBye := h.saidBye
		h.input = nil
		h.lock.Unlock()
		if saidBye || failures == helperRestarts {
			h.giveUp()
			return
		}
		time.Sleep(pause)
		pause = min(2*pause, helperPauseMax)
		failures++
		var err error
		if lines, err = h.run(); err != nil {
			lines = nil
			continue
		}
		h.sayAgain()
	}
}

func (h *helper) hear(line string) {
	var number, yes uint64
	if _, err := fmt.Sscanf(line, "flushed %d %d", &number, &yes); err == nil {
		h.lock.Lock()
		mark := h.marks[number]
		delete(h.marks, number)
		h.lock.Unlock()
		if mark != nil {
			mark.reached <- yes == 1
		}
		return
	}
	if _, err := fmt.Sscanf(line, "done %d", &yes); err == nil {
		select {
		case h.done <- yes == 1:
		default: // It was said before.
		}
	}
}

// giveUp tells everybody who waits that nobody drains any more. What is in the session stays there for a recoverer.
func (h *helper) giveUp() {
	h.core.given.Store(true)
	h.lock.Lock()
	defer h.lock.Unlock()
	for number, mark := range h.marks {
		mark.reached <- false
		delete(h.marks, number)
	}
	select {
	case h.done <- false:
	default: // It has said how it ended.
	}
}

// sayAgain tells a new helper what the one before was told and has not answered.
func (h *helper) sayAgain() {
	h.lock.Lock()
	defer h.lock.Unlock()
	for number, mark := range h.marks {
		h.say("flush %d %d\n", number, oneIf(mark.durable))
	}
	if h.saidBye {
		h.say("bye\n")
	}
}

// say writes to the helper; called with the lock. What does not reach it is said again to the next one.
func (h *helper) say(format string, args ...any) {
	if h.input != nil {
		_, _ = fmt.Fprintf(h.input, format, args...)
	}
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

var errNotWritten = errors.New("the log takes no more bytes; what is left is in the session, for `logdrive recover`")

func (h *helper) flush(durable bool) error {
	wanted := &mark{durable: durable, reached: make(chan bool, 1)}
	h.lock.Lock()
	if h.core.given.Load() || h.saidBye {
		h.lock.Unlock()
		return errNotWritten
	}
	h.nextMark++
	number := h.nextMark
	h.marks[number] = wanted
	h.say("flush %d %d\n", number, oneIf(durable))
	h.lock.Unlock()
	h.session.Bell().Ring()
	if !await(h.session, wanted.reached) {
		h.lock.Lock()
		delete(h.marks, number)
		h.lock.Unlock()
		return errNotWritten
	}
	return nil
}

// await waits for an answer as long as records are taken, and some seconds more.
func await(session *ring.Session, answer chan bool) bool {
	progress := session.NewProgress()
	tick := time.NewTicker(noProgress / 10)
	defer tick.Stop()
	for {
		select {
		case yes := <-answer:
			return yes
		case <-tick.C:
			// The drain itself gives up after five seconds without progress, and says so.
			if progress.Stalled() > 2*noProgress {
				return false
			}
		}
	}
}

func (h *helper) stop() error {
	h.lock.Lock()
	h.saidBye = true
	h.say("bye\n")
	h.lock.Unlock()
	h.session.Bell().Ring()
	complete := await(h.session, h.done)
	h.lock.Lock()
	if h.input != nil {
		_ = h.input.Close() // The helper ends by itself.
	}
	h.lock.Unlock()
	if !complete {
		return errNotWritten
	}
	return h.session.Remove()
}

// firstWords keeps the beginning of what is written to it.
type firstWords struct {
	lock sync.Mutex
	text []byte
}

func (w *firstWords) Write(text []byte) (int, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.text = append(w.text, text[:min(len(text), helperWords-len(w.text))]...)
	return len(text), nil
}

func (w *firstWords) String() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return strings.Join(strings.Fields(string(w.text)), " ")
}
