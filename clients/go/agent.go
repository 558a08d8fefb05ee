//go:build linux

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

// agent is the connection of this process to its agent, which makes and drains the session. A goroutine reads from the
// connection, and reconnects when the agent is gone. spec/agent.md has the messages and the rules.
type agent struct {
	socket  string
	session *ring.Session
	policy  uint32
	flags   uint32

	lock       sync.Mutex
	conn       *net.UnixConn // nil while disconnected
	number     uint64
	journal    uint64
	ringsSent  int
	tickets    map[uint64]*flushTicket
	nextTicket uint64
	byeSent    bool
	ended      bool
	done       chan bool
	wake       chan struct{}
}

const (
	agentConnect     = 100 * time.Millisecond
	agentWelcomeBack = 5 * time.Second
	agentRetryMin    = 10 * time.Millisecond
	agentRetryMax    = time.Second
	// agentRingsPerMessage is the number of rings that one message carries at most.
	agentRingsPerMessage = 100
)

// agentWelcome is the timeout of the agent's answer to hello. Tests raise it.
var agentWelcome = 400 * time.Millisecond

// joinAgent gets a session from the agent. It blocks at most half a second.
func (c *core) joinAgent(options *Options) error {
	a := &agent{
		socket: options.Agent, policy: uint32(options.Full.policy()), tickets: map[uint64]*flushTicket{},
		done: make(chan bool, 1), wake: make(chan struct{}, 1),
	}
	if options.CoarseClock {
		a.flags = 1
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	hello := wire.AgentMessage{
		Kind: wire.AgentHello, RingBytes: uint64(ring.CapacityFor(options.RingBytes)), Policy: a.policy, Flags: a.flags,
		RingCount: uint32(min(runtime.GOMAXPROCS(0), agentRingsPerMessage)), App: agentName(options.App),
	}
	answer, files, err := a.ask(conn, &hello, nil, agentWelcome)
	if err == nil && answer.Kind != wire.AgentWelcome {
		err = fmt.Errorf("the agent at %s sent an unexpected answer", a.socket)
	}
	if err == nil {
		a.session, err = ring.Join(a.socket, files, answer.RingBytes, a.wakeWriter, a.wakeWriter)
	}
	if err == nil {
		err = c.use(a.session, options)
	}
	if err != nil {
		_ = conn.Close()
		return err
	}
	a.conn, a.number, a.journal, a.ringsSent = conn, answer.Session, answer.Journal, int(answer.RingCount)
	c.drain = a
	go a.readLoop(conn)
	go a.writeLoop()
	return nil
}

// agentName replaces what a message does not allow in an application's name.
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

// connect connects to an agent that is trusted: it runs as root, as this user, or as the owner of the socket's
// directory, if no other user may write there.
func (a *agent) connect() (*net.UnixConn, error) {
	made, err := net.DialTimeout("unixpacket", a.socket, agentConnect)
	if err != nil {
		return nil, fmt.Errorf("connect to the agent: %w", err)
	}
	conn := made.(*net.UnixConn)
	raw, err := conn.SyscallConn()
	var peer *syscall.Ucred
	if err == nil {
		problem := raw.Control(func(fd uintptr) {
			peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		})
		err = errors.Join(err, problem)
	}
	if err == nil && peer.Uid != 0 && peer.Uid != uint32(os.Geteuid()) && !ownsAlone(filepath.Dir(a.socket), peer.Uid) {
		err = fmt.Errorf("the agent at %s runs as user %d, which is not trusted", a.socket, peer.Uid)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
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
func (a *agent) ask(conn *net.UnixConn, message *wire.AgentMessage, files []*os.File, timeout time.Duration) (wire.AgentMessage, []*os.File, error) {
	if err := send(conn, message, files); err != nil {
		return wire.AgentMessage{}, nil, fmt.Errorf("send to the agent: %w", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(timeout)) // Sockets always take deadlines.
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	answer, got, err := receive(conn, make([]byte, wire.AgentBytesMax))
	if err != nil {
		return answer, got, fmt.Errorf("the agent at %s: %w", a.socket, err)
	}
	if answer.Kind == wire.AgentRefused {
		return answer, got, fmt.Errorf("the agent at %s refused: %s; %s", a.socket, answer.Reason, answer.Advice)
	}
	return answer, got, nil
}

func send(conn *net.UnixConn, message *wire.AgentMessage, files []*os.File) error {
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for at, file := range files {
			fds[at] = int(file.Fd())
		}
		rights = syscall.UnixRights(fds...)
	}
	_, _, err := conn.WriteMsgUnix(message.Encode(), rights, nil)
	runtime.KeepAlive(files)
	return err
}

// receive reads one packet with its descriptors, which are close-on-exec.
func receive(conn *net.UnixConn, room []byte) (wire.AgentMessage, []*os.File, error) {
	rights := make([]byte, syscall.CmsgSpace(4*253))
	count, rightsCount, flags, _, err := conn.ReadMsgUnix(room, rights)
	if err != nil {
		return wire.AgentMessage{}, nil, err
	}
	files, err := filesOf(rights[:rightsCount])
	if err == nil && count == 0 {
		err = errors.New("closed the connection")
	}
	if err == nil && flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 {
		err = errors.New("sent more descriptors than this process can take; it may have too many files open")
	}
	var message wire.AgentMessage
	if err == nil {
		message, err = wire.DecodeAgent(room[:count])
	}
	if err == nil && message.Descriptors() != len(files) {
		err = errors.New("sent another number of descriptors than its message says")
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
		_ = file.Close() // Not used; an error changes nothing.
	}
}

// wakeWriter makes writeLoop send the bell and new rings. It never blocks: goroutines that log call it.
func (a *agent) wakeWriter() {
	select {
	case a.wake <- struct{}{}:
	default: // It is awake already.
	}
}

// writeLoop sends new rings and the bell for goroutines that log.
func (a *agent) writeLoop() {
	for range a.wake {
		a.lock.Lock()
		ended := a.ended
		a.sendRings()
		a.sendIfConnected(&wire.AgentMessage{Kind: wire.AgentBell}, nil)
		a.lock.Unlock()
		if ended {
			return
		}
	}
}

// sendRings sends rings that were made here. Called with the lock.
func (a *agent) sendRings() {
	_, rings := a.session.Descriptors()
	for a.conn != nil && a.ringsSent < len(rings) {
		count := min(len(rings)-a.ringsSent, agentRingsPerMessage)
		a.sendIfConnected(&wire.AgentMessage{Kind: wire.AgentRings, First: uint32(a.ringsSent), Count: uint32(count)}, rings[a.ringsSent:a.ringsSent+count])
		a.ringsSent += count
	}
}

// sendIfConnected sends a message unless disconnected. Called with the lock. adopt repeats what was not delivered.
func (a *agent) sendIfConnected(message *wire.AgentMessage, files []*os.File) {
	if a.conn != nil {
		if err := send(a.conn, message, files); err != nil {
			_ = a.conn.Close() // readLoop notices, and reconnects.
		}
	}
}

// readLoop handles messages of the agent, and reconnects when it is gone.
func (a *agent) readLoop(conn *net.UnixConn) {
	room := make([]byte, wire.AgentBytesMax)
	pause := agentRetryMin
	for {
		for conn != nil {
			message, files, err := receive(conn, room)
			if err != nil || !a.handleMessage(&message, files) {
				_ = conn.Close()
				break
			}
			pause = agentRetryMin
		}
		a.lock.Lock()
		a.conn = nil
		ended := a.ended
		a.lock.Unlock()
		if ended {
			return
		}
		time.Sleep(pause + time.Duration(rand.Int64N(int64(pause/2))) - pause/4)
		pause = min(2*pause, agentRetryMax)
		conn = a.adopt()
	}
}

// handleMessage acts on a message. It returns false when the message is not allowed here.
func (a *agent) handleMessage(message *wire.AgentMessage, files []*os.File) bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	switch message.Kind {
	case wire.AgentRings:
		if err := a.session.TakeRings(files); err != nil {
			closeAll(files)
			return false
		}
		a.ringsSent += len(files)
	case wire.AgentFlushed:
		if ticket := a.tickets[message.Ticket]; ticket != nil {
			delete(a.tickets, message.Ticket)
			ticket.reached <- message.Yes
		}
	case wire.AgentDone:
		select {
		case a.done <- message.Yes:
		default: // A duplicate.
		}
	default:
		return false
	}
	return true
}

// adopt reconnects and hands over the session; nil when that failed.
func (a *agent) adopt() *net.UnixConn {
	conn, err := a.connect()
	if err != nil {
		return nil
	}
	parts, rings := a.session.Descriptors()
	first := rings[:min(len(rings), agentRingsPerMessage)]
	message := wire.AgentMessage{
		Kind: wire.AgentAdopt, Session: a.number, Journal: a.journal, RingBytes: a.session.RingBytes(),
		RingTotal: uint32(len(rings)), RingCount: uint32(len(first)), Policy: a.policy, Flags: a.flags,
	}
	if err = send(conn, &message, append(append([]*os.File(nil), parts...), first...)); err == nil {
		for ringsSent := len(first); err == nil && ringsSent < len(rings); ringsSent += agentRingsPerMessage {
			count := min(len(rings)-ringsSent, agentRingsPerMessage)
			rest := wire.AgentMessage{Kind: wire.AgentRings, First: uint32(ringsSent), Count: uint32(count)}
			err = send(conn, &rest, rings[ringsSent:ringsSent+count])
		}
	}
	var answer wire.AgentMessage
	if err == nil {
		_ = conn.SetReadDeadline(time.Now().Add(agentWelcomeBack)) // As in ask.
		answer, _, err = receive(conn, make([]byte, wire.AgentBytesMax))
		_ = conn.SetReadDeadline(time.Time{})
	}
	if err != nil || answer.Kind != wire.AgentWelcomeBack {
		_ = conn.Close()
		return nil
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	a.conn, a.number, a.journal, a.ringsSent = conn, answer.Session, answer.Journal, len(rings)
	for number, ticket := range a.tickets {
		a.sendIfConnected(&wire.AgentMessage{Kind: wire.AgentFlush, Ticket: number, Durable: ticket.durable}, nil)
	}
	if a.byeSent {
		a.sendIfConnected(&wire.AgentMessage{Kind: wire.AgentBye}, nil)
	}
	return conn
}

func (a *agent) flush(durable bool) error {
	wanted := &flushTicket{durable: durable, reached: make(chan bool, 1)}
	a.lock.Lock()
	a.nextTicket++
	number := a.nextTicket
	a.tickets[number] = wanted
	a.sendIfConnected(&wire.AgentMessage{Kind: wire.AgentFlush, Ticket: number, Durable: durable}, nil)
	a.lock.Unlock()
	if await(a.session, wanted.reached) {
		return nil
	}
	a.lock.Lock()
	delete(a.tickets, number)
	a.lock.Unlock()
	return errNotWritten
}

func (a *agent) stop() error {
	a.lock.Lock()
	a.sendRings()
	a.byeSent = true
	a.sendIfConnected(&wire.AgentMessage{Kind: wire.AgentBye}, nil)
	a.lock.Unlock()
	complete := await(a.session, a.done)
	a.lock.Lock()
	a.ended = true
	if a.conn != nil {
		_ = a.conn.Close() // Nothing more is sent.
	}
	a.lock.Unlock()
	a.wakeWriter()
	if !complete {
		return errNotWritten
	}
	return a.session.Remove()
}
