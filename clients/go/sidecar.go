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

// sidecar is the program `logdrive drain`, which drains the session from a process of its own: it reads the rings from
// the session's files, and what we say from its standard input. When that ends, we are dead, and it finishes the
// session. When the sidecar dies, another one goes on where it stopped.
//
//	to it:    flush NUMBER DURABLE    bye
//	from it:  ready    error TEXT    flushed NUMBER REACHED    done COMPLETE
type sidecar struct {
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
	// ended is closed when no sidecar runs any more, and none will.
	ended chan struct{}
}

// running is a sidecar at work: its process, and what it says.
type running struct {
	command *exec.Cmd
	lines   *bufio.Scanner
}

type mark struct {
	durable bool
	reached chan bool
}

const (
	// sidecarReady is how long a sidecar may take to open the log and say that it is ready: it recovers what earlier
	// processes left first.
	sidecarReady = 60 * time.Second
	// sidecarRestarts is how often a sidecar is started anew that ends before it is ready.
	sidecarRestarts = 8
	sidecarPauseMin = 10 * time.Millisecond
	sidecarPauseMax = time.Second
	// sidecarWords bounds what is kept of what a sidecar says when it fails.
	sidecarWords = 4096
	// sidecarEnd is how long Close waits for a sidecar that has finished to be gone.
	sidecarEnd = time.Second
)

// startSidecar makes a session in the run directory and starts its sidecar. The error is errNoDrain where there is no
// program, or no place for a session.
func (c *core) startSidecar(options *Options) error {
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
	s := &sidecar{session: session, core: c, program: program, marks: map[uint64]*mark{}, done: make(chan bool, 1), ended: make(chan struct{})}
	s.args = []string{"drain", session.Path()}
	if options.CoarseClock {
		s.args = append(s.args, "--coarse")
	}
	if options.Full == FullBlock {
		s.args = append(s.args, "--hold")
	}
	first, err := s.run()
	if err != nil {
		_ = session.Remove() // It holds nothing yet; the error that ended the start is the one to tell.
		return err
	}
	c.drain = s
	go s.watch(first)
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

// run starts the program and waits until it is ready.
func (s *sidecar) run() (*running, error) {
	command := exec.Command(s.program, s.args...)
	command.Dir = "/"
	// Keys of the terminal are for the program, and the sidecar ends when it has nothing left to do.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	words := &firstWords{}
	command.Stderr = words
	input, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: start %s: %w", errNoDrain, s.program, err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: start %s: %w", errNoDrain, s.program, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%w: start %s: %w", errNoDrain, s.program, err)
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
			s.lock.Lock()
			s.input = input
			s.lock.Unlock()
			// What it says is read to its end first; see watch.
			return &running{command, lines}, nil
		}
		_ = input.Close()
		_ = command.Wait() // It has said why.
		if text, ok := strings.CutPrefix(line, "error "); ok {
			return nil, errors.New(text)
		}
		return nil, fmt.Errorf("%w: %s drains no session; is it of another version? %s", errNoDrain, s.program, words)
	case <-time.After(sidecarReady):
		_ = command.Process.Kill() // Its end is waited for below.
		_ = command.Wait()
		return nil, fmt.Errorf("%w: %s is not ready after %v", errNoDrain, s.program, sidecarReady)
	}
}

// watch reads what the sidecar says, and starts another one when it ends before its time.
func (s *sidecar) watch(now *running) {
	defer close(s.ended)
	pause, failures := sidecarPauseMin, 0
	for {
		if now != nil {
			for now.lines.Scan() {
				s.hear(now.lines.Text())
				pause, failures = sidecarPauseMin, 0
			}
			_ = now.command.Wait() // How it ended is told by what it said before.
		}
		s.lock.Lock()
		saidBye := s.saidBye
		s.input = nil
		s.lock.Unlock()
		if saidBye || failures == sidecarRestarts {
			s.giveUp()
			return
		}
		time.Sleep(pause)
		pause = min(2*pause, sidecarPauseMax)
		failures++
		var err error
		if now, err = s.run(); err != nil {
			now = nil
			continue
		}
		s.sayAgain()
	}
}

func (s *sidecar) hear(line string) {
	var number, yes uint64
	if _, err := fmt.Sscanf(line, "flushed %d %d", &number, &yes); err == nil {
		s.lock.Lock()
		mark := s.marks[number]
		delete(s.marks, number)
		s.lock.Unlock()
		if mark != nil {
			mark.reached <- yes == 1
		}
		return
	}
	if _, err := fmt.Sscanf(line, "done %d", &yes); err == nil {
		select {
		case s.done <- yes == 1:
		default: // It was said before.
		}
	}
}

// giveUp tells everybody who waits that nobody drains any more. What is in the session stays there for a recoverer.
func (s *sidecar) giveUp() {
	s.core.given.Store(true)
	s.lock.Lock()
	defer s.lock.Unlock()
	for number, mark := range s.marks {
		mark.reached <- false
		delete(s.marks, number)
	}
	select {
	case s.done <- false:
	default: // It has said how it ended.
	}
}

// sayAgain tells a new sidecar what the one before was told and has not answered.
func (s *sidecar) sayAgain() {
	s.lock.Lock()
	defer s.lock.Unlock()
	for number, mark := range s.marks {
		s.say("flush %d %d\n", number, oneIf(mark.durable))
	}
	if s.saidBye {
		s.say("bye\n")
	}
}

// say writes to the sidecar; called with the lock. What does not reach it is said again to the next one.
func (s *sidecar) say(format string, args ...any) {
	if s.input != nil {
		_, _ = fmt.Fprintf(s.input, format, args...)
	}
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

var errNotWritten = errors.New("the log takes no more bytes; what is left is in the session, for `logdrive recover`")

func (s *sidecar) flush(durable bool) error {
	wanted := &mark{durable: durable, reached: make(chan bool, 1)}
	s.lock.Lock()
	if s.core.given.Load() || s.saidBye {
		s.lock.Unlock()
		return errNotWritten
	}
	s.nextMark++
	number := s.nextMark
	s.marks[number] = wanted
	s.say("flush %d %d\n", number, oneIf(durable))
	s.lock.Unlock()
	s.session.Bell().Ring()
	if !await(s.session, wanted.reached) {
		s.lock.Lock()
		delete(s.marks, number)
		s.lock.Unlock()
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

func (s *sidecar) stop() error {
	s.lock.Lock()
	s.saidBye = true
	s.say("bye\n")
	s.lock.Unlock()
	s.session.Bell().Ring()
	complete := await(s.session, s.done)
	s.lock.Lock()
	if s.input != nil {
		_ = s.input.Close() // The sidecar ends by itself.
	}
	s.lock.Unlock()
	if !complete {
		return errNotWritten
	}
	select {
	case <-s.ended:
	case <-time.After(sidecarEnd): // It has finished all the same.
	}
	return s.session.Remove()
}

// firstWords keeps the beginning of what is written to it.
type firstWords struct {
	lock sync.Mutex
	text []byte
}

func (w *firstWords) Write(text []byte) (int, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.text = append(w.text, text[:min(len(text), sidecarWords-len(w.text))]...)
	return len(text), nil
}

func (w *firstWords) String() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return strings.Join(strings.Fields(string(w.text)), " ")
}
