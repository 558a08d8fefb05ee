//! The agent's configuration as plain types. It comes from a program, or from a TOML file that the command `logdrive`
//! has read and checked; the agent itself reads no file.
//!
//! [`AgentConfig::default`] is what an empty file means. [`AgentConfig::diff`] compares two, for a reload.

mod diff;
pub mod limits;
mod quota;
mod recorder;
mod route;
mod selector;
mod sink;
pub use diff::Change;
pub use quota::{AppLimit, Limits, ProcessQuotas, Quota, UserLimit};
pub use recorder::{LevelRule, Recorder};
pub use route::Route;
pub use selector::{Account, AppPattern, Process, ProcessSelector};
pub use sink::SinkConfig;

use limits::{CONNECTIONS, DIRECTORY_BYTES_MAX, IDLE_TIMEOUT, SOCKET_PATH_BYTES_MAX};
use logdrive_drain::options;
use logdrive_drain::schema::{FILE, Given, Kind, Row, Setting, Value, Wrong, quoted};
use logdrive_wire::Level;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

options! {
    /// Configuration of an agent.
    ///
    /// ```
    /// use logdrive_agent::config::{AgentConfig, Process};
    /// use logdrive_wire::Level;
    ///
    /// let config = AgentConfig::default();
    /// let process = Process { app: "shop", pid: 417, uid: 1000 };
    /// let sinks = config.sinks_for(&process, "shop::orders", Level::Info);
    /// assert_eq!(config.sinks[sinks[0]].name, "main");
    /// ```
    #[derive(Debug, Clone, PartialEq)]
    pub struct AgentConfig {
        /// The Unix socket that processes and commands connect to. Nobody but root and the agent's user may be able to write
        /// to its directory, or somebody else could take its place.
        pub socket: PathBuf => Row::of(Kind::Path(SOCKET_PATH_BYTES_MAX)).scope(FILE),
        /// The group of the socket: who may log through the agent, and look at it.
        pub group: Option<Account> => Row::of(Kind::Group).unset("the agent's own group", "\"adm\"").scope(FILE),
        /// Permissions of the socket. All others stay out, because who may connect may take memory and disk.
        pub mode: u32 => Row::of(Kind::Mode { most: 0o660, least: 0o600 }).scope(FILE),
        /// The agent's own directory, mode 0700. Here lies what it needs to go on where it was when it is killed; it need not
        /// outlive the machine's power, so shared memory is right.
        pub run_dir: PathBuf => Row::of(Kind::Path(DIRECTORY_BYTES_MAX)).scope(FILE),
        /// Address at which metrics are served to Prometheus, by HTTP without a password: names of applications and their
        /// numbers of records, never a record.
        pub metrics: Metrics => Row::of(Kind::Parsed(
            "an address and port such as \"127.0.0.1:9187\", or \"unix:\" and an absolute path",
        )).off().live().scope(FILE),
        /// Accept an address in `metrics` that other machines can reach.
        pub metrics_insecure: bool => Row::of(Kind::Flag).live().scope(FILE),
        /// Connections at once, of processes and commands. Each takes a file descriptor, and a process a dozen more.
        pub connections: u32 => Row::of(Kind::Count(CONNECTIONS)).live().scope(FILE),
        /// A connection without a session that says nothing for this long is closed.
        pub idle_timeout: Duration => Row::of(Kind::Time(IDLE_TIMEOUT)).live().scope(FILE),
    }
    and {
        /// The sinks, with different names; at least one.
        pub sinks: Vec<SinkConfig>,
        /// Routes of records to sinks, in the order in which they are tried; at least one.
        pub routes: Vec<Route>,
        /// Quotas of processes.
        pub limits: Limits,
        /// Flight recorders. The first that matches is the one.
        pub recorders: Vec<Recorder>,
        /// Levels that processes begin with. The first that matches is the one.
        pub levels: Vec<LevelRule>,
    }
}

/// The first rule that is about a process.
pub(crate) fn level_of<'a>(levels: &'a [LevelRule], process: &Process<'_>) -> Option<&'a LevelRule> {
    levels.iter().find(|rule| rule.processes.matches(process))
}

/// The memory that the flight recorders of a process take, 0 without one: they share one, as large as the largest says.
pub(crate) fn keep_bytes_of(recorders: &[Recorder], process: &Process<'_>) -> u64 {
    let own = recorders
        .iter()
        .filter(|recorder| recorder.processes.matches(process));
    own.map(|recorder| recorder.keep_bytes).max().unwrap_or(0)
}

/// Address of the metrics, as Prometheus text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Metrics {
    /// Nowhere.
    #[default]
    Off,
    /// By HTTP at this address.
    Tcp(SocketAddr),
    /// By HTTP at this Unix socket.
    Unix(PathBuf),
}

impl Setting for Metrics {
    fn to_value(&self) -> Option<Value> {
        Some(match self {
            Self::Off => Value::Off,
            other => Value::Text(other.to_string()),
        })
    }

    fn from_value(value: Value) -> Result<Self, Wrong> {
        if value == Value::Off {
            return Ok(Self::Off);
        }
        let text = String::from_value(value)?;
        if let Some(path) = text.strip_prefix("unix:") {
            let row = Row::of(Kind::Path(SOCKET_PATH_BYTES_MAX));
            let path = row.read(&Given::Text(path), &|_, _| None)?;
            return PathBuf::from_value(path).map(Self::Unix);
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() == 0 => {
                Err(Wrong::new(format!("{} has port 0", quoted(&text))).help("choose a port, such as 9187"))
            }
            Ok(address) => Ok(Self::Tcp(address)),
            Err(_) => Err(Wrong::new(format!("{} is no address", quoted(&text)))),
        }
    }
}

/// The places that differ between the agent of a machine and that of one user.
///
/// ```
/// use logdrive_agent::config::{AgentConfig, Places};
/// let places = Places::of_user("/run/user/1000".as_ref(), "/var/tmp/alice/state".as_ref());
/// assert_eq!(places.socket.to_str(), Some("/run/user/1000/logdrive/agent.sock"));
/// let config = AgentConfig::at(&places);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// See [`AgentConfig::socket`].
    pub socket: PathBuf,
    /// See [`AgentConfig::run_dir`].
    pub run_dir: PathBuf,
    /// The directory of the log files.
    pub log_dir: PathBuf,
}

impl Places {
    /// Of the agent of a machine.
    pub fn system() -> Self {
        Self {
            socket: "/run/logdrive/agent.sock".into(),
            run_dir: "/run/logdrive/state".into(),
            log_dir: "/var/log/logdrive".into(),
        }
    }

    /// Of the agent of one user: `runtime_dir` is `$XDG_RUNTIME_DIR`, and `state_dir` is `$XDG_STATE_HOME`.
    pub fn of_user(runtime_dir: &Path, state_dir: &Path) -> Self {
        Self {
            socket: runtime_dir.join("logdrive/agent.sock"),
            run_dir: runtime_dir.join("logdrive/state"),
            log_dir: state_dir.join("logdrive"),
        }
    }
}

impl Default for AgentConfig {
    /// One rotated file for each application below `/var/log/logdrive`; records of all levels go there.
    fn default() -> Self {
        Self::at(&Places::system())
    }
}

impl AgentConfig {
    /// The defaults at other places.
    pub fn at(places: &Places) -> Self {
        let main = SinkConfig::file("main", places.log_dir.join("{app}.log"));
        Self {
            socket: places.socket.clone(),
            group: None,
            mode: 0o660,
            run_dir: places.run_dir.clone(),
            metrics: Metrics::default(),
            metrics_insecure: false,
            connections: 1024,
            idle_timeout: Duration::from_secs(5),
            routes: vec![Route::to_all(std::slice::from_ref(&main))],
            sinks: vec![main],
            limits: Limits::default(),
            recorders: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// The sinks that records of a callsite go to: their places in [`AgentConfig::sinks`], each once, in the order of
    /// the routes. Empty when no route matches. What a sink's own level leaves out is up to the sink.
    ///
    /// The answer holds for the callsite as long as the configuration does, so ask once. `target` is the callsite's
    /// target, or its module where it has none.
    pub fn sinks_for(&self, process: &Process<'_>, target: &str, level: Level) -> Vec<usize> {
        let mut found = Vec::new();
        for route in &self.routes {
            if !route.matches(process, target, level) {
                continue;
            }
            for place in self.places_of(&route.sinks) {
                if !found.contains(&place) {
                    found.push(place);
                }
            }
            if !route.goes_on {
                break;
            }
        }
        found
    }

    /// Indices of the sinks of these names in [`AgentConfig::sinks`]; names without a sink are left out.
    pub fn places_of<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = usize> + 'a {
        names
            .iter()
            .filter_map(|name| self.sinks.iter().position(|sink| sink.name == *name))
    }

    /// The flight recorder of a process's records with this target, if there is one.
    pub fn recorder_for(&self, process: &Process<'_>, target: &str) -> Option<&Recorder> {
        self.recorders
            .iter()
            .find(|recorder| recorder.matches(process, target))
    }

    /// The levels that a process begins with; `None` when it is left as it chose.
    pub fn level_for(&self, process: &Process<'_>) -> Option<&LevelRule> {
        level_of(&self.levels, process)
    }

    /// Notes on a configuration that works but may not be what was meant. One sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.routes.iter().any(Route::takes_all) {
            notes.push(
                "records that no route matches are dropped and counted: end with a route that has only `sinks` to keep \
                 them"
                .to_owned(),
            );
        }
        for sink in &self.sinks {
            let named = self.routes.iter().map(|route| &route.sinks);
            let dumped = self.recorders.iter().map(|recorder| &recorder.sinks);
            if !named.chain(dumped).any(|names| names.contains(&sink.name)) {
                notes.push(format!(
                    "nothing goes to sink {:?}: name it in a route, or take it out",
                    sink.name
                ));
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: Process<'static> = Process {
        app: "shop",
        pid: 417,
        uid: 1000,
    };

    fn routed(routes: Vec<Route>) -> AgentConfig {
        let sinks =
            ["main", "errors", "net"].map(|name| SinkConfig::file(name, format!("/var/log/{name}.log")));
        AgentConfig {
            sinks: sinks.to_vec(),
            routes,
            ..AgentConfig::default()
        }
    }

    fn route(sinks: &[&str]) -> Route {
        Route {
            sinks: sinks.iter().map(|name| (*name).to_owned()).collect(),
            ..Route::to_all(&[])
        }
    }

    #[test]
    fn the_first_route_that_matches_decides_unless_it_goes_on() {
        let mut errors = route(&["errors"]);
        errors.level = Level::Error;
        errors.goes_on = true;
        let mut net = route(&["net", "errors"]);
        net.module = Some("net".into());
        let config = routed(vec![errors, net, route(&["main"])]);
        let sinks = |target, level| config.sinks_for(&SHOP, target, level);
        assert_eq!(sinks("shop", Level::Info), [0]);
        assert_eq!(sinks("shop", Level::Error), [1, 0]);
        assert_eq!(sinks("net::quic", Level::Debug), [2, 1]);
        assert_eq!(sinks("net::quic", Level::Fatal), [1, 2]);
        assert_eq!(sinks("network", Level::Debug), [0]);
        assert_eq!(config.notes(), Vec::<String>::new());
    }

    #[test]
    fn records_without_a_route_and_sinks_without_one_are_noted() {
        let mut only_shop = route(&["main"]);
        only_shop.processes.app = AppPattern::new("shop");
        let config = routed(vec![only_shop]);
        let other = Process { app: "mail", ..SHOP };
        assert_eq!(config.sinks_for(&SHOP, "x", Level::Trace), [0]);
        assert!(config.sinks_for(&other, "x", Level::Fatal).is_empty());
        assert_eq!(config.notes().len(), 3, "{:?}", config.notes());
    }

    #[test]
    fn the_default_sends_all_to_one_file_of_each_application() {
        let config = AgentConfig::default();
        assert_eq!(config.sinks_for(&SHOP, "x", Level::Trace), [0]);
        assert!(config.notes().is_empty());
        let options = config.sinks[0].options_for(&SHOP);
        let logdrive_drain::Target::File(file) = options.target else {
            panic!("{options:?}");
        };
        // Also that this program was built with what the default asks for.
        file.check().expect("it can be opened");
        assert!(config.recorder_for(&SHOP, "x").is_none() && config.level_for(&SHOP).is_none());
    }
}
