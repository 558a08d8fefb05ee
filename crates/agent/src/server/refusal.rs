//! Refusals in words, as peers get them.

use logdrive_ring::RingError;
use logdrive_wire::WireError;
use logdrive_wire::agent::{Message, Refused, RefusedCode, is_other_version};

/// A refusal, with words cut to what a message takes.
pub(crate) fn refused(code: RefusedCode, reason: impl Into<String>, advice: impl Into<String>) -> Refused {
    let cut = |mut text: String| {
        text.truncate(text.floor_char_boundary(logdrive_wire::limits::AGENT_TEXT_BYTES_MAX));
        text
    };
    Refused {
        code,
        reason: cut(reason.into()),
        advice: cut(advice.into()),
    }
}

/// For a message that cannot be read, or came without its descriptors.
pub(super) fn unreadable(decoded: Result<Message, WireError>) -> Refused {
    match decoded {
        Err(error) if is_other_version(&error) => refused(
            RefusedCode::Version,
            format!(
                "{error}: this agent speaks version {}",
                logdrive_wire::agent::VERSION
            ),
            "use an agent and a library of the same version",
        ),
        Err(error) => refused(
            RefusedCode::Message,
            format!("a message cannot be read: {error}"),
            "connect with Logdrive's own library or command",
        ),
        Ok(message) => bad_descriptors(&format!("{} came without its descriptors", message.name())),
    }
}

pub(super) fn unexpected_message(message: &Message) -> Refused {
    refused(
        RefusedCode::Message,
        format!("{} does not belong here", message.name()),
        "connect with Logdrive's own library or command",
    )
}

pub(super) fn bad_descriptors(what: &str) -> Refused {
    refused(RefusedCode::Descriptors, what, "start the process anew")
}

pub(super) fn bad_memory(error: RingError) -> Refused {
    bad_descriptors(&error.to_string())
}

pub(super) fn no_memory(error: RingError) -> Refused {
    refused(
        RefusedCode::Resources,
        error.to_string(),
        "give the agent more memory or descriptors",
    )
}
