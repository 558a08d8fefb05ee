//! The hostile process: joins as any other, logs as any other, and rewrites what it shares with the agent. Several
//! threads do so at once, each with a session of its own, and every round of it is followed by a look of the agent.

use logdrive_ring::channel::{Channel, Received, into_files};
use logdrive_ring::{
    Admission, AgentConnection, ClockSource, FullPolicy, MemoryFiles, Producer, SessionWriter, control,
};
use logdrive_testkit::Random;
use logdrive_wire::agent::{Hello, Message, Welcome};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level, RecordHeader};
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Mutations of one process: a session that was joined stays mapped, and there is an end to what a process may map.
pub(crate) const MUTATIONS_MAX: u64 = 10_000_000;
/// Threads that do it, each in a session of its own.
const THREADS: u64 = 4;
/// Mutations of one session, if its rings live that long.
const SESSION_MUTATIONS: u64 = 50_000;
/// Mutations between two looks of the agent.
const ROUND: u64 = 128;
/// The agent looks within this time, unless what was written keeps it from taking anything.
const LOOK_TIMEOUT: Duration = Duration::from_millis(50);
/// Rounds that the agent does not look at before the session is left: nothing can be taken of its rings.
const UNSEEN_ROUNDS: u32 = 2;
/// Between two looks at whether the agent has looked.
const LOOK_PAUSE: Duration = Duration::from_micros(100);
const RINGS: u32 = 4;
const RING_BYTES: u64 = 1 << 16;
/// Connections that are left open while the agent finishes with their sessions.
const GOODBYES: usize = 4;
/// The agent answers within this time.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes of the header of a ring, and offsets in it, from `spec/ring.md`.
const HEADER_BYTES: u64 = 4096;
const STATE: u64 = 8;
const COMMITTED: u64 = 64;
const CONSUMED: u64 = 256;
const QUARANTINED: u32 = 3;

/// Effects of the mutated messages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    /// Mutations behind which the agent has looked at the session.
    pub(crate) seen: u64,
    /// Others: what was written before kept the agent from taking anything.
    pub(crate) unseen: u64,
    /// Looks of the agent, each behind a round of mutations.
    pub(crate) looks: u64,
    pub(crate) sessions: u64,
}

impl Done {
    pub(crate) fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        self.unseen += other.unseen;
        self.looks += other.looks;
        self.sessions += other.sessions;
    }

    /// The text form that a process prints.
    pub(crate) fn to_text(self) -> String {
        format!("{} {} {} {}", self.seen, self.unseen, self.looks, self.sessions)
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let words: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [seen, unseen, looks, sessions] = *words.as_slice() else {
            return None;
        };
        Some(Self {
            seen,
            unseen,
            looks,
            sessions,
        })
    }
}

/// Returns a value of eight bytes that is worth a try.
fn value(random: &mut Random, near: u64) -> u64 {
    let small = random.below(64);
    match random.below(10) {
        0 => 0,
        1 => u64::MAX - small,
        2 => near.wrapping_add(small * 8),
        3 => near.wrapping_sub(small * 8),
        4 => RING_BYTES.wrapping_add(small * 8).wrapping_sub(64),
        5 => 1 << random.below(64),
        // A length, or two.
        6 => small * 8 + 16,
        7 => random.below(1 << 17) | random.below(1 << 8) << 32,
        _ => random.bits(),
    }
}

/// Asks for nothing.
#[derive(Debug)]
struct Silent;

/// A file of shared memory, to be read and written at any place.
struct Memory(File);

impl Memory {
    /// Stores bytes; what lies beyond the end is left out.
    fn store(&self, offset: usize, bytes: &[u8]) {
        let length = self.0.metadata().expect("a memory file").len();
        let room = length.saturating_sub(offset as u64).min(bytes.len() as u64) as usize;
        self.0
            .write_all_at(&bytes[..room], offset as u64)
            .expect("memory that may be written");
    }

    /// The aligned word that begins at or before the offset; 0 beyond the end.
    fn word(&self, offset: usize) -> u64 {
        let mut word = [0; 8];
        match self.0.read_exact_at(&mut word, offset as u64 & !7) {
            Ok(()) => u64::from_le_bytes(word),
            Err(_) => 0,
        }
    }
}

impl AgentConnection for Silent {
    fn wake_drain(&self) {}

    fn request_rings(&self, _count: u32) {}

    fn is_connected(&self) -> bool {
        true
    }
}

/// Joins session after session, in several threads, until the agent has seen so many mutations.
pub(crate) fn play(socket: &Path, seed: u64, mutations: u64) -> String {
    let threads = THREADS.min(mutations.div_ceil(ROUND)).max(1);
    let mut all = Done::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|number| {
                let random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ number << 56);
                scope.spawn(move || attack(socket, random, mutations.div_ceil(threads)))
            })
            .collect();
        for thread in threads {
            all.add(&thread.join().expect("no panic"));
        }
    });
    all.to_text()
}

fn attack(socket: &Path, mut random: Random, mutations: u64) -> Done {
    let mut done = Done::default();
    let mut goodbyes = VecDeque::new();
    while done.seen < mutations {
        let mut session = Victim::join(socket);
        done.sessions += 1;
        let most = (mutations - done.seen).min(SESSION_MUTATIONS);
        done.add(&session.rewrite(&mut random, most));
        match random.below(16) {
            // It goes without a word, and the agent waits for it.
            0 => {}
            _ => {
                let bye = Message::Bye.encode().expect("short");
                // The agent may have refused something before.
                let _ = session.channel.send(&bye, &[]);
                goodbyes.push_back(session.channel);
            }
        }
        if goodbyes.len() > GOODBYES
            && let Some(oldest) = goodbyes.pop_front()
        {
            hear_the_end(&oldest);
        }
    }
    goodbyes.iter().for_each(hear_the_end);
    done
}

/// Waits until the agent is done with a session; that it never is would be a hang.
fn hear_the_end(channel: &Channel) {
    loop {
        match receive(channel) {
            None | Some((Message::Done { .. }, _)) => return,
            Some(_) => {}
        }
    }
}

/// The next message, or `None` at the end of the connection.
fn receive(channel: &Channel) -> Option<(Message, Vec<File>)> {
    let mut buffer = vec![0; logdrive_wire::limits::AGENT_MESSAGE_BYTES_MAX];
    loop {
        let mut descriptors = Vec::new();
        match channel.receive(&mut buffer, &mut descriptors, true) {
            Ok(Received::Packet(length)) => {
                let message = Message::decode(&buffer[..length]).expect("agents speak well");
                return Some((message, into_files(descriptors)));
            }
            Ok(Received::Closed) => return None,
            Ok(Received::Cut) => panic!("a message was cut"),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let came = channel.wait(TIMEOUT).expect("no error");
                assert!(came, "the agent does not answer");
            }
            Err(_) => return None,
        }
    }
}

/// A session whose process writes what it likes.
struct Victim {
    channel: Channel,
    /// Header, control, counts, callsites, rules, as `spec/agent.md` orders them.
    parts: Vec<Memory>,
    rings: Vec<Memory>,
    producers: Vec<Producer>,
    /// Records that were logged since the agent looked: ring, offset, bytes.
    recent: Vec<(usize, u64, u64)>,
    callsites: u32,
    clock: ClockSource,
    _session: SessionWriter,
}

impl Victim {
    fn join(socket: &Path) -> Self {
        loop {
            let channel = Channel::connect(socket, TIMEOUT).expect("a connection");
            let hello = Message::Hello(Hello {
                app: "hostile".to_owned(),
                ring_bytes: RING_BYTES,
                ring_count: RINGS,
                policy: 0,
                coarse: false,
            });
            channel.send(&hello.encode().expect("short"), &[]).expect("sent");
            match receive(&channel) {
                Some((Message::Welcome(welcome), files)) => return Self::of(channel, &welcome, files),
                // A limit: the sessions that were left without a word are still there.
                Some((Message::Refused(_), _)) => {
                    // tidy: allow(sleep): asks again until there is room
                    std::thread::sleep(Duration::from_millis(20));
                }
                other => panic!("no welcome but {other:?}"),
            }
        }
    }

    fn of(channel: Channel, welcome: &Welcome, files: Vec<File>) -> Self {
        let copy = |file: &File| Memory(file.try_clone().expect("a descriptor to spare"));
        let mut parts: Vec<Memory> = files.iter().map(copy).collect();
        let rings_of = parts.split_off(MemoryFiles::PARTS);
        let mut memory = files;
        let rings = memory.split_off(MemoryFiles::PARTS);
        let memory = MemoryFiles::check(memory).expect("an agent's memory is good");
        let bytes = usize::try_from(welcome.ring_bytes).expect("it was asked for");
        let session = SessionWriter::join(Path::new("agent.sock"), memory, rings, bytes, Arc::new(Silent))
            .expect("an agent's memory is good");
        let callsites = callsites();
        for callsite in &callsites {
            session
                .register(&callsite.encode().expect("short"), control::ON)
                .expect("room");
        }
        let producers = (0..RINGS)
            .map(|number| session.acquire(&format!("h{number}")).expect("a ring"))
            .collect();
        Self {
            channel,
            parts,
            rings: rings_of,
            producers,
            recent: Vec::new(),
            callsites: callsites.len() as u32,
            clock: session.header().clock_source(),
            _session: session,
        }
    }

    /// Logs and rewrites in turn, each time until the agent has looked, or until no ring is read any more.
    fn rewrite(&mut self, random: &mut Random, mutations: u64) -> Done {
        let mut done = Done::default();
        let mut unseen = 0;
        while done.seen < mutations && unseen < UNSEEN_ROUNDS && self.has_living() {
            self.log(random);
            let round = ROUND.min(mutations - done.seen);
            for _ in 0..round {
                self.mutate(random);
            }
            if self.is_looked_at() {
                done.seen += round;
                done.looks += 1;
                unseen = 0;
            } else {
                done.unseen += round;
                unseen += 1;
            }
        }
        done
    }

    /// Returns whether the agent reads one of the rings.
    fn has_living(&self) -> bool {
        let lives = |ring: &Memory| (ring.word((RING_BYTES + STATE) as usize) as u32) < QUARANTINED;
        self.rings.iter().any(lives)
    }

    /// The agent's position in each ring, and the rings that it reads.
    fn positions(&self) -> Vec<u64> {
        let place = |offset: u64| (RING_BYTES + offset) as usize;
        let words = |ring: &Memory| [ring.word(place(CONSUMED)), ring.word(place(STATE))];
        self.rings.iter().flat_map(words).collect()
    }

    /// Waits until the agent takes something of a ring, or gives one up.
    fn is_looked_at(&self) -> bool {
        // What was written here is not what the agent does.
        let before = self.positions();
        let asked = Instant::now();
        while self.positions() == before {
            if asked.elapsed() > LOOK_TIMEOUT {
                return false;
            }
            // tidy: allow(sleep): the pause of a look that has a deadline
            std::thread::sleep(LOOK_PAUSE);
        }
        true
    }

    /// Some records in each ring, good ones but for the bytes of their values.
    fn log(&mut self, random: &mut Random) {
        let mut record = [0; 256];
        self.recent.clear();
        for (number, producer) in self.producers.iter_mut().enumerate() {
            for _ in 0..1 + random.below(7) {
                let length = 16 + random.below(30) * 8;
                let header = RecordHeader {
                    length_bytes: length as u32,
                    callsite_id: random.below(u64::from(self.callsites)) as u32,
                    time_ticks: logdrive_ring::clock::ticks_of(self.clock),
                };
                record[..16].copy_from_slice(&header.encode());
                for eight in record[16..].chunks_exact_mut(8) {
                    eight.copy_from_slice(&value(random, length).to_le_bytes());
                }
                let record = &record[..length as usize];
                let mut push = || producer.push(record, false, FullPolicy::Drop);
                // Drops that look counted, and that no gap record here reports.
                let admission = match push() {
                    Admission::GapDue => push(),
                    admission => admission,
                };
                if admission == Admission::Granted {
                    let end = self.rings[number].word((RING_BYTES + COMMITTED) as usize);
                    self.recent.push((number, end.wrapping_sub(length), length));
                }
            }
        }
    }

    fn mutate(&self, random: &mut Random) {
        let near = random.below(1 << 16);
        let bytes = value(random, near).to_le_bytes();
        let bytes = &bytes[..1 + random.below(8) as usize];
        let ring = &self.rings[random.below(u64::from(RINGS)) as usize];
        let (memory, offset) = match random.below(10_000) {
            // The newest records: values, callsites, times, and now and then a length, which mostly ends the ring.
            0..5_500 => return self.mutate_record(random, bytes),
            // Whatever there is in the ring.
            5_500..6_000 => (ring, random.below(RING_BYTES)),
            // Labels and counters.
            6_000..6_600 => (ring, RING_BYTES + 24 + random.below(5) * 8),
            6_600..7_000 => (ring, RING_BYTES + 128 + random.below(16) * 8),
            // Positions, states, cells: most of these end the ring.
            7_000..7_002 => (ring, RING_BYTES + random.below(43) * 8),
            7_002..7_004 => (ring, RING_BYTES + random.below(HEADER_BYTES / 8) * 8),
            7_004..8_300 => (&self.parts[3], random.below(8192)),
            8_300..9_000 => (&self.parts[4], random.below(1 << 16)),
            9_000..9_400 => (&self.parts[1], random.below(1 << 14)),
            9_400..9_700 => (&self.parts[2], random.below(1 << 14)),
            _ => (&self.parts[0], random.below(4096)),
        };
        memory.store(offset as usize, bytes);
    }

    /// Writes into a record that the agent has not looked at yet.
    fn mutate_record(&self, random: &mut Random, bytes: &[u8]) {
        let chosen = random.below(self.recent.len().max(1) as u64) as usize;
        let Some((ring, start, length)) = self.recent.get(chosen).copied() else {
            return;
        };
        let (at, most) = match random.below(10_000) {
            // The length.
            0..4 => (random.below(4), 4),
            // The time, by a lot.
            4..8 => (8, 8),
            // The time, by a little.
            8..600 => (8, 2),
            // The callsite.
            600..1200 => (4, 1),
            // A value, and not what stands behind it.
            _ => {
                let at = 16 + random.below((length - 16).max(1));
                (at, length.saturating_sub(at).min(8))
            }
        };
        let offset = (start.wrapping_add(at)) % RING_BYTES;
        self.rings[ring].store(offset as usize, &bytes[..bytes.len().min(most as usize)]);
    }
}

/// Statements of all sorts: values of all kinds, widths, dynamic ones.
fn callsites() -> Vec<Callsite> {
    let site = |message: &str, fields: Vec<Field>| Callsite {
        level: Level::Info,
        line: 7,
        file: "src/hostile.rs".to_owned(),
        module: "hostile".to_owned(),
        message: message.to_owned(),
        fields,
        ..Callsite::default()
    };
    let all = |kinds: &[Kind], argument: bool| -> Vec<Field> {
        kinds
            .iter()
            .enumerate()
            .map(|(number, kind)| Field {
                name: format!("f{number}"),
                kind: FieldKind::plain(*kind),
                argument,
            })
            .collect()
    };
    let kinds = [Kind::U64, Kind::I64, Kind::F64, Kind::Str, Kind::Bool];
    let mut sites = vec![
        logdrive_drain::gap_callsite(),
        site("plain", Vec::new()),
        site("text {0}", all(&[Kind::Str], true)),
        site("wide {0:>40} {1:+08x}", all(&[Kind::Str, Kind::U64], true)),
        site("many {0} {1} {2:.3} {3} {4}", all(&kinds, true)),
        site("fields", all(&kinds, false)),
    ];
    sites.push(Callsite {
        dynamic: true,
        ..site("dynamic", all(&kinds, false))
    });
    sites
}
