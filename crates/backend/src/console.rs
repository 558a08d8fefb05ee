//! Placeholder until the console module lands (owner: file-sink work).
use std::io::Write;
#[derive(Debug)]
pub struct Console(bool);
impl Console {
    pub fn stdout() -> Self { Self(true) }
    pub fn stderr() -> Self { Self(false) }
    pub fn colour_wanted(&self) -> bool { false }
    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.0 { std::io::stdout().write_all(bytes) } else { std::io::stderr().write_all(bytes) }
    }
}
