//! Names of the container whose log a file is: of Kubernetes by the path, of Docker by the file beside the log.

use logdrive_reader::foreign::{ForeignValue, PodContainer};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of Docker's file about a container: it has some KiB, and more with long lists of labels.
const DOCKER_CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Returns the name of the program whose log a file is: its container, else the file's name without its last extension.
///
/// ```
/// use logdrive_collector::send::program_of;
/// assert_eq!(program_of("/var/log/pods/shop_orders-7d9_0b1c/server/0.log".as_ref()), "server");
/// assert_eq!(program_of("/var/log/shop.log".as_ref()), "shop");
/// ```
pub fn program_of(path: &Path) -> String {
    if let Some(container) = PodContainer::of_path(path) {
        return container.container;
    }
    if let Some(container) = DockerContainer::of_path(path) {
        return container.name;
    }
    let name = path.file_stem().and_then(|name| name.to_str());
    name.unwrap_or("log").to_owned()
}

/// Returns the fields that all records of a log have: the names of its container, where it is one's.
pub(crate) fn container_fields(path: &Path) -> Vec<(String, ForeignValue)> {
    if let Some(container) = PodContainer::of_path(path) {
        return container.into_fields().to_vec();
    }
    let Some(container) = DockerContainer::of_path(path) else {
        return Vec::new();
    };
    [
        ("container", container.name),
        ("container_id", container.id),
        ("image", container.image),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(name, value)| (name.to_owned(), ForeignValue::Text(value.into_bytes())))
    .collect()
}

/// A container of Docker.
#[derive(Debug, PartialEq, Eq)]
struct DockerContainer {
    name: String,
    id: String,
    image: String,
}

impl DockerContainer {
    /// Reads `.../containers/ID/ID-json.log`, and the file of the container there; `None` for any other path.
    fn of_path(path: &Path) -> Option<Self> {
        let directory = path.parent()?;
        let id = directory.file_name()?.to_str()?;
        let is_docker = directory.parent()?.file_name()? == "containers"
            && path
                .file_name()?
                .to_str()?
                .strip_prefix(id)?
                .starts_with("-json.log");
        if !is_docker {
            return None;
        }
        let mut text = Vec::new();
        let config = File::open(directory.join("config.v2.json"));
        // Without it the id is the name.
        let read = config.and_then(|file| file.take(DOCKER_CONFIG_BYTES_MAX).read_to_end(&mut text));
        let config: serde_json::Value = read
            .ok()
            .and_then(|_| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or("").to_owned();
        let name = text(config.get("Name").unwrap_or(&serde_json::Value::Null));
        let name = match name.trim_start_matches('/') {
            "" => id.chars().take(12).collect(),
            name => name.to_owned(),
        };
        Some(Self {
            name,
            id: id.to_owned(),
            image: text(
                config
                    .pointer("/Config/Image")
                    .unwrap_or(&serde_json::Value::Null),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dockers_file_names_the_container() {
        let directory = tempfile::tempdir().expect("a directory");
        let id = "0123456789abcdef".repeat(4);
        let own = directory.path().join("containers").join(&id);
        std::fs::create_dir_all(&own).expect("made");
        let log = own.join(format!("{id}-json.log"));
        assert_eq!(program_of(&log), "0123456789ab");
        let config = "{\"Name\":\"/shop\",\"Config\":{\"Image\":\"shop:1.2\"}}";
        std::fs::write(own.join("config.v2.json"), config).expect("written");
        assert_eq!(program_of(&log), "shop");
        let fields = container_fields(&log);
        let text = |text: &str| ForeignValue::Text(text.as_bytes().to_vec());
        let expected = [
            ("container", "shop"),
            ("container_id", &id),
            ("image", "shop:1.2"),
        ];
        assert!(
            fields
                .iter()
                .zip(expected)
                .all(|((key, value), (name, expected))| { key == name && *value == text(expected) })
        );
        assert_eq!(fields.len(), 3);
        assert!(container_fields(&own.join("other.log")).is_empty());
    }
}
