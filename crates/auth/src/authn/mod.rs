//! Authentication: client certificates, static tokens, service-account tokens, anonymous, in that order.

pub mod jwt;
pub mod keys;
pub mod service_account;
pub mod token_file;
pub mod x509;

use crate::UserInfo;
use service_account::ServiceAccountTokens;
use std::time::SystemTime;
use token_file::TokenFile;
use x509::{CertificateIdentity, ClientAuthorities};

/// What a request brings to prove who makes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials<'a> {
    /// What became of the connection's client certificate, looked at for each request.
    pub certificate: Option<&'a CertificateIdentity>,
    /// The `Authorization` header.
    pub authorization: Option<&'a str>,
}

/// Who a request is from, and what to warn the client of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// The user, groups completed.
    pub user: UserInfo,
    /// A warning about the credentials.
    pub warning: Option<&'static str>,
}

/// The credentials are not believed. Why is for the log; the client is told nothing but 401.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unauthorized: {0}")]
pub struct Unauthorized(pub String);

/// All ways to be known.
#[derive(Default)]
pub struct Authenticator {
    /// Authorities of client certificates.
    pub certificates: Option<ClientAuthorities>,
    /// Static tokens.
    pub tokens: TokenFile,
    /// Service-account tokens.
    pub service_accounts: Option<ServiceAccountTokens>,
    /// Whether requests without credentials are let in as anonymous.
    pub anonymous: bool,
}

const EXTRA_SPACE: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

impl Authenticator {
    /// Says who a request is from. A credential that is wrong is refused even where anonymous would do, unless
    /// another credential of the same request is right.
    pub fn authenticate(
        &self,
        credentials: Credentials<'_>,
        now: SystemTime,
    ) -> Result<Authenticated, Unauthorized> {
        let mut refused: Option<String> = None;
        match credentials.certificate {
            Some(Ok(Some(user))) => {
                return Ok(Authenticated { user: user.clone().with_authenticated_group(), warning: None });
            }
            Some(Err(why)) => refused = Some(why.clone()),
            Some(Ok(None)) | None => {}
        }
        let (token, warning) = bearer(credentials.authorization.unwrap_or(""));
        if let Some(token) = token {
            match self.authenticate_token(token, None, now) {
                Ok((user, _)) => {
                    return Ok(Authenticated { user: user.with_authenticated_group(), warning });
                }
                Err(Unauthorized(why)) => refused = Some(why),
            }
        }
        match refused {
            Some(why) => Err(Unauthorized(why)),
            None if self.anonymous => Ok(Authenticated { user: UserInfo::anonymous(), warning }),
            None => Err(Unauthorized("no credentials".into())),
        }
    }

    /// Says whose token this is, and for which of the audiences it is good (`None`: those of this server).
    /// This is what a TokenReview asks. The group of the authenticated is not added.
    pub fn authenticate_token(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        now: SystemTime,
    ) -> Result<(UserInfo, Vec<String>), Unauthorized> {
        if let Some(user) = self.tokens.get(token) {
            return Ok((user.clone(), Vec::new()));
        }
        match &self.service_accounts {
            Some(tokens) => {
                tokens.authenticate(token, audiences, now).map_err(|e| Unauthorized(e.to_string()))
            }
            None => Err(Unauthorized("invalid bearer token".into())),
        }
    }
}

/// The bearer token of an `Authorization` header, and a warning where it is there but not taken.
fn bearer(header: &str) -> (Option<&str>, Option<&'static str>) {
    let mut parts = header.trim().splitn(3, ' ');
    let scheme = parts.next().unwrap_or("");
    let Some(token) = parts.next() else { return (None, None) };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return (None, None);
    }
    match (token, parts.next()) {
        ("", Some(_)) => (None, Some(EXTRA_SPACE)),
        ("", None) => (None, None),
        (token, _) => (Some(token), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticator() -> Authenticator {
        let tokens = TokenFile::parse("admintoken,admin,admin-uid,\"system:masters\"\n").unwrap();
        Authenticator { tokens, anonymous: true, ..Authenticator::default() }
    }

    fn ask(header: &str) -> Result<Authenticated, Unauthorized> {
        let credentials = Credentials { authorization: Some(header), ..Credentials::default() };
        authenticator().authenticate(credentials, SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn headers_that_name_a_user_nobody_or_a_stranger() {
        let admin = ask("bearer admintoken").unwrap().user;
        assert_eq!((admin.name.as_str(), admin.uid.as_str()), ("admin", "admin-uid"));
        assert_eq!(admin.groups, ["system:masters", "system:authenticated"]);
        for header in ["", "Bearer", "Bearer ", "Basic YWRtaW4=", "admintoken"] {
            assert_eq!(ask(header).map(|a| a.user), Ok(UserInfo::anonymous()), "{header:?}");
        }
        assert!(ask("Bearer nope").is_err());
        let spaced = ask("Bearer  admintoken").unwrap();
        assert_eq!((spaced.user, spaced.warning), (UserInfo::anonymous(), Some(EXTRA_SPACE)));
    }

    #[test]
    fn a_wrong_certificate_is_refused_unless_a_token_is_right() {
        let wrong: CertificateIdentity = Err("unknown authority".into());
        let with = |authorization| Credentials { certificate: Some(&wrong), authorization };
        let auth = authenticator();
        assert!(auth.authenticate(with(None), SystemTime::UNIX_EPOCH).is_err());
        assert!(auth.authenticate(with(Some("Bearer admintoken")), SystemTime::UNIX_EPOCH).is_ok());
    }
}
