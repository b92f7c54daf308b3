//! Header rules of the reverse proxy: headers that are removed, headers that are added, and the identity for extension
//! servers.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;
use std::net::IpAddr;

/// Whether a header concerns one connection only.
fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "proxy-connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Whether a response header would open this server to other origins.
fn is_cross_origin(name: &str) -> bool {
    matches!(
        name,
        "access-control-allow-credentials"
            | "access-control-allow-headers"
            | "access-control-allow-methods"
            | "access-control-allow-origin"
    )
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA_PREFIX: &str = "x-remote-extra-";
const IMPERSONATE_PREFIX: &str = "impersonate-";

/// The value of a header as text. Bytes that are not UTF-8 become replacement characters, so that they cannot hide the
/// rest of a value that decides how a request is forwarded.
pub(crate) fn text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// Returns whether a request or response switches protocols: any `Connection` header contains `upgrade`.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(header::CONNECTION).iter();
    all.any(|value| text(value).to_ascii_lowercase().contains("upgrade"))
}

/// Removes the headers whose names are chosen by `is_removed`. One pass over the names of a message costs less than looking
/// up each of the names to remove.
fn remove_all(headers: &mut HeaderMap, is_removed: impl Fn(&HeaderName) -> bool) {
    let removed: Vec<HeaderName> = headers.keys().filter(|name| is_removed(name)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}

/// Removes headers that concern one connection only. As in Go's reverse proxy, `TE: trailers` remains.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let words = |headers: &HeaderMap, name| -> Vec<HeaderName> {
        let all = headers.get_all(name).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        all.filter_map(|word| HeaderName::from_bytes(word.trim_ascii()).ok()).collect()
    };
    let takes_trailers = words(headers, header::TE).iter().any(|word| word == "trailers");
    for name in words(headers, header::CONNECTION) {
        headers.remove(name);
    }
    remove_all(headers, |name| is_hop_by_hop(name.as_str()));
    if takes_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Additional headers with which front proxies identify users; they are never passed on from a client.
#[derive(Clone, Debug, Default)]
pub struct IdentityHeaders {
    names: Vec<HeaderName>,
    prefixes: Vec<String>,
}

impl IdentityHeaders {
    /// The headers of the flags. Invalid header names are ignored.
    pub fn new<'a>(
        names: impl Iterator<Item = &'a String>,
        prefixes: impl Iterator<Item = &'a String>,
    ) -> Self {
        IdentityHeaders {
            names: names.filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok()).collect(),
            prefixes: prefixes.map(|prefix| prefix.to_ascii_lowercase()).collect(),
        }
    }

    /// Removes the client's credentials and all headers that claim an identity: an extension server trusts those headers
    /// from this server, so a client must not be able to set them.
    pub fn remove(&self, headers: &mut HeaderMap) {
        remove_all(headers, |header| {
            let name = header.as_str();
            matches!(name, "authorization" | "x-remote-user" | "x-remote-uid" | "x-remote-group")
                || name.starts_with(EXTRA_PREFIX)
                || name.starts_with(IMPERSONATE_PREFIX)
                || self.names.contains(header)
                || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
        });
    }
}

/// Appends the client's address to the existing ones.
pub fn append_forwarded_for(headers: &mut HeaderMap, client: Option<IpAddr>) {
    let Some(client) = client else { return };
    let mut all: Vec<&[u8]> = headers.get_all(FORWARDED_FOR).iter().map(HeaderValue::as_bytes).collect();
    let client = client.to_string();
    all.push(client.as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&all.join(&b", "[..])) {
        headers.insert(FORWARDED_FOR, value);
    }
}

/// Removes the headers that would open this server to other origins.
pub fn remove_cross_origin(headers: &mut HeaderMap) {
    remove_all(headers, |name| is_cross_origin(name.as_str()));
}

/// The user of a forwarded request.
pub struct RemoteUser<'a> {
    /// Name.
    pub name: &'a str,
    /// Uid, or "".
    pub uid: &'a str,
    /// Groups.
    pub groups: Vec<&'a str>,
    /// Extra keys and their values.
    pub extra: Vec<(&'a str, Vec<&'a str>)>,
}

impl RemoteUser<'_> {
    /// Adds the headers with the identity of the user for an extension server. Fails with the name of the header if a
    /// value cannot be sent, because the extension server would otherwise see another user.
    pub fn set(&self, headers: &mut HeaderMap) -> Result<(), UnsendableHeader> {
        IdentityHeaders::default().remove(headers);
        let value = |header: &str, text: &str| {
            HeaderValue::from_bytes(text.as_bytes()).map_err(|_| UnsendableHeader(header.to_string()))
        };
        headers.insert(USER, value("X-Remote-User", self.name)?);
        if !self.uid.is_empty() {
            headers.insert(UID, value("X-Remote-Uid", self.uid)?);
        }
        for group in &self.groups {
            headers.append(GROUP, value("X-Remote-Group", group)?);
        }
        for (key, values) in &self.extra {
            let written = format!("{EXTRA_PREFIX}{}", escape_key(key));
            let name = HeaderName::from_bytes(written.as_bytes());
            let name = name.map_err(|_| UnsendableHeader(written.clone()))?;
            for text in values {
                headers.append(name.clone(), value(&written, text)?);
            }
        }
        Ok(())
    }
}

/// The name of a header that cannot be sent. The message is that of Go's client.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("net/http: invalid header field value for {0:?}")]
pub struct UnsendableHeader(String);

/// An extra key as part of a header's name: bytes that names cannot have are percent-encoded.
fn escape_key(key: &str) -> String {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    pintle_value::percent::encode(key.as_bytes(), is_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut out = HeaderMap::new();
        for (name, value) in pairs {
            out.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        out
    }

    #[test]
    fn what_concerns_one_connection_stays_there() {
        let mut given = headers(&[
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("te", "gzip, trailers"),
            ("transfer-encoding", "chunked"),
            ("proxy-authorization", "Basic x"),
            ("x-mine", "1"),
        ]);
        remove_hop_by_hop(&mut given);
        assert_eq!(given, headers(&[("x-mine", "1"), ("te", "trailers")]));
    }

    #[test]
    fn credentials_and_claims_are_not_passed_on() {
        let mut given = headers(&[
            ("authorization", "Bearer secret"),
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scope", "all"),
            ("impersonate-user", "admin"),
            ("x-my-user", "root"),
            ("x-my-extra-scope", "all"),
            ("cookie", "a=b"),
        ]);
        let (names, prefixes) = (["X-My-User".to_string()], ["X-My-Extra-".to_string()]);
        IdentityHeaders::new(names.iter(), prefixes.iter()).remove(&mut given);
        assert_eq!(given, headers(&[("cookie", "a=b")]));
    }

    #[test]
    fn an_extension_server_is_told_who_asks() {
        let mut given = headers(&[("x-remote-user", "root"), ("authorization", "Bearer secret")]);
        let user = RemoteUser {
            name: "alice",
            uid: "",
            groups: vec!["dev", "ops"],
            extra: vec![("acme.com/scope", vec!["one", "two"])],
        };
        user.set(&mut given).unwrap();
        let want = headers(&[
            ("x-remote-user", "alice"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-extra-acme.com%2fscope", "one"),
            ("x-remote-extra-acme.com%2fscope", "two"),
        ]);
        assert_eq!(given, want);
    }

    #[test]
    fn a_name_that_cannot_be_sent_is_an_error() {
        let user = |name| RemoteUser { name, uid: "", groups: vec!["a\nb"], extra: vec![] };
        let refused = |user: RemoteUser<'_>| user.set(&mut HeaderMap::new()).unwrap_err().0;
        assert_eq!(refused(user("alice\n")), "X-Remote-User");
        assert_eq!(refused(user("alice")), "X-Remote-Group");
    }

    #[test]
    fn bytes_outside_ascii_hide_nothing() {
        let mut given = HeaderMap::new();
        given.insert(header::CONNECTION, HeaderValue::from_bytes(b"\xff, Upgrade, X-Hop").unwrap());
        given.insert("x-hop", HeaderValue::from_static("1"));
        given.insert("x-forwarded-for", HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(is_upgrade(&given));
        remove_hop_by_hop(&mut given);
        append_forwarded_for(&mut given, "127.0.0.1".parse().ok());
        assert_eq!(given.len(), 1);
        assert_eq!(given["x-forwarded-for"].as_bytes(), b"\xff, 127.0.0.1");
    }

    #[test]
    fn addresses_of_clients_are_continued() {
        let mut given = headers(&[("x-forwarded-for", "192.0.2.1"), ("x-forwarded-for", "192.0.2.2")]);
        append_forwarded_for(&mut given, "127.0.0.1".parse().ok());
        assert_eq!(given, headers(&[("x-forwarded-for", "192.0.2.1, 192.0.2.2, 127.0.0.1")]));
    }
}
