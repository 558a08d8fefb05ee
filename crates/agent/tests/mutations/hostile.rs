//! The hostile process: joins as any other, logs as any other, and rewrites what it shares with the agent.

use logdrive_ring::channel::{Channel, Received, into_files};
use logdrive_ring::{AgentLine, FullPolicy, Producer, RING_HEADER_BYTES, Session, SessionMemory, control};
use logdrive_wire::agent::{Hello, Message, Welcome};
use logdrive_wire::kind::FieldKind;
use logdrive_wire::{Callsite, Field, Kind, Level, RecordHeader};
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Mutations of one process: a session that was joined stays mapped, and there is an end to what a process may map.
pub(crate) const MUTATIONS_MAX: u64 = 4_000_000;
/// Mutations of one session, if its rings live that long.
const SESSION_MUTATIONS: u64 = 20_000;
/// Mutations between two looks at the rings.
const ROUND: u64 = 64;
const RINGS: u32 = 4;
const RING_BYTES: u64 = 1 << 16;
/// Connections that are left open while the agent finishes with their sessions.
const GOODBYES: usize = 8;
/// The agent answers within this time.
const PATIENCE: Duration = Duration::from_secs(20);

/// Offsets in the header of a ring, from `spec/ring.md`.
const STATE: u64 = 8;
const COMMITTED: u64 = 64;
const QUARANTINED: u32 = 3;

struct Random(u64);

impl Random {
    /// splitmix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A value of eight bytes that is worth a try.
    fn value(&mut self, near: u64) -> u64 {
        let small = self.below(64);
        match self.below(10) {
            0 => 0,
            1 => u64::MAX - small,
            2 => near.wrapping_add(small * 8),
            3 => near.wrapping_sub(small * 8),
            4 => RING_BYTES.wrapping_add(small * 8).wrapping_sub(64),
            5 => 1 << self.below(64),
            // A length, or two.
            6 => small * 8 + 16,
            7 => self.below(1 << 17) | self.below(1 << 8) << 32,
            _ => self.next(),
        }
    }
}

/// Asks for nothing.
#[derive(Debug)]
struct Silent;

impl AgentLine for Silent {
    fn ring_bell(&self) {}

    fn want_rings(&self, _count: u32) {}

    fn is_connected(&self) -> bool {
        true
    }
}

/// Joins session after session until there were so many mutations; how many there were, and in how many sessions.
pub(crate) fn play(socket: &Path, seed: u64, mutations: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let (mut done, mut sessions) = (0, 0);
    let mut goodbyes = VecDeque::new();
    while done < mutations {
        let mut session = Victim::join(socket);
        sessions += 1;
        done += session.rewrite(&mut random, (mutations - done).min(SESSION_MUTATIONS));
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
    format!("{done} {sessions}")
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
                let came = channel.wait(PATIENCE).expect("no error");
                assert!(came, "the agent does not answer");
            }
            Err(_) => return None,
        }
    }
}

/// A session whose process writes what it likes.
struct Victim {
    channel: Channel,
    /// Header, control, counts, callsites, rules, as `spec/agent.md` orders them; then the rings.
    files: Vec<File>,
    producers: Vec<Producer>,
    callsites: u32,
    _session: Session,
}

impl Victim {
    fn join(socket: &Path) -> Self {
        loop {
            let channel = Channel::connect(socket, PATIENCE).expect("a connection");
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
                    std::thread::sleep(Duration::from_millis(100));
                }
                other => panic!("no welcome but {other:?}"),
            }
        }
    }

    fn of(channel: Channel, welcome: &Welcome, files: Vec<File>) -> Self {
        let mut memory: Vec<File> = files
            .iter()
            .map(|file| file.try_clone().expect("a descriptor"))
            .collect();
        let rings = memory.split_off(SessionMemory::PARTS);
        let memory = SessionMemory::check(memory).expect("an agent's memory is good");
        let bytes = usize::try_from(welcome.ring_bytes).expect("it was asked for");
        let session = Session::join(Path::new("agent.sock"), memory, rings, bytes, Arc::new(Silent))
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
            files,
            producers,
            callsites: callsites.len() as u32,
            _session: session,
        }
    }

    /// Logs and rewrites in turn, until no ring is read any more; the number of mutations.
    fn rewrite(&mut self, random: &mut Random, mutations: u64) -> u64 {
        let mut done = 0;
        while done < mutations {
            let round = ROUND.min(mutations - done);
            for _ in 0..round {
                self.mutate(random);
            }
            done += round;
            self.log(random);
            if self.is_given_up() {
                break;
            }
        }
        done
    }

    /// Whether the agent reads none of the rings any more.
    fn is_given_up(&self) -> bool {
        let mut state = [0; 4];
        self.files[SessionMemory::PARTS..].iter().all(|ring| {
            ring.read_exact_at(&mut state, RING_BYTES + STATE).expect("read");
            u32::from_le_bytes(state) >= QUARANTINED
        })
    }

    /// Some records in each ring, good ones but for the bytes of their values.
    fn log(&mut self, random: &mut Random) {
        let mut record = [0; 256];
        for producer in &mut self.producers {
            for _ in 0..random.below(8) {
                let length = 16 + random.below(30) * 8;
                let header = RecordHeader {
                    length_bytes: length as u32,
                    callsite_id: random.below(u64::from(self.callsites)) as u32,
                    time_ticks: logdrive_ring::clock::ticks_of(logdrive_ring::ClockSource::detect()),
                };
                record[..16].copy_from_slice(&header.encode());
                for eight in record[16..].chunks_exact_mut(8) {
                    eight.copy_from_slice(&random.value(length).to_le_bytes());
                }
                producer.push(&record[..length as usize], false, FullPolicy::Drop);
            }
        }
    }

    fn mutate(&mut self, random: &mut Random) {
        let ring = &self.files[SessionMemory::PARTS + random.below(u64::from(RINGS)) as usize];
        let header = RING_HEADER_BYTES as u64;
        let (file, offset) = match random.below(1000) {
            // The newest records: their lengths, callsites, times and values.
            0..550 => {
                let mut position = [0; 8];
                ring.read_exact_at(&mut position, RING_BYTES + COMMITTED)
                    .expect("read");
                let back = random.below(2048) * 8;
                let position = u64::from_le_bytes(position).wrapping_sub(back);
                (ring, (position % RING_BYTES) & !7)
            }
            // Labels and counters.
            550..640 => (ring, RING_BYTES + 24 + random.below(5) * 8),
            640..700 => (ring, RING_BYTES + 128 + random.below(16) * 8),
            // Positions, states, cells: most of these end the ring.
            700..704 => (ring, RING_BYTES + random.below(43) * 8),
            704..706 => (ring, RING_BYTES + random.below(header / 8) * 8),
            706..830 => (&self.files[3], random.below(8192)),
            830..900 => (&self.files[4], random.below(1 << 16)),
            900..940 => (&self.files[1], random.below(1 << 14)),
            940..970 => (&self.files[2], random.below(1 << 14)),
            _ => (&self.files[0], random.below(4096)),
        };
        let near = random.below(1 << 16);
        let bytes = random.value(near).to_le_bytes();
        // Where this is beyond the end of a file, the seals keep it from growing.
        let _ = file.write_at(&bytes[..1 + random.below(8) as usize], offset);
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
        logdrive_backend::gap_callsite(),
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
