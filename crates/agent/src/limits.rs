//! Every bound of the server, each with the reason for the number. What is configured has its bounds in
//! [`crate::config::limits`].

/// One user has this part of the connections at most, so that none locks the others out.
pub const USER_PART_OF_CONNECTIONS: u32 = 4;

/// Longest time from a connection to the message that says whose it is, in milliseconds: a process sends it at once, and
/// waits less than half a second for the answer.
pub const FIRST_MESSAGE_MS_MAX: u64 = 2_000;

/// Connections without a session that are closed when the system has no descriptor for a new one: as many as a session
/// with a few rings takes.
pub const EVICTIONS_FOR_DESCRIPTORS: usize = 16;

/// Bytes that wait for one peer: sixteen messages of the largest size. A peer that lets more wait is closed.
pub const QUEUE_BYTES_MAX: usize = 1 << 20;

/// Longest time that a peer may take nothing of what waits for it, in milliseconds.
pub const STUCK_MS_MAX: u64 = 5_000;

/// Longest time that a process that lives may be without a connection, in milliseconds: ten times the longest pause
/// between two tries.
pub const AWAY_MS_MAX: u64 = 10_000;

/// Messages of one peer in a second. A process sends one for each time that the drain sleeps, which is far less.
pub const MESSAGES_PER_SECOND_MAX: u32 = 10_000;

/// Messages that are read from one peer before the others have their turn.
pub const MESSAGES_PER_TURN: usize = 32;

/// Connections that are accepted in one turn.
pub const ACCEPTS_PER_TURN: usize = 64;

/// Rings that are made in one turn, for all processes: each takes about a third of a millisecond.
pub const RINGS_PER_TURN: u32 = 4;

/// Rings that a process may have with its welcome.
pub const RINGS_AT_START: u32 = 4;

/// Rings that a process may wait for.
pub const RINGS_ASKED_MAX: u32 = 16;

/// Descriptors that are handled in one turn.
pub const READY_PER_TURN: usize = 128;

/// Interval between two checks of all timers, in milliseconds.
pub const TIMERS_EVERY_MS: u64 = 100;

/// Longest time that the status of a process that has ended is waited for, in milliseconds: its parent fetches it, or
/// does not.
pub const EXIT_WAIT_MS: u64 = 200;

/// Processes that are watched for their end after that of their session: each takes a descriptor.
pub const FINISHED_PROCESSES_MAX: usize = 256;

/// Time without accepting connections after the system had no descriptor to spare, in milliseconds.
pub const ACCEPT_PAUSE_MS: u64 = 100;

/// Bytes of one list of sessions; what is behind them is asked for again.
pub const LIST_BYTES_MAX: usize = 32 * 1024;

/// Bytes of one part of an answer.
pub const ANSWER_PART_BYTES: usize = 60 * 1024;

/// Bytes of an answer: as many as may wait for a peer, and the parts' headers.
pub const ANSWER_BYTES_MAX: usize = QUEUE_BYTES_MAX - 64 * 1024;

/// Connections that wait to be accepted.
pub const BACKLOG: i32 = 256;

/// Descriptors of unknown files of one user that wait to be closed. When so many wait, closing hangs, and the user's
/// messages lose their descriptors until it goes on.
pub const FOREIGN_MAX: usize = 256;

/// Users that have sent descriptors of unknown files; each costs a thread.
pub const FOREIGN_USERS_MAX: usize = 64;

/// Bytes of a session without its rings that count against a limit: the blocks that are reserved from the start.
pub const SESSION_BYTES: u64 = 324 * 1024;

/// Rings that travel with one message.
pub const RINGS_PER_MESSAGE: usize = 128;

/// Session numbers are below this, so that there is room for a mark beside them.
pub const SESSION_NUMBER_MAX: u64 = 1 << 60;

/// Longest time that the agent waits for peers in one turn, in milliseconds. A peer that needs it ends the wait.
pub const TURN_MS: u64 = 100;

/// The same while a peer waits for a flush, in milliseconds.
pub const WAIT_TURN_MS: u64 = 1;

/// Descriptors of one packet to or from the keeper; the kernel takes 253.
pub const RINGS_PER_PACKET: usize = 200;

/// Interval at which a keeper without an agent checks that it can still be found, in milliseconds.
pub const KEEPER_LOOK_MS: u64 = 500;

/// Longest time that a keeper waits for an agent to take what it has asked for, in milliseconds.
pub const KEEPER_ROOM_MS: u64 = 5_000;

/// Longest time that an agent waits for its keeper to accept, in milliseconds: that takes it microseconds.
pub const KEEPER_CONNECT_MS: u64 = 100;

/// Longest time that an agent that starts waits for its keeper to start, in milliseconds: that takes some, and
/// processes wait 400 for their sessions.
pub const KEEPER_START_MS: u64 = 250;

/// Longest time that an agent that starts waits for what the keeper of an earlier one holds, in milliseconds.
pub const KEEPER_LIST_MS: u64 = 5_000;

/// Tries to have a keeper, one after the other, before the log says that there is none: more than a second.
pub const KEEPER_FAILURES_TOLD: u32 = 6;

/// First and longest pause between two tries to have a keeper, in milliseconds: it starts in some.
pub const KEEPER_RETRY_MS: (u64, u64) = (20, 5_000);

/// Bytes of the names of all descriptors that the service manager holds, each with a colon: it passes them as one
/// string of the environment, for which Linux has 128 KiB, and may have sockets of its own to name.
pub const STORE_NAME_BYTES_MAX: usize = 120 * 1024;

/// Bytes of the file that says what was written today: as many rations as are remembered.
pub const SPENT_FILE_BYTES_MAX: usize = 1 << 20;

/// Bytes of a request for metrics. Prometheus sends some hundred.
pub const METRICS_REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Header lines of a request for metrics. Prometheus sends six.
pub const METRICS_HEADERS_MAX: usize = 64;

/// Longest time that a peer has for its request and for taking the answer, in milliseconds. One is served at a time.
pub const METRICS_MS_MAX: u64 = 2_000;

/// Longest time that an answer serves for further requests, in milliseconds, so that requests do not make the agent
/// count all the time.
pub const METRICS_FRESH_MS: u64 = 250;

/// Connections that wait for metrics.
pub const METRICS_BACKLOG: i32 = 16;

/// Places for sinks: as many files as an agent writes, all that a session has. Each has buffers of 8 MiB, which take
/// memory when it is opened. Processes for which there is no place any more share a file.
pub const SINK_PLACES: usize = crate::config::limits::SINKS_MAX;

/// Longest time that a file that no process writes to any more stays open, in milliseconds: a program that is started
/// again finds it open, and an application that is gone costs no descriptor and no memory. Without a free place it is
/// closed sooner.
pub const SINK_IDLE_MS: u64 = 10_000;

/// Interval between two checks of which files are still written to, in milliseconds.
pub const SINK_LOOK_MS: u64 = 1_000;

/// Longest time that a process that joins waits for a file to close whose place it needs, in milliseconds: closing
/// takes one or two, and where a disk hangs, its records go to a file that is shared.
pub const SINK_CLOSING_MS: u64 = 100;

/// Problems that wait to be reported to the owner of the agent.
pub const PROBLEMS_MAX: usize = 64;

/// Longest wait for sinks that make no progress, in milliseconds: as long as a drain of its own would wait.
pub const WAIT_NO_PROGRESS_MS: u64 = logdrive_drain::limits::NO_PROGRESS.as_millis() as u64;
