//! What a sender's lines become: the same lines with its host, process and session as fields, on one line each
//! whatever is in them.

use crate::escape::{put_json, put_safe};
use logdrive_transport::hello::{Format, Hello};
use memchr::memchr;

/// The fields of one sender, ready to be put behind its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields {
    is_json: bool,
    bytes: Vec<u8>,
}

impl Fields {
    pub(super) fn of(hello: &Hello) -> Self {
        let (host, app) = (plain(&hello.host), plain(&hello.app));
        let (pid, session) = (hello.pid, hello.session);
        let is_json = hello.format == Format::Json;
        // Without a name each line names its process itself: an agent sends those of many.
        let text = match (is_json, hello.app.is_empty()) {
            (true, true) => format!(r#""host":"{host}","session":"{session:032x}"}}"#),
            (true, false) => {
                format!(r#""host":"{host}","process":"{app}","pid":{pid},"session":"{session:032x}"}}"#)
            }
            (false, true) => format!(" host={host} session={session:032x}"),
            (false, false) => format!(" host={host} process={app} pid={pid} session={session:032x}"),
        };
        Self {
            is_json,
            bytes: text.into_bytes(),
        }
    }

    /// Appends the lines behind the first `skip`. Gives how many lines there were in all; bytes behind the last line
    /// break are one more.
    pub(super) fn put(&self, lines: &[u8], skip: u32, out: &mut Vec<u8>) -> u32 {
        // One look at all of them, because hardly any have something to escape.
        let is_plain = !lines.iter().any(|byte| is_suspect(*byte));
        let mut count = 0;
        let mut rest = lines;
        while !rest.is_empty() {
            let (line, behind) = match memchr(b'\n', rest) {
                Some(at) => (rest.get(..at).unwrap_or(&[]), rest.get(at + 1..).unwrap_or(&[])),
                None => (rest, &[][..]),
            };
            rest = behind;
            if count >= skip {
                self.put_line(line, is_plain, out);
            }
            count += 1;
        }
        count
    }

    fn put_line(&self, line: &[u8], is_plain: bool, out: &mut Vec<u8>) {
        if self.is_json {
            self.put_object(line, is_plain, out);
        } else if is_plain {
            out.extend_from_slice(line);
        } else {
            put_safe(out, line);
        }
        out.extend_from_slice(&self.bytes);
        out.push(b'\n');
    }

    /// Without the brace at its end, which the fields bring; what is no object becomes one.
    fn put_object(&self, line: &[u8], is_plain: bool, out: &mut Vec<u8>) {
        let inside = line
            .strip_prefix(b"{")
            .and_then(|line| line.trim_ascii_end().strip_suffix(b"}"));
        let is_plain = is_plain || {
            let mut safe = Vec::with_capacity(line.len());
            put_safe(&mut safe, line);
            safe == line
        };
        match inside.filter(|_| is_plain) {
            Some(inside) if !inside.trim_ascii().is_empty() => {
                out.push(b'{');
                out.extend_from_slice(inside);
                out.push(b',');
            }
            Some(_) => out.push(b'{'),
            None => {
                out.extend_from_slice(br#"{"message":""#);
                put_json(out, line);
                out.extend_from_slice(b"\",");
            }
        }
    }
}

/// Controls but line breaks and tabs, and what begins the characters that could reorder a line.
fn is_suspect(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\n' && byte != b'\t') || byte == 0x7f || byte >= 0x80
}

/// A name as it may stand in a line: what is not in the list becomes `_`.
fn plain(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '@');
    let name: String = name.chars().map(|c| if keep(c) { c } else { '_' }).collect();
    match name.is_empty() {
        true => "_".to_owned(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdrive_transport::hello::Role;

    fn fields(format: Format) -> Fields {
        let mut hello = Hello::new(Role::Shipper);
        hello.format = format;
        hello.host = "a b\n".to_owned();
        hello.app = "shop".to_owned();
        hello.pid = 7;
        Fields::of(&hello)
    }

    #[test]
    fn lines_get_fields_and_stay_one_line() {
        let mut out = Vec::new();
        let count = fields(Format::Text).put(b"one\nt\x1bwo\nthree", 1, &mut out);
        assert_eq!(count, 3);
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("t\\x1bwo host=a_b_ process=shop pid=7 session=0"),
            "{}",
            lines[0]
        );
        assert!(lines[1].starts_with("three host="));
    }

    #[test]
    fn json_stays_json_whatever_comes() {
        for line in [
            "{\"a\":1}",
            "{}",
            "{ }",
            "no object",
            "{\"a\":\u{1b}}",
            "",
            "\u{202e}x\"\\",
        ] {
            let mut out = Vec::new();
            fields(Format::Json).put(format!("{line}\n").as_bytes(), 0, &mut out);
            let value: serde_json::Value =
                serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(value["pid"], 7);
        }
    }
}
