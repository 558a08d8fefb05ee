//go:build linux

package logdrive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
)

// sidecar is the program `logdrive drain`, which drains the session from a process of its own. It reads the rings from
// the session's files and commands from its standard input. The end of that input means that this process is dead; then
// it finishes the session. When the sidecar dies, another one continues.
//
//	to it:    flush NUMBER DURABLE    bye
//	from it:  ready    error TEXT    flushed NUMBER REACHED    done COMPLETE
type sidecar struct {
	session *ring.Session
	core    *core
	program string
	args    []string
	// console is set where the log goes to standard output, which the sidecar shares with this process.
	console bool

	lock       sync.Mutex
	input      io.WriteCloser
	tickets    map[uint64]*flushTicket
	nextTicket uint64
	byeSent    bool
	// finished is set when a sidecar has said that it is done.
	finished bool
	done     chan bool
	// hurry ends a pause before the next start.
	hurry chan struct{}
	// ended is closed when no sidecar runs, and none will be started.
	ended chan struct{}
}

// running is the process of a sidecar and its output.
type running struct {
	command *exec.Cmd
	lines   *bufio.Scanner
}

// flushTicket is a flush that a caller waits for.
type flushTicket struct {
	durable bool
	reached chan bool
}

const (
	// sidecarReady is the timeout of a sidecar's start: it recovers the sessions of earlier processes first.
	sidecarReady = 60 * time.Second
	// sidecarFailures is the number of starts that fail in a row before calls no longer wait for room in their rings. The
	// next starts come after pauses that grow up to a limit, without an end.
	sidecarFailures = 8
	// sidecarStopFailures is the same for Close, which waits for it.
	sidecarStopFailures = 4
	sidecarPauseMin     = 10 * time.Millisecond
	sidecarPauseMax     = time.Second
	// sidecarWords bounds the standard error that is kept of a sidecar that fails.
	sidecarWords = 4096
	// sidecarEnd is the timeout of Close for the exit of a sidecar that has finished.
	sidecarEnd = time.Second
)

// startSidecar creates a session in the run directory and starts its sidecar. The error is errNoDrain when there is no
// program or no usable run directory.
func (c *core) startSidecar(options *Options) error {
	program, err := findProgram(options.Bin)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoDrain, err)
	}
	session, failed, err := ring.Create(ring.Options{
		App: options.App, RunDirs: options.runDirs(), RingBytes: options.RingBytes, Config: options.config(), Sinks: len(options.sinks),
		RunAs: options.RunAs,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errNoDrain, errors.Join(append(failed, err)...))
	}
	if err := c.use(session, options); err != nil {
		return err
	}
	c.nested = options.hasJSON()
	s := &sidecar{session: session, core: c, program: program, tickets: map[uint64]*flushTicket{}, done: make(chan bool, 1),
		hurry: make(chan struct{}, 1), ended: make(chan struct{})}
	s.args = []string{"drain", session.Path()}
	if options.CoarseClock {
		s.args = append(s.args, "--coarse")
	}
	if options.Full == FullBlock {
		s.args = append(s.args, "--hold")
	}
	if number := options.console(); number >= 0 {
		s.console = true
		s.args = append(s.args, fmt.Sprintf("--console=%d", number))
	}
	if user := options.RunAs; user != nil {
		s.args = append(s.args, fmt.Sprintf("--run-as=%d:%d", user.UID, user.GID))
	}
	first, err := s.run()
	if err != nil {
		_ = session.Remove() // The session is empty; the first error is the one to return.
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
	if err == nil {
		// The sidecar starts in another directory.
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return "", fmt.Errorf("the program that drains the log: %w", err)
	}
	return program, nil
}

// run starts the program and waits until it is ready.
func (s *sidecar) run() (*running, error) {
	command := exec.Command(s.program, s.args...)
	command.Dir = "/"
	// Signals of the terminal are for the program; the sidecar ends by itself.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	words := &stderrHead{}
	input, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: start %s: %w", errNoDrain, s.program, err)
	}
	output, err := s.connect(command, words)
	if err != nil {
		return nil, fmt.Errorf("%w: start %s: %w", errNoDrain, s.program, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%w: start %s: %w", errNoDrain, s.program, err)
	}
	lines := bufio.NewScanner(output)
	first := make(chan string, 1)
	go func() { first <- firstAnswer(lines, words) }()
	select {
	case line := <-first:
		if line == "ready" {
			s.lock.Lock()
			s.input = input
			s.lock.Unlock()
			// watch reads the output to its end before it waits for the process.
			return &running{command, lines}, nil
		}
		_ = input.Close()
		_ = command.Wait() // Its output says why it ended.
		if text, ok := strings.CutPrefix(line, "error "); ok {
			return nil, errors.New(text)
		}
		return nil, fmt.Errorf("%w: %s drains no session; is it of another version? %s", errNoDrain, s.program, words)
	case <-time.After(sidecarReady):
		_ = command.Process.Kill() // Waited for below.
		_ = command.Wait()
		return nil, fmt.Errorf("%w: %s is not ready after %v", errNoDrain, s.program, sidecarReady)
	}
}

// connect gives a sidecar its output and standard error, and returns where its answers come.
func (s *sidecar) connect(command *exec.Cmd, words *stderrHead) (io.Reader, error) {
	if s.console {
		command.Stdout = os.Stdout
		return command.StderrPipe()
	}
	command.Stderr = words
	return command.StdoutPipe()
}

// firstAnswer is the first line that is an answer. Others are words of a program that fails.
func firstAnswer(lines *bufio.Scanner, words *stderrHead) string {
	for lines.Scan() {
		line := lines.Text()
		if line == "ready" || strings.HasPrefix(line, "error ") {
			return line
		}
		_, _ = words.Write(append(lines.Bytes(), '\n')) // It keeps what it has room for.
	}
	return ""
}

// watch handles the sidecar's replies, and starts another one when it ends too early.
func (s *sidecar) watch(now *running) {
	defer close(s.ended)
	pause := sidecarPauseMin
	for {
		began := time.Now()
		for now.lines.Scan() {
			s.handleReply(now.lines.Text())
		}
		_ = now.command.Wait() // What it says of its end is in its state.
		s.lock.Lock()
		s.input = nil
		finished := s.finished
		s.lock.Unlock()
		if finished {
			return
		}
		if time.Since(began) > pause {
			pause = sidecarPauseMin
		}
		if pause == sidecarPauseMin {
			s.core.notice("the drain of this log has ended (%v); another one continues", now.command.ProcessState)
		}
		if now = s.restart(&pause); now == nil {
			s.fail()
			return
		}
		s.resendCommands()
	}
}

// restart starts sidecars until one is ready, with pauses that grow. It returns nil when there is none at the end of the
// session.
func (s *sidecar) restart(pause *time.Duration) *running {
	for failures, stopFailures := 0, 0; ; {
		select {
		case <-time.After(*pause):
		case <-s.hurry:
		}
		*pause = min(2**pause, sidecarPauseMax)
		now, err := s.run()
		if err == nil {
			s.core.abandoned.Store(false)
			return now
		}
		s.lock.Lock()
		byeSent := s.byeSent
		s.lock.Unlock()
		if byeSent {
			if stopFailures++; stopFailures == sidecarStopFailures {
				return nil
			}
		}
		if failures++; failures == sidecarFailures {
			s.fail()
			s.core.reportOutage(err)
		}
	}
}

func (s *sidecar) handleReply(line string) {
	var number, yes uint64
	if _, err := fmt.Sscanf(line, "flushed %d %d", &number, &yes); err == nil {
		s.lock.Lock()
		ticket := s.tickets[number]
		delete(s.tickets, number)
		s.lock.Unlock()
		if ticket != nil {
			ticket.reached <- yes == 1
		}
		return
	}
	if _, err := fmt.Sscanf(line, "done %d", &yes); err == nil {
		s.lock.Lock()
		s.finished = true
		s.lock.Unlock()
		select {
		case s.done <- yes == 1:
		default: // A duplicate.
		}
	}
}

// fail answers those that wait for a sidecar which cannot be started. The session keeps its records.
func (s *sidecar) fail() {
	s.core.abandoned.Store(true)
	s.lock.Lock()
	defer s.lock.Unlock()
	for number, ticket := range s.tickets {
		ticket.reached <- false
		delete(s.tickets, number)
	}
	if s.byeSent {
		select {
		case s.done <- false:
		default: // It has reported its end.
		}
	}
}

// resendCommands repeats commands that the previous sidecar has not answered.
func (s *sidecar) resendCommands() {
	s.lock.Lock()
	defer s.lock.Unlock()
	for number, ticket := range s.tickets {
		s.writeCommand("flush %d %d\n", number, oneIf(ticket.durable))
	}
	if s.byeSent {
		s.writeCommand("bye\n")
	}
}

// writeCommand writes to the sidecar. Called with the lock. Commands without an answer are repeated to the next one.
func (s *sidecar) writeCommand(format string, args ...any) {
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

var errNotWritten = errors.New("the log takes no more bytes; the rest stays in the session, for `logdrive recover`")

func (s *sidecar) flush(durable bool) error {
	wanted := &flushTicket{durable: durable, reached: make(chan bool, 1)}
	s.lock.Lock()
	if s.core.abandoned.Load() || s.byeSent {
		s.lock.Unlock()
		return errNotWritten
	}
	s.nextTicket++
	number := s.nextTicket
	s.tickets[number] = wanted
	s.writeCommand("flush %d %d\n", number, oneIf(durable))
	s.lock.Unlock()
	s.session.Bell().Ring()
	if !await(s.session, wanted.reached) {
		s.lock.Lock()
		delete(s.tickets, number)
		s.lock.Unlock()
		return errNotWritten
	}
	return nil
}

// await waits for an answer as long as the drain makes progress, and some seconds more.
func await(session *ring.Session, answer chan bool) bool {
	progress := session.NewProgress()
	tick := time.NewTicker(noProgress / 10)
	defer tick.Stop()
	for {
		select {
		case yes := <-answer:
			return yes
		case <-tick.C:
			// The drain itself gives up after five seconds without progress, and reports it.
			if progress.Stalled() > 2*noProgress {
				return false
			}
		}
	}
}

func (s *sidecar) stop() error {
	s.lock.Lock()
	s.byeSent = true
	s.writeCommand("bye\n")
	s.lock.Unlock()
	select {
	case s.hurry <- struct{}{}:
	default: // It hurries already.
	}
	s.session.Bell().Ring()
	complete := await(s.session, s.done)
	s.lock.Lock()
	if s.input != nil {
		_ = s.input.Close() // The sidecar then ends by itself.
	}
	s.lock.Unlock()
	if !complete {
		return errNotWritten
	}
	select {
	case <-s.ended:
	case <-time.After(sidecarEnd): // It has finished its work.
	}
	err := s.session.Remove()
	if errors.Is(err, fs.ErrPermission) {
		// This process has become another user. The log is complete, and the session says so: the next start of the earlier
		// user removes it.
		return nil
	}
	return err
}

// stderrHead keeps the first sidecarWords bytes written to it.
type stderrHead struct {
	lock sync.Mutex
	text []byte
}

func (w *stderrHead) Write(text []byte) (int, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.text = append(w.text, text[:min(len(text), sidecarWords-len(w.text))]...)
	return len(text), nil
}

func (w *stderrHead) String() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return strings.Join(strings.Fields(string(w.text)), " ")
}
