//! The texts that Go has for errors of the operating system.

use std::io::{Error, ErrorKind};

/// Go's text of an error of the operating system, without the operation.
pub fn go_error_text(error: &Error) -> String {
    let text = match error.kind() {
        ErrorKind::NotFound => "no such file or directory",
        ErrorKind::PermissionDenied => "permission denied",
        ErrorKind::IsADirectory => "is a directory",
        ErrorKind::NotADirectory => "not a directory",
        _ => return error.to_string(),
    };
    text.to_string()
}
