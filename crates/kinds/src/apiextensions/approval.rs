//! API approval: a definition in a protected community group must have a link to its approval, or state that it is
//! unapproved.

use pintle_meta::field::quoted;
use pintle_value::Value;

/// The annotation with the URL of the approval, or the reason why there is none.
pub const ANNOTATION: &str = "api-approved.kubernetes.io";

const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// The parsed annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// The annotation is a URL.
    Approved,
    /// The annotation begins with "unapproved".
    Bypassed,
    /// The definition has no annotation.
    Missing,
    /// The annotation is something else.
    Invalid,
}

/// Returns whether a group is protected.
pub(crate) fn is_protected(group: &str) -> bool {
    let within =
        |domain: &str| group == domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    within("k8s.io") || within("kubernetes.io")
}

/// The approval annotation's meaning, and the message about it.
pub(crate) fn approval(object: &Value) -> (Approval, String) {
    let annotation = object.str_at(&["metadata", "annotations", ANNOTATION]);
    let name = quoted(ANNOTATION);
    if annotation.is_empty() {
        return (Approval::Missing, format!("protected groups must have approval annotation {name}, {SEE}"));
    }
    if annotation.starts_with("unapproved") {
        return (Approval::Bypassed, format!("not approved: {}", quoted(annotation)));
    }
    if is_url(annotation) {
        return (Approval::Approved, format!("approved in {annotation}"));
    }
    let why = format!(
        "protected groups must have approval annotation {name} with either a URL or a reason starting with \"unapproved\", {SEE}"
    );
    (Approval::Invalid, why)
}

/// Status, reason and message of a definition's approval condition; `None` outside of protected groups.
pub fn condition(definition: &Value) -> Option<(&'static str, &'static str, String)> {
    if !is_protected(definition.str_at(&["spec", "group"])) {
        return None;
    }
    let (approval, message) = approval(definition);
    let (status, reason) = match approval {
        Approval::Approved => ("True", "ApprovedAnnotation"),
        Approval::Bypassed => ("False", "UnapprovedAnnotation"),
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Invalid => ("False", "InvalidAnnotation"),
    };
    Some((status, reason, message))
}

/// Returns whether a text has a scheme and a host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or("");
    let host = host.rsplit('@').next().unwrap_or("");
    let scheme_fine = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    let host_fine = !host.is_empty() && !host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}']);
    scheme_fine && host_fine && !text.bytes().any(|b| b.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_scheme_and_a_host() {
        let cases = [
            ("https://a.b/c", true),
            ("https:///c", false),
            ("a.b/c", false),
            ("http://", false),
            ("h t://a", false),
        ];
        for (text, expected) in cases {
            assert_eq!(is_url(text), expected, "{text}");
        }
    }
}
