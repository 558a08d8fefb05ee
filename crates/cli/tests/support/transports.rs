//! Transports that one test after the other runs over: addresses, certificates and options of both ends.

use super::collector::{World, logdrive};
use std::path::PathBuf;
use std::process::Stdio;

/// Variable of a program that logs: the address that it sends to.
pub(crate) const TO: &str = "LOGDRIVE_CLI_TEST_TO";

/// The same: the directory of its certificates.
pub(crate) const KEYS: &str = "LOGDRIVE_CLI_TEST_KEYS";

/// Makes tests of a function that takes a scheme, one for each transport.
#[allow(unused_macros, reason = "some test files have none of these")]
macro_rules! over_each_transport {
    ($module:ident, $run:ident) => {
        mod $module {
            use super::$run;

            #[test]
            fn unix() {
                $run("unix");
            }

            #[test]
            fn tcp() {
                $run("tcp");
            }

            #[test]
            fn tls() {
                $run("tls");
            }

            #[test]
            fn quic() {
                $run("quic");
            }

            #[test]
            fn shm() {
                $run("shm");
            }

            #[test]
            fn udp() {
                $run("udp");
            }
        }
    };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use over_each_transport;

/// A transport between a collector and those that send to it.
pub(crate) struct Transport {
    pub(crate) listen: String,
    keys: Option<PathBuf>,
}

impl Transport {
    /// A transport in a directory, with certificates where it has any.
    pub(crate) fn new(world: &World, scheme: &str) -> Self {
        let listen = match scheme {
            "unix" | "shm" => format!("{scheme}://{}", world.path("c.sock").display()),
            _ => format!("{scheme}://127.0.0.1:0"),
        };
        let keys = matches!(scheme, "tls" | "quic").then(|| world.path("keys"));
        if let Some(keys) = &keys {
            let mut make = logdrive();
            make.args(["collect", "--make-certificates"]).arg(keys);
            let made = make.stdout(Stdio::null()).status().expect("it ran");
            assert!(made.success());
        }
        Self { listen, keys }
    }

    fn key_options(&self, who: &str) -> Vec<String> {
        let Some(keys) = &self.keys else {
            return Vec::new();
        };
        let option = |option: &str, file: String| [option.to_owned(), keys.join(file).display().to_string()];
        [
            option("--tls-ca", "authority.pem".to_owned()),
            option("--tls-cert", format!("{who}.pem")),
            option("--tls-key", format!("{who}.key")),
        ]
        .concat()
    }

    /// Options of a collector, as they stand in its command line.
    pub(crate) fn of_collector(&self) -> Vec<String> {
        self.key_options("server")
    }

    /// Options of `logdrive send`. A collector that was killed says nothing over datagrams, so that the time for a
    /// response is short.
    pub(crate) fn of_sender(&self) -> Vec<String> {
        let mut options = self.key_options("client");
        for option in ["--response-timeout", "--connect-timeout"] {
            options.extend([option.to_owned(), "500ms".to_owned()]);
        }
        options
    }

    /// Variables of a program that logs.
    pub(crate) fn of_program(&self, address: &str) -> Vec<(&'static str, String)> {
        let keys = self.keys.iter().map(|keys| (KEYS, keys.display().to_string()));
        keys.chain([(TO, address.to_owned())]).collect()
    }
}

/// Words of a command line, borrowed.
pub(crate) fn strs(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}
