//! Validates how webhooks are reached: URLs, services and certificates.

use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

const FORM: &str = "; desired format: https://host[/path]";

/// Validates the URL of a webhook.
pub(crate) fn validate_url(url: &str, force_https: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let parts = match Url::parse(url) {
        Ok(parts) => parts,
        Err(why) => {
            let why =
                format!("url must be a valid URL: parse {}: {why}{FORM}", pintle_meta::field::quoted(url));
            return errors.required(path, &why);
        }
    };
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
    fn parse(text: &'a str) -> Result<Self, String> {
        if text.bytes().any(|b| b.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_string());
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = scheme(rest)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let Some(authority) = rest.strip_prefix("//") else {
            if scheme.is_empty() && rest.split('/').next().is_some_and(|first| first.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_string());
            }
            return Ok(Url { scheme, host: "", user: None, query, fragment });
        };
        let authority = authority.split('/').next().unwrap_or("");
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        check_host(host)?;
        Ok(Url { scheme, host, user, query, fragment })
    }
}

fn scheme(text: &str) -> Result<(String, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_string()),
            ':' => {
                let (scheme, rest) = text.split_at(at);
                return Ok((scheme.to_ascii_lowercase(), rest.get(1..).unwrap_or("")));
            }
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn check_host(host: &str) -> Result<(), String> {
    if let Some(bad) =
        host.chars().find(|c| matches!(c, ' ' | '<' | '>' | '"' | '\\' | '^' | '`' | '{' | '|' | '}'))
    {
        return Err(format!(
            "invalid character {} in host name",
            pintle_meta::field::quoted(&bad.to_string())
        ));
    }
    let port = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(_, after)| after),
        None => host.find(':').and_then(|at| host.get(at..)).unwrap_or(""),
    };
    let valid =
        port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    if valid { Ok(()) } else { Err(format!("invalid port {} after host", pintle_meta::field::quoted(port))) }
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
    let wrong = names::is_valid_port_num(port);
    if !wrong.is_empty() {
        errors.invalid(&path.field("port"), port, &format!("port is not valid: {}", wrong.join(", ")));
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
