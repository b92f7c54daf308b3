//! Validates names and other short texts, with kube-apiserver's messages.
//!
//! Every check returns a list of messages; it is empty if the text is valid. The regular expressions that the messages
//! quote are matched by hand: they are few, small and on the path of every write.

mod values;

pub use values::*;

use crate::FieldErrors;
use pintle_value::Path;

/// The longest allowed DNS label.
pub const DNS_LABEL_BYTES_MAX: usize = 63;
/// The longest allowed DNS subdomain.
pub const DNS_SUBDOMAIN_BYTES_MAX: usize = 253;
/// The longest allowed label value, and longest name part of a label key.
pub const LABEL_BYTES_MAX: usize = 63;
/// The message for a negative number.
pub const IS_NEGATIVE: &str = "must be greater than or equal to 0";

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN_CASELESS_MESSAGE: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const SUBDOMAIN_UNDERSCORE: &str = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_UNDERSCORE_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035_WORDS: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const WILDCARD: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD_MESSAGE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const KEY_EXAMPLES: [&str; 3] = ["MyName", "my.name", "123-abc"];
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const HTTP_PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";

/// Returns `must be no more than N characters`.
pub fn max_len_error(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// `must be no more than N bytes`, the newer wording of label keys and values
pub fn max_bytes_error(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// Returns `<words> (e.g. 'a',  or 'b', regex used for validation is '…')`.
pub fn regex_error(words: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{words} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

/// Returns `must be between LO and HI, inclusive`.
pub fn range_error(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn is_lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

/// Whether `text` begins and ends with `edge` bytes and has `inner` bytes between.
fn framed(text: &str, first: fn(u8) -> bool, inner: fn(u8) -> bool, last: fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [one] => first(*one),
        [head, middle @ .., tail] => first(*head) && middle.iter().all(|b| inner(*b)) && last(*tail),
    }
}

fn matches_label(text: &str) -> bool {
    framed(text, is_lower, |b| is_lower(b) || b == b'-', is_lower)
}

fn matches_subdomain(text: &str) -> bool {
    text.split('.').all(matches_label)
}

fn matches_subdomain_underscore(text: &str) -> bool {
    text.split('.').all(|part| {
        let part = part.strip_prefix('_').unwrap_or(part);
        framed(part, is_lower, |b| is_lower(b) || b == b'-' || b == b'_', is_lower)
    })
}

fn matches_key(text: &str) -> bool {
    let edge = |b: u8| b.is_ascii_alphanumeric();
    framed(text, edge, |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'), edge)
}

/// All bytes are `allowed`, and there is at least one.
fn consists_of(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(allowed)
}

/// The errors of a text: that it is too long, and `why` it does not have the form.
fn form_errors(
    text: &str,
    bytes_max: usize,
    too_long: fn(usize) -> String,
    has_form: bool,
    why: impl FnOnce() -> String,
) -> Vec<String> {
    let length_error = (text.len() > bytes_max).then(|| too_long(bytes_max));
    length_error.into_iter().chain((!has_form).then(why)).collect()
}

/// A lowercase RFC 1123 label.
pub fn is_dns1123_label(text: &str) -> Vec<String> {
    form_errors(text, DNS_LABEL_BYTES_MAX, max_len_error, matches_label(text), || label_complaint(text))
}

fn label_complaint(text: &str) -> String {
    if matches_subdomain(text) {
        "must not contain dots".to_string()
    } else {
        regex_error(LABEL_MESSAGE, LABEL, &["my-name", "123-abc"])
    }
}

/// A lowercase RFC 1123 subdomain.
pub fn is_dns1123_subdomain(text: &str) -> Vec<String> {
    subdomain_complaints(text, max_len_error)
}

fn subdomain_complaints(text: &str, too_long: fn(usize) -> String) -> Vec<String> {
    form_errors(text, DNS_SUBDOMAIN_BYTES_MAX, too_long, matches_subdomain(text), || {
        regex_error(SUBDOMAIN_MESSAGE, SUBDOMAIN, &["example.com"])
    })
}

/// An RFC 1123 subdomain where capitals are allowed (names of CSI and DRA drivers).
pub fn is_dns1123_subdomain_caseless(text: &str) -> Vec<String> {
    form_errors(
        text,
        DNS_SUBDOMAIN_BYTES_MAX,
        max_bytes_error,
        matches_subdomain(&text.to_ascii_lowercase()),
        || regex_error(SUBDOMAIN_CASELESS_MESSAGE, SUBDOMAIN, &["Example.com"]),
    )
}

/// A lowercase RFC 1123 subdomain where underscores are allowed (search domains of pods).
pub fn is_dns1123_subdomain_with_underscore(text: &str) -> Vec<String> {
    form_errors(text, DNS_SUBDOMAIN_BYTES_MAX, max_len_error, matches_subdomain_underscore(text), || {
        regex_error(SUBDOMAIN_UNDERSCORE_MESSAGE, SUBDOMAIN_UNDERSCORE, &["example.com"])
    })
}

/// A DNS-1035 label, the rule for names of services.
pub fn is_dns1035_label(text: &str) -> Vec<String> {
    let has_form = framed(text, |b| b.is_ascii_lowercase(), |b| is_lower(b) || b == b'-', is_lower);
    form_errors(text, DNS_LABEL_BYTES_MAX, max_len_error, has_form, || {
        regex_error(LABEL_1035_WORDS, LABEL_1035, &["my-name", "abc-123"])
    })
}

/// `*.` and a subdomain.
pub fn is_wildcard_dns1123_subdomain(text: &str) -> Vec<String> {
    form_errors(
        text,
        DNS_SUBDOMAIN_BYTES_MAX,
        max_len_error,
        text.strip_prefix("*.").is_some_and(matches_subdomain),
        || regex_error(WILDCARD_MESSAGE, WILDCARD, &["*.example.com"]),
    )
}

/// The name as it will be after a suffix is appended to its trailing dash. Like kube-apiserver, drops the byte before the
/// dash too.
fn masked(name: &str, prefix: bool) -> std::borrow::Cow<'_, str> {
    if !prefix || name.len() <= 1 || !name.ends_with('-') {
        return name.into();
    }
    match name.get(..name.len().saturating_sub(2)) {
        Some(head) => format!("{head}a").into(),
        // The cut is inside a character, which no name check accepts anyway.
        None => name.into(),
    }
}

/// Name check: a DNS subdomain, the rule of most kinds.
pub fn dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    is_dns1123_subdomain(&masked(name, prefix))
}

/// Name check: a DNS subdomain, the rule of the few kinds whose names kube-apiserver validates declaratively: only the final
/// name counts, never the generateName.
pub fn long_name(name: &str, prefix: bool) -> Vec<String> {
    if prefix { Vec::new() } else { subdomain_complaints(name, max_bytes_error) }
}

/// Name check: a DNS label, the rule of namespaces.
pub fn dns_label(name: &str, prefix: bool) -> Vec<String> {
    is_dns1123_label(&masked(name, prefix))
}

/// Name check: a DNS-1035 label, the rule of services.
pub fn dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    is_dns1035_label(&masked(name, prefix))
}

/// client-go's error for a name that cannot be part of a URL. kube-apiserver's admission plugins look up missing objects
/// with a client, so users receive it.
pub fn client_lookup_error(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("resource name may not be empty".to_string());
    }
    let why = path_segment_name(name, false);
    (!why.is_empty())
        .then(|| format!("invalid resource name {}: [{}]", crate::field::quoted(name), why.join(" ")))
}

/// Name check: anything that can be one segment of a URL path, the rule of RBAC kinds.
pub fn path_segment_name(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|s| name.contains(**s)).map(|s| format!("may not contain '{s}'")).collect()
}

/// The key of a label or annotation: `name` or `prefix/name`.
pub fn is_qualified_name(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_string());
            } else {
                errors.extend(
                    subdomain_complaints(prefix, max_bytes_error).iter().map(|e| format!("prefix part {e}")),
                );
            }
            name
        }
        _ => {
            let pattern = regex_error(KEY_MESSAGE, KEY, &KEY_EXAMPLES);
            return vec![format!(
                "a valid label key {pattern} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_string());
    } else if name.len() > LABEL_BYTES_MAX {
        errors.push(format!("name part {}", max_bytes_error(LABEL_BYTES_MAX)));
    }
    if !matches_key(name) {
        errors.push(format!("name part {}", regex_error(KEY_MESSAGE, KEY, &KEY_EXAMPLES)));
    }
    errors
}

/// The value of a label.
pub fn is_label_value(value: &str) -> Vec<String> {
    form_errors(value, LABEL_BYTES_MAX, max_bytes_error, value.is_empty() || matches_key(value), || {
        regex_error(LABEL_VALUE_MESSAGE, LABEL_VALUE, &["MyValue", "my_value", "12345"])
    })
}

/// A domain of at least three segments.
pub fn fully_qualified_name(path: &Path<'_>, name: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let complaints = is_dns1123_subdomain(name);
    if !complaints.is_empty() {
        errors.invalid(path, name, &complaints.join(","));
    } else if name.split('.').count() < 3 {
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots");
    }
}

/// A domain of at least two segments, a trailing dot allowed.
pub fn fully_qualified_domain_name(path: &Path<'_>, name: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let complaints = is_dns1123_subdomain(name);
    if !complaints.is_empty() {
        return errors.invalid(path, name, &complaints.join(","));
    }
    if name.split('.').count() < 2 {
        return errors.invalid(path, name, "should be a domain with at least two segments separated by dots");
    }
    for label in name.split('.') {
        let complaints = is_dns1123_label(label);
        if !complaints.is_empty() {
            return errors.invalid(path, label, &complaints.join(","));
        }
    }
}

/// A domain, a slash and an HTTP path (`acme.io/foo`).
pub fn domain_prefixed_path(path: &Path<'_>, text: &str, errors: &mut FieldErrors) {
    if text.is_empty() {
        return errors.required(path, "");
    }
    let Some((host, rest)) = text.split_once('/').filter(|(h, r)| !h.is_empty() && !r.is_empty()) else {
        return errors.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    for complaint in is_dns1123_subdomain(host) {
        errors.invalid(path, host, &complaint);
    }
    if !consists_of(rest, |b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        errors.invalid(path, rest, &regex_error("Invalid path", HTTP_PATH, &[]));
    }
}

/// A label key whose prefix is required.
pub fn domain_prefixed_key(path: &Path<'_>, key: &str, errors: &mut FieldErrors) {
    if key.is_empty() {
        return errors.required(path, "");
    }
    let complaints = is_qualified_name(key);
    for complaint in &complaints {
        errors.invalid(path, key, complaint);
    }
    if complaints.is_empty() && !key.contains('/') {
        errors.invalid(path, key, "must be a domain-prefixed key (such as \"acme.io/foo\")");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_words(errors: &[String]) -> String {
        errors.iter().map(|e| e.split(" (").next().unwrap_or("")).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn dns_names() {
        let long = "a".repeat(254);
        for (check, name, expected) in [
            (is_dns1123_label as fn(&str) -> Vec<String>, "a-b", ""),
            (is_dns1123_label, "a.b", "must not contain dots"),
            (is_dns1123_label, "A", LABEL_MESSAGE),
            (is_dns1123_label, "", LABEL_MESSAGE),
            (is_dns1123_subdomain, "a.b-c.0", ""),
            (is_dns1123_subdomain, "a..b", SUBDOMAIN_MESSAGE),
            (is_dns1123_subdomain, "a-", SUBDOMAIN_MESSAGE),
            (is_dns1123_subdomain, &long, "must be no more than 253 characters"),
            (is_dns1123_subdomain_with_underscore, "_a.b_c", ""),
            (is_dns1123_subdomain_caseless, "CSI.example.Com", ""),
            (is_dns1035_label, "0a", LABEL_1035_WORDS),
            (is_dns1035_label, "a0", ""),
            (is_wildcard_dns1123_subdomain, "*.a.b", ""),
            (is_wildcard_dns1123_subdomain, "*.*.b", WILDCARD_MESSAGE),
        ] {
            assert_eq!(first_words(&check(name)), expected, "{name}");
        }
    }

    #[test]
    fn errors_of_an_invalid_subdomain_have_the_full_text() {
        assert_eq!(
            dns_subdomain("A_b", false),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
    }

    #[test]
    fn prefixes_may_end_with_a_dash() {
        for (name, prefix, good) in [
            ("a-", true, true),
            ("a-", false, false),
            ("-", true, false),
            ("é-", true, false),
            ("a.-", true, true),
        ] {
            assert_eq!(dns_subdomain(name, prefix).is_empty(), good, "{name}");
        }
        assert_eq!(path_segment_name("..", false), ["may not be '..'"]);
        assert_eq!(path_segment_name("..", true), [""; 0]);
        assert_eq!(path_segment_name("a/b%", false), ["may not contain '/'", "may not contain '%'"]);
    }

    #[test]
    fn keys_and_values_of_labels() {
        let key = format!("name part {KEY_MESSAGE}");
        let prefix = format!("prefix part {SUBDOMAIN_MESSAGE}");
        for (name, expected) in [
            ("simple", String::new()),
            ("1.2.3.4/5678", String::new()),
            ("-a", key.clone()),
            ("Example.com/abc", prefix),
            ("example.com/", format!("name part must be non-empty; {key}")),
            ("/simple", "prefix part must be non-empty".to_string()),
            ("only/one/slash", format!("a valid label key {KEY_MESSAGE}")),
            (&"a".repeat(64), "name part must be no more than 63 bytes".to_string()),
        ] {
            assert_eq!(first_words(&is_qualified_name(name)), expected, "{name}");
        }
        assert!(is_label_value("").is_empty() && is_label_value("a.b_c-d").is_empty());
        assert_eq!(
            is_label_value("-"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
    }

    #[test]
    fn ports_percents_and_the_rest() {
        assert_eq!(is_valid_port_num(0), ["must be between 1 and 65535, inclusive"]);
        assert_eq!(is_valid_port_name("a--1-").len(), 2);
        assert_eq!(is_valid_port_name("80"), ["must contain at least one letter (a-z)"]);
        assert!(is_valid_percent("10%").is_empty() && !is_valid_percent("%").is_empty());
        assert!(is_c_identifier("_a1").is_empty() && !is_c_identifier("1a").is_empty());
        assert!(is_http_header_name("X-A").is_empty() && !is_http_header_name("X_A").is_empty());
        assert_eq!(is_config_map_key("."), ["must not be '.'"]);
        assert_eq!(is_relaxed_env_var_name("a=").len(), 1);
        for (text, good) in [("0", true), ("-0", false), ("-12", true), ("012", false), ("-", false)] {
            assert_eq!(is_decimal_integer(text).is_empty(), good, "{text}");
        }
    }
}
