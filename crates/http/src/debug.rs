//! `/debug/flags` and `/debug/pprof` (`--profiling`): the log verbosity and profiles of a running server.

use crate::Body;
use crate::api::{ApiResponse, BoxFuture};
use crate::body::ClientBody;
use crate::{query, respond};
use http::HeaderValue;
use http_body_util::{BodyExt, Limited};
use std::sync::Arc;
use std::time::Duration;

/// Takes profiles.
pub trait Profiler: Send + Sync {
    /// The profiles' names and descriptions.
    fn names(&self) -> &'static [(&'static str, &'static str)];

    /// Takes a profile in pprof's format, gzipped; `None` if there is no such profile. `time` is the duration of
    /// profiles that need one.
    fn take<'a>(&'a self, name: &'a str, time: Duration) -> BoxFuture<'a, Option<Result<Vec<u8>, String>>>;
}

/// The largest value of a flag in bytes.
const VALUE_BYTES_MAX: usize = 1024;
/// The default and the longest duration of a profile.
const PROFILE_TIME: Duration = Duration::from_secs(30);
pub(crate) const PROFILE_TIME_MAX: Duration = Duration::from_secs(600);

/// A request below `/debug`.
pub(crate) struct DebugRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a [(String, String)],
}

/// Answers the request; `None` if the path is unknown.
pub(crate) async fn serve<B: ClientBody>(
    profiler: Option<&Arc<dyn Profiler>>,
    request: &DebugRequest<'_>,
    body: B,
) -> Option<ApiResponse> {
    let profiler = profiler?;
    match request.path {
        "/debug/flags/v" => Some(verbosity(request.method, body).await),
        "/debug/flags" => Some(serve_flags()),
        path if path.starts_with("/debug/flags/") => Some(serve_flags()),
        "/debug/pprof" => Some(redirect()),
        "/debug/pprof/" => Some(serve_index(&**profiler)),
        // Symbols cannot be looked up here. Go's pprof tool requests this path first and expects a number.
        "/debug/pprof/symbol" => Some(text_answer(200, "num_symbols: 0\n")),
        path => Some(serve_profile(&**profiler, path.strip_prefix("/debug/pprof/")?, request.query).await),
    }
}

/// `PUT /debug/flags/v` changes the log verbosity. The texts are kube-apiserver's.
async fn verbosity<B: ClientBody>(method: &str, body: B) -> ApiResponse {
    if method != "PUT" {
        return plain_answer(406, "unsupported http method");
    }
    let body = match Limited::new(body, VALUE_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(why) => return plain_answer(400, &format!("error reading request body: {why}")),
    };
    let given = String::from_utf8_lossy(&body);
    let is_number = !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit());
    match given.parse::<u32>() {
        Ok(verbosity) if is_number => {
            pintle_log::set_verbosity(verbosity);
            plain_answer(200, &format!("successfully set klog.logging.verbosity to {given}"))
        }
        _ => {
            let why = if is_number { "value out of range" } else { "invalid syntax" };
            plain_answer(400, &format!("strconv.ParseUint: parsing {given:?}: {why}"))
        }
    }
}

fn serve_flags() -> ApiResponse {
    const PAGE: &str = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n";
    ApiResponse::new(200, "text/html; charset=utf-8", PAGE)
}

fn redirect() -> ApiResponse {
    let mut answer =
        ApiResponse::new(302, "text/html; charset=utf-8", "<a href=\"/debug/pprof/\">Found</a>.\n\n");
    answer.set_header("location", "/debug/pprof/");
    answer
}

fn serve_index(profiler: &dyn Profiler) -> ApiResponse {
    let rows: Vec<String> = profiler
        .names()
        .iter()
        .map(|(name, what)| format!("<tr><td><a href='{name}'>{name}</a></td><td>{what}</td></tr>\n"))
        .collect();
    let page = format!(
        "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/\n<br>\nTypes of profiles available:\n<table>\n{}</table>\n</body>\n</html>",
        rows.concat()
    );
    let mut answer = ApiResponse::new(200, "text/html; charset=utf-8", page);
    answer.set_header("x-content-type-options", "nosniff");
    answer
}

async fn serve_profile(profiler: &dyn Profiler, name: &str, query: &[(String, String)]) -> ApiResponse {
    let seconds = query::first(query, "seconds").and_then(|text| text.parse::<u64>().ok()).filter(|n| *n > 0);
    let time = seconds.map_or(PROFILE_TIME, Duration::from_secs).min(PROFILE_TIME_MAX);
    match profiler.take(name, time).await {
        Some(Ok(bytes)) => {
            let mut answer = ApiResponse::new(200, "application/octet-stream", Body::from(bytes));
            answer.set_header("content-disposition", &format!("attachment; filename=\"{name}\""));
            answer.set_header("x-content-type-options", "nosniff");
            answer
        }
        Some(Err(why)) => go_error(500, &format!("Could not enable CPU profiling: {why}")),
        None => go_error(404, "Unknown profile"),
    }
}

fn go_error(code: u16, message: &str) -> ApiResponse {
    let mut answer = respond::text(code, message);
    answer.headers.insert("x-go-pprof", HeaderValue::from_static("1"));
    answer
}

fn text_answer(code: u16, body: &'static str) -> ApiResponse {
    let mut answer = ApiResponse::new(code, "text/plain; charset=utf-8", body);
    answer.set_header("x-content-type-options", "nosniff");
    answer
}

fn plain_answer(code: u16, line: &str) -> ApiResponse {
    let mut answer = ApiResponse::new(code, "text/plain", format!("{line}\n"));
    answer.set_header("x-content-type-options", "nosniff");
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn put(value: &'static str) -> (u16, String) {
        let answer =
            verbosity("PUT", http_body_util::Full::new(bytes::Bytes::from_static(value.as_bytes()))).await;
        let body = answer.body.collect().await.unwrap().to_bytes();
        (answer.code, String::from_utf8_lossy(&body).trim().to_string())
    }

    #[tokio::test]
    async fn the_verbosity_is_a_number() {
        assert_eq!(put("0").await, (200, "successfully set klog.logging.verbosity to 0".into()));
        for (value, why) in
            [("high", "invalid syntax"), ("+1", "invalid syntax"), ("99999999999", "value out of range")]
        {
            assert_eq!(put(value).await, (400, format!("strconv.ParseUint: parsing {value:?}: {why}")));
        }
    }
}
