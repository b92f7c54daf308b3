//! Names and labels: the rules and messages of Kubernetes' own API.

use super::super::url::parse::Url;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const LABEL_1035_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const QUALIFIED_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

/// The errors of a text, in order.
type FormatErrors = Vec<String>;

pub(in super::super) fn dns1123_label(text: &str) -> FormatErrors {
    let mut mistakes = too_long(text, LABEL_MAX);
    if !is_label(text) {
        mistakes.push(if is_subdomain(text) {
            "must not contain dots".into()
        } else {
            broken_rule(LABEL_RULE, LABEL, &["my-name", "123-abc"])
        });
    }
    mistakes
}

pub(in super::super) fn dns1123_subdomain(text: &str) -> FormatErrors {
    let mut mistakes = too_long(text, SUBDOMAIN_MAX);
    if !is_subdomain(text) {
        mistakes.push(broken_rule(SUBDOMAIN_RULE, SUBDOMAIN, &["example.com"]));
    }
    mistakes
}

pub(super) fn dns1035_label(text: &str) -> FormatErrors {
    let mut mistakes = too_long(text, LABEL_MAX);
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        mistakes.push(broken_rule(LABEL_1035_RULE, LABEL_1035, &["my-name", "abc-123"]));
    }
    mistakes
}

pub(super) fn dns1123_label_prefix(text: &str) -> FormatErrors {
    dns1123_label(&masked(text))
}

pub(super) fn dns1123_subdomain_prefix(text: &str) -> FormatErrors {
    dns1123_subdomain(&masked(text))
}

pub(super) fn dns1035_label_prefix(text: &str) -> FormatErrors {
    dns1035_label(&masked(text))
}

/// A name prefix as it is validated. Go replaces the last two characters although one would suffice; this is visible for
/// names such as `.-`.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let bytes = rest.as_bytes();
            format!(
                "{}a",
                String::from_utf8_lossy(bytes.get(..bytes.len().saturating_sub(1)).unwrap_or_default())
            )
        }
        _ => text.to_owned(),
    }
}

pub(super) fn qualified_name(text: &str) -> FormatErrors {
    let parts: Vec<&str> = text.split('/').collect();
    let rule = || broken_rule(QUALIFIED_RULE, QUALIFIED, &["MyName", "my.name", "123-abc"]);
    let mut mistakes = Vec::new();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                mistakes.push("prefix part must be non-empty".into());
            } else {
                mistakes.extend(dns1123_subdomain(prefix).iter().map(|m| format!("prefix part {m}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                rule()
            )];
        }
    };
    if name.is_empty() {
        mistakes.push("name part must be non-empty".into());
    } else {
        mistakes.extend(too_long(name, LABEL_MAX).iter().map(|m| format!("name part {m}")));
    }
    if !is_qualified(name) {
        mistakes.push(format!("name part {}", rule()));
    }
    mistakes
}

pub(super) fn label_value(text: &str) -> FormatErrors {
    let mut mistakes = too_long(text, LABEL_MAX);
    if !text.is_empty() && !is_qualified(text) {
        let pattern = format!("({QUALIFIED})?");
        mistakes.push(broken_rule(LABEL_VALUE_RULE, &pattern, &["MyValue", "my_value", "12345"]));
    }
    mistakes
}

pub(super) fn uri(text: &str) -> FormatErrors {
    Url::parse_request(text).err().into_iter().collect()
}

pub(super) fn uuid(text: &str) -> FormatErrors {
    mistake(is_uuid(text), "does not match the UUID format")
}

pub(super) fn byte(text: &str) -> FormatErrors {
    mistake(is_base64(text), "invalid base64")
}

pub(super) fn date(text: &str) -> FormatErrors {
    mistake(is_date(text), "invalid date")
}

pub(super) fn datetime(text: &str) -> FormatErrors {
    mistake(is_datetime(text), "invalid datetime")
}

fn mistake(holds: bool, what: &str) -> FormatErrors {
    if holds { Vec::new() } else { vec![what.to_owned()] }
}

fn too_long(text: &str, max: usize) -> FormatErrors {
    mistake(text.len() <= max, &format!("must be no more than {max} bytes"))
}

fn broken_rule(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn is_label(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| plain(*b))
        && bytes.last().is_some_and(|b| plain(*b))
        && bytes.iter().all(|b| plain(*b) || *b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// 8-4-4-4-12 hexadecimal digits; each dash may be missing.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (i, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(digits) else {
            return false;
        };
        if !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Matches kube-openapi's pattern: groups of four, of which the last one may be padded. An empty text does not match.
fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    let padding = text.len().saturating_sub(data.len());
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && data.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

/// `2006-01-02`, an existing day.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return false;
    }
    let number = |range: std::ops::Range<usize>| -> Option<u32> {
        let digits = text.get(range)?;
        if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
    };
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// A date, `t`, and `23:59:59[.9](z|+00:00)`. The numbers of the zone are not checked, and text after a second `t` is
/// ignored.
fn is_datetime(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date) && is_time(time)
}

fn is_time(text: &str) -> bool {
    let (Some(clock), Some(rest)) = (text.get(..8), text.get(8..)) else {
        return false;
    };
    let fields: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = fields.as_slice() else {
        return false;
    };
    let two_digits = |field: &str| field.len() == 2 && field.bytes().all(|b| b.is_ascii_digit());
    if ![hours, minutes, seconds].into_iter().all(|field| two_digits(field)) {
        return false;
    }
    is_zone(after_fraction(rest)) && *hours <= "23" && *minutes <= "59" && *seconds <= "59"
}

/// The text after the fraction. The `.` of the pattern matches any character.
fn after_fraction(rest: &str) -> &str {
    let mut chars = rest.chars();
    chars.next();
    let digits = chars.as_str();
    let end = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    if end.len() < digits.len() && is_zone(end) { end } else { rest }
}

fn is_zone(text: &str) -> bool {
    if text == "z" {
        return true;
    }
    let bytes = text.as_bytes();
    bytes.len() == 6
        && matches!(bytes.first(), Some(b'+' | b'-'))
        && bytes.get(3) == Some(&b':')
        && [1, 2, 4, 5].iter().all(|i| bytes.get(*i).is_some_and(u8::is_ascii_digit))
}
