package logdrive

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// agent is this process's side of an agent: the session comes from there, and is drained there. A goroutine looks after
// the connection, and finds an agent again when it has gone. spec/agent.md has the messages and the rules.
type agent struct {
	socket  string
	session *ring.Session
	policy  uint32
	flags   uint32

	lock     sync.Mutex
	line     *net.UnixConn // nil while the agent is away
	number   uint64
	journal  uint64
	shown    int
	marks    map[uint64]*mark
	nextMark uint64
	saidBye  bool
	ended    bool
	done     chan bool
	wake     chan struct{}
}

const (
	agentConnect     = 100 * time.Millisecond
	agentWelcome     = 400 * time.Millisecond
	agentWelcomeBack = 5 * time.Second
	agentRetryMin    = 10 * time.Millisecond
	agentRetryMax    = time.Second
	// agentRingsShown is how many rings come with one message.
	agentRingsShown = 100
)

// joinAgent gets a session from the agent. It waits half a second at most.
func (c *core) joinAgent(options *Options) error {
	a := &agent{
		socket: options.Agent, policy: uint32(options.Full.policy()), marks: map[uint64]*mark{},
		done: make(chan bool, 1), wake: make(chan struct{}, 1),
	}
	if options.CoarseClock {
		a.flags = 1
	}
	line, err := a.connect()
	if err != nil {
		return err
	}
	hello := wire.AgentMessage{
		Kind: wire.AgentHello, RingBytes: uint64(ring.CapacityFor(options.RingBytes)), Policy: a.policy, Flags: a.flags,
		RingCount: uint32(min(runtime.GOMAXPROCS(0), agentRingsShown)), App: agentName(options.App),
	}
	answer, files, err := a.ask(line, &hello, nil, agentWelcome)
	if err == nil && answer.Kind != wire.AgentWelcome {
		err = fmt.Errorf("the agent at %s has answered something else than was asked", a.socket)
	}
	if err == nil {
		a.session, err = ring.Join(a.socket, files, answer.RingBytes, a.nudge, a.nudge)
	}
	if err == nil {
		err = c.use(a.session, options)
	}
	if err != nil {
		_ = line.Close()
		return err
	}
	a.line, a.number, a.journal, a.shown = line, answer.Session, answer.Journal, int(answer.RingCount)
	c.drain = a
	go a.attend(line)
	go a.serve()
	return nil
}

// agentName is an application's name as messages take it.
func agentName(app string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(app, "_"))
	if clean = ring.CutText(clean, wire.AgentAppBytesMax); clean == "" {
		return "app"
	}
	return clean
}

// connect reaches an agent that may be believed: it runs as root, as this user, or as the owner of the socket's
// directory where nobody else writes.
func (a *agent) connect() (*net.UnixConn, error) {
	made, err := net.DialTimeout("unixpacket", a.socket, agentConnect)
	if err != nil {
		return nil, fmt.Errorf("connect to the agent: %w", err)
	}
	line := made.(*net.UnixConn)
	raw, err := line.SyscallConn()
	var peer *syscall.Ucred
	if err == nil {
		problem := raw.Control(func(fd uintptr) {
			peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		})
		err = errors.Join(err, problem)
	}
	if err == nil && peer.Uid != 0 && peer.Uid != uint32(os.Geteuid()) && !ownsAlone(filepath.Dir(a.socket), peer.Uid) {
		err = fmt.Errorf("the agent at %s belongs to user %d, who may not be believed", a.socket, peer.Uid)
	}
	if err != nil {
		_ = line.Close()
		return nil, err
	}
	return line, nil
}

func ownsAlone(dir string, uid uint32) bool {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == uid
}

// ask sends a message and waits for its answer.
func (a *agent) ask(line *net.UnixConn, message *wire.AgentMessage, files []*os.File, patience time.Duration) (wire.AgentMessage, []*os.File, error) {
	if err := send(line, message, files); err != nil {
		return wire.AgentMessage{}, nil, fmt.Errorf("send to the agent: %w", err)
	}
	_ = line.SetReadDeadline(time.Now().Add(patience)) // A connection without deadlines is none of a socket.
	defer func() { _ = line.SetReadDeadline(time.Time{}) }()
	answer, got, err := receive(line, make([]byte, wire.AgentBytesMax))
	if err != nil {
		return answer, got, fmt.Errorf("the agent at %s: %w", a.socket, err)
	}
	if answer.Kind == wire.AgentRefused {
		return answer, got, fmt.Errorf("the agent at %s refused: %s; %s", a.socket, answer.Reason, answer.Advice)
	}
	return answer, got, nil
}

func send(line *net.UnixConn, message *wire.AgentMessage, files []*os.File) error {
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for at, file := range files {
			fds[at] = int(file.Fd())
		}
		rights = syscall.UnixRights(fds...)
	}
	_, _, err := line.WriteMsgUnix(message.Encode(), rights, nil)
	runtime.KeepAlive(files)
	return err
}

// receive reads one packet with its descriptors, which are close-on-exec.
func receive(line *net.UnixConn, room []byte) (wire.AgentMessage, []*os.File, error) {
	rights := make([]byte, syscall.CmsgSpace(4*253))
	count, rightsCount, flags, _, err := line.ReadMsgUnix(room, rights)
	if err != nil {
		return wire.AgentMessage{}, nil, err
	}
	files, err := filesOf(rights[:rightsCount])
	if err == nil && count == 0 {
		err = errors.New("has closed the connection")
	}
	if err == nil && flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 {
		err = errors.New("has sent more than this process can take; it may have too many files open")
	}
	var message wire.AgentMessage
	if err == nil {
		message, err = wire.DecodeAgent(room[:count])
	}
	if err == nil && message.Descriptors() != len(files) {
		err = errors.New("has sent other descriptors than it says")
	}
	if err != nil {
		closeAll(files)
		return message, nil, err
	}
	return message, files, nil
}

func filesOf(rights []byte) ([]*os.File, error) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for at := range messages {
		fds, err := syscall.ParseUnixRights(&messages[at])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "logdrive-memory"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close() // It was not wanted.
	}
}

// nudge lets the serving goroutine look whether there is something to say: the bell, or rings. It never waits: it is
// called by goroutines that log.
func (a *agent) nudge() {
	select {
	case a.wake <- struct{}{}:
	default: // It will look anyway.
	}
}

// serve sends what the goroutines that log want to have sent.
func (a *agent) serve() {
	for range a.wake {
		a.lock.Lock()
		ended := a.ended
		a.showRings()
		a.say(&wire.AgentMessage{Kind: wire.AgentBell}, nil)
		a.lock.Unlock()
		if ended {
			return
		}
	}
}

// showRings shows rings that were made here; called with the lock.
func (a *agent) showRings() {
	_, rings := a.session.Shown()
	for a.line != nil && a.shown < len(rings) {
		count := min(len(rings)-a.shown, agentRingsShown)
		a.say(&wire.AgentMessage{Kind: wire.AgentRings, First: uint32(a.shown), Count: uint32(count)}, rings[a.shown:a.shown+count])
		a.shown += count
	}
}

// say sends a message where there is an agent; called with the lock. What does not reach it is said to the next one.
func (a *agent) say(message *wire.AgentMessage, files []*os.File) {
	if a.line != nil {
		if err := send(a.line, message, files); err != nil {
			_ = a.line.Close() // The goroutine that reads finds that out, and connects anew.
		}
	}
}

// attend reads what the agent says, and finds another one when it has gone.
func (a *agent) attend(line *net.UnixConn) {
	room := make([]byte, wire.AgentBytesMax)
	pause := agentRetryMin
	for {
		for line != nil {
			message, files, err := receive(line, room)
			if err != nil || !a.hear(&message, files) {
				_ = line.Close()
				break
			}
			pause = agentRetryMin
		}
		a.lock.Lock()
		a.line = nil
		ended := a.ended
		a.lock.Unlock()
		if ended {
			return
		}
		time.Sleep(pause + time.Duration(rand.Int64N(int64(pause/2))) - pause/4)
		pause = min(2*pause, agentRetryMax)
		line = a.adopt()
	}
}

// hear acts on a message; false where the agent says what it should not.
func (a *agent) hear(message *wire.AgentMessage, files []*os.File) bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	switch message.Kind {
	case wire.AgentRings:
		if err := a.session.TakeRings(files); err != nil {
			closeAll(files)
			return false
		}
		a.shown += len(files)
	case wire.AgentFlushed:
		if mark := a.marks[message.Mark]; mark != nil {
			delete(a.marks, message.Mark)
			mark.reached <- message.Yes
		}
	case wire.AgentDone:
		select {
		case a.done <- message.Yes:
		default: // It was said before.
		}
	default:
		return false
	}
	return true
}

// adopt connects anew and shows the session; nil where that did not work.
func (a *agent) adopt() *net.UnixConn {
	line, err := a.connect()
	if err != nil {
		return nil
	}
	parts, rings := a.session.Shown()
	first := rings[:min(len(rings), agentRingsShown)]
	message := wire.AgentMessage{
		Kind: wire.AgentAdopt, Session: a.number, Journal: a.journal, RingBytes: a.session.RingBytes(),
		RingTotal: uint32(len(rings)), RingCount: uint32(len(first)), Policy: a.policy, Flags: a.flags,
	}
	if err = send(line, &message, append(append([]*os.File(nil), parts...), first...)); err == nil {
		for shown := len(first); err == nil && shown < len(rings); shown += agentRingsShown {
			count := min(len(rings)-shown, agentRingsShown)
			rest := wire.AgentMessage{Kind: wire.AgentRings, First: uint32(shown), Count: uint32(count)}
			err = send(line, &rest, rings[shown:shown+count])
		}
	}
	var answer wire.AgentMessage
	if err == nil {
		_ = line.SetReadDeadline(time.Now().Add(agentWelcomeBack)) // As in ask.
		answer, _, err = receive(line, make([]byte, wire.AgentBytesMax))
		_ = line.SetReadDeadline(time.Time{})
	}
	if err != nil || answer.Kind != wire.AgentWelcomeBack {
		_ = line.Close()
		return nil
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	a.line, a.number, a.journal, a.shown = line, answer.Session, answer.Journal, len(rings)
	for number, mark := range a.marks {
		a.say(&wire.AgentMessage{Kind: wire.AgentFlush, Mark: number, Durable: mark.durable}, nil)
	}
	if a.saidBye {
		a.say(&wire.AgentMessage{Kind: wire.AgentBye}, nil)
	}
	return line
}

func (a *agent) flush(durable bool) error {
	wanted := &mark{durable: durable, reached: make(chan bool, 1)}
	a.lock.Lock()
	a.nextMark++
	number := a.nextMark
	a.marks[number] = wanted
	a.say(&wire.AgentMessage{Kind: wire.AgentFlush, Mark: number, Durable: durable}, nil)
	a.lock.Unlock()
	if await(a.session, wanted.reached) {
		return nil
	}
	a.lock.Lock()
	delete(a.marks, number)
	a.lock.Unlock()
	return errNotWritten
}

func (a *agent) stop() error {
	a.lock.Lock()
	a.showRings()
	a.saidBye = true
	a.say(&wire.AgentMessage{Kind: wire.AgentBye}, nil)
	a.lock.Unlock()
	complete := await(a.session, a.done)
	a.lock.Lock()
	a.ended = true
	if a.line != nil {
		_ = a.line.Close() // Everything has been said.
	}
	a.lock.Unlock()
	a.nudge()
	if !complete {
		return errNotWritten
	}
	return a.session.Remove()
}
