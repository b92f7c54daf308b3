//! Front proxy authentication: a trusted proxy names users in headers. Its client certificate identifies it.

use super::x509::{ClientAuthorities, PeerCertificates};
use crate::UserInfo;
use http::{HeaderMap, HeaderValue};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Accepts the users that a front proxy names.
pub struct FrontProxy {
    /// The CAs of the proxy's certificate.
    pub authorities: ClientAuthorities,
    /// The allowed common names of the certificate; empty means all.
    pub allowed_names: Vec<String>,
    /// The headers of the user name; the first one with a value counts.
    pub username_headers: Vec<String>,
    /// The headers of the uid; the first one with a value counts.
    pub uid_headers: Vec<String>,
    /// Headers of groups.
    pub group_headers: Vec<String>,
    /// The prefixes of the extra headers.
    pub extra_prefixes: Vec<String>,
}

impl FrontProxy {
    /// The user that the proxy names; `None` without such a header.
    pub fn authenticate(
        &self,
        peer: &PeerCertificates,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Option<UserInfo>, String> {
        let name = match &*peer.identity(&self.authorities, now) {
            Ok(user) => user.as_ref().map(|user| user.name.clone()).unwrap_or_default(),
            Err(why) => return Err(why.clone()),
        };
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(&name) {
            return Err(format!("x509: subject with cn={name} is not allowed"));
        }
        Ok(self.user_of_headers(headers))
    }

    fn user_of_headers(&self, headers: &HeaderMap) -> Option<UserInfo> {
        let first = |names: &[String]| -> String {
            let values = names.iter().filter_map(|name| headers.get(name));
            values.map(text).find(|value| !value.is_empty()).unwrap_or_default()
        };
        let name = first(&self.username_headers);
        if name.is_empty() {
            return None;
        }
        let groups = self.group_headers.iter().flat_map(|name| headers.get_all(name));
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_prefixes {
            let prefix = prefix.to_ascii_lowercase();
            for (name, value) in headers {
                let Some(key) = name.as_str().strip_prefix(&prefix) else { continue };
                extra.entry(crate::impersonate::unescaped(key)).or_default().push(text(value));
            }
        }
        Some(UserInfo {
            name,
            uid: first(&self.uid_headers),
            groups: groups.map(text).filter(|group| !group.is_empty()).collect(),
            extra,
        })
    }
}

/// The value of a header as text. Names of users and groups need not be ASCII.
fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::x509::testing::{authority, issue_client_certificate, now};
    use super::*;

    #[test]
    fn a_proxy_names_users_if_its_certificate_is_right() {
        let (issuer, certificate) = authority();
        let texts = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
        let proxy = FrontProxy {
            authorities: ClientAuthorities::new([certificate]).unwrap(),
            allowed_names: texts(&["front"]),
            username_headers: texts(&["X-Remote-User"]),
            uid_headers: texts(&["X-Remote-Uid"]),
            group_headers: texts(&["X-Remote-Group"]),
            extra_prefixes: texts(&["X-Remote-Extra-"]),
        };
        let mut headers = HeaderMap::new();
        let peer = PeerCertificates::new(vec![issue_client_certificate::<&str>(&issuer, "front", &[], "")]);
        assert_eq!(proxy.authenticate(&peer, &headers, now()), Ok(None));
        for (name, value) in [
            ("x-remote-user", "alice"),
            ("x-remote-group", "a"),
            ("x-remote-group", ""),
            ("x-remote-group", "b\u{e9}"),
            ("x-remote-extra-acme.com%2fproject", "p"),
            ("x-remote-uid", "u"),
        ] {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let user = proxy.authenticate(&peer, &headers, now()).unwrap().unwrap();
        assert_eq!(
            (user.name.as_str(), user.uid.as_str(), user.groups),
            ("alice", "u", texts(&["a", "b\u{e9}"]))
        );
        assert_eq!(user.extra.get("acme.com/project"), Some(&texts(&["p"])));
        let other = PeerCertificates::new(vec![issue_client_certificate::<&str>(&issuer, "other", &[], "")]);
        let why = proxy.authenticate(&other, &headers, now());
        assert_eq!(why, Err("x509: subject with cn=other is not allowed".into()));
    }
}
