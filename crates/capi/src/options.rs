//! Options of a logger as C sets them: names and values in text, then sinks with names and values of their own. The names and
//! the values are those of `logdrive.toml(5)`; the rows of the options read them.

use logdrive::{CallbackSink, File, IntoSink, SinkOptions, Target};
use logdrive_drain::schema::set_text;

/// Options that a logger is started with.
#[derive(Debug, Clone)]
pub struct Options {
    builder: logdrive::Builder,
    sinks: Vec<SinkOptions>,
}

impl Options {
    /// Options for an application of this name: a file `NAME.log` in the working directory.
    pub fn new(app: &str) -> Self {
        Self {
            builder: logdrive::builder(app),
            sinks: Vec::new(),
        }
    }

    /// Sets one option.
    ///
    /// # Errors
    /// When the name is unknown or the value is none that it may have; says what is allowed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        set_text(&mut self.builder, name, value)
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

    /// Adds a function as a sink.
    pub fn add_callback(&mut self, callback: CallbackSink) {
        self.sinks.push(SinkOptions::new(Target::Callback(callback)));
    }

    /// Sets an option of the sink that was added last; `only` and `except` add a target each.
    ///
    /// # Errors
    /// As [`Options::set`], and when there is no sink.
    pub fn set_sink(&mut self, name: &str, value: &str) -> Result<(), String> {
        let sink = self.sinks.last_mut().ok_or("add a sink first")?;
        let targets = match name {
            "only" => Some(&mut sink.targets.only),
            "except" => Some(&mut sink.targets.except),
            _ => None,
        };
        if let Some(targets) = targets {
            if value.is_empty() {
                return Err(format!("{name}: a target is missing, such as \"net\""));
            }
            targets.push(value.to_owned());
            return Ok(());
        }
        let mut changed = sink.clone();
        set_text(&mut changed, name, value)?;
        // A layout replaces the one before it, not the times that were asked for.
        changed.layout.local_time |= sink.layout.local_time && name == "layout";
        if let Target::File(file) = &changed.target {
            file.check().map_err(|error| error.to_string())?;
        }
        *sink = changed;
        Ok(())
    }

    /// The builder with all that was set.
    pub(crate) fn builder(&self) -> logdrive::Builder {
        let sinks = self.sinks.iter().cloned();
        sinks.fold(self.builder.clone(), logdrive::Builder::sink)
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
        let refused = options.set("run_as", "nobody").unwrap_err();
        assert!(refused.contains("numbers of a user"), "{refused}");
        options.set("run_as", "65534:65534").unwrap();
        options.add_sink("file:/tmp/x.log").unwrap();
        assert!(options.set_sink("layout", "xml").unwrap_err().contains("glog"));
        assert!(
            options
                .set_sink("rotate_bytes", "0")
                .unwrap_err()
                .contains("64 KiB")
        );
        assert!(
            options
                .set_sink("depth", "1")
                .unwrap_err()
                .contains("rotate_every")
        );
        assert!(options.set("keep_bytes", "1").unwrap_err().contains("1 MiB"));
        assert!(options.set("keep_trigger_at", "").is_err());
        options.set("keep_bytes", "4 MiB").unwrap();
        options.set("keep_trigger", "warn").unwrap();
        options.set("keep_trigger", "off").unwrap();
        options.set("keep_before", "30s").unwrap();
        options.set("keep_before", "off").unwrap();
        options.set("keep_pause", "0s").unwrap();
        options.set("keep_on_crash", "no").unwrap();
        assert!(options.set_sink("only", "").is_err());
        options.set_sink("only", "net").unwrap();
        options.set_sink("except", "net::http").unwrap();
        assert!(options.sinks[0].targets.takes("net::quic"));
        options.set_sink("layout", "json local").unwrap();
        options.set_sink("flush_every", "10ms").unwrap();
        options.set_sink("keep_files", "3").unwrap();
        options.set_sink("local_time", "yes").unwrap();
        options.set_sink("layout", "logfmt").unwrap();
        let Target::File(file) = &options.sinks[0].target else {
            panic!("a file");
        };
        assert_eq!((file.keep_files, file.local_time), (Some(3), true));
        assert_eq!(options.sinks[0].flush_every.as_millis(), 10);
        let layout = |options: &Options| options.sinks[0].layout.to_text();
        assert_eq!(layout(&options), "logfmt local");
        options.set_sink("local_time", "no").unwrap();
        options.set_sink("layout", "text").unwrap();
        assert_eq!(layout(&options), "text");
    }
}
