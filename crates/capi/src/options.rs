//! The options of a logger as C sets them: keys and values in text, then sinks with keys and values of their own.

use logdrive::{
    Clock, Compress, Every, File, FileOptions, Full, IntoSink, Overflow, SinkOptions, Sync, Target,
};
use logdrive_drain::layout::LayoutOptions;
use logdrive_wire::Level;
use std::path::PathBuf;
use std::time::Duration;

/// What a logger is started with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    app: String,
    settings: Vec<(String, String)>,
    sinks: Vec<SinkOptions>,
}

/// The keys of a logger, each with what it may be.
const KEYS: &str = "filter, full, clock, ring_bytes, run_dir, agent, flush_every_ms, flush_level, overflow, \
    note_signals, count_disabled, recover or use_env";
/// The keys of a sink.
const SINK_KEYS: &str = "layout, min_level, overflow, flush_every_ms, flush_level, sync, and for files rotate_bytes, \
    rotate_every, local_time, keep_files, keep_age_s, keep_bytes, compress, newest_link, mode, header, open_late or \
    trust_directory";

impl Options {
    /// Options for an application of this name: a file `NAME.log` in the working directory.
    pub fn new(app: &str) -> Self {
        Self {
            app: app.to_owned(),
            ..Self::default()
        }
    }

    /// Sets one option.
    ///
    /// # Errors
    /// When the key is unknown or the value is none that it may have; says what is allowed.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        // The builder takes its values by move; what is kept here is checked by a builder of its own.
        let _checked = apply(logdrive::builder(""), key, value)?;
        self.settings.push((key.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Adds a sink: `file:PATH`, `stdout`, `stderr` or `discard`.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn add_sink(&mut self, sink: &str) -> Result<(), String> {
        let target = match (sink.strip_prefix("file:"), sink) {
            (Some(path), _) if !path.is_empty() => File::new(path).into_sink().target,
            (_, "stdout") => Target::Stdout,
            (_, "stderr") => Target::Stderr,
            (_, "discard") => Target::Discard,
            _ => {
                return Err(format!(
                    "a sink is file:PATH, stdout, stderr or discard, not {sink:?}"
                ));
            }
        };
        self.sinks.push(SinkOptions::new(target));
        Ok(())
    }

    /// Sets an option of the sink that was added last.
    ///
    /// # Errors
    /// As [`Options::set`], and when there is no sink.
    pub fn set_sink(&mut self, key: &str, value: &str) -> Result<(), String> {
        let sink = self.sinks.last_mut().ok_or("add a sink first")?;
        match key {
            "layout" => sink.layout = LayoutOptions::from_text(value).map_err(|error| error.to_string())?,
            "min_level" => sink.min_level = level(value)?,
            "overflow" => sink.overflow = overflow(value)?,
            "flush_every_ms" => sink.flush_every = Duration::from_millis(number(value)?),
            "flush_level" => sink.flush_level = level(value)?,
            "sync" => {
                sink.sync = match value {
                    "never" => Sync::Never,
                    "level" => Sync::AtLevel,
                    _ => Sync::Every(Duration::from_millis(number(value)?)),
                }
            }
            _ => match &mut sink.target {
                Target::File(file) => set_file(file, key, value)?,
                _ => return Err(format!("unknown option {key:?} of a sink: use {SINK_KEYS}")),
            },
        }
        Ok(())
    }

    /// The builder with all that was set. The error's flag is never set: it says that a logger runs.
    pub(crate) fn builder(&self) -> Result<logdrive::Builder, (bool, String)> {
        let mut builder = logdrive::builder(&self.app);
        for (key, value) in &self.settings {
            builder = apply(builder, key, value).map_err(|text| (false, text))?;
        }
        for sink in &self.sinks {
            builder = builder.sink(sink.clone());
        }
        Ok(builder)
    }
}

fn apply(builder: logdrive::Builder, key: &str, value: &str) -> Result<logdrive::Builder, String> {
    Ok(match key {
        "filter" => {
            value
                .parse::<logdrive::Filter>()
                .map_err(|error| error.to_string())?;
            builder.filter(value)
        }
        "full" => builder.full(match value {
            "drop" => Full::Drop,
            "wait" => Full::Wait,
            "block" => Full::Block,
            _ => return Err(format!("full is drop, wait or block, not {value:?}")),
        }),
        "clock" => builder.clock(match value {
            "tsc" => Clock::Tsc,
            "coarse" => Clock::Coarse,
            _ => return Err(format!("clock is tsc or coarse, not {value:?}")),
        }),
        "ring_bytes" => builder.ring_bytes(usize::try_from(number(value)?).unwrap_or(usize::MAX)),
        "run_dir" => builder.run_dir(PathBuf::from(value)),
        "agent" => builder.agent(PathBuf::from(value)),
        "flush_every_ms" => builder.flush_every(Duration::from_millis(number(value)?)),
        "flush_level" => builder.flush_level(level(value)?),
        "overflow" => builder.overflow(overflow(value)?),
        "note_signals" => builder.note_signals(truth(value)?),
        "count_disabled" => builder.count_disabled(truth(value)?),
        "recover" => builder.recover(truth(value)?),
        "use_env" => builder.use_env(truth(value)?),
        _ => return Err(format!("unknown option {key:?}: use {KEYS}")),
    })
}

fn set_file(file: &mut FileOptions, key: &str, value: &str) -> Result<(), String> {
    match key {
        "rotate_bytes" => file.rotate_bytes = Some(number(value)?),
        "rotate_every" => {
            file.rotate_every = Some(match value {
                "hourly" => Every::Hourly,
                "daily" => Every::Daily,
                _ => Every::Seconds(number(value)?),
            })
        }
        "local_time" => file.local_time = truth(value)?,
        "keep_files" => file.keep_files = Some(u32::try_from(number(value)?).unwrap_or(u32::MAX)),
        "keep_age_s" => file.keep_age = Some(Duration::from_secs(number(value)?)),
        "keep_bytes" => file.keep_bytes = Some(number(value)?),
        "compress" => {
            file.compress = match value {
                "none" => Compress::None,
                "gzip" => Compress::Gzip,
                "zstd" => Compress::Zstd,
                _ => return Err(format!("compress is none, gzip or zstd, not {value:?}")),
            }
        }
        "newest_link" => file.newest_link = Some(PathBuf::from(value)),
        "mode" => {
            file.mode = u32::from_str_radix(value, 8)
                .map_err(|_| format!("mode is an octal number such as 640, not {value:?}"))?
        }
        "header" => file.header = Some(value.to_owned()),
        "open_late" => file.open_late = truth(value)?,
        "trust_directory" => file.trust_directory = truth(value)?,
        _ => return Err(format!("unknown option {key:?} of a sink: use {SINK_KEYS}")),
    }
    file.check().map_err(|error| error.to_string())
}

fn number(value: &str) -> Result<u64, String> {
    value
        .parse()
        .map_err(|_| format!("expected a number, not {value:?}"))
}

fn truth(value: &str) -> Result<bool, String> {
    match value {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(format!("expected yes or no, not {value:?}")),
    }
}

fn level(value: &str) -> Result<Level, String> {
    value
        .parse()
        .map_err(|_| format!("a level is trace, debug, info, warn, error or fatal, not {value:?}"))
}

fn overflow(value: &str) -> Result<Overflow, String> {
    match value {
        "drop" => Ok(Overflow::Drop),
        "hold" => Ok(Overflow::Hold),
        _ => Err(format!("overflow is drop or hold, not {value:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_say_what_is_allowed() {
        let mut options = Options::new("app");
        assert!(options.set("full", "never").unwrap_err().contains("block"));
        assert!(options.set("colour", "red").unwrap_err().contains("ring_bytes"));
        assert!(
            options
                .set_sink("layout", "text")
                .unwrap_err()
                .contains("add a sink")
        );
        assert!(options.add_sink("file:").unwrap_err().contains("file:PATH"));
        options.add_sink("file:/tmp/x.log").unwrap();
        assert!(options.set_sink("layout", "xml").unwrap_err().contains("glog"));
        assert!(
            options
                .set_sink("rotate_bytes", "0")
                .unwrap_err()
                .contains("at least 1")
        );
        assert!(
            options
                .set_sink("depth", "1")
                .unwrap_err()
                .contains("rotate_every")
        );
    }
}
