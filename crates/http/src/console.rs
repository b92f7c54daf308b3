//! `/console/`: the files of the web console for anyone, and its own small API: links, sessions, expressions.
//!
//! | request | from | answer |
//! | --- | --- | --- |
//! | `GET /console/…` | anyone | a file of the page |
//! | `GET /console/api/session` | anyone | whom their credentials stand for |
//! | `POST /console/api/session` `{"code": …}` | any client with a code | a session token, once |
//! | `DELETE /console/api/session` | any client with a session token | ends the session |
//! | `POST /console/api/links` | a user, authorized for this path | a code for the same user |
//! | `POST /console/api/cel` | a user, authorized for this path | the value and cost of an expression |
//!
//! Requests that change something must be JSON and must not come from a page of another origin: a browser presents the
//! client certificate of its user to any page that makes it send a request.

use crate::access;
use crate::api::ApiResponse;
use crate::body::{ClientBody, read_whole};
use crate::context::Context;
use crate::peer::Peer;
use crate::{compress, headers, respond};
use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use pintle_auth::authn::x509::PeerCertificates;
use pintle_auth::{Credentials, UserInfo};
use pintle_console::sessions::{CODE_LIFE, SessionError, TOKEN_PREFIX};
use pintle_console::{Sessions, evaluate, files};
use pintle_meta::{Reason, Status};
use pintle_value::{Map, Value, json};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// The path of the page.
const ROOT: &str = "/console/";
const SESSION: &str = "/console/api/session";
const LINKS: &str = "/console/api/links";
const CEL: &str = "/console/api/cel";
/// The type of answers with a code or a token. The audit records bodies of types that it knows; these are never recorded.
const SECRET_TYPE: &str = "application/vnd.pintle.secret+json";
/// The size limit in bytes of a request for a link or a session.
const SMALL_BYTES_MAX: usize = 1024;
/// The size limit in bytes of the credentials in the `Authorization` header that a session retains.
const AUTHORIZATION_BYTES_MAX: usize = 64 * 1024;

/// The console of a server.
#[derive(Default)]
pub struct Console {
    sessions: Sessions<Arc<StoredCredentials>>,
}

/// The credentials with which the requests of a session are authenticated.
pub(crate) struct StoredCredentials {
    certificates: PeerCertificates,
    authorization: Option<String>,
}

impl StoredCredentials {
    /// The credentials of a request of the session. A front proxy's headers are never part of it.
    pub(crate) fn get<'a>(&'a self, path: &'a str) -> Credentials<'a> {
        Credentials {
            peer: Some(&self.certificates),
            authorization: self.authorization.as_deref(),
            headers: None,
            path,
        }
    }
}

impl Console {
    /// The credentials of the session whose token an `Authorization` header has: `None` for other headers,
    /// `Some(None)` for a session that has ended.
    pub(crate) fn session(&self, authorization: Option<&str>) -> Option<Option<Arc<StoredCredentials>>> {
        let token = session_token(authorization?)?;
        Some(self.sessions.credentials(token, Instant::now()))
    }

    /// Answers a request that needs no user: see [`is_public`].
    pub(crate) async fn serve_public<B: ClientBody>(
        &self,
        context: &Context,
        peer: &Peer,
        parts: &Parts,
        path: &str,
        body: B,
    ) -> ApiResponse {
        if !peer.is_authenticated() {
            access::note_visitor(context, peer, parts);
        }
        let answer = match path {
            SESSION if parts.method == http::Method::GET => identity(context, peer, parts).await,
            SESSION => self.serve_session(parts, body).await.unwrap_or_else(|status| fail(&status)),
            _ if !matches!(parts.method.as_str(), "GET" | "HEAD") => {
                fail(&Status::method_not_allowed("the files of the console can only be read"))
            }
            "/console" => redirect(),
            _ => serve_file(parts, path.strip_prefix(ROOT).unwrap_or_default()),
        };
        with_security_headers(answer)
    }

    async fn serve_session<B: ClientBody>(&self, parts: &Parts, body: B) -> Result<ApiResponse, Status> {
        match parts.method.as_str() {
            "POST" => {
                let body = read_json(parts, body, SMALL_BYTES_MAX).await?;
                let request = json::parse(&body).map_err(|error| Status::bad_request(error.to_string()))?;
                let code = request.value.str_at(&["code"]);
                let session = self.sessions.redeem(code, Instant::now()).map_err(refusal_status)?;
                let session = session.ok_or_else(respond::unauthorized)?;
                let seconds = i64::try_from(session.life.as_secs()).unwrap_or(i64::MAX);
                Ok(secret_answer(&[("token", session.token.into()), ("expiresInSeconds", seconds.into())]))
            }
            "DELETE" => {
                let header = headers::first(&parts.headers, "authorization");
                if let Some(token) = session_token(&header) {
                    self.sessions.end(token);
                }
                Ok(ApiResponse::empty(204))
            }
            _ => {
                Err(Status::method_not_allowed("sessions are read by GET, made by POST and ended by DELETE"))
            }
        }
    }

    /// Creates a link code for the user who makes the request.
    async fn serve_link<B: ClientBody>(
        &self,
        context: &Context,
        parts: &Parts,
        peer: &PeerCertificates,
        user: &UserInfo,
        body: B,
    ) -> Result<ApiResponse, Status> {
        read_json(parts, body, SMALL_BYTES_MAX).await?;
        let authorization = parts.headers.get("authorization").map(headers::text);
        let credentials = StoredCredentials {
            certificates: peer.clone(),
            authorization: authorization.map(|text| text.into_owned()),
        };
        if credentials.authorization.as_ref().is_some_and(|text| text.len() > AUTHORIZATION_BYTES_MAX) {
            return Err(respond::too_large(AUTHORIZATION_BYTES_MAX));
        }
        // A session must not prolong itself.
        if credentials.authorization.as_deref().is_some_and(|text| session_token(text).is_some()) {
            return Err(forbidden("a session of the console cannot make links"));
        }
        // The link belongs to the user of the credentials themselves, so that nobody gets a link by impersonation, by
        // the headers of a front proxy, or as the anonymous user.
        let known = context.authenticator.authenticate(credentials.get(LINKS), SystemTime::now()).await;
        let is_same = known.is_ok_and(|known| *known.user == *user);
        if !is_same || user.in_group(UserInfo::UNAUTHENTICATED) {
            return Err(forbidden(
                "links are only for users with a client certificate or a token of their own",
            ));
        }
        let code =
            self.sessions.issue(&user.name, Arc::new(credentials), Instant::now()).map_err(refusal_status)?;
        let seconds = i64::try_from(CODE_LIFE.as_secs()).unwrap_or(i64::MAX);
        Ok(secret_answer(&[("code", code.into()), ("expiresInSeconds", seconds.into())]))
    }
}

/// Returns whether a path needs no authentication: the files, and the exchange of a code for a session,
/// because the code itself identifies the user.
pub(crate) fn is_public(path: &str) -> bool {
    path == "/console" || path == SESSION || (path.starts_with(ROOT) && !path.starts_with("/console/api/"))
}

/// Answers a request of the console's API by an authorized user; `None` for paths that are not part of it.
pub(crate) async fn serve<B: ClientBody>(
    context: &Context,
    parts: &Parts,
    peer: &PeerCertificates,
    path: &str,
    user: &UserInfo,
    body: B,
) -> Result<ApiResponse, B> {
    let Some(console) = &context.console else { return Err(body) };
    let outcome = match path {
        LINKS | CEL if parts.method != http::Method::POST => {
            Err(Status::method_not_allowed("the API of the console is used by POST"))
        }
        LINKS => console.serve_link(context, parts, peer, user, body).await,
        CEL => evaluate_expression(context, parts, user, body).await,
        _ => return Err(body),
    };
    Ok(with_security_headers(outcome.unwrap_or_else(|status| fail(&status))))
}

async fn evaluate_expression<B: ClientBody>(
    context: &Context,
    parts: &Parts,
    user: &UserInfo,
    body: B,
) -> Result<ApiResponse, Status> {
    let body = read_json(parts, body, evaluate::REQUEST_BYTES_MAX).await?;
    let work = async { evaluate::evaluate(&body) };
    let key = context.turns.key_of_user(&user.name);
    let value =
        context.offload.run(key, work).await.map_err(|error| Status::bad_request(error.to_string()))?;
    Ok(json_answer(&value))
}

/// Returns the user that the credentials of a request authenticate; none if they are missing or refused. The page
/// requests this first, because a browser may have a client certificate that no script can see.
async fn identity(context: &Context, peer: &Peer, parts: &Parts) -> ApiResponse {
    let (known, _) = access::authenticate(context, peer, &parts.headers, SESSION).await;
    let user = known.ok().map(|known| known.user).filter(|user| !user.in_group(UserInfo::UNAUTHENTICATED));
    let Some(user) = user else { return answer(&[("user", Value::Null)]) };
    peer.authenticated();
    let mut map = Map::new();
    map.insert("username", user.name.as_str().into());
    map.insert(
        "groups",
        user.groups.iter().map(|group| Value::from(group.as_str())).collect::<Vec<_>>().into(),
    );
    answer(&[("user", map.into())])
}

fn serve_file(parts: &Parts, name: &str) -> ApiResponse {
    let Some(file) = files::find(name) else { return respond::page_not_found() };
    let is_known = headers::first(&parts.headers, "if-none-match").split(',').any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == file.etag
    });
    let mut answer = if is_known {
        ApiResponse::empty(304)
    } else if compress::asked_for(&headers::first(&parts.headers, "accept-encoding")) {
        let mut answer = ApiResponse::new(200, file.content_type, Bytes::from_static(file.gzip));
        answer.set_header("content-encoding", "gzip");
        answer
    } else {
        ApiResponse::new(200, file.content_type, Bytes::from_static(file.plain()))
    };
    answer.set_header("etag", file.etag);
    answer.set_header("vary", "Accept-Encoding");
    answer.set_header("cache-control", file.cache_control());
    answer
}

fn redirect() -> ApiResponse {
    let mut answer = respond::text(308, "308 Permanent Redirect");
    answer.set_header("location", ROOT);
    answer
}

/// Reads a body of JSON that no page of another origin sent.
async fn read_json<B: ClientBody>(parts: &Parts, body: B, bytes_max: usize) -> Result<Bytes, Status> {
    if is_cross_origin(parts) {
        return Err(forbidden("the API of the console is only for its own pages"));
    }
    let content_type = headers::first(&parts.headers, "content-type");
    if !content_type.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case("application/json") {
        return Err(Status::unsupported_media_type(&["application/json"]));
    }
    read_whole(body, bytes_max).await
}

/// Returns whether a browser marks the request as made by a page of another origin. Other clients send no such mark.
fn is_cross_origin(parts: &Parts) -> bool {
    let site = headers::first(&parts.headers, "sec-fetch-site");
    if !matches!(&*site, "" | "same-origin" | "none") {
        return true;
    }
    let origin = headers::first(&parts.headers, "origin");
    if origin.is_empty() {
        return false;
    }
    let host = host(parts.uri.authority().map(http::uri::Authority::as_str), &parts.headers);
    origin.strip_prefix("https://") != Some(&host)
}

/// The host and port that the client addressed: from the URI in HTTP/2, otherwise from `Host`.
fn host(authority: Option<&str>, headers: &HeaderMap) -> String {
    authority.map_or_else(|| headers::first(headers, "host").into_owned(), str::to_string)
}

/// The token of an `Authorization` header, if it is a session token.
fn session_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    Some(token.trim())
        .filter(|token| scheme.eq_ignore_ascii_case("bearer") && token.starts_with(TOKEN_PREFIX))
}

fn refusal_status(error: SessionError) -> Status {
    match error {
        SessionError::Full => Status::too_many_requests(error.to_string(), 10),
        SessionError::Random => Status::internal(&error.to_string()),
    }
}

fn forbidden(why: &str) -> Status {
    Status::new(403, Reason::Forbidden, why)
}

fn fail(status: &Status) -> ApiResponse {
    respond::status(status, None)
}

fn answer(members: &[(&'static str, Value)]) -> ApiResponse {
    let mut map = Map::new();
    for (name, value) in members {
        map.insert(*name, value.clone());
    }
    json_answer(&Value::Object(map))
}

fn secret_answer(members: &[(&'static str, Value)]) -> ApiResponse {
    let mut answer = answer(members);
    answer.set_header("content-type", SECRET_TYPE);
    answer
}

fn json_answer(value: &Value) -> ApiResponse {
    let out = json::bytes(value);
    let mut answer = respond::raw_json(200, out);
    answer.set_header("cache-control", "no-store");
    answer
}

fn with_security_headers(mut answer: ApiResponse) -> ApiResponse {
    for (name, value) in files::SECURITY_HEADERS {
        answer.set_header(name, value);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::post("/console/api/session");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_the_files_and_the_session_of_the_console_are_public() {
        for (path, public) in [
            ("/console", true),
            ("/console/", true),
            ("/console/main.js", true),
            ("/console/api/session", true),
            ("/console/api/session/", false),
            ("/console/api/links", false),
            ("/console/api/cel", false),
            ("/console/api/", false),
            ("/consoles", false),
            ("/api/v1", false),
        ] {
            assert_eq!(is_public(path), public, "{path}");
        }
    }

    #[test]
    fn requests_of_other_origins_are_recognized() {
        let host = ("host", "127.0.0.1:6443");
        for (headers, cross) in [
            (vec![host], false),
            (vec![host, ("origin", "https://127.0.0.1:6443"), ("sec-fetch-site", "same-origin")], false),
            (vec![host, ("origin", "https://127.0.0.1:6443")], false),
            (vec![host, ("origin", "http://127.0.0.1:6443")], true),
            (vec![host, ("origin", "https://127.0.0.1")], true),
            (vec![host, ("origin", "null")], true),
            (vec![host, ("origin", "https://evil.example")], true),
            (vec![host, ("sec-fetch-site", "cross-site")], true),
            (vec![host, ("sec-fetch-site", "same-site")], true),
        ] {
            assert_eq!(is_cross_origin(&parts(&headers)), cross, "{headers:?}");
        }
    }

    #[test]
    fn tokens_of_sessions() {
        for (header, token) in [
            ("Bearer pintle-console.abc", Some("pintle-console.abc")),
            ("bearer  pintle-console.abc ", Some("pintle-console.abc")),
            ("Basic pintle-console.abc", None),
            ("Bearer abc", None),
            ("pintle-console.abc", None),
        ] {
            assert_eq!(session_token(header), token, "{header}");
        }
    }
}
