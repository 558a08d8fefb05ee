//! The client of each engine.

use crate::address::{EngineAddress, Kind};
use crate::engine::Engine;
use crate::error::EngineError;

/// Makes the client of an address. Does not wait for the engine.
pub(crate) fn open(address: &EngineAddress) -> Result<Box<dyn Engine>, EngineError> {
    Ok(match address.kind() {
        #[cfg(feature = "kafka")]
        Kind::Kafka => Box::new(crate::kafka::Kafka::new(address)?),
        #[cfg(feature = "otlp")]
        Kind::Otlp => crate::otlp::open(address)?,
        #[cfg(feature = "http")]
        Kind::Clickhouse => Box::new(crate::clickhouse::Clickhouse::new(address)?),
        #[cfg(feature = "http")]
        Kind::Elastic => Box::new(crate::elastic::Elastic::new(address)?),
        #[cfg(feature = "http")]
        Kind::Loki => Box::new(crate::loki::Loki::new(address)?),
        #[cfg(feature = "http")]
        Kind::VictoriaLogs => Box::new(crate::victoria_logs::VictoriaLogs::new(address)?),
        #[cfg(feature = "s3")]
        Kind::S3 => Box::new(crate::s3::ObjectStore::new(address)?),
        Kind::Syslog => Box::new(crate::syslog::Syslog::new(address)?),
        Kind::Journald => Box::new(crate::journald::Journald::new(address)),
        Kind::Stdout => Box::new(crate::stdout::Stdout::default()),
        #[cfg(not(all(feature = "kafka", feature = "otlp", feature = "http", feature = "s3")))]
        _ => return Err(address.wrong("this build has no client of it: build with its feature")),
    })
}
