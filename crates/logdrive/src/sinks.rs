//! The sinks as a program describes them.

use logdrive_drain::file::{Compress, Every, FileOptions};
use logdrive_drain::layout::{LayoutOptions, Style};
#[cfg(all(feature = "ship", target_os = "linux"))]
use logdrive_drain::ship::MemberOptions;
use logdrive_drain::{Overflow, SinkOptions, Sync, Target};
use logdrive_wire::Level;
use std::path::PathBuf;
use std::time::Duration;

/// Conversion into the options of a sink, as [`crate::Builder::sink`] takes them: [`File`], [`Console`] and [`SinkOptions`].
pub trait IntoSink {
    /// Returns the options of the sink.
    fn into_sink(self) -> SinkOptions;
}

impl IntoSink for SinkOptions {
    fn into_sink(self) -> SinkOptions {
        self
    }
}

/// Layout of the lines.
///
/// ```
/// use logdrive::{Console, Layout};
/// let sink = Console::stdout().layout(Layout::pattern("{time} {level} {message}{fields}"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Layout(LayoutOptions);

impl Layout {
    /// Time, level, thread, module, place, message and fields, for people. The default.
    pub fn text() -> Self {
        Self(Style::Text.into())
    }

    /// As Google's glog writes, in local time where the feature `local-time` is on.
    pub fn glog() -> Self {
        Self(LayoutOptions::glog())
    }

    /// One JSON object for each line.
    pub fn json() -> Self {
        Self(Style::Json.into())
    }

    /// Pairs `key=value` in logfmt.
    pub fn logfmt() -> Self {
        Self(Style::Logfmt.into())
    }

    /// Compressed blocks with typed columns in place of lines, for files: `logdrive cat` shows them. A block is written when its
    /// megabyte of records is full, once a second, and at a flush. Without the feature `segments`, and for a [`Console`], it
    /// is an error of [`crate::Builder::init`].
    pub fn segments() -> Self {
        Self(Style::Segments.into())
    }

    /// A pattern with placeholders such as `{time}` and `{message}`; a mistake in it is an error of [`crate::Builder::init`].
    pub fn pattern(pattern: &str) -> Self {
        Self(Style::Pattern(pattern.to_owned()).into())
    }

    /// Shows local time instead of UTC. Without the feature `local-time` it is an error of [`crate::Builder::init`].
    #[must_use]
    pub fn local_time(mut self) -> Self {
        self.0.local_time = true;
        self
    }
}

impl From<Layout> for LayoutOptions {
    /// For a [`SinkOptions`] that is made by hand.
    fn from(layout: Layout) -> Self {
        layout.0
    }
}

/// A log file.
///
/// ```
/// use logdrive::{Compress, File, Layout, Level};
/// use std::time::Duration;
/// let file = File::new("logs/shop.json")
///     .layout(Layout::json())
///     .rotate_bytes(64 << 20)
///     .rotate_daily()
///     .keep_files(10)
///     .keep_age(Duration::from_secs(14 * 86_400))
///     .keep_bytes(1 << 30)
///     .min_level(Level::Info);
/// ```
#[derive(Debug, Clone)]
pub struct File {
    options: FileOptions,
    sink: SinkOptions,
}

/// Standard output or standard error. Coloured when it is a terminal, unless `NO_COLOR` is set.
///
/// ```
/// use logdrive::{Console, Level};
/// let sink = Console::stderr().min_level(Level::Warn);
/// ```
#[derive(Debug, Clone)]
pub struct Console {
    sink: SinkOptions,
}

impl File {
    /// Returns a sink for this file, relative to the working directory. The file is appended to, never rotated and never removed
    /// unless another setter says so. Missing directories are made at the start. A second process with the same path writes to
    /// a file of its own beside it, `NAME.PID.log`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let options = FileOptions::new(path);
        Self {
            sink: SinkOptions::new(Target::File(options.clone())),
            options,
        }
    }

    /// Rotates before the file would grow beyond this many bytes, 64 KiB at least. Default: not by size.
    #[must_use]
    pub fn rotate_bytes(mut self, bytes: u64) -> Self {
        self.options.rotate_bytes = Some(bytes);
        self
    }

    /// Rotates at midnight, of UTC unless the file has local time. Default: not by time.
    #[must_use]
    pub fn rotate_daily(mut self) -> Self {
        self.options.rotate_every = Some(Every::Daily);
        self
    }

    /// Rotates at each full hour.
    #[must_use]
    pub fn rotate_hourly(mut self) -> Self {
        self.options.rotate_every = Some(Every::Hourly);
        self
    }

    /// Keeps at most this many rotated files besides the active one, and removes the oldest. Default: all.
    #[must_use]
    pub fn keep_files(mut self, files: u32) -> Self {
        self.options.keep_files = Some(files);
        self
    }

    /// Removes rotated files once their last record is older than this. Default: never.
    #[must_use]
    pub fn keep_age(mut self, age: Duration) -> Self {
        self.options.keep_age = Some(age);
        self
    }

    /// Keeps at most this many bytes in rotated files, and removes the oldest. Default: all.
    #[must_use]
    pub fn keep_bytes(mut self, bytes: u64) -> Self {
        self.options.keep_bytes = Some(bytes);
        self
    }

    /// Compresses rotated files in a thread of the library, with the feature `zstd` or `gzip`. Default: not at all.
    #[must_use]
    pub fn compress(mut self, compress: Compress) -> Self {
        self.options.compress = compress;
        self
    }

    /// Makes a symbolic link that always points to the file written last. Default: none.
    #[must_use]
    pub fn newest_link(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.newest_link = Some(path.into());
        self
    }

    /// Changes any option of the file, also those without a setter.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut FileOptions)) -> Self {
        change(&mut self.options);
        self
    }
}

impl Console {
    /// Returns a sink that writes to standard output. A thread of the library writes, so that a slow terminal blocks no call.
    pub fn stdout() -> Self {
        Self {
            sink: SinkOptions::new(Target::Stdout),
        }
    }

    /// Returns a sink that writes to standard error, as [`Console::stdout`] does.
    pub fn stderr() -> Self {
        Self {
            sink: SinkOptions::new(Target::Stderr),
        }
    }
}

/// A collector, `logdrive collect`, to which records are sent: with the feature `ship`, over TLS with `ship-tls` and over
/// QUIC with `ship-quic`.
///
/// Each record is in the collector's log once, whatever is restarted, cut or killed on the way. While no collector takes
/// records they wait in the sink's buffers, 8 MiB, and in a spool on disk where there is one; then [`Ship::overflow`] says
/// whether they are dropped and counted, or held back. [`crate::flush`] waits until the collector, or the spool, has them,
/// and [`crate::deliver`] until the collector has.
///
/// ```
/// use logdrive::Ship;
/// let sink = Ship::to("unix:///run/logdrive/collect.sock")?.spool("spool").zstd(1);
/// # Ok::<(), logdrive::ShipError>(())
/// ```
#[cfg(all(feature = "ship", target_os = "linux"))]
#[derive(Debug, Clone)]
pub struct Ship {
    options: logdrive_drain::ship::ShipOptions,
    sink: SinkOptions,
}

#[cfg(all(feature = "ship", target_os = "linux"))]
impl Ship {
    /// A collector at an address: `unix:///PATH`, `shm:///PATH`, `tcp://HOST:PORT`, `tls://HOST:PORT`, `quic://HOST:PORT`, `udp://HOST:PORT`. Records go
    /// typed, and the collector lays them out; with [`Ship::layout`] lines are laid out here and sent.
    ///
    /// # Errors
    /// When it is no address. One that this build cannot use is an error of the logger's start.
    pub fn to(address: &str) -> Result<Self, logdrive_ship::TransportError> {
        let options = logdrive_drain::ship::ShipOptions::new(vec![address.parse()?]);
        let mut sink = SinkOptions::new(Target::Ship(Box::new(options.clone())));
        sink.layout = Style::Segments.into();
        Ok(Self { options, sink })
    }

    /// Another address, for when those before it cannot be reached.
    ///
    /// # Errors
    /// When it is no address.
    pub fn or(mut self, address: &str) -> Result<Self, logdrive_ship::TransportError> {
        self.options.to.push(MemberOptions::new(address.parse()?));
        Ok(self)
    }

    /// A collector for when none of the others can be used. With [`Ship::look_every`] records go back to the others once one
    /// of them is up again; without, they stay there as long as it takes them.
    ///
    /// # Errors
    /// When it is no address.
    pub fn backup(mut self, address: &str) -> Result<Self, logdrive_ship::TransportError> {
        let mut member = MemberOptions::new(address.parse()?);
        member.is_backup = true;
        self.options.to.push(member);
        Ok(self)
    }

    /// Probes all collectors in this interval, one millisecond at least, so that records do not go to one that is down. Default:
    /// no probes.
    #[must_use]
    pub fn look_every(mut self, time: Duration) -> Self {
        let health = self.options.group.health.get_or_insert_default();
        health.every = time.max(Duration::from_millis(1));
        self
    }

    /// Keeps records in this directory while no collector takes them, 1 GiB at most. It belongs to one sink of one process,
    /// and what it holds is sent at the next start.
    #[must_use]
    pub fn spool(mut self, directory: impl Into<PathBuf>) -> Self {
        self.options.spool = Some(logdrive_drain::ship::SpoolOptions::new(directory));
        self
    }

    /// Compresses batches with zstd of this level, 1 to 19. Default: not at all.
    #[must_use]
    pub fn zstd(mut self, level: i32) -> Self {
        self.options.zstd_level = Some(level.clamp(1, 19));
        self
    }

    /// Files in PEM for `tls://`: the authority that the collector's certificate comes from, and our own certificate with its
    /// key. Both ends show certificates, and are believed only with them.
    #[must_use]
    pub fn tls(
        mut self,
        authorities: impl Into<PathBuf>,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        let tls = &mut self.options.transport.tls;
        tls.authorities = Some(authorities.into());
        tls.certificate = Some(certificate.into());
        tls.key = Some(key.into());
        self
    }

    /// Everything else: the size of the spool, times and limits of connections, weights, how one of several is chosen, and
    /// when one is given up for a while.
    ///
    /// ```
    /// use logdrive::{Policy, Ship};
    /// use std::time::Duration;
    /// let sink = Ship::to("unix:///run/one.sock")?.or("unix:///run/two.sock")?.with(|options| {
    ///     options.group.policy = Policy::WeightedRandom;
    ///     options.to[1].weight = 3;
    ///     options.group.breaker.failures = 5;
    ///     options.transport.timeouts.connect = Duration::from_secs(1);
    /// });
    /// # Ok::<(), logdrive::ShipError>(())
    /// ```
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut logdrive_drain::ship::ShipOptions)) -> Self {
        change(&mut self.options);
        self
    }
}

#[cfg(all(feature = "ship", target_os = "linux"))]
impl IntoSink for Ship {
    fn into_sink(self) -> SinkOptions {
        SinkOptions {
            target: Target::Ship(Box::new(self.options)),
            ..self.sink
        }
    }
}

macro_rules! common {
    ($($type:ident),*) => {$(
        impl $type {
            /// Sets the layout of lines. Default: text in UTC.
            #[must_use]
            pub fn layout(mut self, layout: Layout) -> Self {
                self.sink.layout = layout.0;
                self
            }

            /// Leaves out records below this level, for this sink. Default: trace, which leaves out none.
            #[must_use]
            pub fn min_level(mut self, level: Level) -> Self {
                self.sink.min_level = level;
                self
            }

            /// Takes only records of this target, and of those below it: `net` stands for `net::quic`, too. The target of a
            /// statement without one is its module. May be called several times. Default: takes all.
            #[must_use]
            pub fn only(mut self, target: &str) -> Self {
                self.sink.targets.only.push(target.to_owned());
                self
            }

            /// Leaves out records of this target, and of those below it, also where [`Self::only`] names it. May be called
            /// several times. Default: leaves out none.
            #[must_use]
            pub fn except(mut self, target: &str) -> Self {
                self.sink.targets.except.push(target.to_owned());
                self
            }

            /// Sets the fate of records when the target is too slow: dropped for this sink and counted, or held back. Default:
            /// dropped.
            #[must_use]
            pub fn overflow(mut self, overflow: Overflow) -> Self {
                self.sink.overflow = overflow;
                self
            }

            /// Sets the longest time that lines wait in a buffer before they are written. Default: 25 ms.
            #[must_use]
            pub fn flush_every(mut self, time: Duration) -> Self {
                self.sink.flush_every = time;
                self
            }

            /// Sets when lines are synced to disk, so that they survive a power failure. Default: when the kernel decides.
            #[must_use]
            pub fn sync(mut self, sync: Sync) -> Self {
                self.sink.sync = sync;
                self
            }
        }
    )*};
}

common!(File, Console);
#[cfg(all(feature = "ship", target_os = "linux"))]
common!(Ship);

impl IntoSink for File {
    fn into_sink(self) -> SinkOptions {
        SinkOptions {
            target: Target::File(self.options),
            ..self.sink
        }
    }
}

impl IntoSink for Console {
    fn into_sink(self) -> SinkOptions {
        self.sink
    }
}
