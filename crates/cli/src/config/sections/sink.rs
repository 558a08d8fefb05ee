//! The table `[[sink]]`.

use super::super::keys::{Kind, Section, Word};
use super::{key, of_file, required, unset};
use logdrive_agent::config::limits::{
    BUFFERS, FLUSH_EVERY, KEEP_AGE, KEEP_BYTES, KEEP_FILES, ROTATE_BYTES, ROTATE_EVERY, SINKS_MAX, SYNC_EVERY,
};

/// Bytes of a pattern and of a header, as the layouts and files have them.
const PATTERN_BYTES_MAX: usize = logdrive_drain::layout::limits::PATTERN_BYTES_MAX;
const HEADER_BYTES_MAX: usize = 4096;
/// Bytes of a path that is used as it is.
pub(super) const PATH_BYTES_MAX: usize = 4000;

const TYPES: &[Word] = &[
    ("file", "a file, rotated and removed by the rules below"),
    (
        "stdout",
        "the agent's standard output, which systemd puts into the journal",
    ),
    ("stderr", "the agent's standard error"),
    ("discard", "nowhere: lines are made and thrown away"),
];
const LAYOUTS: &[Word] = &[
    (
        "text",
        "time, level, thread, module, place, message and fields, for people",
    ),
    ("json", "one JSON object a line"),
    ("logfmt", "key=value pairs"),
    ("glog", "as Google's glog"),
    ("pattern", "as `pattern` says"),
];
const TIMES: &[Word] = &[("utc", "UTC"), ("local", "the machine's zone")];
pub(super) const OVERFLOWS: &[Word] = &[
    (
        "drop",
        "drop and count what does not fit, and say so in the log; other sinks go on",
    ),
    (
        "hold",
        "hold all sinks back, and in the end the rings, where each program's own policy decides",
    ),
];
const SYNCS: &[Word] = &[
    (
        "never",
        "the kernel writes when it likes: a power cut may lose some 30 s",
    ),
    (
        "level",
        "after every record of `flush_level`, and when a file is closed",
    ),
];
const PERIODS: &[Word] = &[
    ("hourly", "at each full hour"),
    ("daily", "at midnight"),
    ("off", "by size alone"),
];
const COMPRESSIONS: &[Word] = &[
    ("zstd", "four times as fast as gzip, and smaller"),
    ("gzip", "what old tools read"),
    ("none", "not at all"),
];

pub(super) const SINK: Section = Section {
    name: "sink",
    many: Some(SINKS_MAX),
    help: &[
        "Where lines go. Each sink has a thread and buffers of its own, so that one that hangs or is full holds up no \
         other. Without any, there is the one that follows.",
        "A directory of log files belongs to one agent; another one that is to write there is refused. A reload opens new \
         sinks, and changes `layout`, `level`, `overflow`, `flush_every` and `flush_level` of open ones; all else of them \
         holds from the next start on.",
    ],
    keys: &[
        required("name", Kind::Name, "\"main\"", "Its name, for routes."),
        key("type", Kind::Word(TYPES), "\"file\"", "What it is."),
        of_file(unset(
            "path",
            Kind::LogPath,
            "no path, which type = \"file\" needs",
            "\"/var/log/logdrive/{app}.log\"",
            "The file. In it {app} stands for the application's name, {pid} for the process number and {uid} for the \
             number of its user; then it is a file for each. Missing directories are made. Rotated files stand beside \
             it, as NAME.2026-11-21T12-34-56Z.1.log.",
        )),
        key("layout", Kind::Word(LAYOUTS), "\"text\"", "How a line looks."),
        unset(
            "pattern",
            Kind::Text(PATTERN_BYTES_MAX),
            "no pattern, which layout = \"pattern\" needs",
            "\"{time} {level:5} {message}{fields}\"",
            "A line of one's own, of {time} {time:%H:%M:%S.%3f} {level} {thread} {thread_id} {target} {module} {file} \
             {path} {line} {message} {fields} {spans} {app} {pid} {host}; {level:>5} and the like as in Rust.",
        ),
        key(
            "time",
            Kind::Word(TIMES),
            "\"utc\"",
            "The zone of the times in lines and in the names of rotated files. UTC has no hour twice; the layout glog \
             has no zone in its lines and is \"local\" unless told.",
        ),
        key(
            "level",
            Kind::Level,
            "\"trace\"",
            "Records below this level are left out. They cost the disk nothing, but formatting is saved as well only \
             where no other sink takes them.",
        ),
        key(
            "overflow",
            Kind::Word(OVERFLOWS),
            "\"drop\"",
            "What happens to records when the target is too slow and all buffers are full.",
        ),
        key(
            "buffers",
            Kind::Count(BUFFERS),
            "8",
            "Output buffers of 1 MiB, for each file: they ride out a pause of the disk. A sink that comes by a reload gets at \
             most as many as any had at the start, or 8.",
        ),
        key(
            "flush_every",
            Kind::Time(FLUSH_EVERY),
            "\"200ms\"",
            "Lines wait at most this long before they are handed to the kernel.",
        ),
        key(
            "flush_level",
            Kind::Level,
            "\"error\"",
            "A record of this level or above is handed to the kernel at once.",
        ),
        key(
            "sync",
            Kind::TimeOrWord(SYNC_EVERY, SYNCS),
            "\"never\"",
            "When the disk is told to keep what was written (fdatasync); a time is at most once in it.",
        ),
        of_file(key(
            "rotate_bytes",
            Kind::SizeOrOff(ROTATE_BYTES),
            "\"64 MiB\"",
            "A new file is begun before one would grow beyond this.",
        )),
        of_file(key(
            "rotate_every",
            Kind::TimeOrWord(ROTATE_EVERY, PERIODS),
            "\"off\"",
            "A new file is begun when the first record of a new period comes.",
        )),
        of_file(key(
            "keep_files",
            Kind::CountOrOff(KEEP_FILES),
            "10",
            "Rotated files that are kept of each file. With 64 MiB each, ten are about 60 MB after compression.",
        )),
        of_file(key(
            "keep_age",
            Kind::TimeOrOff(KEEP_AGE),
            "\"off\"",
            "Rotated files are removed when their last record is older than this.",
        )),
        of_file(key(
            "keep_bytes",
            Kind::SizeOrOff(KEEP_BYTES),
            "\"off\"",
            "Bytes that the rotated files of one file may take, as they are after compression.",
        )),
        of_file(key(
            "compress",
            Kind::Word(COMPRESSIONS),
            "\"zstd\"",
            "How rotated files are compressed, by a thread of low priority.",
        )),
        of_file(unset(
            "newest_link",
            Kind::LogPath,
            "no link",
            "\"/var/log/logdrive/{app}.newest\"",
            "A symbolic link that always names the file written last.",
        )),
        of_file(unset(
            "header",
            Kind::Text(HEADER_BYTES_MAX),
            "none",
            "\"# shop, production\"",
            "Lines at the top of every new file.",
        )),
        of_file(key(
            "mode",
            Kind::Mode {
                most: 0o664,
                least: 0o600,
            },
            "\"0640\"",
            "Permissions of new files, less the agent's umask.",
        )),
        of_file(key(
            "dir_mode",
            Kind::Mode {
                most: 0o2775,
                least: 0o700,
            },
            "\"0750\"",
            "Permissions of directories that have to be made, less the agent's umask.",
        )),
        of_file(key(
            "trust_directory",
            Kind::Flag,
            "false",
            "Accept a directory that is a link, that others own or that everybody may write to: then another user can \
             make the agent write into files of his choice.",
        )),
    ],
    shown: &[("name", "\"main\""), ("path", "\"/var/log/logdrive/{app}.log\"")],
    is_example: false,
};
