//! `Kubeconfig`: the address, the CAs and the credentials for a webhook; and `ReviewClient`, which retries as
//! kube-apiserver's webhook client does.

use crate::counts::CountedCall;
use crate::{Dialer, HttpsAnswer, HttpsClient, HttpsRequest, Identity, JSON, refusal};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use pintle_meta::Status;
use pintle_value::{Value, base64, yaml};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time-out of one attempt, and the number of attempts.
const TIMEOUT: Duration = Duration::from_secs(30);
const ATTEMPTS_MAX: u32 = 5;
/// The pause after the first attempt.
const PAUSE: Duration = Duration::from_millis(500);
/// The factor by which each pause is longer than the one before.
const PAUSE_FACTOR: f64 = 1.5;
/// The most repetitions of one attempt on request of the webhook (Retry-After).
pub(crate) const REPEATS_MAX: u32 = 10;
/// The size limit of a webhook's response.
const ANSWER_BYTES_MAX: usize = 4 << 20;

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
        if ["users", "clusters", "contexts"].iter().all(|list| tree.items_at(&[list]).is_empty())
            && tree.str_at(&["current-context"]).is_empty()
        {
            return Err(NO_CONFIGURATION.to_string());
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        Kubeconfig::read(&tree, folder).map_err(|why| format!("invalid configuration: {why}"))
    }

    fn read(tree: &Value, folder: &Path) -> Result<Self, String> {
        let named = |list: &str, name: &str, part: &str| {
            let mut all = tree.items_at(&[list]).iter();
            all.find(|entry| entry.str_at(&["name"]) == name).and_then(|entry| entry.get(part)).cloned()
        };
        let current = tree.str_at(&["current-context"]);
        let mut errors = Vec::new();
        let context = named("contexts", current, "context");
        if context.is_none() {
            errors.push(format!("context was not found for specified context: {current}"));
        }
        let context = context.unwrap_or_default();
        let (cluster_name, user_name) = (context.str_at(&["cluster"]), context.str_at(&["user"]));
        let cluster = named("clusters", cluster_name, "cluster").unwrap_or_default();
        let user = named("users", user_name, "user").unwrap_or_default();
        let server = cluster.str_at(&["server"]).to_string();
        if server.is_empty() {
            errors.push(match cluster_name {
                "" => "cluster has no server defined".to_string(),
                name => format!("no server found for cluster \"{name}\""),
            });
        }
        let authorities = data_or_file(&cluster, "certificate-authority", cluster_name, folder, &mut errors);
        let certificate = data_or_file(&user, "client-certificate", user_name, folder, &mut errors);
        let key = data_or_file(&user, "client-key", user_name, folder, &mut errors);
        if cluster.at(&["insecure-skip-tls-verify"]).and_then(Value::as_bool).unwrap_or(false) {
            errors.push(
                "insecure-skip-tls-verify is not supported: a webhook decides about access".to_string(),
            );
        }
        if user.get("exec").is_some() || user.get("auth-provider").is_some() {
            errors.push(format!("plugins for credentials of user \"{user_name}\" are not supported"));
        }
        let authorization = authorization(&user, folder);
        match errors.as_slice() {
            [] => {}
            [one] => return Err(one.clone()),
            many => return Err(format!("[{}]", many.join(", "))),
        }
        let has_certificate = !certificate.is_empty() || !key.is_empty();
        let server_name = Some(cluster.str_at(&["tls-server-name"]).to_string());
        Ok(Kubeconfig {
            server,
            identity: Identity {
                authorities,
                certificate: has_certificate.then_some((certificate, key)),
                server_name: server_name.filter(|name| !name.is_empty()),
            },
            authorization: authorization?,
        })
    }
}

const NO_CONFIGURATION: &str = "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER \
                                environment variable";

/// Parses a kubeconfig. The error is client-go's.
pub(crate) fn read_file(path: &Path) -> Result<Value, String> {
    let text =
        std::fs::read(path).map_err(|error| format!("stat {}: {}", path.display(), in_words(&error)))?;
    let parsed = yaml::parse(&text);
    let tree =
        parsed.map_err(|e| format!("error loading config file \"{}\": {}", path.display(), e.message()))?;
    Ok(tree.value)
}

impl Authorization {
    /// The header, if there is one.
    pub(crate) fn header(&self) -> Result<Option<HeaderValue>, String> {
        match self {
            Authorization::None => Ok(None),
            Authorization::Fixed(value) => Ok(Some(value.clone())),
            Authorization::TokenFile(path) => {
                let token = std::fs::read_to_string(path)
                    .map_err(|error| format!("open {}: {}", path.display(), in_words(&error)))?;
                let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
                value.map(Some).map_err(|error| error.to_string())
            }
        }
    }
}

pub(crate) fn authorization(user: &Value, folder: &Path) -> Result<Authorization, String> {
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
fn data_or_file(tree: &Value, key: &str, of: &str, folder: &Path, errors: &mut Vec<String>) -> Vec<u8> {
    let data = tree.str_at(&[&format!("{key}-data")]);
    if !data.is_empty() {
        return base64::decode(data).unwrap_or_else(|error| {
            errors.push(format!("{key}-data of {of}: {error}"));
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
        errors.push(format!("unable to read {key} {path} for {of} due to open {path}: {}", in_words(&error)));
        Vec::new()
    })
}

pub(crate) fn in_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_string(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_string(),
        _ => error.to_string(),
    }
}

/// Posts reviews to the webhook of a kubeconfig.
pub struct ReviewClient {
    https: HttpsClient,
    url: String,
    /// Host and port of the URL, for metrics.
    host: String,
    timeout: Duration,
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
            let answer = self.attempt(body.clone()).await;
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

    async fn attempt(&self, body: Bytes) -> Result<Bytes, ReviewError> {
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
            let answer = self.ask(headers.clone(), body.clone()).await?;
            match retry_after(answer.code, &answer.headers) {
                Some(seconds) if repeats < REPEATS_MAX => tokio::time::sleep(seconds.min(self.timeout)).await,
                _ => break answer,
            }
            repeats = repeats.saturating_add(1);
        };
        if (200..=206).contains(&answer.code) {
            return Ok(answer.body);
        }
        let kind = answer.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
        let status = refusal(answer.code, &Method::POST, kind, &answer.body);
        Err(ReviewError {
            why: status.message.clone(),
            status: Some(Box::new(status)),
            is_timeout: answer.code == 504,
            may_pass: matches!(answer.code, 429 | 500 | 504)
                || answer.headers.contains_key(header::RETRY_AFTER),
        })
    }

    async fn ask(
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
        let counted = CountedCall::begin(&self.host, request.body.len());
        let sent = self.https.send(request).await;
        counted.end(sent.as_ref().ok().map(|answer| (answer.code, answer.body.len())));
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
                "[context was not found for specified context: x, cluster has no server defined]",
            ),
            (
                file("server: 'https://a', certificate-authority: ca.crt", ""),
                "unable to read certificate-authority /nowhere/ca.crt for c due to open /nowhere/ca.crt: no such file or directory",
            ),
        ] {
            assert_eq!(read(&text).err().as_deref(), Some(want));
        }
    }
}
