//! Validates short texts and numbers that are not names of objects: ports, ids, percentages, keys of ConfigMaps.

use super::{
    DNS_SUBDOMAIN_BYTES_MAX, consists_of, framed, is_lower, max_len_error, range_error, regex_error,
};

/// The longest allowed name of a port.
pub const PORT_NAME_BYTES_MAX: usize = 15;

/// An identifier of C.
pub fn is_c_identifier(text: &str) -> Vec<String> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if framed(text, |b| b.is_ascii_alphabetic() || b == b'_', inner, inner) {
        return Vec::new();
    }
    let words = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
    vec![regex_error(words, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"])]
}

/// A port number.
pub fn is_valid_port_num(port: i64) -> Vec<String> {
    is_in_range(port, 1, 65535)
}

/// A number between two others.
pub fn is_in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) { Vec::new() } else { vec![range_error(low, high)] }
}

/// A Unix user id.
pub fn is_valid_user_id(id: i64) -> Vec<String> {
    is_in_range(id, 0, i64::from(i32::MAX))
}

/// A Unix group id.
pub fn is_valid_group_id(id: i64) -> Vec<String> {
    is_in_range(id, 0, i64::from(i32::MAX))
}

/// The name of a port (RFC 6335, lower case).
pub fn is_valid_port_name(port: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if port.len() > PORT_NAME_BYTES_MAX {
        errors.push(max_len_error(PORT_NAME_BYTES_MAX));
    }
    if !consists_of(port, |b| is_lower(b) || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_string());
    }
    if !port.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_string());
    }
    if port.contains("--") {
        errors.push("must not contain consecutive hyphens".to_string());
    }
    if port.starts_with('-') || port.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_string());
    }
    errors
}

/// Digits and `%`.
pub fn is_valid_percent(text: &str) -> Vec<String> {
    if text.strip_suffix('%').is_some_and(|n| consists_of(n, |b| b.is_ascii_digit())) {
        return Vec::new();
    }
    let words = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_error(words, "[0-9]+%", &["1%", "93%"])]
}

/// The name of an HTTP header.
pub fn is_http_header_name(text: &str) -> Vec<String> {
    if consists_of(text, |b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    let words = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![regex_error(words, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// The name of an environment variable: any printable ASCII but `=`.
pub fn is_relaxed_env_var_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.is_empty() {
        errors.push("environment variable name must be non-empty".to_string());
    }
    if text.bytes().any(|b| !(b' '..=b'~').contains(&b) || b == b'=') {
        errors.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_string(),
        );
    }
    errors
}

/// A key of a ConfigMap or Secret.
pub fn is_config_map_key(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if key.len() > DNS_SUBDOMAIN_BYTES_MAX {
        errors.push(max_len_error(DNS_SUBDOMAIN_BYTES_MAX));
    }
    if !consists_of(key, |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')) {
        let words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        errors.push(regex_error(words, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    errors.extend(change_dir_prefix(key));
    errors
}

/// A whole decimal number without leading zeros and plus sign.
pub fn is_decimal_integer(text: &str) -> Vec<String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let fine = text == "0" || (consists_of(digits, |b| b.is_ascii_digit()) && !digits.starts_with('0'));
    match (text.is_empty(), fine) {
        (true, _) => vec!["must be non-empty".to_string()],
        (false, true) => Vec::new(),
        (false, false) => vec!["must be a valid decimal integer in canonical form".to_string()],
    }
}

fn change_dir_prefix(text: &str) -> Option<String> {
    match text {
        "." | ".." => Some(format!("must not be '{text}'")),
        _ if text.starts_with("..") => Some("must not start with '..'".to_string()),
        _ => None,
    }
}
