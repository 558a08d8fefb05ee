package wire

import (
	"encoding/binary"
	"unicode/utf8"
)

// AgentKind is the kind of a message between a process and its agent, as spec/agent.md numbers them. Only those that a
// process sends or receives are here.
type AgentKind uint16

// The kinds.
const (
	AgentHello AgentKind = iota + 1
	AgentWelcome
	AgentRefused
	AgentMoreRings
	AgentRings
	AgentAdopt
	AgentWelcomeBack
	AgentBye
	AgentDone
	AgentFlush
	AgentFlushed
	AgentBell
)

// AgentMessage is one message. Which fields count is said by its kind.
type AgentMessage struct {
	Kind                 AgentKind
	Session, Journal     uint64
	RingBytes            uint64
	RingTotal, RingCount uint32
	RingsMax             uint32
	First, Count         uint32
	Policy, Flags        uint32
	ClockSource          uint32
	Code                 uint32
	Ticket               uint64
	Durable, Yes         bool
	App, Reason, Advice  string
}

const (
	agentMagic = 0x4741_444c // `LDAG`
	// AgentBytesMax bounds a message.
	AgentBytesMax = 65536
	// AgentRingsMax bounds the rings of one message.
	AgentRingsMax = 128
	// AgentParts is the number of descriptors in front of the rings.
	AgentParts = 5
	// AgentAppBytesMax bounds an application's name.
	AgentAppBytesMax = 63
)

// Descriptors is how many come with the message.
func (m *AgentMessage) Descriptors() int {
	switch m.Kind {
	case AgentWelcome, AgentAdopt:
		return AgentParts + int(m.RingCount)
	case AgentRings:
		return int(m.Count)
	}
	return 0
}

// Encode makes the packet of a message.
func (m *AgentMessage) Encode() []byte {
	packet := make([]byte, 16, 64)
	binary.LittleEndian.PutUint32(packet, agentMagic)
	binary.LittleEndian.PutUint16(packet[4:], 1)
	binary.LittleEndian.PutUint16(packet[6:], uint16(m.Kind))
	binary.LittleEndian.PutUint16(packet[12:], uint16(m.Descriptors()))
	u32 := func(values ...uint32) {
		for _, value := range values {
			packet = binary.LittleEndian.AppendUint32(packet, value)
		}
	}
	u64 := func(values ...uint64) {
		for _, value := range values {
			packet = binary.LittleEndian.AppendUint64(packet, value)
		}
	}
	text := func(text string) {
		packet = binary.LittleEndian.AppendUint16(packet, uint16(len(text)))
		packet = append(packet, text...)
	}
	switch m.Kind {
	case AgentHello:
		u64(m.RingBytes)
		u32(m.RingCount, m.Policy, m.Flags)
		text(m.App)
	case AgentWelcome:
		u64(m.Session, m.Journal, m.RingBytes)
		u32(m.ClockSource, m.RingCount, m.RingsMax, 0)
	case AgentRefused:
		u32(m.Code)
		text(m.Reason)
		text(m.Advice)
	case AgentMoreRings:
		u32(m.Count)
	case AgentRings:
		u32(m.First, m.Count)
		text(m.Reason)
	case AgentAdopt:
		u64(m.Session, m.Journal, m.RingBytes)
		u32(m.RingTotal, m.RingCount, m.Policy, m.Flags)
	case AgentWelcomeBack:
		u64(m.Session, m.Journal)
		u32(m.RingTotal, m.RingsMax)
	case AgentDone:
		u32(truth(m.Yes))
	case AgentFlush:
		u64(m.Ticket)
		u32(truth(m.Durable))
	case AgentFlushed:
		u64(m.Ticket)
		u32(truth(m.Yes))
	}
	binary.LittleEndian.PutUint32(packet[8:], uint32(len(packet)))
	return packet
}

func truth(yes bool) uint32 {
	if yes {
		return 1
	}
	return 0
}

// agentReader reads the body of a message; the first error stays.
type agentReader struct {
	cursor *Cursor
	err    error
}

func (r *agentReader) u32() uint32 {
	if r.err != nil {
		return 0
	}
	var value uint32
	value, r.err = r.cursor.U32()
	return value
}

func (r *agentReader) u64() uint64 {
	if r.err != nil {
		return 0
	}
	var value uint64
	value, r.err = r.cursor.U64()
	return value
}

func (r *agentReader) most(value, most uint32, what string) uint32 {
	if r.err == nil && value > most {
		r.err = fail(ErrLimit, "%s is %d, at most %d", what, value, most)
	}
	return value
}

func (r *agentReader) text() string {
	if r.err != nil {
		return ""
	}
	var text string
	text, r.err = r.cursor.Text(NameBytesMax)
	return text
}

// DecodeAgent reads the packet of a message.
func DecodeAgent(packet []byte) (AgentMessage, error) {
	var m AgentMessage
	cursor := NewCursor(packet)
	head, err := cursor.Take(16)
	if err != nil {
		return m, err
	}
	switch length := binary.LittleEndian.Uint32(head[8:]); {
	case binary.LittleEndian.Uint32(head) != agentMagic:
		return m, fail(ErrUnknown, "magic %#x", head[:4])
	case binary.LittleEndian.Uint16(head[4:]) != 1:
		return m, fail(ErrUnknown, "version %d", binary.LittleEndian.Uint16(head[4:]))
	case uint64(length) != uint64(len(packet)):
		return m, fail(ErrLimit, "a packet of %d bytes says %d", len(packet), length)
	case binary.LittleEndian.Uint16(head[14:]) != 0:
		return m, fail(ErrLimit, "a reserved field is not 0")
	}
	m.Kind = AgentKind(binary.LittleEndian.Uint16(head[6:]))
	reader := agentReader{cursor: cursor}
	if !m.decodeBody(&reader) {
		return m, fail(ErrUnknown, "kind %d", m.Kind)
	}
	if reader.err == nil && cursor.Left() != 0 {
		reader.err = fail(ErrLimit, "%d bytes behind the message", cursor.Left())
	}
	if found := int(binary.LittleEndian.Uint16(head[12:])); reader.err == nil && found != m.Descriptors() {
		reader.err = fail(ErrLimit, "%d descriptors, and the body says %d", found, m.Descriptors())
	}
	return m, reader.err
}

func (m *AgentMessage) decodeBody(r *agentReader) bool {
	switch m.Kind {
	case AgentHello:
		m.RingBytes = r.u64()
		m.RingCount = r.most(r.u32(), AgentRingsMax, "ring count")
		m.Policy, m.Flags = r.most(r.u32(), 2, "policy"), r.most(r.u32(), 1, "flags")
		m.App = r.text()
		if r.err == nil && (len(m.App) == 0 || len(m.App) > AgentAppBytesMax || !isPlain(m.App)) {
			r.err = fail(ErrLimit, "the application's name %q", m.App)
		}
	case AgentWelcome:
		m.Session, m.Journal, m.RingBytes = r.u64(), r.u64(), r.u64()
		m.ClockSource = r.u32()
		m.RingCount, m.RingsMax = r.most(r.u32(), AgentRingsMax, "ring count"), r.u32()
		r.most(r.u32(), 0, "a reserved field")
		r.named(m.Session)
	case AgentRefused:
		m.Code, m.Reason, m.Advice = r.u32(), r.text(), r.text()
	case AgentMoreRings:
		m.Count = r.u32()
		if r.err == nil && (m.Count < 1 || m.Count > 16) {
			r.err = fail(ErrLimit, "%d rings, from 1 to 16", m.Count)
		}
	case AgentRings:
		m.First, m.Count, m.Reason = r.u32(), r.most(r.u32(), AgentRingsMax, "ring count"), r.text()
	case AgentAdopt:
		m.Session, m.Journal, m.RingBytes = r.u64(), r.u64(), r.u64()
		m.RingTotal, m.RingCount = r.u32(), r.most(r.u32(), AgentRingsMax, "ring count")
		m.Policy, m.Flags = r.most(r.u32(), 2, "policy"), r.most(r.u32(), 1, "flags")
		r.named(m.Session)
	case AgentWelcomeBack:
		m.Session, m.Journal, m.RingTotal, m.RingsMax = r.u64(), r.u64(), r.u32(), r.u32()
		r.named(m.Session)
	case AgentDone:
		m.Yes = r.most(r.u32(), 1, "complete") == 1
	case AgentFlush:
		m.Ticket, m.Durable = r.u64(), r.most(r.u32(), 1, "durable") == 1
	case AgentFlushed:
		m.Ticket, m.Yes = r.u64(), r.most(r.u32(), 1, "reached") == 1
	case AgentBye, AgentBell:
	default:
		return false
	}
	return true
}

func (r *agentReader) named(session uint64) {
	if r.err == nil && session == 0 {
		r.err = fail(ErrLimit, "a session of number 0")
	}
}

// isPlain reports whether a text has no control characters.
func isPlain(text string) bool {
	for _, r := range text {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
			return false
		}
	}
	return true
}
