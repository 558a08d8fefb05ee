//! Names of errors and of types of frames in RFC 9000 and its extensions.

use std::borrow::Cow;

/// Name of an error of the transport in RFC 9000.
pub(super) fn transport_error(code: u64) -> Option<Cow<'static, str>> {
    let name = match code {
        0x0 => "no_error",
        0x1 => "internal_error",
        0x2 => "connection_refused",
        0x3 => "flow_control_error",
        0x4 => "stream_limit_error",
        0x5 => "stream_state_error",
        0x6 => "final_size_error",
        0x7 => "frame_encoding_error",
        0x8 => "transport_parameter_error",
        0x9 => "connection_id_limit_error",
        0xa => "protocol_violation",
        0xb => "invalid_token",
        0xc => "application_error",
        0xd => "crypto_buffer_exceeded",
        0xe => "key_update_error",
        0xf => "aead_limit_reached",
        0x10 => "no_viable_path",
        0x100..=0x1ff => return Some(format!("crypto_error_{code:#x}").into()),
        _ => return None,
    };
    Some(name.into())
}

/// Name of a type of frames, by its number in RFC 9000 and its extensions.
pub(super) fn frame_type(number: u64) -> Option<&'static str> {
    Some(match number {
        0x01 => "ping",
        0x02 | 0x03 => "ack",
        0x04 => "reset_stream",
        0x05 => "stop_sending",
        0x06 => "crypto",
        0x07 => "new_token",
        0x08..=0x0f => "stream",
        0x10 => "max_data",
        0x11 => "max_stream_data",
        0x12 | 0x13 => "max_streams",
        0x14 => "data_blocked",
        0x15 => "stream_data_blocked",
        0x16 | 0x17 => "streams_blocked",
        0x18 => "new_connection_id",
        0x19 => "retire_connection_id",
        0x1a => "path_challenge",
        0x1b => "path_response",
        0x1c | 0x1d => "connection_close",
        0x1e => "handshake_done",
        0x1f => "immediate_ack",
        0x24 => "reset_stream_at",
        0x30 | 0x31 => "datagram",
        0xaf => "ack_frequency",
        _ => return None,
    })
}
