//! A table of rules as bytes. Whatever is read is taken for hostile: every length is checked, and nothing panics.

use super::{Action, RULE_NAME_BYTES_MAX, RULES_MAX, Rule, Selector, TABLE_BYTES, damaged};
use crate::RingError;
use crate::checksum::Checksum;

/// Bytes in front of the rules: sequence, number of rules, their bytes, checksum.
const HEAD_BYTES: usize = 32;
/// Bytes of a rule in front of its names.
const RULE_HEAD_BYTES: usize = 40;

const ACTION_LEVEL: u8 = 1;
const ACTION_MUTE: u8 = 2;
const ACTION_EVERY: u8 = 3;
const ACTION_PER_SECOND: u8 = 4;
const ACTION_PER_KEY: u8 = 5;

const SELECT_ALL: u8 = 1;
const SELECT_MODULE: u8 = 2;
const SELECT_FILE: u8 = 3;
const SELECT_LINE: u8 = 4;
const SELECT_CALLSITE: u8 = 5;

/// The level code of a rule that switches everything off.
const LEVEL_OFF: u8 = 255;

/// The bytes of a table, without what is not used of it.
pub(super) fn write_table(rules: &[Rule], sequence: u64) -> Result<Vec<u8>, RingError> {
    if rules.len() > RULES_MAX {
        return Err(RingError::Limit {
            what: "rules of a session",
            limit: RULES_MAX as u64,
        });
    }
    let mut table = vec![0; HEAD_BYTES];
    for rule in rules {
        write_rule(rule, &mut table)?;
    }
    if table.len() > TABLE_BYTES {
        return Err(RingError::Limit {
            what: "bytes of all rules of a session",
            limit: (TABLE_BYTES - HEAD_BYTES) as u64,
        });
    }
    let length = (table.len() - HEAD_BYTES) as u32;
    let checksum = checksum(
        sequence,
        rules.len() as u32,
        table.get(HEAD_BYTES..).unwrap_or(&[]),
    );
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.extend_from_slice(&sequence.to_le_bytes());
    head.extend_from_slice(&(rules.len() as u32).to_le_bytes());
    head.extend_from_slice(&length.to_le_bytes());
    head.extend_from_slice(&checksum.to_le_bytes());
    if let Some(place) = table.get_mut(..head.len()) {
        place.copy_from_slice(&head);
    }
    Ok(table)
}

fn write_rule(rule: &Rule, table: &mut Vec<u8>) -> Result<(), RingError> {
    let (action, level, parameter, field) = match &rule.action {
        Action::Level(level) => (ACTION_LEVEL, level.unwrap_or(LEVEL_OFF), 0, ""),
        Action::Mute => (ACTION_MUTE, 0, 0, ""),
        Action::Every(calls) => (ACTION_EVERY, 0, *calls, ""),
        Action::PerSecond(calls) => (ACTION_PER_SECOND, 0, *calls, ""),
        Action::PerKey { field, per_second } => (ACTION_PER_KEY, 0, *per_second, field.as_str()),
    };
    let (select, number, name) = match &rule.selector {
        Selector::All => (SELECT_ALL, 0, ""),
        Selector::Module(name) => (SELECT_MODULE, 0, name.as_str()),
        Selector::File(name) => (SELECT_FILE, 0, name.as_str()),
        Selector::Line(name, line) => (SELECT_LINE, *line, name.as_str()),
        Selector::Callsite(id) => (SELECT_CALLSITE, *id, ""),
    };
    if name.len().max(field.len()) > RULE_NAME_BYTES_MAX {
        return Err(RingError::Limit {
            what: "bytes of a name in a rule",
            limit: RULE_NAME_BYTES_MAX as u64,
        });
    }
    let length = (RULE_HEAD_BYTES + name.len() + field.len()).next_multiple_of(8);
    let end = table.len() + length;
    table.extend_from_slice(&(length as u32).to_le_bytes());
    table.extend_from_slice(&[action, select, level, 0]);
    table.extend_from_slice(&rule.made_unix_ns.to_le_bytes());
    table.extend_from_slice(&rule.until_unix_ns.to_le_bytes());
    table.extend_from_slice(&parameter.to_le_bytes());
    table.extend_from_slice(&number.to_le_bytes());
    table.extend_from_slice(&(name.len() as u16).to_le_bytes());
    table.extend_from_slice(&(field.len() as u16).to_le_bytes());
    table.extend_from_slice(&[0; 4]);
    table.extend_from_slice(name.as_bytes());
    table.extend_from_slice(field.as_bytes());
    table.resize(end, 0);
    Ok(())
}

/// Reads a table that should be that of a sequence number.
pub(super) fn read_table(table: &[u8], sequence: u64) -> Result<Vec<Rule>, RingError> {
    let mut head = Reader { bytes: table };
    let found = head.u64()?;
    if found != sequence {
        return Err(damaged("sequence", found, "that of the header"));
    }
    let count = head.u32()?;
    let length = head.u32()?;
    let expected = head.u64()?;
    if count as usize > RULES_MAX {
        return Err(damaged("number of rules", u64::from(count), "256 at most"));
    }
    let rules = table
        .get(HEAD_BYTES..)
        .and_then(|rest| rest.get(..length as usize))
        .ok_or_else(|| damaged("length", u64::from(length), "bytes that are there"))?;
    let found = checksum(sequence, count, rules);
    if found != expected {
        return Err(damaged("checksum", found, "that of its bytes"));
    }
    let mut rest = Reader { bytes: rules };
    (0..count).map(|_| read_rule(&mut rest)).collect()
}

fn read_rule(rest: &mut Reader<'_>) -> Result<Rule, RingError> {
    let length = rest.u32()? as usize;
    if length < RULE_HEAD_BYTES || !length.is_multiple_of(8) {
        return Err(damaged(
            "length of a rule",
            length as u64,
            "a multiple of 8 from 40 on",
        ));
    }
    let mut rule = Reader {
        bytes: rest.take(length - 4)?,
    };
    let [action, select, level, _] = rule.u32()?.to_le_bytes();
    let (made_unix_ns, until_unix_ns) = (rule.u64()?, rule.u64()?);
    let (parameter, number) = (rule.u32()?, rule.u32()?);
    let lengths = rule.u32()?;
    rule.take(4)?;
    let name = rule.name((lengths & 0xffff) as usize)?;
    let field = rule.name((lengths >> 16) as usize)?;
    let unknown = |field, found: u8, expected| Err(damaged(field, u64::from(found), expected));
    let action = match action {
        ACTION_LEVEL if level == LEVEL_OFF => Action::Level(None),
        ACTION_LEVEL => Action::Level(Some(level)),
        ACTION_MUTE => Action::Mute,
        ACTION_EVERY => Action::Every(parameter),
        ACTION_PER_SECOND => Action::PerSecond(parameter),
        ACTION_PER_KEY => Action::PerKey {
            field,
            per_second: parameter,
        },
        found => return unknown("action of a rule", found, "1 to 5"),
    };
    let selector = match select {
        SELECT_ALL => Selector::All,
        SELECT_MODULE => Selector::Module(name),
        SELECT_FILE => Selector::File(name),
        SELECT_LINE => Selector::Line(name, number),
        SELECT_CALLSITE => Selector::Callsite(number),
        found => return unknown("selector of a rule", found, "1 to 5"),
    };
    Ok(Rule {
        made_unix_ns,
        until_unix_ns,
        action,
        selector,
    })
}

/// FNV-1a over the whole table: it distinguishes a complete table from anything else.
fn checksum(sequence: u64, count: u32, rules: &[u8]) -> u64 {
    Checksum::new()
        .bytes(&sequence.to_le_bytes())
        .bytes(&count.to_le_bytes())
        .bytes(rules)
        .value()
}

/// Takes values from the front of bytes.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], RingError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(length) else {
            return Err(damaged("length of a rule", length as u64, "bytes that are there"));
        };
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RingError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, RingError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, RingError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn name(&mut self, length: usize) -> Result<String, RingError> {
        if length > RULE_NAME_BYTES_MAX {
            return Err(damaged("length of a name", length as u64, "1024 at most"));
        }
        let bytes = self.take(length)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| damaged("name", length as u64, "UTF-8"))
    }
}
