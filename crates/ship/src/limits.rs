//! Every bound of frames, sessions and connections, each with the reason for the number.

/// Bytes of a frame at most, header and all: a bound for what a peer makes us hold, and room for eight buffers of
/// 128 KiB, beyond which larger frames send no faster.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// Bytes of a batch after decompression, at most.
pub const DECOMPRESSED_BYTES_MAX: usize = 8 << 20;

/// Records of a batch: a sender's have 256 KiB of lines, and each line has a byte at least.
pub const BATCH_RECORDS_MAX: u32 = 1 << 20;

/// Bytes to which batches are cut at least for a slow link: some lines, whose frames have a header of 24.
pub(crate) const PIECE_BYTES_MIN: usize = 4 * 1024;

/// Lookups of names that may be under way in one process: the system's resolver cannot be told to give up.
pub(crate) const LOOKUPS_MAX: usize = 8;

/// Bytes of a frame before the peer has said hello: nothing longer is needed.
pub const HELLO_BYTES_MAX: usize = 1024;

/// Bytes of the names in a hello: a host name has 253 at most.
pub const NAME_BYTES_MAX: usize = 253;

/// Bytes of the words in a goodbye.
pub const WORDS_BYTES_MAX: usize = 256;

/// Bytes of a reply to a request at most, unless the service raises it.
pub const REPLY_BYTES_MAX: usize = FRAME_BYTES_MAX;

/// Bytes that a peer may have under way without a further credit.
pub const CREDIT_BYTES: u64 = 8 << 20;

/// Bytes that a server reads at once; a poller has one such buffer for all its connections.
pub const READ_BYTES: usize = 256 * 1024;

/// Bytes of answers, and of requests, that are sent although more are at hand: the other end has something to do with
/// them meanwhile, and neither sleeps while the other works.
pub const PIECE_BYTES: usize = 32 * 1024;

/// Time that an end spins before it sleeps while several requests are in flight: about what it costs here to be woken,
/// which is more than the processor's time that it takes.
pub const BUSY_SPIN_US: u64 = 50;

/// A wait that was longer than this says that looking is of no use for the next one.
pub const BUSY_WAIT_US: u64 = 200;

/// Bytes that wait for a peer that does not read, before we stop reading from it.
pub const WAITING_BYTES_MAX: usize = 4 << 20;

/// Bytes of messages that wait for a client that does not read them, at each end: as much as waits of answers.
pub const PUSHED_BYTES_MAX: usize = WAITING_BYTES_MAX;

/// Connections of a server: each costs some KiB here and as much in the kernel.
pub const CONNECTIONS_MAX: usize = 16 * 1024;

/// Bytes of partial frames and answers of all connections of a server together.
pub const PENDING_BYTES_MAX: usize = 128 << 20;

/// Frames up to here, which is a batch of records as sinks and `logdrive send` make it, are read even while memory is
/// scarce.
pub const LONG_BYTES: usize = 320 * 1024;

/// Bytes that a server reads at once while memory is scarce, of a peer that has not delivered anything: what it makes us
/// hold before it waits.
pub const SCARCE_READ_BYTES: usize = 16 * 1024;

/// Events that a poller takes from the kernel at once.
pub const EVENTS_MAX: usize = 256;

/// Time limit for a peer's hello, TLS handshake included.
pub const HANDSHAKE_MS: u64 = 5_000;

/// Time that a server which stops gives what is in flight: less than service managers wait before they kill, and
/// enough for handlers that work for a second or two.
pub const STOP_MS: u64 = 5_000;

/// Time after which a silent connection is closed.
pub const IDLE_MS: u64 = 30_000;

/// Time limit for making a connection.
pub const CONNECT_MS: u64 = 5_000;

/// Time limit for a response.
pub const RESPONSE_MS: u64 = 10_000;

/// Streams of one connection: each has a batch of its own at the sender, and over QUIC a stream of its own.
pub const STREAMS_MAX: usize = 256;

/// Time without use after which a client looks whether its connection is still open: far less than the idle time of
/// servers, far more than a call.
pub const IDLE_LOOK_MS: u64 = 100;

/// Commands of callers that wait for an asynchronous client's connection: enough for it to find some whenever it looks.
pub const ASYNC_COMMANDS_MAX: usize = 1024;

/// Messages of a server that wait in an asynchronous client.
pub const ASYNC_PUSHED_MAX: usize = 1024;

/// Requests of one connection that may wait for their answers.
pub const REQUESTS_MAX: usize = 4096;

/// Bytes that a sender collects before it sends: 64 KiB, from where on larger ones gain little on a socket.
pub const BATCH_BYTES: usize = 64 * 1024;

/// Bytes of a batch from where on the kernel is not asked to fill packets with it and the next ones: it fills some
/// alone.
pub const HELD_BYTES_MAX: usize = 16 * 1024;

/// Bytes of the kernel's socket buffers that are asked for; the system may allow less. On two cores of a Sapphire
/// Rapids VM batches of 256 KiB through 512 KiB instead are as fast over TCP, and half as fast over a Unix socket,
/// where the two ends wait for each other.
pub const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Bytes of a datagram that pass every usual network in one piece: 1,500 less IPv6 and UDP headers, less a tunnel's.
pub const DATAGRAM_BYTES: usize = 1432;

/// Bytes of a datagram at most, which is the format's bound.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Bytes that an UDP sender may have in flight before the first ack of the receiver.
pub const UDP_WINDOW_BYTES: u64 = 1 << 20;

/// Time that a UDP sender waits for a credit before it counts what is in flight as lost.
pub const UDP_CREDIT_WAIT_MS: u64 = 200;

/// Time without a word of the receiver, behind a hello that asks for one, after which a UDP sender takes it for gone: some
/// words may be lost, and the receiver's thread may be late.
pub const UDP_SILENCE_MS: u64 = 2_000;

/// Bytes of a ring of `shm://`: frames are at most an eighth of it, and it lies in the cache that the cores share.
pub const SHM_RING_BYTES: usize = 1 << 20;

/// Least time that an end of `shm://` spins before it sleeps: about what the two system calls cost that it spares.
pub const SHM_SPIN_US: u64 = 20;

/// Bytes that are taken out of a ring, in place, before their room is given back: a small part of it.
pub const SHM_RELEASE_BYTES: usize = 64 * 1024;

/// Bytes of a message from where on it goes into a ring by itself: a commit costs less than a second copy of as much.
pub const SHM_DIRECT_BYTES: usize = 1024;

/// Sessions whose numbers a collector keeps; the ones that were silent longest go first.
pub const SESSIONS_MAX: usize = 64 * 1024;

/// Bytes that an outbox holds in memory until they are acknowledged.
pub const OUTBOX_BYTES_MAX: usize = 16 << 20;

/// First and longest pause between two attempts to reach a peer, in milliseconds.
pub const RETRY_MS: (u64, u64) = (50, 5_000);

/// Bytes of a segment of a spool: the unit in which its disk space is given back.
pub const SPOOL_SEGMENT_BYTES: u64 = 8 << 20;

/// Bytes whose checksums are computed in the search for sound batches behind a damaged one: those of some segments.
pub const SPOOL_SALVAGE_BYTES: usize = 64 << 20;

/// Bytes of a spool in all, unless configured otherwise.
pub const SPOOL_BYTES_MAX: u64 = 1 << 30;

/// Spools beside one that another process has: so many of processes with one number, which containers may have.
pub const SPOOLS_BESIDE_MAX: u32 = 64;

/// Sessions whose spools are read: each start of a program that could not send makes one.
pub const SPOOL_SESSIONS_MAX: usize = 4096;

/// Bytes of the file that says whose a spool is: numbers and a name.
pub const OWNER_BYTES_MAX: u64 = 1024;

/// Members of an upstream: each is checked for every choice.
pub const UPSTREAM_MEMBERS_MAX: usize = 1024;

/// Time between two rounds in which an upstream maintains its connections.
pub const UPSTREAM_TICK_MS: u64 = 200;
