//! cel-go's `ext.Encoders`: base64.

use pintle_value::base64;

use super::Library;
use super::operand::{text, value};
use crate::decl::declare;
use crate::value::{EvalError, Value};

/// `base64.decode` and `base64.encode`.
pub fn library() -> Library {
    let functions = declare(
        &[],
        &[
            ("base64.decode", "base64_decode_string", "(string) -> bytes", |args| {
                decoded(text(args, 0)?).map(|bytes| Value::Bytes(bytes.into())).map_err(EvalError::Failed)
            }),
            ("base64.encode", "base64_encode_bytes", "(bytes) -> string", |args| match value(args, 0)? {
                Value::Bytes(bytes) => Ok(base64::encode(bytes).into()),
                _ => Err(EvalError::NoSuchOverload),
            }),
        ],
    );
    Library { functions, ..Library::default() }
}

/// Decodes with padding or, if that fails, without; the error is that of the second attempt, which rejects padding.
fn decoded(text: &str) -> Result<Vec<u8>, String> {
    let is_line_end = |b: u8| matches!(b, b'\r' | b'\n');
    let is_data = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    base64::decode(text).or_else(|_| {
        if let Some(at) = text.bytes().position(|b| !is_data(b) && !is_line_end(b)) {
            return Err(base64::CorruptInput(at).to_string());
        }
        let rest = text.bytes().filter(|b| !is_line_end(*b)).count() % 4;
        let padding = if rest == 0 { 0 } else { 4_usize.saturating_sub(rest) };
        base64::decode(&format!("{text}{}", "=".repeat(padding))).map_err(|error| error.to_string())
    })
}
