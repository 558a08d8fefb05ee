//! Object storage by the protocol of S3: versitygw over a directory, built from Go's modules.

use super::go_module;
use super::process::{Process, free_port, wait_for_port};
use super::server::{Row, Server, write};
use crate::shell::{Call, Failure, Outcome};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const BUCKET: &str = "logs";

struct ObjectStore {
    process: Process,
    port: u16,
    keys: PathBuf,
    objects: PathBuf,
    program: PathBuf,
}

/// Starts it.
pub(super) fn start(tools: &Path, data: &Path, program: &Path) -> Result<Box<dyn Server>, Failure> {
    let gateway = go_module::build(
        tools,
        "github.com/versity/versitygw@v1.8.0",
        "./cmd/versitygw",
        &[],
    )?;
    let (port, keys, objects) = (free_port()?, data.join("keys"), data.join("objects"));
    write(
        &keys,
        "AWS_ACCESS_KEY_ID=proof\nAWS_SECRET_ACCESS_KEY=proof-secret\n",
    )?;
    let bucket = objects.join(BUCKET);
    std::fs::create_dir_all(&bucket)
        .map_err(|cause| Failure::new(format!("{} cannot be made: {cause}", bucket.display()), ""))?;
    let words = [
        "env".to_owned(),
        "ROOT_ACCESS_KEY=proof".to_owned(),
        "ROOT_SECRET_KEY=proof-secret".to_owned(),
        gateway.display().to_string(),
        "--port".to_owned(),
        format!("127.0.0.1:{port}"),
        "posix".to_owned(),
        objects.display().to_string(),
    ];
    let mut store = ObjectStore {
        process: Process::new(data, "versitygw", words),
        port,
        keys,
        objects: bucket,
        program: program.to_owned(),
    };
    store.process.start()?;
    store.wait()?;
    Ok(Box::new(store))
}

impl Server for ObjectStore {
    fn address(&self) -> String {
        let keys = self.keys.display();
        format!(
            "s3+http://127.0.0.1:{}/{BUCKET}/proof?every=1&config_file={keys}",
            self.port
        )
    }

    fn processes(&mut self) -> &mut [Process] {
        std::slice::from_mut(&mut self.process)
    }

    fn wait(&mut self) -> Outcome {
        wait_for_port("versitygw", Ipv4Addr::LOCALHOST, self.port, START_TIMEOUT)
    }

    fn rows(&mut self) -> Result<Vec<Row>, Failure> {
        let (mut rows, mut objects) = (Vec::new(), Vec::new());
        list(&self.objects, &mut objects);
        for object in objects {
            let name = object.display().to_string();
            let text = Call::new(&self.program).words("cat --json").arg(&name).stdout()?;
            for (place, line) in text.lines().enumerate() {
                let number = super::load::number(line)
                    .ok_or_else(|| Failure::new(format!("a record has no number: {line:.200}"), ""))?;
                // Objects have no ids of records: none is there twice.
                let id = format!("{name}-{place}");
                rows.push(Row { number, id });
            }
        }
        Ok(rows)
    }

    fn poison(&self) -> Option<String> {
        None
    }
}

/// Appends the segments of a directory and of those in it.
fn list(directory: &Path, objects: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            list(&path, objects);
        } else if path.extension().is_some_and(|extension| extension == "segment") {
            objects.push(path);
        }
    }
}
