//! Header rules of the reverse proxy: what stays between two parties, what is added, whom an extension server is told.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use std::net::IpAddr;

/// Headers that concern one connection only.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers of answers by which a backend would open this server to other origins.
const CROSS_ORIGIN: [&str; 4] = [
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
];

const USER: &str = "x-remote-user";
const UID: &str = "x-remote-uid";
const GROUP: &str = "x-remote-group";
const EXTRA_PREFIX: &str = "x-remote-extra-";
const IMPERSONATE_PREFIX: &str = "impersonate-";

/// Whether a request or an answer asks for another protocol: any `Connection` header has the word `upgrade`.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let all = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    all.map(str::to_ascii_lowercase).any(|text| text.contains("upgrade"))
}

/// Takes away what concerns one connection only. `TE: trailers` stays, as in Go's reverse proxy.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    let takes_trailers = headers
        .get_all(header::TE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(|word| word.trim().eq_ignore_ascii_case("trailers"));
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Headers by which front proxies name users, beside the usual ones: what a client sends in them is never passed on.
#[derive(Clone, Debug, Default)]
pub struct IdentityHeaders {
    names: Vec<HeaderName>,
    prefixes: Vec<String>,
}

impl IdentityHeaders {
    /// Those of the flags. What cannot be the name of a header is left out.
    pub fn new<'a>(
        names: impl Iterator<Item = &'a String>,
        prefixes: impl Iterator<Item = &'a String>,
    ) -> Self {
        IdentityHeaders {
            names: names.filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok()).collect(),
            prefixes: prefixes.map(|prefix| prefix.to_ascii_lowercase()).collect(),
        }
    }

    /// Takes away the credentials of the client and whatever claims an identity: an extension server believes what
    /// comes from this server, so that nothing of the kind may come from a client.
    pub fn remove(&self, headers: &mut HeaderMap) {
        headers.remove(header::AUTHORIZATION);
        let claims: Vec<HeaderName> = headers
            .keys()
            .filter(|header| {
                let name = header.as_str();
                matches!(name, USER | UID | GROUP)
                    || name.starts_with(EXTRA_PREFIX)
                    || name.starts_with(IMPERSONATE_PREFIX)
                    || self.names.contains(header)
                    || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
            })
            .cloned()
            .collect();
        for name in claims {
            headers.remove(name);
        }
    }
}

/// Appends the client's address to those that came before.
pub fn append_forwarded_for(headers: &mut HeaderMap, client: Option<IpAddr>) {
    let Some(client) = client else { return };
    let prior: Vec<&str> =
        headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
    let text = match prior.is_empty() {
        true => client.to_string(),
        false => format!("{}, {client}", prior.join(", ")),
    };
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.insert("x-forwarded-for", value);
    }
}

/// Takes away the headers that would open this server to other origins.
pub fn remove_cross_origin(headers: &mut HeaderMap) {
    for name in CROSS_ORIGIN {
        headers.remove(name);
    }
}

/// For whom a request is forwarded.
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
    /// Tells an extension server who asks.
    pub fn set(&self, headers: &mut HeaderMap) {
        IdentityHeaders::default().remove(headers);
        let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).ok();
        if let Some(name) = value(self.name) {
            headers.insert(USER, name);
        }
        if let Some(uid) = value(self.uid).filter(|_| !self.uid.is_empty()) {
            headers.insert(UID, uid);
        }
        for group in self.groups.iter().filter_map(|group| value(group)) {
            headers.append(GROUP, group);
        }
        for (key, values) in &self.extra {
            let name = HeaderName::from_bytes(format!("{EXTRA_PREFIX}{}", escape_key(key)).as_bytes());
            let Ok(name) = name else { continue };
            for text in values.iter().filter_map(|text| value(text)) {
                headers.append(name.clone(), text);
            }
        }
    }
}

/// An extra key as part of a header's name: bytes that names cannot have are percent-encoded.
fn escape_key(key: &str) -> String {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        match is_token(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
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
        user.set(&mut given);
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
    fn addresses_of_clients_are_continued() {
        let mut given = headers(&[("x-forwarded-for", "192.0.2.1"), ("x-forwarded-for", "192.0.2.2")]);
        append_forwarded_for(&mut given, "127.0.0.1".parse().ok());
        assert_eq!(given, headers(&[("x-forwarded-for", "192.0.2.1, 192.0.2.2, 127.0.0.1")]));
    }
}
