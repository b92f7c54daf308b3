//! Validates how webhooks are reached: URLs, services and certificates.

use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

const FORM: &str = "; desired format: https://host[/path]";

/// Validates the URL of a webhook.
pub(crate) fn validate_url(url: &str, force_https: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Err(why) = pintle_cel::library::kubernetes::url::check(url) {
        return errors.required(path, &format!("url must be a valid URL: {why}{FORM}"));
    }
    let parts = Url::split(url);
    if force_https && parts.scheme != "https" {
        errors.invalid(path, parts.scheme.as_str(), &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if parts.host.is_empty() {
        errors.invalid(path, parts.host, &format!("host must be specified{FORM}"));
    }
    if let Some(user) = parts.user {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    if !parts.fragment.is_empty() {
        errors.invalid(path, parts.fragment, "fragments are not permitted in the URL");
    }
    if !parts.query.is_empty() {
        errors.invalid(path, parts.query, "query parameters are not permitted in the URL");
    }
}

/// The parts of a URL that are validated.
struct Url<'a> {
    scheme: String,
    host: &'a str,
    user: Option<&'a str>,
    query: &'a str,
    fragment: &'a str,
}

impl<'a> Url<'a> {
    /// Splits a URL that Go accepts.
    fn split(text: &'a str) -> Self {
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = split_scheme(rest);
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = rest.strip_prefix("//").and_then(|rest| rest.split('/').next()).unwrap_or("");
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        Url { scheme, host, user, query, fragment }
    }
}

fn split_scheme(text: &str) -> (String, &str) {
    let is_scheme = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };
    match text.split_once(':').filter(|(front, _)| is_scheme(front)) {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None => (String::new(), text),
    }
}

/// Validates the service of a webhook. `swapped` means that name and namespace are exchanged in errors, as
/// kube-apiserver does for definitions.
pub(crate) fn validate_service(service: &Value, swapped: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let (name, namespace) = if swapped { ("namespace", "name") } else { ("name", "namespace") };
    if service.str_at(&[name]).is_empty() {
        errors.required(&path.field("name"), "");
    }
    if service.str_at(&[namespace]).is_empty() {
        errors.required(&path.field("namespace"), "");
    }
    let port = service.get("port").and_then(Value::as_int).unwrap_or(0);
    let complaints = names::is_valid_port_num(port);
    if !complaints.is_empty() {
        errors.invalid(&path.field("port"), port, &format!("port is not valid: {}", complaints.join(", ")));
    }
    let Some(url_path) = service.get("path").and_then(Value::as_str) else { return };
    validate_path(url_path, &path.field("path"), errors);
}

fn validate_path(url_path: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if matches!(url_path, "" | "/") {
        return;
    }
    if url_path == "//" {
        return errors.invalid(path, url_path, "segment[0] may not be empty");
    }
    if !url_path.starts_with('/') {
        errors.invalid(path, url_path, "must start with a '/'");
    }
    // kube-apiserver skips the first byte, whatever it is.
    let rest = String::from_utf8_lossy(url_path.as_bytes().get(1..).unwrap_or_default());
    let rest = rest.strip_suffix('/').unwrap_or(&rest);
    for (at, segment) in rest.split('/').enumerate() {
        if segment.is_empty() {
            errors.invalid(path, url_path, &format!("segment[{at}] may not be empty"));
            continue;
        }
        for why in names::is_dns1123_subdomain(segment) {
            errors.invalid(path, url_path, &format!("segment[{at}]: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected results were recorded from kube-apiserver.
    #[test]
    fn urls_are_read_as_go_reads_them() {
        for (url, answer) in [
            ("https://x", ""),
            ("https://x:1/a%20b", ""),
            ("https://[::1]:443/", ""),
            ("https://x/%zz", r#"parse "https://x/%zz": invalid URL escape "%zz""#),
            ("https://x%41/", r#"parse "https://x%41/": invalid URL escape "%41""#),
            ("https://x:a/", r#"parse "https://x:a/": invalid port ":a" after host"#),
            ("https://[::1/", r#"parse "https://[::1/": missing ']' in host"#),
            (":x", r#"parse ":x": missing protocol scheme"#),
            ("x", "'https' is the only allowed URL scheme"),
            ("https:///x", "host must be specified"),
            ("https://u@x/", "user information is not permitted"),
        ] {
            let mut errors = FieldErrors::new();
            validate_url(url, true, &Path::of("url"), &mut errors);
            let text = errors.aggregate_message();
            assert!(errors.is_empty() == answer.is_empty(), "{url}: {text}");
            assert!(text.contains(answer), "{url}: {text}");
        }
    }
}
