//! `Kubeconfig`: the address, the CAs and the credentials for a webhook; and `ReviewClient`, which retries as
//! kube-apiserver's webhook client does.

mod current;

use crate::counts::{self, CountedCall};
use crate::{Dialer, HttpsAnswer, HttpsClient, HttpsRequest, Identity, JSON, refusal};
use bytes::Bytes;
pub use current::validate;
use current::{Current, invalid_configuration, server_url};
use http::{HeaderMap, HeaderValue, Method, header};
use pintle_meta::Status;
use pintle_meta::errno::go_error_text;
use pintle_meta::go_type::{GoStruct, GoType, head_type_error, unregistered_kind};
use pintle_value::{Value, base64, yaml};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::Semaphore;

/// The time-out of one attempt, and the number of attempts.
const TIMEOUT: Duration = Duration::from_secs(30);
const ATTEMPTS_MAX: u32 = 5;
/// The pause after the first attempt.
const PAUSE: Duration = Duration::from_millis(500);
/// The factor by which each pause is longer than the one before.
const PAUSE_FACTOR: f64 = 1.5;
/// The maximum number of repetitions of one attempt on request of the webhook (Retry-After).
pub(crate) const REPEATS_MAX: u32 = 10;
/// The size limit of a webhook's response.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The maximum number of concurrent calls of one webhook; further calls wait. Each call takes a connection, and
/// anyone can cause calls, with an unknown token or as the anonymous user.
const CALLS_MAX: usize = 128;

/// The current context of a kubeconfig.
pub struct Kubeconfig {
    server: String,
    identity: Identity,
    authorization: Authorization,
}

pub(crate) enum Authorization {
    None,
    /// The whole header.
    Fixed(HeaderValue),
    /// A file with a bearer token, which is read for each request, because tokens are renewed.
    TokenFile(PathBuf),
}

impl Kubeconfig {
    /// Reads a file. The error is client-go's.
    pub fn load(path: &Path) -> Result<Self, String> {
        if path.as_os_str().is_empty() {
            return Err(NO_CONFIGURATION.to_string());
        }
        let tree = read_file(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Kubeconfig::read(&tree, folder)
    }

    fn read(tree: &Value, folder: &Path) -> Result<Self, String> {
        let current = Current::of(tree);
        current.validate(folder)?;
        let Current { cluster, user, .. } = &current;
        let mut errors = Vec::new();
        let server = server_url(cluster, user)?;
        let authorities =
            data_or_file(cluster, "certificate-authority", current.cluster_name, folder, &mut errors);
        let certificate = data_or_file(user, "client-certificate", current.user_name, folder, &mut errors);
        let key = data_or_file(user, "client-key", current.user_name, folder, &mut errors);
        if cluster.at(&["insecure-skip-tls-verify"]).and_then(Value::as_bool).unwrap_or(false) {
            errors.push(
                "insecure-skip-tls-verify is not supported: a webhook decides about access".to_string(),
            );
        }
        if user.get("exec").is_some() || user.get("auth-provider").is_some() {
            let name = current.user_name;
            errors.push(format!("plugins for credentials of user \"{name}\" are not supported"));
        }
        invalid_configuration(&errors)?;
        let authorization = read_authorization(user, folder)?;
        // A token file that is missing at the start is a mistake in the configuration.
        authorization.header()?;
        let has_certificate = !certificate.is_empty() || !key.is_empty();
        let server_name = Some(cluster.str_at(&["tls-server-name"]).to_string());
        Ok(Kubeconfig {
            server,
            identity: Identity {
                authorities,
                certificate: has_certificate.then_some((certificate, key)),
                server_name: server_name.filter(|name| !name.is_empty()),
            },
            authorization,
        })
    }
}

const TEXT: GoType = GoType::Text("string");
const BYTES: GoType = GoType::Text("[]uint8");
const CLUSTER: GoStruct = GoStruct(
    "Cluster",
    &[
        ("server", TEXT),
        ("tls-server-name", TEXT),
        ("insecure-skip-tls-verify", GoType::Bool),
        ("certificate-authority", TEXT),
        ("certificate-authority-data", BYTES),
        ("proxy-url", TEXT),
        ("disable-compression", GoType::Bool),
    ],
);
const USER: GoStruct = GoStruct(
    "AuthInfo",
    &[
        ("client-certificate", TEXT),
        ("client-certificate-data", BYTES),
        ("client-key", TEXT),
        ("client-key-data", BYTES),
        ("token", TEXT),
        ("tokenFile", TEXT),
        ("as", TEXT),
        ("as-uid", TEXT),
        ("as-groups", GoType::Texts("string")),
        ("username", TEXT),
        ("password", TEXT),
    ],
);
const CONTEXT: GoStruct = GoStruct("Context", &[("cluster", TEXT), ("user", TEXT), ("namespace", TEXT)]);
/// The fields of a kubeconfig, whose types client-go checks.
const FILE: GoStruct = GoStruct(
    "Config",
    &[
        (
            "clusters",
            GoType::Structs(&GoStruct(
                "NamedCluster",
                &[("name", TEXT), ("cluster", GoType::Struct(&CLUSTER))],
            )),
        ),
        (
            "users",
            GoType::Structs(&GoStruct("NamedAuthInfo", &[("name", TEXT), ("user", GoType::Struct(&USER))])),
        ),
        (
            "contexts",
            GoType::Structs(&GoStruct(
                "NamedContext",
                &[("name", TEXT), ("context", GoType::Struct(&CONTEXT))],
            )),
        ),
        ("current-context", TEXT),
    ],
);

const NO_CONFIGURATION: &str = "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER \
                                environment variable";

/// Parses a kubeconfig. The error is client-go's.
pub fn read_file(path: &Path) -> Result<Value, String> {
    let text =
        std::fs::read(path).map_err(|error| format!("stat {}: {}", path.display(), go_error_text(&error)))?;
    let parsed = yaml::parse(&text);
    let refused = |why: &str| format!("error loading config file \"{}\": {why}", path.display());
    let tree = parsed.map_err(|e| refused(e.message()))?.value;
    if let Some(error) = head_type_error(&tree) {
        return Err(refused(&error));
    }
    let (version, kind) = (tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
    if !matches!(version, "" | "v1") || !matches!(kind, "" | "Config") {
        let (version, kind) = (non_empty(version, "v1"), non_empty(kind, "Config"));
        let scheme = "k8s.io/client-go/tools/clientcmd/api/latest/latest.go:50";
        return Err(refused(&unregistered_kind(kind, version, scheme)));
    }
    match FILE.type_error(&tree, "v1") {
        Some(error) => Err(refused(&error)),
        None => Ok(tree),
    }
}

fn non_empty<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

impl Authorization {
    /// The header, if there is one.
    pub(crate) fn header(&self) -> Result<Option<HeaderValue>, String> {
        match self {
            Authorization::None => Ok(None),
            Authorization::Fixed(value) => Ok(Some(value.clone())),
            Authorization::TokenFile(path) => {
                let token = std::fs::read_to_string(path)
                    .map_err(|error| format!("open {}: {}", path.display(), go_error_text(&error)))?;
                let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
                value.map(Some).map_err(|error| error.to_string())
            }
        }
    }
}

pub(crate) fn read_authorization(user: &Value, folder: &Path) -> Result<Authorization, String> {
    let fixed = |text: String| {
        let mut value = HeaderValue::from_str(&text).map_err(|_| "credentials are not valid in a header")?;
        value.set_sensitive(true);
        Ok(Authorization::Fixed(value))
    };
    let text = |key: &str| user.str_at(&[key]);
    if !text("token").is_empty() {
        return fixed(format!("Bearer {}", text("token")));
    }
    if !text("tokenFile").is_empty() {
        return Ok(Authorization::TokenFile(folder.join(text("tokenFile"))));
    }
    if !text("username").is_empty() {
        let pair = format!("{}:{}", text("username"), text("password"));
        return fixed(format!("Basic {}", base64::encode(pair.as_bytes())));
    }
    Ok(Authorization::None)
}

/// A value that is inline (`KEY-data`) or in a file (`KEY`).
fn data_or_file(tree: &Value, key: &str, owner: &str, folder: &Path, errors: &mut Vec<String>) -> Vec<u8> {
    let data = tree.str_at(&[&format!("{key}-data")]);
    if !data.is_empty() {
        return base64::decode(data).unwrap_or_else(|error| {
            errors.push(format!("{key}-data of {owner}: {error}"));
            Vec::new()
        });
    }
    let file = tree.str_at(&[key]);
    if file.is_empty() {
        return Vec::new();
    }
    let path = folder.join(file);
    std::fs::read(&path).unwrap_or_else(|error| {
        let path = path.display();
        errors.push(format!(
            "unable to read {key} {path} for {owner} due to open {path}: {}",
            go_error_text(&error)
        ));
        Vec::new()
    })
}

/// Posts reviews to the webhook of a kubeconfig.
pub struct ReviewClient {
    https: HttpsClient,
    url: String,
    /// Host and port of the URL, for metrics.
    host: String,
    timeout: Duration,
    calls: Semaphore,
    authorization: Authorization,
    /// The pause after the first attempt.
    pause: Duration,
    agent: HeaderValue,
}

impl ReviewClient {
    /// Creates a client of a kubeconfig. `timeout` limits each attempt; `None` is the default.
    pub fn new(config: Kubeconfig, timeout: Option<Duration>) -> Result<Self, String> {
        let timeout = timeout.unwrap_or(TIMEOUT);
        let https = HttpsClient::new(&config.identity)?;
        let nanos = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        let url = format!("{}?timeout={}", config.server, pintle_meta::duration::GoDuration(nanos));
        let uri = config.server.parse::<http::Uri>().ok();
        let host = uri.and_then(|uri| Some(uri.authority()?.to_string())).unwrap_or_default();
        Ok(ReviewClient {
            https,
            url,
            host,
            timeout,
            calls: Semaphore::new(CALLS_MAX),
            authorization: config.authorization,
            pause: PAUSE,
            agent: HeaderValue::from_static("kube-apiserver"),
        })
    }

    /// Sets how connections are opened.
    pub fn with_dialer(self, dialer: Dialer) -> Self {
        ReviewClient { https: self.https.with_dialer(dialer), ..self }
    }

    /// Sets the pause after the first attempt.
    pub fn with_pause(self, pause: Duration) -> Self {
        ReviewClient { pause, ..self }
    }

    /// Sets the User-Agent.
    pub fn with_agent(self, agent: &'static str) -> Self {
        ReviewClient { agent: HeaderValue::from_static(agent), ..self }
    }

    /// Posts JSON and returns the response. Temporary failures are retried with growing pauses.
    pub async fn post(&self, body: Bytes) -> Result<Bytes, String> {
        let as_it_is = |answer: &[u8]| Ok(Bytes::copy_from_slice(answer));
        self.review(body, as_it_is, |_, _| {}).await.map_err(|error| error.why)
    }

    /// Posts JSON and returns the response, parsed by `read`. `observe` receives the result of each attempt (`success`,
    /// `timeout` or `error`) and its seconds.
    pub async fn review<T>(
        &self,
        body: Bytes,
        read: impl Fn(&[u8]) -> Result<T, String>,
        observe: impl Fn(&str, f64),
    ) -> Result<T, ReviewError> {
        let mut pause = self.pause;
        let mut attempts = 1..ATTEMPTS_MAX;
        loop {
            let begin = std::time::Instant::now();
            let answer = self.attempt_once(body.clone()).await;
            let outcome = answer.and_then(|answer| read(&answer).map_err(ReviewError::lasting));
            let result = outcome.as_ref().map_or_else(ReviewError::result, |_| "success");
            observe(result, begin.elapsed().as_secs_f64());
            match outcome {
                Err(failure) if failure.may_pass && attempts.next().is_some() => {}
                ended => return ended,
            }
            tokio::time::sleep(pause).await;
            pause = pause.mul_f64(PAUSE_FACTOR);
        }
    }

    async fn attempt_once(&self, body: Bytes) -> Result<Bytes, ReviewError> {
        let mut headers = vec![
            (header::USER_AGENT, self.agent.clone()),
            (header::ACCEPT, HeaderValue::from_static("application/json, */*")),
            (header::CONTENT_TYPE, HeaderValue::from_static(JSON)),
        ];
        let authorization = self.authorization.header();
        let authorization = authorization.map_err(ReviewError::lasting)?;
        headers.extend(authorization.map(|value| (header::AUTHORIZATION, value)));
        let mut repeats = 0;
        let answer = loop {
            let answer = self.send_request(headers.clone(), body.clone()).await?;
            match retry_after(answer.code, &answer.headers) {
                Some(seconds) if repeats < REPEATS_MAX => tokio::time::sleep(seconds.min(self.timeout)).await,
                _ => break answer,
            }
            repeats = repeats.saturating_add(1);
        };
        let kind = answer.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
        if (200..=206).contains(&answer.code) {
            if answer.body.is_empty() {
                let why =
                    format!("0-length response with status code: {} and content type: {kind}", answer.code);
                return Err(ReviewError::lasting(why));
            }
            return Ok(answer.body);
        }
        let status = refusal(answer.code, &Method::POST, kind, &answer.body);
        Err(ReviewError {
            why: status.message.clone(),
            status: Some(Box::new(status)),
            is_timeout: answer.code == 504,
            may_pass: matches!(answer.code, 429 | 500 | 504)
                || answer.headers.contains_key(header::RETRY_AFTER),
        })
    }

    async fn send_request(
        &self,
        headers: Vec<(http::HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<HttpsAnswer, ReviewError> {
        let request = HttpsRequest {
            method: Method::POST,
            url: &self.url,
            headers,
            body,
            timeout: self.timeout,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let sent = match tokio::time::timeout(self.timeout, self.calls.acquire()).await {
            Ok(_permit) => {
                let counted = CountedCall::begin(&self.host, request.body.len());
                let sent = self.https.send(request).await;
                counted.end(sent.as_ref().ok().map(|answer| (answer.code, answer.body.len())));
                if let Err(why) = &sent {
                    counts::connection_failed(why);
                }
                sent
            }
            Err(_) => Err(format!("Post \"{}\": context deadline exceeded", self.url)),
        };
        sent.map_err(|why| ReviewError {
            may_pass: why.ends_with("connection reset by peer"),
            is_timeout: why.ends_with("context deadline exceeded"),
            why,
            status: None,
        })
    }
}

/// Why a review failed.
#[derive(Clone, Debug)]
pub struct ReviewError {
    /// The error, with client-go's message.
    pub why: String,
    /// The webhook's error, if it answered with one.
    pub status: Option<Box<Status>>,
    /// Whether another attempt may succeed.
    may_pass: bool,
    is_timeout: bool,
}

impl ReviewError {
    /// The result of an attempt, as in metrics.
    pub fn result(&self) -> &'static str {
        if self.is_timeout { "timeout" } else { "error" }
    }

    fn lasting(why: String) -> Self {
        ReviewError { why, status: None, may_pass: false, is_timeout: false }
    }
}

/// How long to wait before the call is repeated, if the webhook requests it: like client-go, only for 429 and server
/// errors.
pub(crate) fn retry_after(code: u16, headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse::<u64>().ok()?;
    (code == 429 || code >= 500).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Kubeconfig, String> {
        Kubeconfig::read(&yaml::parse(text.as_bytes()).unwrap().value, Path::new("/nowhere"))
    }

    #[tokio::test]
    async fn calls_are_limited_and_those_that_are_given_up_make_room() {
        let stalls = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("https://{}", stalls.local_addr().unwrap());
        let config = Kubeconfig { server, identity: Identity::default(), authorization: Authorization::None };
        let client = ReviewClient::new(config, None).unwrap();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut calls: Vec<_> = (0..CALLS_MAX + 1).map(|_| Box::pin(client.post(Bytes::new()))).collect();
        for call in &mut calls {
            assert!(call.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(client.calls.available_permits(), 0);
        drop(calls);
        assert_eq!(client.calls.available_permits(), CALLS_MAX);
    }

    #[test]
    fn fields_have_types() {
        let folder = std::env::temp_dir().join(format!("kubeconfig-types-{}", std::process::id()));
        for (text, want) in [
            ("current-context: x", ""),
            (
                "kind: 7",
                "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string",
            ),
            (
                "clusters: [a]",
                "json: cannot unmarshal string into Go struct field Config.clusters of type v1.NamedCluster",
            ),
            (
                "clusters: [{name: a, cluster: {insecure-skip-tls-verify: 'yes'}}]",
                "json: cannot unmarshal string into Go struct field Cluster.clusters.cluster.insecure-skip-tls-verify of type bool",
            ),
            (
                "users: [{name: a, user: {token: {}}}]",
                "json: cannot unmarshal object into Go struct field AuthInfo.users.user.token of type string",
            ),
        ] {
            std::fs::write(&folder, text).unwrap();
            let error = read_file(&folder).err().unwrap_or_default();
            assert_eq!(error.split_once("\": ").map_or("", |(_, why)| why), want, "{text}");
        }
        std::fs::remove_file(&folder).unwrap();
    }

    #[test]
    fn the_current_context_counts() {
        let file = |cluster: &str, user: &str| {
            format!(
                "clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n\
                 contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
            )
        };
        let good = read(&file("server: 'https://a/b'", "token: t")).unwrap();
        assert_eq!(good.server, "https://a/b");
        assert!(matches!(good.authorization, Authorization::Fixed(value) if value == "Bearer t"));
        for (text, want) in [
            (
                "current-context: x".to_string(),
                "invalid configuration: [context was not found for specified context: x, cluster has no server defined]",
            ),
            ("clusters: [{name: c, cluster: {server: 'https://a'}}]".to_string(), NO_CONFIGURATION),
            (file("", ""), "invalid configuration: no server found for cluster \"c\""),
            (
                file("server: 'https://a', certificate-authority: ca.crt", ""),
                "invalid configuration: unable to read certificate-authority /nowhere/ca.crt for c due to open /nowhere/ca.crt: no such file or directory",
            ),
            (
                file("server: 'https://a'", "client-certificate: a"),
                "invalid configuration: [client-key-data or client-key must be specified for u to use the clientCert \
                 authentication method., unable to read client-cert /nowhere/a for u due to open /nowhere/a: no such file \
                 or directory]",
            ),
            (
                file("server: 'https://a'", "token: t, username: name"),
                "invalid configuration: more than one authentication method found for u; found [token basicAuth], only one is allowed",
            ),
            (file("server: 'https://a'", "tokenFile: t"), "open /nowhere/t: no such file or directory"),
            (file("server: '::::'", ""), "parse \"http://::::\": invalid port \"::::\" after host"),
            (file("server: 'a:1/b'", ""), "host must be a URL or a host:port pair: \"a:1/b\""),
        ] {
            assert_eq!(read(&text).err().as_deref(), Some(want));
        }
        assert_eq!(
            read(&file("server: 'a:1', certificate-authority-data: YQ==", "")).unwrap().server,
            "https://a:1"
        );
    }
}
