//! Authentication, in kube-apiserver's order: front proxy, client certificate, then the bearer token by token file,
//! service account, bootstrap token, OpenID provider, webhook. A request without credentials is anonymous, if that is
//! enabled.

pub mod bootstrap;
pub(crate) mod cache;
pub mod config;
pub mod external_signer;
pub mod front_proxy;
pub mod jwt;
pub mod keys;
pub mod oidc;
pub mod service_account;
pub mod token_file;
pub mod token_keys;
mod token_metrics;
pub mod webhook;
pub mod x509;
pub mod x509_v1;

use crate::{UserInfo, aggregate};
use arc_swap::ArcSwap;
use bootstrap::BootstrapTokens;
use front_proxy::FrontProxy;
use http::HeaderMap;
use oidc::Issuers;
use service_account::ServiceAccountTokens;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use token_file::TokenFile;
use webhook::TokenWebhook;
use x509::{ClientAuthorities, PeerCertificates};

/// The credentials of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials<'a> {
    /// The client certificates of the connection.
    pub peer: Option<&'a PeerCertificates>,
    /// The `Authorization` header, or its equivalent from a WebSocket subprotocol.
    pub authorization: Option<&'a str>,
    /// All headers, for front proxies.
    pub headers: Option<&'a HeaderMap>,
    /// The path, on which anonymous access may depend.
    pub path: &'a str,
}

/// The authenticated user, and remarks about the credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// The user, groups completed.
    pub user: Arc<UserInfo>,
    /// Remarks about the credentials.
    pub remarks: Remarks,
}

/// Information about accepted credentials, for the client and the audit event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// A warning for the client.
    pub warning: Option<&'static str>,
    /// Annotations of the request's audit event.
    pub annotations: Vec<(&'static str, String)>,
}

/// The user of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUser {
    /// The user, groups completed.
    pub user: Arc<UserInfo>,
    /// The requested audiences for which the token is valid.
    pub audiences: Vec<String>,
    /// Remarks about the token.
    pub remarks: Remarks,
}

/// The credentials are not accepted. The reason is for the log and for TokenReviews; clients only get 401.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unauthorized: {0}")]
pub struct Unauthorized(pub String);

impl Unauthorized {
    /// The refusal of a request that has no credentials.
    fn without_credentials() -> Unauthorized {
        Unauthorized(NO_CREDENTIALS.into())
    }

    /// Whether credentials were refused, rather than missing.
    pub fn is_of_credentials(&self) -> bool {
        self.0 != NO_CREDENTIALS
    }
}

const NO_CREDENTIALS: &str = "no credentials";

/// All authenticators.
#[derive(Default)]
pub struct Authenticator {
    /// The front proxy, if one is configured.
    pub front_proxy: Option<FrontProxy>,
    /// The CAs of client certificates.
    pub certificates: Option<ClientAuthorities>,
    /// Static tokens.
    pub tokens: TokenFile,
    /// Service-account tokens.
    pub service_accounts: Option<ServiceAccountTokens>,
    /// Bootstrap tokens.
    pub bootstrap: Option<BootstrapTokens>,
    /// Audiences of this server.
    pub audiences: Vec<String>,
    /// The OpenID providers; they can be replaced at run time.
    pub issuers: ArcSwap<Issuers>,
    /// A webhook that authenticates tokens.
    pub webhook: Option<TokenWebhook>,
    /// Whether requests without credentials are anonymous.
    pub anonymous: bool,
    /// The paths with anonymous access; empty means all.
    pub anonymous_paths: Vec<String>,
}

const EXTRA_SPACE: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";
const INVALID_TOKEN: &str = "invalid bearer token";

impl Authenticator {
    /// Authenticates a request. An invalid credential is refused even if anonymous access is enabled, unless another
    /// credential of the same request is valid.
    pub async fn authenticate(
        &self,
        credentials: Credentials<'_>,
        now: SystemTime,
    ) -> Result<Authenticated, Unauthorized> {
        let mut refused = Vec::new();
        let peer = credentials.peer.filter(|peer| !peer.is_empty());
        if let (Some(peer), Some(proxy), Some(headers)) = (peer, &self.front_proxy, credentials.headers) {
            match proxy.authenticate(peer, headers, now) {
                Ok(Some(user)) => return Ok(known(Arc::new(user.with_authenticated_group()))),
                Ok(None) => {}
                Err(why) => refused.push(why),
            }
        }
        if let (Some(peer), Some(authorities)) = (peer, &self.certificates) {
            match &*peer.identity(authorities, now) {
                Ok(Some(user)) => return Ok(known(Arc::clone(user))),
                Ok(None) => {}
                Err(why) => refused.push(why.clone()),
            }
        }
        let (token, warning) = bearer(credentials.authorization.unwrap_or(""));
        if let Some(token) = token {
            match self.authenticate_token(token, None, now).await {
                Ok(TokenUser { user, remarks, .. }) => return Ok(Authenticated { user, remarks }),
                Err(Unauthorized(why)) => refused.push(why),
            }
        }
        if !refused.is_empty() {
            Err(Unauthorized(aggregate(refused)))
        } else if self.may_be_anonymous(credentials.path) {
            let remarks = Remarks { warning, ..Remarks::default() };
            Ok(Authenticated { user: Arc::new(UserInfo::anonymous()), remarks })
        } else {
            Err(Unauthorized::without_credentials())
        }
    }

    /// Authenticates a token for these audiences (`None` means the audiences of this server), as a TokenReview does.
    pub async fn authenticate_token(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        now: SystemTime,
    ) -> Result<TokenUser, Unauthorized> {
        let began = Instant::now();
        let found = self.look_up_token(token, audiences, now).await;
        let ended = Instant::now();
        let failed = found.as_ref().is_err_and(|refused| !refused.is_empty());
        let took = ended.saturating_duration_since(began);
        token_metrics::count(token, audiences, found.is_ok(), failed, took, ended);
        found.map_err(|mut refused| {
            // kube-apiserver first calls the authenticator of its own loopback token, which refuses all others.
            refused.insert(0, INVALID_TOKEN.to_string());
            Unauthorized(aggregate(refused))
        })
    }

    /// Calls the authenticators of tokens in their order. Returns the errors if none of them accepts the token.
    async fn look_up_token(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        now: SystemTime,
    ) -> Result<TokenUser, Vec<String>> {
        // Authenticators without audiences accept tokens for the audiences of this server.
        let own: Vec<String> = match audiences {
            Some(requested) => self.audiences.iter().filter(|a| requested.contains(a)).cloned().collect(),
            None => Vec::new(),
        };
        let ours = audiences.is_none() || !own.is_empty();
        if let Some(user) = self.tokens.get(token).filter(|_| ours) {
            return Ok(TokenUser { user: Arc::clone(user), audiences: own, remarks: Remarks::default() });
        }
        let mut refused = Vec::new();
        if let Some(tokens) = &self.service_accounts {
            match tokens.authenticate(token, audiences, now).await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(why) => refused.push(why.to_string()),
            }
        }
        if let Some(user) = self.bootstrap.as_ref().filter(|_| ours).and_then(|b| b.authenticate(token, now))
        {
            let user = Arc::new(user.with_authenticated_group());
            return Ok(TokenUser { user, audiences: own, remarks: Remarks::default() });
        }
        let issuers = self.issuers.load_full();
        if !issuers.is_empty() && ours {
            match issuers.authenticate(token, now).await {
                Ok(Some(user)) => return Ok(TokenUser { user, audiences: own, remarks: Remarks::default() }),
                Ok(None) => {}
                Err(why) => refused.push(why),
            }
        }
        if let Some(webhook) = &self.webhook {
            match webhook.authenticate(token, audiences).await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(why) => refused.push(why),
            }
        }
        Err(refused)
    }
}

impl Authenticator {
    fn may_be_anonymous(&self, path: &str) -> bool {
        self.anonymous && (self.anonymous_paths.is_empty() || self.anonymous_paths.iter().any(|p| p == path))
    }
}

fn known(user: Arc<UserInfo>) -> Authenticated {
    Authenticated { user, remarks: Remarks::default() }
}

/// The effective token of a TokenReview. kube-apiserver parses it like a header: it ends at a space, and one that
/// begins with a space is empty.
pub fn reviewed_token(token: &str) -> Option<String> {
    bearer(&format!("Bearer {token}")).0.map(str::to_string)
}

/// The bearer token of an `Authorization` header, and a warning if it is ignored.
fn bearer(header: &str) -> (Option<&str>, Option<&'static str>) {
    let Some((scheme, rest)) = header.trim().split_once(' ') else { return (None, None) };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return (None, None);
    }
    // Tokens of service accounts are long, and each request has one.
    let end = memchr::memchr(b' ', rest.as_bytes()).unwrap_or(rest.len());
    match rest.get(..end) {
        Some("") if end < rest.len() => (None, Some(EXTRA_SPACE)),
        Some("") | None => (None, None),
        token => (token, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ready;

    fn authenticator() -> Authenticator {
        let tokens = TokenFile::parse("admintoken,admin,admin-uid,\"system:masters\"\n").unwrap();
        Authenticator { tokens, anonymous: true, audiences: vec!["api".into()], ..Authenticator::default() }
    }

    fn authenticate_header(header: &str) -> Result<Authenticated, Unauthorized> {
        let credentials = Credentials { authorization: Some(header), ..Credentials::default() };
        ready(authenticator().authenticate(credentials, SystemTime::UNIX_EPOCH))
    }

    #[test]
    fn headers_that_name_a_user_nobody_or_a_stranger() {
        let admin = authenticate_header("bearer admintoken").unwrap().user;
        assert_eq!((admin.name.as_str(), admin.uid.as_str()), ("admin", "admin-uid"));
        assert_eq!(admin.groups, ["system:masters", "system:authenticated"]);
        for header in ["", "Bearer", "Bearer ", "Basic YWRtaW4=", "admintoken"] {
            assert_eq!(
                authenticate_header(header).map(|a| a.user),
                Ok(UserInfo::anonymous().into()),
                "{header:?}"
            );
        }
        assert!(authenticate_header("Bearer nope").is_err());
        let spaced = authenticate_header("Bearer  admintoken").unwrap();
        assert_eq!((&*spaced.user, spaced.remarks.warning), (&UserInfo::anonymous(), Some(EXTRA_SPACE)));
    }

    #[test]
    fn reviewed_tokens_end_at_a_blank() {
        for (token, want) in [("a", Some("a")), ("a b", Some("a")), (" a", None), ("", None)] {
            assert_eq!(reviewed_token(token).as_deref(), want, "{token:?}");
        }
    }

    #[test]
    fn static_tokens_are_for_the_audiences_of_the_server() {
        let auth = authenticator();
        for (requested, want) in [
            (None, Some(vec![])),
            (Some(vec!["api".to_string(), "x".into()]), Some(vec!["api".to_string()])),
            (Some(vec!["x".to_string()]), None),
        ] {
            let found =
                ready(auth.authenticate_token("admintoken", requested.as_deref(), SystemTime::UNIX_EPOCH));
            assert_eq!(found.ok().map(|found| found.audiences), want);
        }
    }

    #[test]
    fn a_wrong_certificate_is_refused_unless_a_token_is_right() {
        let (_, certificate) = x509::testing::authority();
        let (stranger, _) = x509::testing::authority();
        let peer = PeerCertificates::new(vec![x509::testing::issue_client_certificate::<&str>(
            &stranger,
            "eve",
            &[],
            "",
        )]);
        let with = |authorization| Credentials { peer: Some(&peer), authorization, ..Credentials::default() };
        let auth = Authenticator {
            certificates: Some(ClientAuthorities::new([certificate]).unwrap()),
            ..authenticator()
        };
        let now = x509::testing::now();
        assert!(ready(auth.authenticate(with(None), now)).is_err());
        assert!(ready(auth.authenticate(with(Some("Bearer admintoken")), now)).is_ok());
    }
}
